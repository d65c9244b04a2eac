//! The registry's way to the board.

use blackboard::client::Blackboard;
use protocol::{principal::Principal, problem::Problem, signal::Signal};
use registry::registrar::SignalPublisher;
use std::{future::Future, pin::Pin};

/// Publishes the registry's signals on the board.
pub(super) struct BoardPublisher(pub(super) Blackboard, pub(super) Principal);

impl SignalPublisher for BoardPublisher {
    fn publish(&self, signal: Signal) -> Pin<Box<dyn Future<Output = Result<(), Problem>> + Send>> {
        let (board, by) = (self.0.clone(), self.1.clone());
        Box::pin(async move { board.publish(&by, signal).await.map(|_| ()) })
    }
}
