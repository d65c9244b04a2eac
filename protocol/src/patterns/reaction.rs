//! An agent reacts to a signal it subscribes to (DESIGN §5): its brain gets the signal, may publish signals and send
//! requests, and ends.
//!
//! It is a delegation without a task: there is no requester, so there are no reports and no questions; a turn
//! without output is a success. Signals that follow from signals count their hops.

use super::{
    Effect, Event, EventKind, Pattern, Update, View,
    delegation::{Delegation, WorkLimits},
    ownership::TaskOwnership,
    turn::{TurnEnd, TurnSubject},
};
use crate::{
    ids::{AgentId, Digest, TaskId},
    message::{MessageKind, Payload},
    principal::Principal,
    signal::{PARENT_TASK, Signal, SignalRecord, SignalType},
    task::{TaskSpec, TaskTerms},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The member of a signal's `refs` that counts the reactions it follows from.
pub const HOPS: &str = "hops";

/// How many reactions `signal` follows from.
pub fn hops(signal: &Signal) -> u64 {
    signal.refs.get(HOPS).and_then(serde_json::Value::as_u64).unwrap_or_default()
}

/// One agent's reaction to one signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reaction {
    me: AgentId,
    signal: Box<SignalRecord>,
    work: Delegation,
}

impl Reaction {
    /// `me` reacts to `signal`, on behalf of the principal that it comes from.
    pub fn new(me: AgentId, signal: SignalRecord, work_limits: WorkLimits) -> Self {
        let capability = signal.signal.capability.clone();
        let description = format!("react to {}", signal.signal.kind);
        let root = signal.signal.acts_for().unwrap_or_else(|| Principal::Agent(me.clone()));
        let terms = TaskTerms { capability, ..TaskTerms::new(description) };
        let spec = TaskSpec::new(name(&signal.signal), terms, root);
        let mut ownership = TaskOwnership::new(spec, None);
        ownership.announces = false;
        let work = Delegation::new(me.clone(), ownership, None, work_limits);
        Self { me, signal: Box::new(signal), work }
    }

    /// The effects of the inner delegation on `event`, adapted to a reaction.
    fn work(&mut self, event: &Event) -> Vec<Effect> {
        self.work.on(event).into_iter().filter_map(|effect| self.own(effect)).collect()
    }

    fn own(&self, effect: Effect) -> Option<Effect> {
        let about = &self.signal.signal;
        match effect {
            Effect::RunTurn { turn, mut prompt, deadline, input } => {
                prompt.about = TurnSubject::Signal(self.signal.clone());
                Some(Effect::RunTurn { turn, prompt, deadline, input })
            }
            Effect::Publish { mut signal } => {
                if signal.kind == SignalType::task_available() {
                    signal.refs.remove(PARENT_TASK);
                    let parent = about.task_id.as_ref();
                    signal.refs.extend(parent.map(|parent| (PARENT_TASK.to_owned(), json!(parent))));
                } else {
                    signal.task_id.clone_from(&about.task_id);
                }
                signal.refs.insert(HOPS.into(), json!(hops(about).saturating_add(1)));
                Some(Effect::Publish { signal })
            }
            Effect::Send(mut message) => {
                if let Payload::HelpRequest(request) = &mut message.payload {
                    request.task_id.clone_from(&about.task_id);
                }
                if let Payload::TaskRequest(request) = &mut message.payload {
                    request.parent_task_id = None;
                }
                Some(Effect::Send(message))
            }
            Effect::Update(
                Update::Status(_)
                | Update::Restart { .. }
                | Update::Usage(_)
                | Update::Reserved(_)
                | Update::Checked(_),
            )
            | Effect::AskPerson { .. }
            | Effect::Assign { .. }
            | Effect::TrackTask { .. } => None,
            other => Some(other),
        }
    }
}

/// The id of the inner delegation's task, derived from `signal`. No visible task has it.
fn name(signal: &Signal) -> TaskId {
    let by = signal.by.as_ref().map(|by| format!("{by}|")).unwrap_or_default();
    let digest = Digest::of(format!("{by}{}|{}", signal.from, signal.id).as_bytes()).to_string();
    TaskId::parse(&format!("signal-{}", &digest[..20]))
        .unwrap_or_else(|_| unreachable!("hexadecimal digits make an id"))
}

impl Pattern for Reaction {
    const NAME: &'static str = "reaction";
    const OPENED_BY: &'static [MessageKind] = &[];
    const RECEIVES: &'static [MessageKind] = Delegation::RECEIVES;

    fn view(&self) -> View<'_> {
        View { signal: Some(&self.signal.signal), turn: self.work.view().turn, ..View::default() }
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        let silent;
        let event = match &event.what {
            EventKind::TurnEnded { turn, updates, end: TurnEnd::Done { message } }
                if message.as_ref().is_none_or(|text| text.trim().is_empty()) =>
            {
                let end = TurnEnd::Done { message: Some("nothing to say".to_owned()) };
                let what = EventKind::TurnEnded { turn: *turn, updates: updates.clone(), end };
                silent = Event { at: event.at, wall: event.wall, what };
                &silent
            }
            _ => event,
        };
        let mut effects = self.work(event);
        if matches!(&event.what, EventKind::TurnEnded { .. } | EventKind::TurnProgress { .. }) {
            let unanswered = self.work.refuse_questions("nobody can be asked: a signal has no owner");
            effects.extend(unanswered.into_iter().filter_map(|effect| self.own(effect)));
        }
        effects
    }
}

#[cfg(test)]
mod tests;
