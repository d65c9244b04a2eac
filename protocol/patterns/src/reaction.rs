//! An agent reacts to a signal it subscribes to (DESIGN §5): its brain gets the signal, may publish signals and send
//! requests, and ends.
//!
//! There is no task and no requester, so there are no reports and no questions; a turn without output is a success. Signals
//! that follow from signals count their hops.

use super::{
    Effect, Event, Pattern, View,
    turn::TurnSubject,
    work::{Doing, WorkLimits, doing::lines::WorkKind},
};
use protocol::{
    ids::{AgentId, Digest, TaskId},
    message::{MessageKind, Payload},
    principal::TaskRoot,
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
    signal: Box<SignalRecord>,
    work: Doing,
}

impl Reaction {
    /// `me` reacts to `signal`, on behalf of the principal that it comes from.
    pub fn new(me: AgentId, signal: SignalRecord, limits: WorkLimits) -> Self {
        let terms = TaskTerms {
            capability: signal.signal.capability.clone(),
            ..TaskTerms::new(format!("react to {}", signal.signal.kind))
        };
        let TaskRoot { principal, proof } = signal.signal.task_root().unwrap_or_else(|| TaskRoot::agent(&me));
        let spec = TaskSpec { root_proof: proof, ..TaskSpec::new(name(&signal.signal), terms, principal) };
        Self { signal: Box::new(signal), work: Doing::hidden(me, WorkKind::Reaction, spec, limits) }
    }

    /// The same effect, about the signal instead of a task.
    fn about_signal(&self, mut effect: Effect) -> Effect {
        let about = &self.signal.signal;
        match &mut effect {
            Effect::RunTurn { prompt, .. } => prompt.about = TurnSubject::Signal(self.signal.clone()),
            Effect::Publish { signal } => {
                if signal.kind == SignalType::task_available() {
                    signal.refs.remove(PARENT_TASK);
                    let parent = about.task_id.as_ref();
                    signal.refs.extend(parent.map(|parent| (PARENT_TASK.to_owned(), json!(parent))));
                } else {
                    signal.task_id.clone_from(&about.task_id);
                }
                signal.refs.insert(HOPS.into(), json!(hops(about).saturating_add(1)));
            }
            Effect::Send(message) => match &mut message.payload {
                Payload::HelpRequest(request) => request.task_id.clone_from(&about.task_id),
                Payload::TaskRequest(request) => request.parent_task_id = None,
                _ => {}
            },
            _ => {}
        }
        effect
    }
}

/// The id of the work, derived from `signal`. No visible task has it.
fn name(signal: &Signal) -> TaskId {
    let by = signal.by.as_ref().map(|by| format!("{by}|")).unwrap_or_default();
    let digest = Digest::of(format!("{by}{}|{}", signal.from, signal.id).as_bytes()).to_string();
    TaskId::parse(&format!("signal-{}", &digest[..20]))
        .unwrap_or_else(|_| unreachable!("hexadecimal digits make an id"))
}

impl Pattern for Reaction {
    const NAME: &'static str = "reaction";
    const OPENED_BY: &'static [MessageKind] = &[];
    const RECEIVES: &'static [MessageKind] = Doing::RECEIVES;

    fn view(&self) -> View<'_> {
        let work = self.work.view();
        View { signal: Some(&self.signal.signal), turn: work.turn, root: work.root, ..View::default() }
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        self.work.on(event).into_iter().map(|effect| self.about_signal(effect)).collect()
    }
}

#[cfg(test)]
mod tests;
