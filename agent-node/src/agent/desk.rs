//! Where a worker's messages for an agent wait for each other: those that are here together are handed over at once, so
//! that the agent is woken for all of them and not for each.

use super::{AgentActor, admit::Admit, reply::Answered};
use actix::{Addr, Context, Handler, Message, dev::OneshotSender, prelude::SendError};
use std::cell::RefCell;
use tokio::sync::oneshot;

/// Messages, and who waits for what becomes of each.
#[derive(Message)]
#[rtype(result = "()")]
struct Together(Vec<(Admit, OneshotSender<Answered>)>);

thread_local! {
    /// What this worker hands over next, by agent.
    static WAITING: RefCell<Vec<(Addr<AgentActor>, Together)>> = const { RefCell::new(Vec::new()) };
}

/// Hands a message to an agent once all that this thread is ready to do has been done. The answer comes when it is durable;
/// it is an error if the agent has stopped. How many wait there is bounded by how many requests are in flight
/// (`max_in_flight`): in actix an address that has sent nothing yet always finds room.
pub(crate) fn hand_over(to: &Addr<AgentActor>, admit: Admit) -> oneshot::Receiver<Answered> {
    let (asks, answer) = oneshot::channel();
    WAITING.with_borrow_mut(|waiting| match waiting.iter_mut().find(|(agent, _)| agent == to) {
        Some((_, together)) => together.0.push((admit, asks)),
        None => {
            actix::spawn(flush(to.clone()));
            waiting.push((to.clone(), Together(vec![(admit, asks)])));
        }
    });
    answer
}

async fn flush(to: Addr<AgentActor>) {
    let waiting = WAITING.with_borrow_mut(|waiting| {
        let at = waiting.iter().position(|(agent, _)| *agent == to)?;
        Some(waiting.swap_remove(at).1)
    });
    let Some(together) = waiting else { return };
    match to.try_send(together) {
        // Never, as said above; if it were, there would be room later.
        Err(SendError::Full(together)) => drop(to.send(together).await),
        // Whoever waits hears of it by what is dropped here.
        Ok(()) | Err(SendError::Closed(_)) => {}
    }
}

impl Handler<Together> for AgentActor {
    type Result = ();

    fn handle(&mut self, Together(messages): Together, ctx: &mut Context<Self>) {
        // Whoever has hung up meanwhile has heard nothing: it is theirs to say it again.
        for (admit, asks) in messages.into_iter().filter(|(_, asks)| !asks.is_closed()) {
            Handler::<Admit>::handle(self, admit, ctx).await_by(asks);
        }
    }
}
