//! An agent that started without knowing what it can do is told.

use super::AgentActor;
use actix::{Context, Handler, Message};
use protocol::card::Card;
use std::sync::Arc;

/// What it says of itself from here on.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Learn(pub Arc<Card>);

impl Handler<Learn> for AgentActor {
    type Result = ();

    fn handle(&mut self, Learn(card): Learn, _: &mut Context<Self>) {
        self.parts.card = card;
    }
}
