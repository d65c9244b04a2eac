//! The lists that entries stand in.
//!
//! An entry stands in the lists of its audiences: all members, one member, or those who watch. In each it stands twice, by time
//! and by importance. The part of a list says kind, type and state.

use crate::OWNER;
use protocol::{
    ids::{Digest, SpaceId, TaskId},
    principal::Principal,
    spaces::{Entry, EntryKind, EntryState, EntryType, Grade, MemberId, MemoryScope, Reader, SpaceRole},
    time::WallTime,
};
use store::{Key, ListEntry};

/// Who a list of entries is for. It is no permission: that is [`protocol::spaces::may`]'s to give, for each entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Audience {
    Everyone,
    Only(MemberId),
    /// Persons and observers, who watch sealed stages and addressed messages.
    Watchers,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ranking {
    Time,
    Importance,
}

impl Audience {
    fn of_entry(entry: &Entry) -> Vec<Self> {
        let author = MemberId::of(&entry.author).map(Self::Only);
        let is_private = match entry.kind {
            EntryKind::Memory if entry.scope == Some(MemoryScope::Own) => {
                return author.into_iter().collect();
            }
            EntryKind::Finding => entry.state == EntryState::Sealed,
            EntryKind::Message => !entry.to.is_empty(),
            EntryKind::Memory | EntryKind::Proposal | EntryKind::Decision | EntryKind::Artifact => false,
        };
        if !is_private {
            return vec![Self::Everyone];
        }
        let mut audiences: Vec<Self> = author.into_iter().chain([Self::Watchers]).collect();
        for member in &entry.to {
            let audience = Self::Only(member.clone());
            if !audiences.contains(&audience) {
                audiences.push(audience);
            }
        }
        audiences
    }

    /// The audiences that `reader` with this role belongs to.
    pub(super) fn of_reader(reader: &Reader, role: SpaceRole) -> Vec<Self> {
        let watches = role == SpaceRole::Observer || matches!(reader.principal, Principal::User(_));
        let own = MemberId::of(&reader.principal).map(Self::Only);
        [Self::Everyone].into_iter().chain(own).chain(watches.then_some(Self::Watchers)).collect()
    }

    pub(super) fn list(&self, space: &SpaceId, ranking: Ranking) -> Key {
        let by = match ranking {
            Ranking::Time => "newest",
            Ranking::Importance => "ranked",
        };
        let mut tokens = vec![OWNER.to_owned(), by.to_owned(), space.to_string()];
        match self {
            Self::Everyone => tokens.push("all".to_owned()),
            Self::Watchers => tokens.push("watched".to_owned()),
            Self::Only(member) => tokens.extend(["own".to_owned(), member.to_string()]),
        }
        Key::new(&tokens)
    }
}

/// The list of the findings of a session, by time.
pub(super) fn of_session(space: &SpaceId, session: &TaskId) -> Key {
    Key::new(&[OWNER, "session", space.as_str(), session.as_str()])
}

/// The session that an entry ends with, if it is one that does.
pub(super) fn session_of(entry: &Entry) -> Option<&TaskId> {
    entry.session.as_ref().filter(|_| entry.kind == EntryKind::Finding)
}

/// The part of the findings of sessions with this state.
pub(super) fn part_of_session(state: EntryState) -> u8 {
    6 + part(EntryKind::Finding, None, state)
}

/// The number of the part of a list with entries of this kind, type and state. It is stored: a number is never used again.
pub(super) fn part(kind: EntryKind, entry_type: Option<EntryType>, state: EntryState) -> u8 {
    let of_type = match entry_type {
        None => 0,
        Some(EntryType::Architectural) => 1,
        Some(EntryType::Scope) => 2,
        Some(EntryType::Process) => 3,
        Some(EntryType::Technical) => 4,
        Some(EntryType::CoreContext) => 5,
        Some(EntryType::Learning) => 6,
        Some(EntryType::Pattern) => 7,
        Some(EntryType::Update) => 8,
    };
    let of_state = EntryState::of_kind(kind).iter().zip(0_u8..).find(|(of, _)| **of == state);
    let of_state = of_state.map_or(0, |(_, number)| number);
    match kind {
        EntryKind::Message => 0,
        EntryKind::Artifact => 1,
        EntryKind::Finding => 2 + of_state,
        EntryKind::Proposal => 16 + 3 * of_type + of_state,
        EntryKind::Decision => 80 + 3 * of_type + of_state,
        EntryKind::Memory => 144 + 2 * of_type + of_state,
    }
}

/// The group of the entries of one author.
pub(super) fn author_group(author: &Principal) -> u64 {
    Digest::of(author.to_string().as_bytes()).prefix()
}

/// The list entries of `entry`.
pub(super) fn entries_of(entry: &Entry) -> Vec<ListEntry> {
    let session = session_of(entry);
    let part = match session {
        Some(_) => part_of_session(entry.state),
        None => part(entry.kind, entry.entry_type, entry.state),
    };
    let group = author_group(&entry.author);
    let rank = match entry.importance {
        None | Some(Grade::Medium) => 1,
        Some(Grade::Low) => 0,
        Some(Grade::High) => 2,
    };
    // Milliseconds need 42 bits until the year 2109.
    let ranked = (rank << 48) + entry.at.0;
    let mut entries = Vec::new();
    for audience in Audience::of_entry(entry) {
        for (ranking, at) in [(Ranking::Time, entry.at.0), (Ranking::Importance, ranked)] {
            entries.push(ListEntry { list: audience.list(&entry.space, ranking), part, at, group });
        }
    }
    if let Some(session) = session {
        entries.push(ListEntry { list: of_session(&entry.space, session), part, at: entry.at.0, group });
    }
    if !entry.state.is_in_use(entry.kind) {
        entries.push(aged(AgedRow::Entry, entry.changed_at));
    }
    entries
}

/// Rows that are removed when they are old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgedRow {
    /// An entry that does not change any more and binds nobody.
    Entry = 0,
    /// A post that made a new version of a proposal.
    Post = 1,
    /// A session that has ended, whose findings go with it.
    Session = 2,
}

/// The list entry by which retention finds a row.
pub(super) fn aged(row: AgedRow, at: WallTime) -> ListEntry {
    ListEntry { list: aged_list(), part: row as u8, at: at.0, group: 0 }
}

/// The list of [`AgedRow`]s.
pub(super) fn aged_list() -> Key {
    Key::new(&[OWNER, "aged"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_kind_type_and_state_has_a_part_of_its_own() {
        let mut parts = BTreeSet::new();
        let mut all = 0;
        for kind in EntryKind::ALL {
            let types = EntryType::ALL.into_iter().filter(|of| of.belongs_to(kind)).map(Some);
            let types: Vec<_> = types.collect();
            let types = if types.is_empty() { vec![None] } else { types };
            for entry_type in types {
                for state in EntryState::of_kind(kind) {
                    parts.insert(part(kind, entry_type, *state));
                    all += 1;
                    if kind == EntryKind::Finding {
                        parts.insert(part_of_session(*state));
                        all += 1;
                    }
                }
            }
        }
        assert_eq!(parts.len(), all);
    }
}
