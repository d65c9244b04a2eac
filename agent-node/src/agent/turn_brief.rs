//! The brief of a turn: what the space of the task knows for this agent.

use blackboard::client::Blackboard;
use patterns::{session::seat, turn::Prompt};
use protocol::{
    deputy::Deputy,
    ids::SpaceId,
    principal::TaskRoot,
    problem::{Problem, Reason},
    spaces::{
        Space,
        brief::{Brief, BriefLayer, BriefRecord, TurnBrief},
        request::SessionScope,
    },
    time::WallTime,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How long a turn waits for its brief.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The last brief of each space for each root, for the time in which the board can't be reached. All lives of an agent share it.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownBriefs(Arc<Mutex<BTreeMap<BriefOf, (Brief, WallTime)>>>);

/// Of which space, and for whom.
type BriefOf = (SpaceId, TaskRoot);

/// The most briefs that are kept; then the oldest goes.
const MAX_KNOWN: usize = 256;

impl KnownBriefs {
    fn keep(&self, root: &TaskRoot, brief: &Brief, now: WallTime) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert((brief.space.clone(), root.clone()), (brief.clone(), now));
        if known.len() > MAX_KNOWN {
            let oldest = known.iter().min_by_key(|(_, (_, at))| *at).map(|(key, _)| key.clone());
            oldest.map(|key| known.remove(&key));
        }
    }

    fn decisions(&self, space: &SpaceId, root: &TaskRoot) -> Option<TurnBrief> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (brief, at) = known.get(&(space.clone(), root.clone()))?;
        TurnBrief::decisions_known_at(brief, *at)
    }
}

/// What a turn was given.
#[derive(Debug, Default)]
pub(super) struct GivenBrief {
    /// What is recorded of it; `None` if the space knows nothing.
    pub(super) record: Option<BriefRecord>,
    /// For the status of the task: why it is given nothing of what the space knows.
    pub(super) withheld: Option<String>,
}

/// What the turn of a seat is told, if its session chooses.
fn layers_of(prompt: &Prompt) -> Option<Vec<BriefLayer>> {
    seat::turn_layers(prompt.about.task()?.input.as_ref())
}

/// How far the session is, if the turn is one of it.
fn so_far(prompt: &Prompt) -> Option<&str> {
    seat::so_far(prompt.about.task()?.input.as_ref())
}

/// Adds the brief to the prompt: what the agent may know, and the principal for whom the turn is.
pub(super) async fn add(
    board: &Blackboard,
    deputy: &Deputy,
    known: &KnownBriefs,
    now: WallTime,
    prompt: &mut Prompt,
) -> GivenBrief {
    let Deputy { agent: me, root } = deputy;
    let space = prompt.space.clone().unwrap_or_else(|| Space::initial_default().id);
    let input = prompt.about.task().and_then(|task| task.input.as_ref());
    let scope = seat::scope(prompt.session.clone(), input);
    let brief = match ask(board, deputy, &space, &scope).await {
        Ok(brief) => {
            known.keep(root, &brief, now);
            let brief = match layers_of(prompt) {
                Some(layers) => brief.only(&layers).unwrap_or_else(|| Brief::empty(space.clone())),
                None => brief,
            };
            let brief = match so_far(prompt) {
                Some(so_far) => brief.with_session(so_far),
                None => brief,
            };
            if brief.text.is_empty() {
                return GivenBrief::default();
            }
            TurnBrief::fresh(brief)
        }
        Err(problem) if problem.metadata.iter().any(|(name, _)| *name == "root") => {
            let own = Deputy { agent: me.clone(), root: TaskRoot::agent(me) };
            let is_empty = ask(board, &own, &space, &scope).await.is_ok_and(|brief| brief.text.is_empty());
            let message = format!("works without what the space {space} knows: {}", problem.message);
            let record = BriefRecord::missing(space, problem.message);
            return GivenBrief { record: Some(record), withheld: (!is_empty).then_some(message) };
        }
        Err(problem) => {
            tracing::warn!(agent = %me, %space, %problem, "a turn begins without a fresh brief");
            let is_away = engine::may_succeed_later(problem.reason);
            let last = is_away.then(|| known.decisions(&space, root)).flatten();
            let Some(last) = last else {
                let record = Some(BriefRecord::missing(space, problem.message));
                return GivenBrief { record, withheld: None };
            };
            last
        }
    };
    let record = Some(brief.record());
    prompt.brief = Some(Box::new(brief));
    GivenBrief { record, withheld: None }
}

async fn ask(
    board: &Blackboard,
    deputy: &Deputy,
    space: &SpaceId,
    scope: &SessionScope,
) -> Result<Brief, Problem> {
    tokio::time::timeout(TIMEOUT, board.brief(deputy, space, scope)).await.unwrap_or_else(|_| {
        let why = format!("the board gave no brief within {} ms", TIMEOUT.as_millis());
        Err(Problem::new(Reason::BlackboardUnavailable, why))
    })
}
