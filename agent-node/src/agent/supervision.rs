//! Restarts an agent after a panic outside of a pattern. Attempts, timers and turns of the old life are stopped, open requests
//! are answered 503, queued commits settle, and a new life recovers from the store. After too many restarts the agent stays
//! down and `/readyz` fails. A message that was being handled at two panics is refused for good, a signal is passed over.

use super::{AckResult, AgentActor, quota_shares::lease_all};
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use engine::{IncomingMessage, Input, ReplyTo};
use protocol::{
    ids::MessageId,
    principal::Principal,
    problem::{Problem, Reason},
    signal::SignalRecord,
};
use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};
use store::Revision;

/// The most restarts within [`WINDOW`]. After one more panic the agent stays down.
const MAX_RESTARTS: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// The pause before the first restart; it doubles with each in the window.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How often the board is asked for shares of quotas for one message.
const MOST_SHARES: u32 = 16;
/// The number of panics after which a message is refused, or a signal is passed over.
const MAX_PANICS: u32 = 2;

/// An input that may come again after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RepeatedInput {
    Message(Principal, MessageId),
    Signal(Revision),
}

/// The restart state, which outlives a life.
#[derive(Default)]
pub(super) struct Supervision {
    restarts: VecDeque<Instant>,
    /// The message that is being handled.
    in_hand: Option<RepeatedInput>,
    /// The number of panics while each input was handled, and when the last one was.
    panics: HashMap<RepeatedInput, (u32, Instant)>,
    /// Whether a new life starts once all commits have settled.
    is_restarting: bool,
}

impl Supervision {
    /// Records the message that is handled next. Refuses it after [`MAX_PANICS`] panics.
    pub(super) fn begin(&mut self, message: &IncomingMessage) -> Result<(), Problem> {
        let id = message.envelope.message_id.clone();
        let input = RepeatedInput::Message(message.by.clone(), id.clone());
        if self.is_poison(&input) {
            let why = format!("message {id} made the agent fail {MAX_PANICS} times");
            return Err(Problem::new(Reason::MessageFailed, why));
        }
        self.in_hand = Some(input);
        Ok(())
    }

    fn is_poison(&self, input: &RepeatedInput) -> bool {
        self.panics.get(input).is_some_and(|(panics, _)| *panics >= MAX_PANICS)
    }

    /// Counts a panic over `input`. Counts older than `message_life` are forgotten: nothing is sent again after that.
    fn count_panic(&mut self, input: RepeatedInput, message_life: Duration) {
        let now = Instant::now();
        self.panics.retain(|_, (_, at)| now.duration_since(*at) < message_life);
        let panics = self.panics.get(&input).map_or(0, |(panics, _)| *panics);
        self.panics.insert(input, (panics + 1, now));
    }

    pub(super) fn end(&mut self) {
        self.in_hand = None;
    }

    /// The pause before the next life; `None` if the agent stays down.
    fn next_pause(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.restarts.retain(|at| now.duration_since(*at) < WINDOW);
        let restarts = self.restarts.len();
        if restarts >= MAX_RESTARTS {
            return None;
        }
        self.restarts.push_back(now);
        Some(FIRST_PAUSE * (1 << restarts))
    }
}

impl AgentActor {
    /// Ends this life and starts another once all commits have settled.
    pub(super) fn restart(&mut self, why: &str, ctx: &mut Context<Self>) {
        tracing::error!(agent = %self.me, why, life = self.life, "the agent panicked and starts again");
        let signal = self.agent.take().and_then(|agent| agent.signal_in_hand()).map(RepeatedInput::Signal);
        self.life += 1;
        if let Some(input) = self.supervision.in_hand.take().or(signal) {
            self.supervision.count_panic(input, self.parts.config.limits.message_life());
        }
        self.stop_all("the agent failed and starts again");
        let Some(pause) = self.supervision.next_pause() else {
            let why = format!("failed {MAX_RESTARTS} times within a minute: {why}");
            tracing::error!(agent = %self.me, why, "the agent stays down until the next start of the node");
            return self.parts.status.fail(why);
        };
        ctx.run_later(pause, |this, ctx| {
            this.supervision.is_restarting = true;
            this.recover_if_settled(ctx);
        });
    }

    /// Stops what the ended life has under way.
    fn stop_all(&mut self, why: &str) {
        self.timers.drain().for_each(|(_, timer)| timer.abort());
        self.attempts.drain().for_each(|(_, attempt)| attempt.abort());
        self.turns.drain().for_each(|(_, turn)| turn.stop());
        if let Some(subscription) = self.subscription.take() {
            subscription.abort();
        }
        self.refuse_all(why);
    }

    /// Ends this life, and starts another from the store with the parts that the actor has now. It counts as no failure.
    pub(super) fn begin_anew(&mut self, ctx: &mut Context<Self>) {
        self.agent = None;
        self.life += 1;
        self.stop_all("the agent starts again, because its files have changed");
        self.supervision.is_restarting = true;
        self.recover_if_settled(ctx);
    }

    /// Starts the next life if one is due and no commit of an older one is open.
    pub(super) fn recover_if_settled(&mut self, ctx: &mut Context<Self>) {
        if self.supervision.is_restarting && self.commits == 0 {
            self.supervision.is_restarting = false;
            self.recover(ctx);
        }
    }

    /// Handles a message, unless it has made the agent fail.
    pub(super) fn take_message(
        &mut self,
        message: IncomingMessage,
        ctx: &mut Context<Self>,
    ) -> tokio::sync::oneshot::Receiver<AckResult> {
        let (reply, answer) = self.expect_reply();
        self.decide(message, reply, MOST_SHARES, ctx);
        answer
    }

    /// Passes a message to the engine. The board is asked first for the shares of quotas that it needs, `left` times at most: what it
    /// gives may be used up by others that came at the same time.
    fn decide(&mut self, message: IncomingMessage, reply: ReplyTo, left: u32, ctx: &mut Context<Self>) {
        let now = (self.parts.clock.node(), self.parts.clock.wall());
        let wanted = self.agent.as_ref().map(|agent| agent.wanted_shares(&message, now)).unwrap_or_default();
        if wanted.is_empty() || left == 0 {
            return self.feed_message(message, reply, ctx);
        }
        let asked = lease_all(self.parts.transports.board.clone(), self.me.clone(), wanted);
        ctx.spawn(asked.into_actor(self).map(move |shares, this, ctx| {
            let left = if shares.is_empty() { 0 } else { left - 1 };
            this.feed(Input::SharesGranted(shares), ctx);
            this.decide(message, reply, left, ctx);
        }));
    }

    fn feed_message(&mut self, message: IncomingMessage, reply: ReplyTo, ctx: &mut Context<Self>) {
        match self.supervision.begin(&message) {
            Ok(()) => {
                self.feed(Input::Message(message, reply), ctx);
                self.supervision.end();
            }
            Err(problem) => {
                if let Some(reply) = self.replies.remove(&reply) {
                    drop(reply.send(Err(problem)));
                }
            }
        }
    }

    /// The input for a signal: it is passed over if it has made the agent fail.
    pub(super) fn signal_input(&self, signal: Box<SignalRecord>, reply: ReplyTo) -> Input {
        match self.supervision.is_poison(&RepeatedInput::Signal(signal.revision)) {
            true => Input::PassOverSignal(signal.revision, reply),
            false => Input::Signal(signal, reply),
        }
    }
}
