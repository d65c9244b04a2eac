//! The board subscription of one agent. The actor gets a signal after it has handled the one before.

use super::{AckResult, AgentActor, LifeInput, send_input};
use actix::{Addr, Context, Handler, Message, ResponseFuture};
use blackboard::{client::Blackboard, store::Revision};
use engine::Input;
use futures_util::StreamExt;
use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    signal::{Selector, SignalRecord},
};

/// A signal that the agent subscribes to. The reply is sent when it is handled.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct TakeSignal {
    life: u64,
    signal: Box<SignalRecord>,
}

/// Follows the board after `after` and reports the end of the stream. Without `after` it reports the board's head.
pub(super) async fn follow(
    board: Blackboard,
    me: AgentId,
    selector: Selector,
    after: Option<Revision>,
    agent: Addr<AgentActor>,
    life: u64,
) {
    let by = Principal::Agent(me);
    let input = match after {
        None => match board.read(&by, &selector, None, 0).await {
            Ok(page) => Input::BoardHead(page.next),
            Err(problem) => Input::SubscriptionLost(problem),
        },
        Some(after) => Input::SubscriptionLost(read(&board, &by, selector, after, &agent, life).await),
    };
    send_input(&agent, LifeInput { life, input }).await;
}

async fn read(
    board: &Blackboard,
    by: &Principal,
    selector: Selector,
    after: Revision,
    agent: &Addr<AgentActor>,
    life: u64,
) -> Problem {
    let mut signals = match board.subscribe(by, selector, Some(after)).await {
        Ok(signals) => signals,
        Err(problem) => return problem,
    };
    while let Some(next) = signals.next().await {
        let signal = match next {
            Ok(signal) => Box::new(signal),
            Err(problem) => return problem,
        };
        if agent.send(TakeSignal { life, signal }).await.is_err() {
            break;
        }
    }
    Problem::new(Reason::BlackboardUnavailable, "the stream ended")
}

impl Handler<TakeSignal> for AgentActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, TakeSignal { life, signal }: TakeSignal, ctx: &mut Context<Self>) -> Self::Result {
        if life != self.life {
            return Box::pin(std::future::ready(()));
        }
        let (reply, answer) = self.expect_reply();
        let input = self.signal_input(signal, reply);
        self.feed(input, ctx);
        Box::pin(async move {
            // The engine decides about a signal that it refused.
            let result: Result<AckResult, _> = answer.await;
            drop(result);
        })
    }
}
