//! Metrics and traces of an agent. Spans of a conversation are exported at its end; spans of a bid at once, because a bid is
//! not in the journal.

use super::AgentActor;
use crate::{
    journal::{for_each_record_after, steps},
    telemetry::{
        cursor::{PendingExport, SpanCursor},
        span_builder,
    },
};
use blackboard::store::{Error, Revision};
use engine::{
    DeliveryAttemptOutcome, Observation, content,
    origin::OpeningMessage,
    records::{Step, keys},
    states,
};
use patterns::Effect;
use protocol::{
    envelope::Envelope, ids::ConversationId, principal::Principal, time::WallTime, trace::TraceContext,
};
use std::collections::BTreeMap;

/// Steps of a conversation whose spans may not have been exported.
struct UntracedSteps {
    /// The last step before them.
    from: u64,
    /// Whether they include the end of the conversation.
    ends: bool,
    /// The last of them, and its revision.
    last: (u64, Revision),
}

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
            Observation::GivenUp(reason) => meters.give_up(reason),
            Observation::TaskEnded(state) => meters.end(state),
            Observation::StepsOfEnded { conversation, trace, from, to, head } => {
                if self.parts.telemetry.exports(trace.as_ref()) {
                    let step = self.span_cursor.as_ref().map(|cursor| cursor.begin(head));
                    self.trace_steps(conversation, from, to, step);
                }
            }
        }
    }

    /// Exports the spans that were complete in the steps of a conversation after `from`, up to `to`.
    fn trace_steps(&self, id: ConversationId, from: u64, to: u64, step: Option<PendingExport>) {
        let (store, me) = (self.parts.store.clone(), self.me.clone());
        let capture = self.parts.telemetry.capture().clone();
        self.parts.telemetry.export_from_journal(step, move || {
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

    /// Exports the spans again that the backend had not accepted when the process was killed.
    pub(super) fn export_pending_spans(&mut self) -> Result<(), Error> {
        if !self.parts.telemetry.is_exporting() {
            return Ok(());
        }
        let store = self.parts.store.clone();
        let (cursor, from) = SpanCursor::load(store.clone(), keys::trace_cursor(&self.me))?;
        self.span_cursor = Some(cursor.clone());
        let unsaved = cursor.clone();
        actix::spawn(async move { unsaved.save().await });
        let mut conversations: BTreeMap<ConversationId, UntracedSteps> = BTreeMap::new();
        for_each_record_after(store.as_ref(), &keys::all(&self.me, "journal"), from, |record| {
            let step: Step = content::decode(&self.me, store.as_ref(), &record.value)?;
            let Some(id) = record.key.tokens().get(2).and_then(|id| ConversationId::parse(id).ok()) else {
                return Ok(());
            };
            let ends = step.effects.iter().any(|effect| matches!(effect, Effect::Finish(_)));
            let new = UntracedSteps { from: step.step - 1, ends: false, last: (0, 0) };
            let untraced = conversations.entry(id).or_insert(new);
            untraced.ends |= ends;
            untraced.last = (step.step, record.revision);
            Ok(())
        })?;
        for (id, UntracedSteps { from, ends, last: (to, revision) }) in conversations {
            let state = states::read(store.as_ref(), &self.me, &id)?;
            if state.is_none_or(|state| state.has_ended) {
                let from = if ends { 0 } else { from };
                self.trace_steps(id, from, to, Some(cursor.begin(revision)));
            }
        }
        Ok(())
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
        telemetry.export(span_builder::bid_spans(trace, trace.span_id, &call, answer, times, capture).into());
    }
}
