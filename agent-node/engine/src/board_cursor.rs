//! The record of the cursor on the board.

use crate::{content, records::keys};
use protocol::{ids::AgentId, signal::Cursor};
use store_types::{Error, Snapshot, Write};

/// The write that records the cursor. It is too short to refer to a content record.
pub(crate) fn write(me: &AgentId, cursor: &Cursor) -> Result<Write, Error> {
    let bytes = content::encode(me, cursor, &mut Vec::new(), &mut Default::default())?;
    Ok(Write::Put(keys::cursor(me), bytes))
}

pub(crate) fn read(me: &AgentId, store: &dyn Snapshot) -> Result<Option<Cursor>, Error> {
    let record = store.latest(&keys::cursor(me))?;
    record.map(|record| content::decode(me, store, &record.value)).transpose()
}
