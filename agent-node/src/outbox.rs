//! The only sender. FIFO per recipient and conversation; retries with full jitter until the message is delivered,
//! refused, or expired; what is given up becomes a dead letter with its reason.

pub mod a2a;
pub mod claims;
pub mod letter;
pub mod outside;
mod parcel;
pub(crate) mod retry_after;
pub mod webhooks;

use crate::{
    agent::{Admit, Happened},
    clock::Clock,
    peers::{Locals, Peers, Whereabouts},
    telemetry::Telemetry,
};
use actix::Recipient;
use blackboard::{
    client::Blackboard,
    wire::{Call, Wire, is_unreachable},
};
use bytes::Bytes;
use letter::Letter;
use parcel::Parcel;
use protocol::{
    coordination::What,
    ids::{AgentId, ConversationId, Digest},
    limits::Limits,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
    signal::Signal,
    trace::TRACEPARENT,
};
use reqwest::Method;
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

/// What an outbox sends through.
#[derive(Clone)]
pub struct Ways {
    /// Agents on this node.
    pub locals: Arc<Locals>,
    /// Everyone else.
    pub peers: Arc<Peers>,
    /// HTTP, signed as this agent.
    pub wire: Wire,
    /// The blackboard.
    pub board: Blackboard,
    /// Everything beyond the mesh.
    pub outside: outside::Outside,
    /// How long to try.
    pub limits: Arc<Limits>,
    /// Where tries are counted.
    pub telemetry: Telemetry,
}

type LaneKey = (AgentId, Option<ConversationId>);

/// One agent's outgoing messages. Cheap to clone: whatever is on its way holds one.
#[derive(Clone)]
pub struct Outbox(Rc<Shared>);

/// What everything on its way knows.
pub struct Shared {
    me: AgentId,
    ways: Ways,
    clock: Clock,
    sink: Recipient<Happened>,
    lanes: RefCell<BTreeMap<LaneKey, VecDeque<Letter>>>,
    waiting: RefCell<BTreeMap<AgentId, usize>>,
    /// Signals and claims on their way to the board.
    for_board: Cell<usize>,
}

impl std::ops::Deref for Outbox {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// What came of one try.
enum Tried {
    Delivered,
    Later(Problem),
    Never(Problem),
}

impl Outbox {
    /// `me`'s outbox; what becomes of its messages is reported to `sink`.
    pub fn new(me: AgentId, ways: Ways, clock: Clock, sink: Recipient<Happened>) -> Self {
        let (lanes, waiting, for_board) = Default::default();
        Self(Rc::new(Shared { me, ways, clock, sink, lanes, waiting, for_board }))
    }

    /// How many messages wait, by recipient.
    pub fn waiting(&self) -> BTreeMap<AgentId, usize> {
        self.waiting.borrow().clone()
    }

    /// Whether nothing is on its way, to nobody.
    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty() && self.for_board.get() == 0
    }

    fn begin(&self) {
        self.for_board.set(self.for_board.get() + 1);
    }

    fn end(&self) {
        self.for_board.set(self.for_board.get().saturating_sub(1));
    }

    /// Sends `letter` after all that is on its way to the same recipient from the same conversation.
    pub fn send(&self, letter: Letter) {
        let waiting = {
            let mut waiting = self.waiting.borrow_mut();
            let waiting = waiting.entry(letter.to.clone()).or_default();
            *waiting += 1;
            *waiting
        };
        if waiting > self.ways.limits.max_outbox_per_peer {
            let why = format!(
                "{waiting} messages already wait for {}, the limit is {}",
                letter.to, self.ways.limits.max_outbox_per_peer
            );
            let this = self.clone();
            actix::spawn(async move { this.done(&letter, Err(Problem::new(Reason::Overloaded, why))).await });
            return;
        }
        let lane = (
            letter.to.clone(),
            letter
                .origin
                .as_ref()
                .map(|(conversation, _)| conversation.clone())
                .filter(|_| !letter.best_effort),
        );
        if lane.1.is_none() {
            let this = self.clone();
            actix::spawn(async move { this.carry(letter).await });
            return;
        }
        let is_idle = {
            let mut lanes = self.lanes.borrow_mut();
            let queue = lanes.entry(lane.clone()).or_default();
            queue.push_back(letter);
            queue.len() == 1
        };
        if is_idle {
            let this = self.clone();
            actix::spawn(async move { this.run(lane).await });
        }
    }

    async fn run(&self, lane: LaneKey) {
        loop {
            let Some(letter) = self.lanes.borrow().get(&lane).and_then(|queue| queue.front().cloned()) else {
                break;
            };
            self.carry(letter).await;
            let mut lanes = self.lanes.borrow_mut();
            let Some(queue) = lanes.get_mut(&lane) else { break };
            queue.pop_front();
            if queue.is_empty() {
                lanes.remove(&lane);
                break;
            }
        }
    }

    /// Tries until there is an end to it.
    async fn carry(&self, letter: Letter) {
        let is_local = self.ways.locals.get(&letter.to).is_some();
        let parcel = match Parcel::of(&letter.envelope, &self.ways.limits, is_local) {
            Ok(parcel) => parcel,
            Err(problem) => return self.done(&letter, Err(problem)).await,
        };
        let written = letter.envelope.timestamp.unwrap_or_else(|| self.clock.wall());
        let life_ends = written.plus(self.ways.limits.message_life());
        let expires = letter.envelope.expires_at.map_or(life_ends, |at| at.min(life_ends));
        let mut attempt = 0;
        loop {
            if self.clock.wall() >= expires && attempt > 0 {
                let why = format!("not delivered to {} before it expired", letter.to);
                return self.done(&letter, Err(Problem::new(Reason::Expired, why))).await;
            }
            let tried = self.attempt(&letter, &parcel, attempt).await;
            self.ways.telemetry.meters().attempt(match &tried {
                Tried::Delivered => 0,
                Tried::Later(_) => 1,
                Tried::Never(_) => 2,
            });
            match tried {
                Tried::Delivered => return self.done(&letter, Ok(())).await,
                Tried::Never(problem) => return self.done(&letter, Err(problem)).await,
                Tried::Later(problem) if letter.best_effort => return self.done(&letter, Err(problem)).await,
                Tried::Later(problem) => {
                    let (task, trace) = letter.known();
                    tracing::debug!(agent = %self.me, to = %letter.to, message = %letter.envelope.message_id, task, trace, %problem, attempt, "not delivered yet");
                    let pause = problem.retry_after.unwrap_or_default().max(pause(attempt));
                    tokio::time::sleep(pause.min(self.clock.wall().until(expires))).await;
                    attempt += 1;
                }
            }
        }
    }

    async fn attempt(&self, letter: &Letter, parcel: &Parcel, attempt: u32) -> Tried {
        let outcome = if let Some(local) = self.ways.locals.get(&letter.to) {
            let admit = Admit {
                digest: Digest::of(&parcel.body),
                envelope: Box::new(letter.envelope.clone()),
                text: None,
                by: Principal::Agent(self.me.clone()),
                trace: letter.trace.clone(),
                contact: None,
            };
            match tokio::time::timeout(self.ways.limits.ack(), local.send(admit)).await {
                Ok(Ok(answer)) => answer.map(|_| ()),
                Ok(Err(error)) => Err(Problem::new(Reason::Overloaded, error.to_string())),
                Err(_) => Err(Problem::new(
                    Reason::GatewayTimeout,
                    format!("{} did not acknowledge in time", letter.to),
                )),
            }
        } else {
            match self.ways.peers.whereabouts(&letter.to) {
                Whereabouts::At(endpoint) => {
                    let handed = self.hand_over(letter, &endpoint, parcel).await;
                    if handed.as_ref().is_err_and(is_unreachable) {
                        self.ways.peers.miss(&self.me, &letter.to);
                    }
                    handed
                }
                Whereabouts::Departed => {
                    Err(Problem::new(Reason::AgentDeparted, format!("{} has left", letter.to)))
                }
                Whereabouts::Unknown if attempt >= 3 && self.ways.peers.is_synced() => {
                    return Tried::Never(Problem::new(
                        Reason::AgentNotFound,
                        format!("no agent {} is known", letter.to),
                    ));
                }
                Whereabouts::Unknown => {
                    Err(Problem::new(Reason::AgentNotFound, format!("no agent {} is known yet", letter.to)))
                }
            }
        };
        match outcome {
            Ok(()) => Tried::Delivered,
            Err(problem) if is_worth_another_try(problem.reason) => Tried::Later(problem),
            Err(problem) if parcel.is_missing(&problem) => Tried::Later(problem),
            Err(problem) => Tried::Never(problem),
        }
    }

    /// Posts the message; what is too large for that is put at the recipient first, unless it lies there already.
    async fn hand_over(&self, letter: &Letter, endpoint: &str, parcel: &Parcel) -> Result<(), Problem> {
        match self.post(letter, endpoint, parcel.body.clone()).await {
            Err(problem) if parcel.is_missing(&problem) => {
                self.put(letter, endpoint, parcel).await?;
                self.post(letter, endpoint, parcel.body.clone()).await
            }
            outcome => outcome,
        }
    }

    async fn put(&self, letter: &Letter, endpoint: &str, parcel: &Parcel) -> Result<(), Problem> {
        let Some(payload) = &parcel.ahead else { return Ok(()) };
        let url = format!("{endpoint}{}", routes::ARTIFACTS);
        let limits = &self.ways.limits;
        let call = Call::new(Method::PUT, &url, letter.to.as_str()).body(payload.clone());
        let patience = limits.ack() + Duration::from_millis(limits.body_ms);
        self.ways.wire.bytes(call.within(patience)).await.map(|_| ())
    }

    async fn post(&self, letter: &Letter, endpoint: &str, body: Bytes) -> Result<(), Problem> {
        let url = format!("{endpoint}{}", routes::MESSAGES);
        let id = letter.envelope.message_id.as_str();
        let call = Call::post(&url, letter.to.as_str(), body).message_id(id).trace(letter.trace.clone());
        self.ways.wire.bytes(call.within(self.ways.limits.ack() + Duration::from_secs(1))).await.map(|_| ())
    }

    async fn done(&self, letter: &Letter, outcome: Result<(), Problem>) {
        if let Err(problem) = &outcome {
            self.ways.telemetry.meters().give_up(problem.reason);
        }
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(&letter.to) {
            *waiting = waiting.saturating_sub(1);
        }
        self.waiting.borrow_mut().retain(|_, waiting| *waiting > 0);
        let Some((conversation, place)) = letter.origin.clone() else { return };
        let what = match outcome {
            Ok(()) if letter.best_effort => return,
            Ok(()) => What::Told { label: letter.label.clone(), by: letter.to.clone() },
            Err(problem) => {
                let (task, trace) = letter.known();
                let kind = letter.envelope.kind().wire();
                tracing::warn!(agent = %self.me, to = %letter.to, kind, message = %letter.envelope.message_id, task, trace, %problem, "message given up");
                What::Undelivered {
                    label: letter.label.clone(),
                    reason: problem.reason.code().to_owned(),
                    message: problem.message,
                }
            }
        };
        let closes = (!letter.best_effort).then_some(place);
        self.report(Happened { conversation, closes, what }).await;
    }

    async fn report(&self, happened: Happened) {
        if self.sink.send(happened).await.is_err() {
            tracing::debug!("the agent is gone; its store knows what is open");
        }
    }

    /// Puts `signal` on the board, however long that takes; refused ones are given up.
    pub fn publish(&self, conversation: ConversationId, place: Place, signal: Signal) {
        let this = self.clone();
        self.begin();
        actix::spawn(async move {
            let by = Principal::Agent(this.me.clone());
            let mut attempt = 0;
            let what = loop {
                match this.ways.board.publish(&by, signal.clone()).await {
                    Ok(revision) => break What::Published { revision },
                    Err(problem) if is_worth_another_try(problem.reason) => {
                        tracing::debug!(%problem, attempt, "signal waits");
                        tokio::time::sleep(pause(attempt)).await;
                        attempt += 1;
                    }
                    Err(problem) => {
                        let task = signal.task_id.as_ref().map(ToString::to_string);
                        let trace = signal.refs.get(TRACEPARENT).and_then(|text| text.as_str());
                        tracing::warn!(agent = %this.me, task, trace, %problem, signal = %signal.kind, "signal refused");
                        let reason = problem.reason.code().to_owned();
                        break What::Undelivered {
                            label: "publish".to_owned(),
                            reason,
                            message: problem.message,
                        };
                    }
                }
            };
            this.report(Happened { conversation, closes: Some(place), what }).await;
            this.end();
        });
    }
}

use crate::conversation::record::Place;

/// Full jitter: anything up to 200 ms, doubled at every try, to at most 30 s; after ten minutes or so, every five.
pub(crate) fn pause(attempt: u32) -> Duration {
    let ceiling = match attempt {
        0..=24 => 200u64.saturating_mul(1 << attempt.min(8)).min(30_000),
        _ => 300_000,
    };
    Duration::from_millis(ceiling).mul_f64(chance())
}

/// Any number from 0 to 1.
pub(crate) fn chance() -> f64 {
    let bits = u16::from_le_bytes([uuid::Uuid::new_v4().as_bytes()[0], uuid::Uuid::new_v4().as_bytes()[15]]);
    f64::from(bits) / f64::from(u16::MAX)
}

/// Which refusals may go away by themselves (RELIABILITY §1.11).
fn is_worth_another_try(reason: Reason) -> bool {
    let may_come_back =
        [Reason::AgentNotFound, Reason::RegisteredElsewhere, Reason::AgentDeparted, Reason::StaleSignature];
    may_come_back.contains(&reason) || matches!(reason.status(), 408 | 425 | 429 | 500..=599)
}
