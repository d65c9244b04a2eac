//! A panic outside of a pattern ends a life of the agent, not the agent: what the life began is stopped, whoever waits is
//! answered 503, its queued commits settle, and a new life recovers from the store. Too many lives in a row, and the agent
//! stays down: `/readyz` says so. A message in hand at two panics is refused for good.

use super::{AckResult, AgentActor};
use actix::{AsyncContext, Context};
use engine::IncomingMessage;
use protocol::{
    ids::MessageId,
    principal::Principal,
    problem::{Problem, Reason},
};
use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

/// So many restarts within [`WINDOW`]; the next panic is the last.
const MOST_RESTARTS: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// The pause before the first restart; it doubles with each in the window.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// So many panics over one message; after them it is refused.
const MOST_PANICS: u32 = 2;

/// What is remembered across lives.
#[derive(Default)]
pub(super) struct Supervision {
    restarts: VecDeque<Instant>,
    /// The message that is being handled.
    in_hand: Option<(Principal, MessageId)>,
    /// How often each message was in hand at a panic.
    panics: HashMap<(Principal, MessageId), u32>,
    /// Whether a new life begins once all commits have settled.
    is_restarting: bool,
}

impl Supervision {
    /// Notes the message that is handled next; the refusal of one that was in hand at two panics.
    pub(super) fn take(&mut self, message: &IncomingMessage) -> Result<(), Problem> {
        let key = (message.by.clone(), message.envelope.message_id.clone());
        if self.panics.get(&key).is_some_and(|panics| *panics >= MOST_PANICS) {
            let why = format!("message {} made the agent fail {MOST_PANICS} times", key.1);
            return Err(Problem::new(Reason::MessageFailed, why));
        }
        self.in_hand = Some(key);
        Ok(())
    }

    pub(super) fn handled(&mut self) {
        self.in_hand = None;
    }

    /// The pause before the next life; `None` if there is none.
    fn pause(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.restarts.retain(|at| now.duration_since(*at) < WINDOW);
        let restarts = self.restarts.len();
        if restarts >= MOST_RESTARTS {
            return None;
        }
        self.restarts.push_back(now);
        Some(FIRST_PAUSE * (1 << restarts))
    }
}

/// Runs `call`; a panic is an error with what it said.
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

impl AgentActor {
    /// Ends this life, and begins another once the store has settled.
    pub(super) fn restart(&mut self, why: &str, ctx: &mut Context<Self>) {
        tracing::error!(agent = %self.me, why, life = self.life, "the agent panicked and starts again");
        self.agent = None;
        self.life += 1;
        if let Some(key) = self.supervision.in_hand.take() {
            *self.supervision.panics.entry(key).or_default() += 1;
        }
        self.timers.drain().for_each(|(_, timer)| timer.abort());
        self.attempts.drain().for_each(|(_, attempt)| attempt.abort());
        self.turns.drain().for_each(|(_, turn)| turn.abort());
        if let Some(following) = self.subscription.take() {
            following.abort();
        }
        self.refuse_all("the agent failed and starts again");
        let Some(pause) = self.supervision.pause() else {
            let why = format!("failed {MOST_RESTARTS} times within a minute: {why}");
            tracing::error!(agent = %self.me, why, "the agent stays down until the next start of the node");
            return self.parts.status.fail(why);
        };
        ctx.run_later(pause, |this, ctx| {
            this.supervision.is_restarting = true;
            this.recover_if_settled(ctx);
        });
    }

    /// Begins the next life, if one is due and nothing of an older one is still being written.
    pub(super) fn recover_if_settled(&mut self, ctx: &mut Context<Self>) {
        if self.supervision.is_restarting && self.commits == 0 {
            self.supervision.is_restarting = false;
            self.recover(ctx);
        }
    }

    /// Hands a message in, unless it is one that made the agent fail.
    pub(super) fn take_message(
        &mut self,
        message: IncomingMessage,
        ctx: &mut Context<Self>,
    ) -> tokio::sync::oneshot::Receiver<AckResult> {
        let (reply, answer) = self.expect_reply();
        match self.supervision.take(&message) {
            Ok(()) => {
                self.feed(engine::Input::Message(message, reply), ctx);
                self.supervision.handled();
            }
            Err(problem) => {
                if let Some(waits) = self.replies.remove(&reply) {
                    drop(waits.send(Err(problem)));
                }
            }
        }
        answer
    }
}
