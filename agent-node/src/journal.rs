//! Reads journals and other records, page by page.

use engine::{
    content,
    records::{Step, keys},
};
use protocol::ids::{AgentId, ConversationId};
use store::{Error, Filter, Record, Store};

const PAGE: usize = 256;

/// Calls `each` with every record that matches `filter`.
pub(crate) fn for_each_record(
    store: &dyn Store,
    filter: &Filter,
    mut each: impl FnMut(Record) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut after = 0;
    loop {
        let page = store.read(filter, after, PAGE)?;
        let Some(last) = page.last().map(|record| record.revision) else { return Ok(()) };
        page.into_iter().try_for_each(&mut each)?;
        after = last;
    }
}

/// The steps of a conversation that its journal still holds, oldest first.
pub(crate) fn steps(store: &dyn Store, me: &AgentId, id: &ConversationId) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    for_each_record(store, &Filter::Exactly(keys::journal(me, id)), |record| {
        steps.push(content::decode(me, store, &record.value)?);
        Ok(())
    })?;
    Ok(steps)
}

/// The oldest step of a conversation that its journal still holds.
pub(crate) fn first_step(
    store: &dyn Store,
    me: &AgentId,
    id: &ConversationId,
) -> Result<Option<Step>, Error> {
    let found = store.read(&Filter::Exactly(keys::journal(me, id)), 0, 1)?;
    found.first().map(|record| content::decode(me, store, &record.value)).transpose()
}
