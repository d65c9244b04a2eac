//! The board subscription of one agent. The actor gets a signal after it has handled the one before. A refused signal ends
//! the subscription; the next one begins at the agent's cursor.

use super::{AckResult, AgentActor, LifeInput, messages::ack_future, send_input};
use actix::{Addr, Context, Handler, Message, ResponseFuture};
use blackboard::client::Blackboard;
use engine::Input;
use futures_util::StreamExt;
use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    signal::{Cursor, Selector, SignalRecord},
};

/// A signal that the agent subscribes to. The reply is sent when it is handled.
#[derive(Message)]
#[rtype(result = "AckResult")]
pub(super) struct TakeSignal {
    life: u64,
    signal: Box<SignalRecord>,
}

/// Follows the board after `after` and reports the end of the stream. Without `after` it reports the board's head.
pub(super) async fn follow(
    board: Blackboard,
    me: AgentId,
    selector: Selector,
    after: Option<Cursor>,
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
    after: Cursor,
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
        match agent.send(TakeSignal { life, signal }).await {
            Ok(Ok(_)) => {}
            Ok(Err(problem)) => return problem,
            Err(_) => break,
        }
    }
    Problem::new(Reason::BlackboardUnavailable, "the stream ended")
}

impl Handler<TakeSignal> for AgentActor {
    type Result = ResponseFuture<AckResult>;

    fn handle(&mut self, TakeSignal { life, signal }: TakeSignal, ctx: &mut Context<Self>) -> Self::Result {
        if life != self.life {
            let ended = Problem::new(Reason::StoreUnavailable, "the agent has started again");
            return Box::pin(std::future::ready(Err(ended)));
        }
        let (reply, answer) = self.expect_reply();
        let input = self.signal_input(signal, reply);
        self.feed(input, ctx);
        ack_future(answer)
    }
}
