//! Turns of the brain: at most `maxParallel` at a time, the others wait in order.

pub(crate) mod queue;

use crate::{TurnKey, TurnStart, agent::Agent, context::Context, records::EffectKey};
use protocol::{
    ids::{ConversationId, EffectId},
    patterns::{
        AnyPattern, EventKind, WorkPhase,
        turn::{Progress, Prompt, TurnEnd},
    },
    task::TaskState,
    time::WallTime,
    trace::SpanName,
};

impl Agent {
    /// Queues a turn; it starts as soon as fewer than `maxParallel` run.
    pub(crate) fn run_turn(
        &mut self,
        id: &ConversationId,
        effect: EffectKey,
        prompt: Prompt,
        deadline: Option<WallTime>,
        cx: &mut Context<'_>,
    ) {
        let key =
            EffectId { agent: self.me.clone(), conversation: id.clone(), step: effect.0, index: effect.1 };
        let conversation = self.conversations.get(id);
        let trace = conversation.and_then(|conversation| conversation.trace.as_ref());
        let trace = trace.map(|trace| trace.below(SpanName::Effect(&key.to_string()).id()));
        let pattern = conversation.map(|conversation| &conversation.pattern);
        let turn = TurnStart {
            key: TurnKey { conversation: id.clone(), effect },
            prompt,
            deadline,
            trace,
            has_runner_up: pattern.is_some_and(AnyPattern::has_runner_up),
        };
        self.turns.ready.push_back(Box::new(turn));
        self.start_turns(cx);
    }

    /// Starts ready turns while fewer than `maxParallel` run. A task that was shown as queued is told.
    pub(crate) fn start_turns(&mut self, cx: &mut Context<'_>) {
        for (id, turn) in self.turns.start_ready(cx) {
            let row = self.conversations.get(&id).and_then(|conversation| conversation.task.as_ref());
            if row.is_some_and(|row| row.task.status.state == TaskState::Submitted) {
                self.queue_event(&id, None, EventKind::TurnStarted { turn });
            }
        }
    }

    /// Records what a turn reports. A signal that is too large stops and fails the turn.
    pub(crate) fn turn_progress(&mut self, key: &TurnKey, updates: Vec<Progress>, cx: &mut Context<'_>) {
        let Some(turn) = self.turns.running.get(key).map(|running| running.turn) else { return };
        let Some(reason) = oversized_signal(&updates, self.config.limits.max_signal_bytes) else {
            self.queue_event(&key.conversation, None, EventKind::TurnProgress { turn, updates });
            return;
        };
        self.turns.stop(key, cx);
        self.start_turns(cx);
        self.queue_event(&key.conversation, Some(key.effect), EventKind::TurnFailed { turn, reason });
    }

    pub(crate) fn turn_ended(
        &mut self,
        key: &TurnKey,
        updates: Vec<Progress>,
        end: Result<TurnEnd, String>,
        cx: &mut Context<'_>,
    ) {
        let Some(turn) = self.turns.end(key, cx.world.now()) else { return };
        self.start_turns(cx);
        let end = oversized_signal(&updates, self.config.limits.max_signal_bytes).map_or(end, Err);
        let what = end_of_turn(turn, updates, end, self.config.is_direct);
        self.queue_event(&key.conversation, Some(key.effect), what);
    }

    /// Whether a turn of a conversation that takes no time may be answered now: it has a place, and is before no turn that
    /// waits.
    pub(crate) fn has_free_turn(&self, id: &ConversationId) -> bool {
        let own = u32::from(self.working.get(id) == Some(&WorkPhase::Active));
        self.turns.ready.is_empty()
            && self.turns.running.len() < self.turns.limit
            && self.taken_places().saturating_sub(own) < self.max_parallel()
    }
}

/// The most bytes of JSON that the mesh adds to a signal of a brain: ids, the sender, the root, the time, the trace.
const SIGNAL_FRAME: usize = 640;

/// Why a turn with these updates fails: one is a signal that may have more than `most` bytes on the board.
pub(crate) fn oversized_signal(updates: &[Progress], most: usize) -> Option<String> {
    updates.iter().find_map(|update| {
        let Progress::Signal { signal, .. } = update else { return None };
        let bytes = serde_json::to_vec(update).map_or(usize::MAX, |json| json.len() + SIGNAL_FRAME);
        (bytes > most).then(|| {
            format!(
                "the signal {signal} has {bytes} bytes of JSON with what the mesh adds, the limit is {most} (maxSignalBytes); \
                 what is large goes by reference"
            )
        })
    })
}

/// The event of a turn's end. Only a `direct` agent answers with a message; elsewhere it is the result's text.
pub(crate) fn end_of_turn(
    turn: u32,
    updates: Vec<Progress>,
    end: Result<TurnEnd, String>,
    is_direct: bool,
) -> EventKind {
    match end {
        Ok(TurnEnd::Message { text }) if !is_direct => {
            EventKind::TurnEnded { turn, updates, end: TurnEnd::Done { message: Some(text) } }
        }
        Ok(end) => EventKind::TurnEnded { turn, updates, end },
        Err(reason) => EventKind::TurnFailed { turn, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        ids::{AgentId, Capability, TaskId},
        patterns::OutgoingSignal,
        principal::Principal,
        signal::{ON_BEHALF_OF, PARENT_TASK, SignalType},
        trace::{TRACEPARENT, TraceContext},
    };
    use serde_json::json;

    #[test]
    fn a_signal_is_never_larger_on_the_board_than_assumed() {
        let name = "n".repeat(64);
        let (me, task) = (AgentId::parse(&name).unwrap(), TaskId::parse(&name).unwrap());
        let conversation = ConversationId::parse("00000000-0000-0000-0000-000000000000").unwrap();
        let id = EffectId { agent: me.clone(), conversation, step: u64::MAX, index: u32::MAX };
        let trace = TraceContext { trace_id: u128::MAX, span_id: u64::MAX, sampled: true, state: None };
        let own = json!({ "url": "x" });
        let own = own.as_object().unwrap();
        for kind in [SignalType::task_available(), SignalType::parse("acme.news").unwrap()] {
            let capability = Some(Capability::parse(&name).unwrap());
            let subject = Some("s".to_owned());
            let update = Progress::Signal {
                signal: kind.clone(),
                subject: subject.clone(),
                capability: capability.clone(),
                refs: own.clone(),
            };
            let mut refs = own.clone();
            refs.extend([
                (PARENT_TASK.to_owned(), json!(task)),
                (TRACEPARENT.to_owned(), json!(trace.to_string())),
                ("hops".to_owned(), json!(u32::MAX)),
            ]);
            refs.remove(ON_BEHALF_OF);
            let signal = OutgoingSignal { kind, subject, task_id: Some(task.clone()), capability, refs };
            let mut signal = signal.signed(id.to_string(), me.clone(), WallTime(0));
            signal.root = Some(Principal::Agent(me.clone()));
            let (assumed, sent) = (
                serde_json::to_vec(&update).unwrap().len() + SIGNAL_FRAME,
                serde_json::to_vec(&signal).unwrap().len(),
            );
            assert!(sent <= assumed && assumed - sent < 150, "{sent} of {assumed}: {signal:?}");
        }
    }
}
