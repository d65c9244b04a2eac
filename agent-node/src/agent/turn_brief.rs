//! The brief of a turn: what the space of the task knows for this agent.

use blackboard::client::Blackboard;
use patterns::{session::seat, turn::Prompt};
use protocol::{
    ids::{AgentId, SpaceId},
    problem::{Problem, Reason},
    spaces::{
        Space,
        brief::{Brief, BriefLayer, BriefRecord, TurnBrief},
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

/// The last brief of each space, for the time in which the board can't be reached. All lives of an agent share it.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownBriefs(Arc<Mutex<BTreeMap<SpaceId, (Brief, WallTime)>>>);

impl KnownBriefs {
    fn keep(&self, brief: &Brief, now: WallTime) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(brief.space.clone(), (brief.clone(), now));
    }

    fn decisions(&self, space: &SpaceId) -> Option<TurnBrief> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (brief, at) = known.get(space)?;
        TurnBrief::decisions_known_at(brief, *at)
    }
}

/// What the turn of a seat is told, if its session chooses.
fn layers_of(prompt: &Prompt) -> Option<Vec<BriefLayer>> {
    seat::turn_layers(prompt.about.task()?.input.as_ref())
}

/// How far the session is, if the turn is one of it.
fn so_far(prompt: &Prompt) -> Option<&str> {
    seat::so_far(prompt.about.task()?.input.as_ref())
}

/// Adds the brief to the prompt. Returns what is recorded of it; `None` if the space knows nothing.
pub(super) async fn add(
    board: &Blackboard,
    me: &AgentId,
    known: &KnownBriefs,
    now: WallTime,
    prompt: &mut Prompt,
) -> Option<BriefRecord> {
    let space = prompt.space.clone().unwrap_or_else(|| Space::initial_default().id);
    let input = prompt.about.task().and_then(|task| task.input.as_ref());
    let scope = seat::scope(prompt.session.clone(), input);
    let answer = match tokio::time::timeout(TIMEOUT, board.brief(me, &space, &scope)).await {
        Ok(answer) => answer,
        Err(_) => {
            let why = format!("the board gave no brief within {} ms", TIMEOUT.as_millis());
            Err(Problem::new(Reason::BlackboardUnavailable, why))
        }
    };
    let brief = match answer {
        Ok(brief) => {
            known.keep(&brief, now);
            let brief = match layers_of(prompt) {
                Some(layers) => brief.only(&layers).unwrap_or_else(|| Brief::empty(space.clone())),
                None => brief,
            };
            let brief = match so_far(prompt) {
                Some(so_far) => brief.with_session(so_far),
                None => brief,
            };
            (!brief.text.is_empty()).then(|| TurnBrief::fresh(brief))?
        }
        Err(problem) => {
            tracing::warn!(agent = %me, %space, %problem, "a turn begins without a fresh brief");
            let is_away = engine::may_succeed_later(problem.reason);
            let last = is_away.then(|| known.decisions(&space)).flatten();
            let Some(last) = last else { return Some(BriefRecord::missing(space, problem.message)) };
            last
        }
    };
    let record = brief.record();
    prompt.brief = Some(Box::new(brief));
    Some(record)
}
