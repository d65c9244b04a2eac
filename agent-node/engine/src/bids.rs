//! Answers to calls for proposals. A computed bid is the answer itself; one that the brain is asked for follows as a message.
//! Nothing of it is recorded.

use crate::{
    BidQuestion, BidQuestionId, Observation, Output,
    context::Context,
    counts::AgentCounts,
    delivery::{envelope, lanes::OutgoingEnvelope},
    quotas::{Gate, NewWork, Quotas},
    records::EffectKey,
};
use patterns::{
    OutgoingMessage,
    contract_net::bidding::{self, BidAnswer},
};
use protocol::{
    card::Card,
    envelope::Envelope,
    ids::{Address, AgentId, ConversationId, MessageId},
    message::{Bid, Cfp, NoBid, Payload},
    principal::Principal,
    trace::TraceContext,
};
use std::{collections::BTreeMap, time::Duration};

/// How many calls for each place the brain is asked about at a time. The others are answered by computed bids.
const QUESTIONS_PER_PLACE: usize = 4;
/// The least time that a brain is asked for.
const MIN_TIME: Duration = Duration::from_millis(50);
/// In place of the conversation of a bid, which has none.
const NO_CONVERSATION: &str = "bid";

/// A call for proposals and its sender.
pub(crate) struct ReceivedCall {
    pub(crate) cfp: Cfp,
    pub(crate) call: Envelope,
    pub(crate) by: Principal,
    pub(crate) trace: Option<TraceContext>,
}

/// What a bid depends on.
pub(crate) struct Bidder<'a> {
    pub(crate) me: &'a AgentId,
    pub(crate) card: &'a Card,
    /// How many of its places are taken, and when one is expected to be free.
    pub(crate) taken: u32,
    pub(crate) free_in: Duration,
    /// How long the brain has for a bid; `None` if it is not asked.
    pub(crate) asks_for_bids: Option<Duration>,
    pub(crate) quotas: &'a Quotas,
    pub(crate) counts: &'a mut AgentCounts,
}

/// The calls for proposals that the brain is being asked about.
#[derive(Default)]
pub(crate) struct Bids {
    last: u64,
    open: BTreeMap<BidQuestionId, ReceivedCall>,
}

impl Bids {
    /// The answer to a call for proposals, unless the brain is asked for it.
    pub(crate) fn answer(
        &mut self,
        call: ReceivedCall,
        mut bidder: Bidder<'_>,
        cx: &mut Context<'_>,
    ) -> Option<Envelope> {
        let computed = bidder.bid(&call.cfp, cx);
        if let Ok(bid) = &computed
            && call.by.agent().is_some()
            && let Some(within) = self.time_for_question(&call.cfp, &bidder, cx)
        {
            self.last += 1;
            let id = BidQuestionId(self.last);
            let (cfp, computed) = (call.cfp.clone(), bid.clone());
            cx.out.push(Output::AskBid(Box::new(BidQuestion { id, cfp, computed, within })));
            self.open.insert(id, call);
            return None;
        }
        bidder.envelope(computed, &call, cx)
    }

    /// How long the brain is asked; `None` if it is not to be asked, or there is no time.
    fn time_for_question(&self, cfp: &Cfp, bidder: &Bidder<'_>, cx: &Context<'_>) -> Option<Duration> {
        let places = usize::try_from(bidder.card.terms.max_parallel.max(1)).unwrap_or(usize::MAX);
        // A quarter of the window is left for the way to the manager.
        let within = bidder.asks_for_bids?.min(cx.wall().until(cfp.bid_by) / 4 * 3);
        (self.open.len() < places.saturating_mul(QUESTIONS_PER_PLACE) && within >= MIN_TIME).then_some(within)
    }

    /// Who has called for the bid that the brain is asked for, and for which task.
    pub(crate) fn called_by(&self, id: BidQuestionId) -> Option<(&Principal, &Cfp)> {
        self.open.get(&id).map(|call| (&call.by, &call.cfp))
    }

    /// The message with the brain's bid, or with the computed one if it has not answered.
    pub(crate) fn answered(
        &mut self,
        id: BidQuestionId,
        answer: Result<BidAnswer, String>,
        mut bidder: Bidder<'_>,
        cx: &mut Context<'_>,
    ) -> Option<((ConversationId, EffectKey), OutgoingEnvelope)> {
        let call = self.open.remove(&id)?;
        let manager = call.by.agent().cloned()?;
        let computed = bidder.bid(&call.cfp, cx);
        let result = match answer {
            Ok(answer) => computed.and_then(|bid| bidding::with_answer(bid, &call.cfp, answer)),
            Err(why) => {
                let task = call.cfp.task_id.as_str();
                tracing::warn!(agent = %bidder.me, task, why, "the brain made no bid; the computed one is sent");
                computed
            }
        };
        let envelope = bidder.envelope(result, &call, cx)?;
        let none = ConversationId::parse(NO_CONVERSATION).ok()?;
        let message = OutgoingEnvelope {
            label: bidding::label(),
            to: manager,
            envelope,
            best_effort: true,
            is_redelivery: false,
            trace: call.trace,
        };
        Some(((none, EffectKey(0, 0)), message))
    }
}

impl Bidder<'_> {
    fn bid(&self, cfp: &Cfp, cx: &Context<'_>) -> Result<Bid, NoBid> {
        let bid = bidding::bid(self.card, self.taken, self.free_in, cfp, cx.wall())?;
        let requester = Principal::Agent(self.me.clone());
        let work = NewWork { capability: Some(&cfp.capability), requester: &requester };
        match self.quotas.closed(work, Gate::Taken, cx.wall()) {
            Some(closed) => Err(closed.no_bid(cfp, cx.wall())),
            None => Ok(bid),
        }
    }

    fn envelope(
        &mut self,
        result: Result<Bid, NoBid>,
        received: &ReceivedCall,
        cx: &mut Context<'_>,
    ) -> Option<Envelope> {
        let ReceivedCall { cfp, call, by, trace } = received;
        let wall = cx.wall();
        let payload = match result {
            Ok(bid) => {
                self.counts.bids += 1;
                Payload::Bid(bid)
            }
            Err(no_bid) => Payload::NoBid(no_bid),
        };
        let answer = OutgoingMessage {
            conversation: call.reply_conversation_id.clone(),
            in_reply_to: Some(call.message_id.clone()),
            expires: Some(cfp.bid_by),
            ..OutgoingMessage::new(bidding::label(), Address::Agent(by.agent()?.clone()), payload)
        };
        let (none, message_id) =
            (ConversationId::parse(NO_CONVERSATION).ok()?, MessageId::parse(&cx.world.uuid()).ok()?);
        let thread = call.thread_id.clone();
        let mut envelope = envelope::envelope(self.me, &none, thread, EffectKey(0, 0), &answer, wall);
        envelope.message_id = message_id;
        envelope.reply_conversation_id = None;
        cx.observe(Observation::CallAnswered {
            call: Box::new(call.clone()),
            by: by.clone(),
            answer: Box::new(envelope.clone()),
            trace: trace.clone(),
            at: wall,
        });
        Some(envelope)
    }
}
