//! The entries of a space, as its routes show them to the viewer, and what the viewer may do with each.

use super::{scope::ConsoleScope, viewer_board::ViewerBoard};
use crate::http::{
    node_state::NodeState,
    registry_calls::{BOARD, RegistryCalls},
};
use blackboard::spaces::{EntryOrder, EntryQuery};
use console::{
    location::ConsoleLocation,
    views::space::{EntryLine, EntryZone, SpaceData, ZONES},
};
use protocol::{
    ids::SpaceId,
    principal::Principal,
    problem::{Problem, Reason},
    spaces::{
        Entry, EntryAction, EntryKind, EntryState, Reader, Space, SpaceVerb, may, space::DEFAULT_SPACE,
    },
};
use std::{collections::BTreeSet, time::Duration};

/// The entries of a zone among others, and of one alone.
const FEW: usize = 20;
const PAGE: usize = 50;
/// The most proposals of one space that wait for the viewer.
const MOST_PROPOSALS: usize = 100;

/// The space that `id` names; `default` if it is empty.
pub(super) fn space_id(id: &str) -> Result<SpaceId, Problem> {
    let id = if id.is_empty() { DEFAULT_SPACE } else { id };
    SpaceId::parse(id).map_err(|bad| Problem::new(Reason::InvalidField, bad.to_string()))
}

/// The data of the page.
pub(super) async fn data(
    scope: &ConsoleScope,
    node: &NodeState,
    at: &ConsoleLocation,
) -> Result<SpaceData, Problem> {
    let board = ViewerBoard::of(scope, node)?;
    let (spaces, by, reader) = (board.spaces()?, board.by(), board.reader());
    let space = spaces.space(by, &space_id(&at.id)?).await?;
    let invalid = |field: &'static str| {
        Problem::new(Reason::InvalidField, format!("{field}: no entry has it")).with("field", field)
    };
    let kind = EntryKind::ALL.into_iter().find(|kind| kind.to_string() == at.kind);
    let state = EntryState::ALL.into_iter().find(|state| state.to_string() == at.state);
    if (kind.is_none() && !at.kind.is_empty()) || (state.is_none() && !at.state.is_empty()) {
        return Err(invalid(if kind.is_none() { "kind" } else { "state" }));
    }
    let author = match at.agent.trim() {
        "" => None,
        name if name.contains(':') => Some(name.to_owned()),
        name => Some(format!("agent:{name}")),
    };
    let author = author.map(|name| Principal::try_from(name).map_err(|_| invalid("agent"))).transpose()?;
    // One kind alone has all its states.
    let zones = match kind {
        Some(kind) => vec![(kind, state, PAGE)],
        None => ZONES.into_iter().map(|(kind, first)| (kind, state.or(Some(first)), FEW)).collect(),
    };
    let mut shown = Vec::new();
    for (kind, state, most) in zones {
        let query = EntryQuery {
            kinds: BTreeSet::from([kind]),
            states: state.into_iter().filter(|state| EntryState::of_kind(kind).contains(state)).collect(),
            author: author.clone(),
            text: Some(at.text.trim().to_owned()).filter(|text| !text.is_empty()),
            after: Some(at.before.clone()).filter(|after| !after.is_empty() && !at.kind.is_empty()),
            ..EntryQuery::default()
        };
        let has_none = state.is_some() && query.states.is_empty();
        let page = match has_none {
            true => None,
            false => Some(spaces.entries(by, &space.id, query, most).await?),
        };
        let (entries, next) = page.map(|page| (page.entries, page.next)).unwrap_or_default();
        let line = |entry: Entry| EntryLine { actions: actions(reader, &entry, &space), entry };
        shown.push(EntryZone { kind, entries: entries.into_iter().map(line).collect(), next });
    }
    let posts = POSTED.into_iter().filter(|kind| may(reader, SpaceVerb::Post(*kind), None, &space).is_ok());
    Ok(SpaceData { posts: posts.collect(), space, zones: shown })
}

/// The kinds of entries that a person posts.
const POSTED: [EntryKind; 4] =
    [EntryKind::Finding, EntryKind::Proposal, EntryKind::Decision, EntryKind::Memory];

/// How long the board of another process is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pending proposals that the viewer may merge or reject, of all spaces. Those that can't be read are left out; a board of another
/// process is asked once in two seconds, and not for a while after it gave no answer.
pub(super) async fn proposals(scope: &ConsoleScope, node: &NodeState) -> Vec<EntryLine> {
    let Some(board) = ViewerBoard::find(scope, node).filter(|_| scope.is_signed_in()) else {
        return Vec::new();
    };
    match node.registry_calls.as_ref().filter(|_| !board.is_here()) {
        Some(calls) => calls.proposals(board.by(), proposals_elsewhere(&board, calls)).await,
        None => read_proposals(pending(&board).await).unwrap_or_default(),
    }
}

async fn proposals_elsewhere(board: &ViewerBoard, calls: &RegistryCalls) -> Vec<EntryLine> {
    if calls.is_silent(BOARD) {
        return Vec::new();
    }
    let answer = tokio::time::timeout(PATIENCE, pending(board)).await;
    answer.ok().and_then(read_proposals).unwrap_or_else(|| {
        calls.note_silent(BOARD);
        Vec::new()
    })
}

fn read_proposals(answer: Result<Vec<EntryLine>, Problem>) -> Option<Vec<EntryLine>> {
    if let Err(problem) = &answer {
        tracing::warn!(%problem, "the proposals for the inbox can't be read");
    }
    answer.ok()
}

async fn pending(board: &ViewerBoard) -> Result<Vec<EntryLine>, Problem> {
    let query = EntryQuery {
        kinds: BTreeSet::from([EntryKind::Proposal]),
        states: BTreeSet::from([EntryState::Pending]),
        order: EntryOrder::Oldest,
        ..EntryQuery::default()
    };
    let (spaces, by, reader) = (board.spaces()?, board.by(), board.reader());
    let mut lines = Vec::new();
    for space in spaces.spaces(by).await? {
        let page = spaces.entries(by, &space.id, query.clone(), MOST_PROPOSALS).await?;
        let of_space = page
            .entries
            .into_iter()
            .map(|entry| EntryLine { actions: actions(reader, &entry, &space), entry });
        lines.extend(
            of_space.filter(|line| ["merge", "reject"].iter().any(|name| line.actions.contains(name))),
        );
    }
    Ok(lines)
}

/// What the reader may do with the entry.
fn actions(reader: &Reader, entry: &Entry, space: &Space) -> Vec<&'static str> {
    let possible = entry.state.actions(entry.kind);
    let named = [
        ("merge", EntryAction::Merge),
        ("reject", EntryAction::Reject),
        ("archive", EntryAction::Archive),
        ("withdraw", EntryAction::Withdraw),
        ("supersede", EntryAction::Supersede),
    ];
    let is_allowed = |verb| may(reader, verb, Some(entry), space).is_ok();
    let changes = named
        .into_iter()
        .filter(|(_, action)| possible.contains(action) && is_allowed(SpaceVerb::Change(*action)));
    let accept = entry.is_unaccepted && is_allowed(SpaceVerb::Accept);
    changes.map(|(name, _)| name).chain(accept.then_some("accept")).collect()
}
