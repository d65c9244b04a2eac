//! Reads all records of a kind, past those that are damaged.

use protocol::ids::ConversationId;
use store_types::{Error, Filter, Key, Record, Revision, Snapshot};

const PAGE: usize = 256;

/// Calls `each` with every readable record under `filter`, and `damaged` with the key of every other one.
pub(crate) fn every_readable(
    store: &dyn Snapshot,
    filter: &Filter,
    mut each: impl FnMut(Record),
    mut damaged: impl FnMut(Key, Error),
) -> Result<(), Error> {
    let (mut after, mut limit): (Revision, usize) = (0, PAGE);
    loop {
        match store.read(filter, after, limit) {
            Ok(page) => {
                let Some(last) = page.last().map(|record| record.revision) else { return Ok(()) };
                page.into_iter().for_each(&mut each);
                after = last;
            }
            // A damaged record fails its whole page: read one record at a time up to it.
            Err(Error::Corrupt { .. }) if limit > 1 => limit = 1,
            Err(Error::Corrupt { revision, key }) if revision > after => {
                damaged(Key::stored(key.clone()), Error::Corrupt { revision, key });
                (after, limit) = (revision, PAGE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The conversation that the record at `key` belongs to: the third token of the key.
pub(crate) fn conversation_id(key: &Key) -> Option<ConversationId> {
    ConversationId::parse(key.tokens().get(2)?).ok()
}
