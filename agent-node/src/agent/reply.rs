//! An answer that comes when it is durable: given on the agent's thread, it goes straight to whoever waits elsewhere,
//! without a task or a channel in between.

use super::{AgentActor, admit::Ack};
use actix::{
    Message,
    dev::{MessageResponse, OneshotSender},
};
use protocol::problem::{Problem, Reason};
use std::{cell::RefCell, rc::Rc};

/// What a message to an agent is answered with.
pub(super) type Answered = Result<Ack, Problem>;

enum Slot {
    /// Neither asked for nor given.
    Open,
    /// Asked for.
    Awaited(OneshotSender<Answered>),
    /// Given before anybody asked.
    Given(Box<Answered>),
    /// Given to whoever asked.
    Over,
}

/// Whoever waits to hear that something is durable. Told that the agent has stopped if nothing else is said.
pub struct Waiter(Rc<RefCell<Slot>>);

/// What a handler returns: the answer, or the promise of one.
pub struct Durable(Rc<RefCell<Slot>>);

/// A promise and its keeper.
pub(super) fn promise() -> (Waiter, Durable) {
    let slot = Rc::new(RefCell::new(Slot::Open));
    (Waiter(slot.clone()), Durable(slot))
}

/// An answer that needs no waiting.
pub(super) fn now(answer: Answered) -> Durable {
    Durable(Rc::new(RefCell::new(Slot::Given(Box::new(answer)))))
}

impl Waiter {
    /// Answers. Whoever no longer waits does not want to know.
    pub fn send(self, answer: Answered) {
        give(&self.0, answer);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if matches!(*self.0.borrow(), Slot::Open | Slot::Awaited(_)) {
            let stopped = "the agent stopped before it was recorded";
            give(&self.0, Err(Problem::new(Reason::StoreUnavailable, stopped)));
        }
    }
}

fn give(slot: &RefCell<Slot>, answer: Answered) {
    let before = slot.replace(Slot::Over);
    match before {
        Slot::Awaited(sender) => drop(sender.send(answer)),
        Slot::Open | Slot::Given(_) | Slot::Over => drop(slot.replace(Slot::Given(Box::new(answer)))),
    }
}

impl<M: Message<Result = Answered>> MessageResponse<AgentActor, M> for Durable {
    fn handle(self, _: &mut actix::Context<AgentActor>, asks: Option<OneshotSender<Answered>>) {
        if let Some(asks) = asks {
            self.await_by(asks);
        }
    }
}

impl Durable {
    pub(super) fn await_by(self, asks: OneshotSender<Answered>) {
        match self.0.replace(Slot::Over) {
            Slot::Given(answer) => drop(asks.send(*answer)),
            Slot::Open | Slot::Awaited(_) | Slot::Over => drop(self.0.replace(Slot::Awaited(asks))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn ask(durable: Durable) -> oneshot::Receiver<Answered> {
        let (asks, answer) = oneshot::channel();
        durable.await_by(asks);
        answer
    }

    fn refusal() -> Answered {
        Err(Problem::new(Reason::Expired, "late"))
    }

    #[test]
    fn an_answer_reaches_whoever_asks_before_or_after_it_is_given() {
        let (waiter, durable) = promise();
        let mut before = ask(durable);
        assert!(before.try_recv().is_err());
        waiter.send(refusal());
        assert_eq!(before.try_recv().unwrap().unwrap_err().reason, Reason::Expired);

        let (waiter, durable) = promise();
        waiter.send(refusal());
        assert_eq!(ask(durable).try_recv().unwrap().unwrap_err().reason, Reason::Expired);
        assert_eq!(ask(now(refusal())).try_recv().unwrap().unwrap_err().reason, Reason::Expired);
    }

    #[test]
    fn a_promise_nobody_keeps_is_answered_all_the_same() {
        let (waiter, durable) = promise();
        let mut answer = ask(durable);
        drop(waiter);
        assert_eq!(answer.try_recv().unwrap().unwrap_err().reason, Reason::StoreUnavailable);
    }
}
