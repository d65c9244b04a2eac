//! Who may do what in a space, and who sees which entry. The only place where this is decided.

use super::{Entry, EntryAction, EntryKind, EntryState, MemberId, MemoryScope, Space, SpaceRole};
use crate::{
    ids::{AgentId, EntryId, SpaceId},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
};

/// Who asks, and how that was proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    pub principal: Principal,
    pub proof: SenderProof,
}

/// What somebody wants to do with a space or an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceVerb {
    /// Read the space's members and its policy.
    ReadSpace,
    ChangeSpace,
    /// Write entries as they are, with their authors and times.
    Import,
    /// Post an entry of this kind.
    Post(EntryKind),
    Read,
    /// Change an entry's state.
    Change(EntryAction),
    /// Let into briefs what comes from below `member`.
    Accept,
}

/// Refuses `verb` by `reader` in `space`, on `entry` if it is about one. A space that the reader is no member of and an entry that
/// it may not see are refused as if they did not exist.
pub fn may(reader: &Reader, verb: SpaceVerb, entry: Option<&Entry>, space: &Space) -> Result<(), Problem> {
    check_proof(reader)?;
    let role = role_in(space, &reader.principal).ok_or_else(|| space_not_found(&space.id))?;
    if let Some(entry) = entry
        && (entry.space != space.id || !is_visible(reader, role, entry))
    {
        return Err(entry_not_found(&entry.id));
    }
    let needed = match verb {
        SpaceVerb::ReadSpace | SpaceVerb::Read => SpaceRole::Observer,
        SpaceVerb::ChangeSpace | SpaceVerb::Import => SpaceRole::Owner,
        SpaceVerb::Post(EntryKind::Decision) => SpaceRole::Curator,
        SpaceVerb::Post(
            EntryKind::Message
            | EntryKind::Finding
            | EntryKind::Proposal
            | EntryKind::Memory
            | EntryKind::Artifact,
        ) => SpaceRole::Member,
        SpaceVerb::Change(EntryAction::Archive)
            if entry.is_some_and(|entry| is_own_memory(reader, entry)) =>
        {
            SpaceRole::Member
        }
        SpaceVerb::Change(EntryAction::Withdraw) if entry.is_some_and(|entry| is_author(reader, entry)) => {
            SpaceRole::Member
        }
        SpaceVerb::Change(_) => SpaceRole::Curator,
        SpaceVerb::Accept => SpaceRole::Member,
    };
    let for_people = match verb {
        SpaceVerb::Import => Some("import: entries name other authors"),
        SpaceVerb::Accept => Some("accept an entry: a person has read it then"),
        SpaceVerb::ReadSpace
        | SpaceVerb::ChangeSpace
        | SpaceVerb::Post(_)
        | SpaceVerb::Read
        | SpaceVerb::Change(_) => None,
    };
    if let Some(what) = for_people.filter(|_| !matches!(reader.principal, Principal::User(_))) {
        let message = format!("{} can't {what}, so only a person does", reader.principal);
        return Err(Problem::new(Reason::Forbidden, message));
    }
    match role >= needed {
        true => Ok(()),
        false => {
            let message = format!(
                "{} is {role} of the space {} and would have to be {needed}; an owner changes that with PUT /board/spaces/{}",
                reader.principal, space.id, space.id
            );
            Err(Problem::new(Reason::Forbidden, message).with("role", role).with("needed", needed))
        }
    }
}

/// Whether who caused `entry` is less than a member of `space`, or not proven.
pub fn is_from_below_member(entry: &Entry, space: &Space) -> bool {
    entry.cause().is_some_and(|cause| {
        let role = role_in(space, &cause.principal);
        cause.sender_proof() == SenderProof::Address || role < Some(SpaceRole::Member)
    })
}

/// Refuses to show `reader` the brief of `agent`: the agent itself may read it, and persons and observers of the space.
pub fn may_read_brief(reader: &Reader, agent: &AgentId, space: &Space) -> Result<(), Problem> {
    may(reader, SpaceVerb::Read, None, space)?;
    let is_own = MemberId::of(&reader.principal) == Some(MemberId::Agent(agent.clone()));
    let watches = matches!(reader.principal, Principal::User(_));
    if is_own || watches {
        return Ok(());
    }
    let message = format!("for: {} may read its own brief only, not that of {agent}", reader.principal);
    Err(Problem::new(Reason::Forbidden, message).with("field", "for"))
}

/// The role of `principal` in `space`; `None` if it is no member. The person whose mesh it is owns every space. A brain is never
/// more than a member.
pub fn role_in(space: &Space, principal: &Principal) -> Option<SpaceRole> {
    if *principal == Principal::local_user() {
        return Some(SpaceRole::Owner);
    }
    let named = MemberId::of(principal).and_then(|member| space.members.get(&member).copied());
    let role = match space.is_default() && !matches!(principal, Principal::Service(_)) {
        true => Some(named.unwrap_or(SpaceRole::Member)),
        false => named,
    };
    match principal {
        Principal::Brain(_) => role.map(|role| role.min(SpaceRole::Member)),
        Principal::Agent(_) | Principal::User(_) | Principal::Service(_) => role,
    }
}

/// Refuses a request that only its address makes the local user's: anything on the machine could send it.
fn check_proof(reader: &Reader) -> Result<(), Problem> {
    match reader.proof {
        SenderProof::Credential => Ok(()),
        SenderProof::Address => Err(Problem::new(
            Reason::Unauthenticated,
            "spaces need the person's token (`Authorization: Bearer`, printed by `mesh token`; on the command line --token FILE or \
             MESH_TOKEN_FILE, with `mesh up --data DIR` it is DIR/token) or the credential of a caller (`mesh: { callers: … }`)",
        )),
    }
}

fn is_visible(reader: &Reader, role: SpaceRole, entry: &Entry) -> bool {
    let is_person = matches!(reader.principal, Principal::User(_));
    if is_author(reader, entry) {
        return true;
    }
    match entry.kind {
        EntryKind::Memory => entry.scope != Some(MemoryScope::Own),
        EntryKind::Finding => entry.state != EntryState::Sealed || is_person && role == SpaceRole::Owner,
        EntryKind::Message => {
            let is_addressee =
                MemberId::of(&reader.principal).is_some_and(|member| entry.to.contains(&member));
            entry.to.is_empty()
                || is_addressee
                || role == SpaceRole::Observer
                || is_person && role == SpaceRole::Owner
        }
        EntryKind::Proposal | EntryKind::Decision | EntryKind::Artifact => true,
    }
}

/// A brain is its agent here.
fn is_author(reader: &Reader, entry: &Entry) -> bool {
    match (MemberId::of(&reader.principal), MemberId::of(&entry.author)) {
        (Some(reader), Some(author)) => reader == author,
        _ => false,
    }
}

fn is_own_memory(reader: &Reader, entry: &Entry) -> bool {
    entry.kind == EntryKind::Memory && is_author(reader, entry)
}

/// The refusal of a space that does not exist, or not for this reader.
pub fn space_not_found(id: &SpaceId) -> Problem {
    let message = format!("no space {id} that you are a member of; GET /board/spaces lists yours");
    Problem::new(Reason::SpaceNotFound, message)
}

/// The refusal of an entry that does not exist, or not for this reader.
pub fn entry_not_found(id: &EntryId) -> Problem {
    Problem::new(Reason::EntryNotFound, format!("no entry {id} in this space that you may see"))
}
