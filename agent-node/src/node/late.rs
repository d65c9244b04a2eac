//! An agent whose foreign counterpart was away at the start: it is shown as waiting, and takes work once the card over there
//! has been read. It is asked for again and again, at pauses that grow to a minute.

use super::presence::Nudge;
use crate::{
    agent::UpdateCard,
    brain::PeerSummary,
    http::{a2a::face::Face, node_state::HostedAgent},
    latest::Latest,
    outbox::random_fraction,
};
use protocol::{
    a2a::{
        agent_policy::{AgentPolicy, CallerSchemes},
        card::AgentInterface,
    },
    card::{Card, Skill},
};
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

/// The first pause, and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// What a card has told of an agent.
pub struct Learnt {
    /// One sentence about it.
    pub description: String,
    /// What it can do.
    pub skills: Vec<Skill>,
    /// What it offers to A2A clients.
    pub a2a: AgentPolicy,
}

/// One more try.
pub type Again = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Learnt, String>> + Send>> + Send + Sync>;

/// What an agent waits for.
#[derive(Clone)]
pub struct Waits {
    /// Why it can't take work.
    pub why: String,
    /// Tries once more.
    pub again: Again,
}

/// The agent, as everybody here sees it.
pub(super) struct Late {
    pub(super) local: HostedAgent,
    pub(super) me: Latest<PeerSummary>,
    pub(super) schemes: CallerSchemes,
    pub(super) interface: Option<AgentInterface>,
    pub(super) nudge: Option<Nudge>,
}

impl Late {
    /// Tries until it is known, however long that takes.
    pub(super) fn wait(self, waits: Waits) {
        self.local.status.set_waits_for(Some(waits.why));
        actix::spawn(async move {
            let mut failures = 0;
            while self.local.actor.connected() {
                tokio::time::sleep(pause(failures, random_fraction())).await;
                match (waits.again)().await {
                    Ok(learnt) => return self.learn(learnt).await,
                    Err(why) => {
                        tracing::debug!(agent = %self.local.id, why, "it still waits");
                        self.still(why);
                        failures += 1;
                    }
                }
            }
        });
    }

    /// Says why it waits now, where that is something else than before, to the registry too.
    fn still(&self, why: String) {
        let card = self.local.card.get();
        if card.waits_for.as_ref() != Some(&why) {
            self.local.card.put(Arc::new(Card { waits_for: Some(why.clone()), ..card.as_ref().clone() }));
            if let Some(nudge) = &self.nudge {
                nudge.nudge();
            }
        }
        self.local.status.set_waits_for(Some(why));
    }

    async fn learn(self, learnt: Learnt) {
        let Learnt { description, skills, a2a } = learnt;
        let id = self.local.id.clone();
        self.me.put(PeerSummary { agent_id: id, description: description.clone(), skills: skills.clone() });
        let known = Card { description, skills, waits_for: None, ..self.local.card.get().as_ref().clone() };
        let known = Arc::new(known);
        self.local.face.put(Face::new(&known, a2a, self.schemes, self.interface, &self.local.key));
        if let Err(error) = self.local.actor.send(UpdateCard(known.clone())).await {
            tracing::warn!(agent = %self.local.id, %error, "it can't be told what it can do");
            return;
        }
        self.local.status.set_waits_for(None);
        self.local.card.put(known);
        if let Some(nudge) = self.nudge {
            nudge.nudge();
        }
        tracing::info!(agent = %self.local.id, "it is known by now, and takes work");
    }
}

/// The pause after so many failures; `chance`, from 0 to 1, spreads those who wait for the same.
fn pause(failures: u32, chance: f64) -> Duration {
    let grown = FIRST.saturating_mul(2_u32.saturating_pow(failures.min(16))).min(LONGEST);
    grown.mul_f64(0.75 + 0.25 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_and_stay_there() {
        assert_eq!(pause(0, 1.0), FIRST);
        assert!(pause(0, 0.0) >= FIRST / 2);
        assert_eq!(pause(3, 1.0), FIRST * 8);
        assert_eq!(pause(6, 1.0), LONGEST);
        assert_eq!(pause(u32::MAX, 1.0), LONGEST);
    }
}
