//! Winners that are away. One that has said so, because its node stops, keeps the award until it is back, for a while. One that
//! has fallen silent keeps it until another agent is given the task: if it comes back before, it goes on, and nothing is done
//! twice.

use super::{AuctionStage, CandidateResult, ContractNet, Effect, Event, Timer, call::wake};
use protocol::{ids::AgentId, message::Epoch, task::TaskState, usage::Usage};
use std::time::Duration;

/// The longest that a winner may be away with its work.
const LONGEST_ABSENCE: Duration = Duration::from_secs(24 * 3_600);

impl ContractNet {
    /// The winner says that it is away with its work for so long; with 0, that it is back.
    pub(super) fn is_away(&mut self, away_ms: u64, event: &Event) -> Vec<Effect> {
        let AuctionStage::Awarded(award) = &mut self.stage else { return Vec::new() };
        let winner = award.winner.clone();
        if away_ms == 0 {
            let was_away = std::mem::take(&mut award.is_away);
            let mut effects: Vec<_> = self.renew(event).into_iter().collect();
            if was_away {
                effects.extend(self.ownership.status(TaskState::Working, format!("{winner} is back")));
            }
            return effects;
        }
        award.is_away = true;
        let away = Duration::from_millis(away_ms).min(LONGEST_ABSENCE);
        award.revoked_at = event.at + away;
        let mut effects = vec![wake(Timer::Lease, award.revoked_at)];
        let why = format!(
            "waits for {winner}, which is away with its work since {}; if it is not back by {}, the task is awarded anew",
            event.wall,
            event.wall.plus(away)
        );
        effects.extend(self.ownership.status(TaskState::Working, why));
        effects
    }

    /// The winner, which had accepted, is gone or silent. Its award goes to the runner-up, or another round follows; until then
    /// the winner may come back.
    pub(super) fn lapses(&mut self, fate: CandidateResult, why: String, event: &Event) -> Vec<Effect> {
        let AuctionStage::Awarded(mut award) = std::mem::replace(&mut self.stage, AuctionStage::Searching)
        else {
            return Vec::new();
        };
        self.record.set(&award.winner, fate, Some(why.clone()));
        self.was_tried = true;
        self.place_search.note_failure(award.winner == self.me);
        let next = std::mem::take(&mut award.next);
        award.is_away = false;
        self.lapsed = Some(Box::new(award));
        let mut effects = vec![Effect::ClearTimer { timer: Timer::Lease }];
        effects.extend(self.leave_queue());
        effects.extend(self.ownership.status(TaskState::Working, why.clone()));
        self.last_failure = Some(why);
        effects.extend(self.award_next(next, event));
        effects
    }

    /// The holder of the lapsed award is back before another agent was given the task: it goes on under its award.
    pub(super) fn returns(&mut self, agent: &AgentId, epoch: Option<Epoch>, event: &Event) -> Vec<Effect> {
        let is_its =
            |lapsed: &mut Box<super::ActiveAward>| lapsed.winner == *agent && Some(lapsed.epoch) == epoch;
        let Some(award) = self.lapsed.take_if(is_its) else { return Vec::new() };
        let why = format!("{agent} is back");
        let mut effects = Vec::new();
        if let AuctionStage::Bidding { asked, answers, .. } =
            std::mem::replace(&mut self.stage, AuctionStage::Awarded(*award))
        {
            let waiting = asked.keys().filter(|agent| !matches!(answers.get(agent), Some(None)));
            effects.extend(waiting.map(|agent| self.reject(agent, &why)));
        }
        self.record.set(agent, CandidateResult::Accepted, None);
        effects.extend([Timer::Bids, Timer::Round].map(|timer| Effect::ClearTimer { timer }));
        effects.extend(self.leave_queue());
        effects.extend(self.renew(event));
        effects.extend(self.ownership.status(TaskState::Working, why));
        effects
    }

    /// The holder of the lapsed award has ended in vain before another agent was given the task: the search for one goes on.
    pub(super) fn ends_in_vain(
        &mut self,
        agent: &AgentId,
        epoch: Option<Epoch>,
        usage: Option<Usage>,
    ) -> Option<Vec<Effect>> {
        let lapsed = self.lapsed.as_ref()?;
        let is_its = lapsed.winner == *agent && Some(lapsed.epoch) == epoch;
        is_its.then(|| self.give_up(usage))
    }

    /// Takes the lapsed award back: another agent is given the task, or it ends.
    pub(super) fn give_up_lapsed(&mut self) -> Vec<Effect> {
        self.give_up(None)
    }

    /// The same; its holder has said what it used, if `used` is there.
    fn give_up(&mut self, used: Option<Usage>) -> Vec<Effect> {
        let Some(award) = self.lapsed.take() else { return Vec::new() };
        let charge = match used {
            Some(used) => self.ownership.add_usage(&used),
            None => self.charge_silent(&award),
        };
        let mut effects: Vec<_> = charge.into_iter().collect();
        self.fulfilments.entry(award.winner.clone()).or_default().push(false);
        effects.extend(self.ownership.discard_artifacts());
        let why = self.last_failure.clone().unwrap_or_else(|| "the task ends".to_owned());
        effects.extend(self.revoke(&award.winner, award.epoch, &format!("superseded: {why}")));
        effects
    }
}
