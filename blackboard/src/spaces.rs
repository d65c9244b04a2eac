//! Spaces and entries in the store (DESIGN §13): keys, lists, and the batches that change them. Pure.
//!
//! Each change of an entry is one commit: a record of the space's log, which streams follow, and the entry's newest state, which
//! is listed once for each audience. A reader's page is read from the lists of the audiences that it belongs to, so entries of
//! others cost it nothing; [`protocol::spaces::may`] decides about each entry that is read.

pub(crate) mod entry_decision;
pub mod entry_query;
pub mod entry_writes;
mod listing;
pub(crate) mod release;
pub(crate) mod retention;
pub(crate) mod rows;
mod sealing;
pub mod space_cursor;
pub(crate) mod vault;
pub(crate) mod withdrawal;

pub use entry_decision::EntryOutcome;
pub use entry_query::{EntryOrder, EntryPage, EntryQuery, FindingsOf};
pub use entry_writes::EntryChange;
