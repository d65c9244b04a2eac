//! Spaces: what a team knows (DESIGN §13). A space is a durable, named place on the board with members, and entries that they
//! post, propose and decide.
//!
//! Pure: which entries are valid, how their states change, which slug a proposal gets, and who may do what. In reading order:

pub mod space;

pub mod entry;
pub mod entry_draft;
pub mod entry_state;
pub mod entry_type;
pub mod slug;

pub mod may;
pub mod request;
pub mod sealed;

pub mod brief;
pub mod curate;
pub mod task_history;
pub mod vault;

pub use entry::{Entry, EntryId, EntryKind, Grade, MemoryScope};
pub use entry_draft::EntryDraft;
pub use entry_state::{EntryAction, EntryState};
pub use entry_type::{EntryLink, EntryType};
pub use may::{Reader, SpaceVerb, may};
pub use slug::Slug;
pub use space::{MemberId, Space, SpaceId, SpaceRole, SpaceRouting};

#[cfg(test)]
mod tests;
