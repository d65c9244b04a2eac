//! Metrics and traces of an agent. Spans of a conversation are exported at its end; spans of a bid at once, because a bid is
//! not in the journal.

use super::AgentActor;
use crate::{journal::steps, telemetry::span_builder};
use engine::{DeliveryAttemptOutcome, Observation, origin::OpeningMessage};
use protocol::{
    envelope::Envelope, ids::ConversationId, principal::Principal, time::WallTime, trace::TraceContext,
};

impl AgentActor {
    pub(super) fn observe(&self, what: Observation) {
        let meters = self.parts.telemetry.meters();
        match what {
            Observation::Taken(kind) => meters.accept(kind),
            Observation::Duplicate => drop(meters.duplicates.inc()),
            Observation::Refused(reason) => meters.refuse(reason),
            Observation::BidReceived => drop(meters.bids.inc()),
            Observation::CallAnswered { call, by, answer, trace, at } => {
                if matches!(answer.payload, protocol::message::Payload::Bid(_)) {
                    meters.offers.inc();
                }
                self.trace_bid((&call, &by), &answer, trace.as_ref(), at);
            }
            Observation::RoundStarted => drop(meters.rounds.inc()),
            Observation::Awarded => drop(meters.awards.inc()),
            Observation::Tried(outcome) => meters.attempt(match outcome {
                DeliveryAttemptOutcome::Delivered => "delivered",
                DeliveryAttemptOutcome::Retried => "later",
                DeliveryAttemptOutcome::GivenUp => "never",
            }),
            // The board is told of it.
            Observation::Quota(_) => {}
            Observation::GivenUp(reason) => meters.give_up(reason),
            Observation::TaskEnded(state) => meters.end(state),
            Observation::StepsOfEnded { conversation, trace, from, to } => {
                if self.parts.telemetry.exports(trace.as_ref()) {
                    self.trace_steps(conversation, from, to);
                }
            }
        }
    }

    /// Exports the spans that were complete in the steps of a conversation after `from`, up to `to`.
    fn trace_steps(&self, id: ConversationId, from: u64, to: u64) {
        let (store, me) = (self.parts.store.clone(), self.me.clone());
        let capture = self.parts.telemetry.capture().clone();
        self.parts.telemetry.export_with(move || {
            let steps = steps(store.as_ref(), &me, &id).unwrap_or_else(|error| {
                tracing::warn!(agent = %me, conversation = %id, %error, "a trace can't be made");
                Vec::new()
            });
            let origin = steps.first().and_then(|step| step.origin.as_ref());
            if !origin.is_some_and(|origin| origin.trace.sampled) {
                return Vec::new();
            }
            let is_new = |built: &span_builder::BuiltSpan| {
                built.complete_in.is_some_and(|step| step > from && step <= to)
            };
            let spans = span_builder::build(&me, &id, &steps, &capture).into_iter();
            spans.filter(is_new).map(|built| built.span).collect()
        });
    }

    /// Exports the spans of a bid, under the trace of `call`.
    fn trace_bid(
        &self,
        (call, by): (&Envelope, &Principal),
        answer: &Envelope,
        trace: Option<&TraceContext>,
        at: WallTime,
    ) {
        let telemetry = &self.parts.telemetry;
        let Some(trace) = trace.filter(|trace| telemetry.exports(Some(trace))) else { return };
        let message = OpeningMessage::of(call, by);
        let call = span_builder::ReceivedCfp {
            bidder: &self.me,
            manager: message.from.as_str(),
            conversation: call.reply_conversation_id.as_ref(),
            message: &message.id,
            payload: &call.payload,
        };
        let times = (at, self.parts.clock.wall());
        let capture = telemetry.capture();
        let spans = span_builder::bid_spans(trace, trace.span_id, &call, answer, times, capture);
        telemetry.export_with(move || spans.into());
    }
}
