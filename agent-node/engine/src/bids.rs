//! Answers to calls for proposals. A computed bid is the answer itself; one that the brain is asked for follows as a message.
//! Nothing of it is recorded.

use crate::{
    BidQuestion, BidQuestionId, Observation, Output,
    agent::Agent,
    context::Context,
    delivery::{envelope, lanes::OutgoingEnvelope},
    records::EffectKey,
};
use protocol::{
    envelope::Envelope,
    ids::{Address, ConversationId, MessageId},
    message::{Bid, Cfp, NoBid, Payload},
    patterns::{
        OutgoingMessage,
        contract_net::bidding::{self, BidAnswer},
    },
    principal::Principal,
    trace::TraceContext,
    usage::Usage,
};
use std::{collections::BTreeMap, time::Duration};

/// How many calls for each place the brain is asked about at a time. The others are answered by computed bids.
const QUESTIONS_PER_PLACE: usize = 4;
/// The least time that a brain is asked for.
const MIN_TIME: Duration = Duration::from_millis(50);

/// The calls for proposals that the brain is being asked about.
#[derive(Default)]
pub(crate) struct BidQuestions {
    last: u64,
    open: BTreeMap<BidQuestionId, ReceivedCall>,
}

/// A call and its sender.
struct ReceivedCall {
    cfp: Cfp,
    call: Envelope,
    by: Principal,
    trace: Option<TraceContext>,
}

impl Agent {
    /// The answer to a call for proposals, unless the brain is asked for it.
    pub(crate) fn answer_call(
        &mut self,
        cfp: &Cfp,
        call: &Envelope,
        by: &Principal,
        trace: Option<TraceContext>,
        cx: &mut Context<'_>,
    ) -> Option<Envelope> {
        let computed = self.computed_bid(cfp, cx);
        if let Ok(bid) = &computed
            && by.agent().is_some()
            && self.ask_for_bid(cfp, bid, cx)
        {
            let (cfp, call, by) = (cfp.clone(), call.clone(), by.clone());
            self.bid_questions
                .open
                .insert(BidQuestionId(self.bid_questions.last), ReceivedCall { cfp, call, by, trace });
            return None;
        }
        self.bid_envelope(computed, cfp, call, by, trace, cx)
    }

    fn computed_bid(&self, cfp: &Cfp, cx: &Context<'_>) -> Result<Bid, NoBid> {
        bidding::bid(&self.config.card, self.taken_places(), self.place_free_in(cx), cfp, cx.wall())
    }

    /// Asks the brain, if it is to be asked and there is time.
    fn ask_for_bid(&mut self, cfp: &Cfp, computed: &Bid, cx: &mut Context<'_>) -> bool {
        let Some(within) = self.config.asks_for_bids else { return false };
        let most =
            usize::try_from(self.max_parallel()).unwrap_or(usize::MAX).saturating_mul(QUESTIONS_PER_PLACE);
        // A quarter of the window is left for the way to the manager.
        let within = within.min(cx.wall().until(cfp.bid_by) / 4 * 3);
        if self.bid_questions.open.len() >= most || within < MIN_TIME {
            return false;
        }
        self.bid_questions.last += 1;
        let id = BidQuestionId(self.bid_questions.last);
        let (cfp, computed) = (cfp.clone(), computed.clone());
        cx.out.push(Output::AskBid(Box::new(BidQuestion { id, cfp, computed, within })));
        true
    }

    /// Sends the brain's bid, or the computed one if it has not answered.
    pub(crate) fn bid_answered(
        &mut self,
        id: BidQuestionId,
        answer: Result<BidAnswer, String>,
        used: &Usage,
        cx: &mut Context<'_>,
    ) {
        self.counts.bid_usage = self.counts.bid_usage.plus(used);
        let Some(ReceivedCall { cfp, call, by, trace }) = self.bid_questions.open.remove(&id) else { return };
        let Some(manager) = by.agent().cloned() else { return };
        let computed = self.computed_bid(&cfp, cx);
        let result = match answer {
            Ok(answer) => computed.and_then(|bid| bidding::with_answer(bid, &cfp, answer)),
            Err(why) => {
                let task = cfp.task_id.as_str();
                tracing::warn!(agent = %self.me, task, why, "the brain made no bid; the computed one is sent");
                computed
            }
        };
        let Some(envelope) = self.bid_envelope(result, &cfp, &call, &by, trace.clone(), cx) else { return };
        let Ok(none) = ConversationId::parse(NO_CONVERSATION) else { return };
        let message = OutgoingEnvelope {
            label: bidding::label(),
            to: manager,
            envelope,
            best_effort: true,
            is_redelivery: false,
            trace,
        };
        self.send((none, EffectKey(0, 0)), message, cx);
    }

    fn bid_envelope(
        &mut self,
        result: Result<Bid, NoBid>,
        cfp: &Cfp,
        call: &Envelope,
        by: &Principal,
        trace: Option<TraceContext>,
        cx: &mut Context<'_>,
    ) -> Option<Envelope> {
        let wall = cx.wall();
        let payload = match result {
            Ok(bid) => {
                self.counts.bids += 1;
                Payload::Bid(bid)
            }
            Err(no_bid) => Payload::NoBid(no_bid),
        };
        let manager = by.agent()?;
        let answer = OutgoingMessage {
            conversation: call.reply_conversation_id.clone(),
            in_reply_to: Some(call.message_id.clone()),
            expires: Some(cfp.bid_by),
            ..OutgoingMessage::new(bidding::label(), Address::Agent(manager.clone()), payload)
        };
        let (Ok(none), Ok(message_id)) =
            (ConversationId::parse(NO_CONVERSATION), MessageId::parse(&cx.world.uuid()))
        else {
            return None;
        };
        let thread = call.thread_id.clone();
        let mut envelope = envelope::envelope(&self.me, &none, thread, EffectKey(0, 0), &answer, wall);
        envelope.message_id = message_id;
        envelope.reply_conversation_id = None;
        cx.observe(Observation::CallAnswered {
            call: Box::new(call.clone()),
            by: by.clone(),
            answer: Box::new(envelope.clone()),
            trace,
            at: wall,
        });
        Some(envelope)
    }
}

/// In place of the conversation of a bid, which has none.
const NO_CONVERSATION: &str = "bid";
