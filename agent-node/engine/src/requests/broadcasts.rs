//! Checks of a broadcast: one that the board would refuse for good is refused before it is admitted.

use crate::{agent::Agent, context::Context, problems::internal};
use protocol::{
    ids::{ConversationId, EffectId},
    patterns::broadcast::Broadcast,
    problem::{Problem, Reason},
    trace::{TRACEPARENT, TraceContext},
};

/// A placeholder of the length of a conversation id.
const SOME_CONVERSATION: &str = "00000000-0000-0000-0000-000000000000";

impl Agent {
    /// Refuses a broadcast whose signal this node's limits do not allow. A board in another process may have a lower limit
    /// and refuses it itself.
    pub(crate) fn check_announcement(&self, broadcast: &Broadcast, cx: &Context<'_>) -> Result<(), Problem> {
        let signal = broadcast.announcement();
        if signal.kind.is_registrys() {
            let message = format!("payload.signal: only the registry publishes {}", signal.kind);
            return Err(Problem::new(Reason::Forbidden, message).with("field", "payload.signal"));
        }
        let conversation = ConversationId::parse(SOME_CONVERSATION).map_err(internal)?;
        let id = EffectId { agent: self.me.clone(), conversation, step: 1, index: 0 };
        let mut signal = signal.clone().signed(id.to_string(), self.me.clone(), cx.wall());
        let trace = TraceContext { trace_id: 1, span_id: 1, sampled: true, state: None };
        signal.refs.entry(TRACEPARENT).or_insert_with(|| trace.to_string().into());
        let (bytes, most) =
            (serde_json::to_vec(&signal).map_err(internal)?.len(), self.config.limits.max_signal_bytes);
        if bytes <= most {
            return Ok(());
        }
        let message = format!(
            "payload: as a signal it has {bytes} bytes of JSON, the limit is {most}; what is large goes by reference"
        );
        Err(Problem::new(Reason::PayloadTooLarge, message).with("field", "payload").with("limit", most))
    }
}
