//! Gives a running agent the settings and the brain of a changed file (`mesh up --watch`).

use super::setup::AgentSpec;
use crate::{
    agent::ReplaceBrain,
    brain::{Brain, exec::access::BrainAccess},
    http::running_card::RunningCard,
};
use actix::MailboxError;
use engine::{EngineConfig, settings::Quota};
use patterns::{contract_net::Auction, work::WorkLimits};
use protocol::{card::Card, limits::Limits};
use std::sync::Arc;

/// Makes the brain that does the work of the sessions which an agent hosts.
pub(super) type MakeSessionWork = Arc<dyn Fn(&AgentSpec) -> Arc<dyn Brain>>;

/// A running agent whose files may change.
#[derive(Clone)]
pub(super) struct ReloadableAgent {
    pub(super) card: RunningCard,
    pub(super) access: BrainAccess,
    pub(super) limits: Arc<Limits>,
    pub(super) auction: Auction,
    pub(super) mesh_quotas: Arc<[Quota]>,
    pub(super) session_work: MakeSessionWork,
}

impl ReloadableAgent {
    /// The agent goes on as `spec` says. Fails if it has stopped.
    pub(super) async fn replace(&self, spec: &AgentSpec) -> Result<(), MailboxError> {
        drop(spec.access.set(self.access.clone()));
        self.card.show(&spec.settings, spec.waits_for()).await?;
        let replaced = ReplaceBrain {
            config: engine_config(
                spec,
                self.card.card.get(),
                (&self.limits, &self.auction, &self.mesh_quotas),
            ),
            brain: spec.brain.clone(),
            session_work: (self.session_work)(spec),
            checker: Arc::new(spec.acceptance.checker.clone()),
        };
        self.card.status.set_brain(spec.brain.clone());
        self.card.actor.send(replaced).await
    }
}

/// What the engine is told of an agent.
pub(super) fn engine_config(
    spec: &AgentSpec,
    card: Arc<Card>,
    (limits, auction, mesh_quotas): (&Arc<Limits>, &Auction, &Arc<[Quota]>),
) -> EngineConfig {
    EngineConfig {
        card,
        settings: Arc::new(spec.settings.clone()),
        limits: limits.clone(),
        auction: auction.clone(),
        work_limits: WorkLimits {
            bounds: spec.settings.bounds.task(),
            is_unmetered: spec.brain.is_unmetered(),
            ..WorkLimits::default()
        },
        mesh_quotas: mesh_quotas.clone(),
        acceptance: spec.acceptance.rules().into(),
    }
}
