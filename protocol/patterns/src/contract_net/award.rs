//! From the claim to the result: one award at a time, and the next bid when it fails.

use super::{ActiveAward, AuctionStage, ContractNet, Effect, Event, Label, Timer, record::CandidateResult};
use crate::{AwardFence, OutgoingSignal, ownership::may_have_arrived, session};
use protocol::{
    a2a::message::Message,
    answer::SeatEnd,
    artifact::{Artifact, ArtifactChunk},
    ids::{AgentId, QuestionId},
    message::{self, AwardDecline, BUSY, Epoch, Payload, TaskAnswer, TaskResponse, TaskUpdate},
    problem::Reason,
    question::Answer,
    signal::SignalType,
    task::{Status, TaskState},
};

use super::{call::wake, record::clip};
use serde_json::{Map, json};

/// The most updates that are kept until the missing ones arrive.
const MAX_EARLY: usize = 64;

impl ContractNet {
    pub(super) fn claimed(&mut self, holder: &AgentId, epoch: Epoch, event: &Event) -> Vec<Effect> {
        let AuctionStage::Claiming { winner, next, called_off, revision } = &mut self.stage else {
            return Vec::new();
        };
        if winner != holder || epoch <= self.last_epoch {
            return Vec::new();
        }
        self.last_epoch = epoch;
        let (winner, next, called_off) = (winner.clone(), std::mem::take(next), called_off.take());
        let refused = revision.take();
        if let Some((state, reason)) = called_off {
            let task = self.ownership.spec.task_id.clone();
            self.stage = AuctionStage::Over;
            self.record.set(&winner, CandidateResult::Cancelled, Some(reason.clone()));
            let mut effects = vec![Effect::Release { task, epoch }, self.reject(&winner, &reason)];
            effects.extend(self.reject_losers(&reason));
            effects.extend(self.finish(state, Some(reason)));
            return effects;
        }
        if let Some(candidate) = self.record.candidate_mut(&winner) {
            candidate.epoch = Some(epoch);
        }
        let mut task = self.ownership.spec.clone();
        task.path.push(self.me.clone());
        task.budget = self.budget_left();
        let lease_ms = self.auction.lease_ms;
        let (task_id, is_last) = (task.task_id.clone(), next.is_empty());
        let revision = refused.as_ref().map(|refused| Box::new(refused.revision()));
        let is_revision = revision.is_some();
        let award = message::Award { task_id, epoch, lease_ms, task, is_last, revision, extra: Map::new() };
        let mut send_award = self.send_to(Label::Award(epoch), &winner, Payload::Award(award));
        if let Effect::Send(message) = &mut send_award {
            message.expires = Some(event.wall.plus(self.auction.accept()));
            message.recorded = refused.and_then(|refused| refused.artifacts());
        }
        let revoked_at = event.at + self.auction.accept();
        let wake = wake(Timer::Accept, revoked_at);
        self.stage = AuctionStage::Awarded(ActiveAward {
            winner,
            epoch,
            is_accepted: false,
            next,
            revoked_at,
            applied: 0,
            chunks: 0,
            result: None,
            early: Vec::new(),
            is_away: false,
            is_revision,
            asked: None,
        });
        vec![send_award, wake]
    }

    /// Another agent holds the claim; a later round may find it free.
    pub(super) fn claim_lost(&mut self, holder: Option<&AgentId>, event: &Event) -> Vec<Effect> {
        let AuctionStage::Claiming { winner, called_off, .. } = &mut self.stage else { return Vec::new() };
        let (winner, called_off) = (winner.clone(), called_off.take());
        let other = holder.map_or("somebody else", AgentId::as_str);
        let why = format!("{other} holds the claim");
        self.record.set(&winner, CandidateResult::Outbid, Some(why.clone()));
        if let Some((state, reason)) = called_off {
            return self.finish(state, Some(reason));
        }
        let mut effects = vec![self.reject(&winner, &why)];
        effects.extend(self.reject_losers(&why));
        self.last_failure = Some(why);
        effects.extend(self.another_round(event.at + self.auction.window(self.round), event));
        effects
    }

    /// Which reports are fenced: a later award is in force, or that one was taken back.
    pub(super) fn fence(&self) -> AwardFence<'_> {
        let in_force = match &self.stage {
            AuctionStage::Awarded(award) => Some(award.epoch),
            AuctionStage::Checking(checked) => Some(checked.award.epoch),
            _ => self.lapsed.as_ref().map(|lapsed| lapsed.epoch),
        };
        AwardFence { task: &self.ownership.spec.task_id, in_force, last: self.last_epoch }
    }

    /// The active award, if `agent` holds it under `epoch`; otherwise the message is recorded as ignored.
    fn in_force(
        &mut self,
        agent: &AgentId,
        epoch: Option<Epoch>,
        kind: &str,
        event: &Event,
    ) -> Option<&mut ActiveAward> {
        let why = match &self.stage {
            AuctionStage::Awarded(award) if epoch.is_some_and(|epoch| epoch < award.epoch) => {
                "fenced: a later award is in force"
            }
            AuctionStage::Awarded(award) if award.winner != *agent => "it does not have the award",
            AuctionStage::Awarded(award) if Some(award.epoch) != epoch => "fenced: another award is in force",
            AuctionStage::Awarded(_) => "",
            AuctionStage::Checking(_) => "its result is checked already",
            _ if epoch.is_some_and(|epoch| epoch > 0 && epoch <= self.last_epoch) => {
                "fenced: that award was taken back"
            }
            _ => "no award is in force",
        };
        if !why.is_empty() {
            self.record.ignore(agent.to_string(), kind, why, event.wall);
            return None;
        }
        if let AuctionStage::Awarded(award) = &mut self.stage { Some(award) } else { None }
    }

    pub(super) fn receive_accept(&mut self, agent: &AgentId, epoch: Epoch, event: &Event) -> Vec<Effect> {
        match self.in_force(agent, Some(epoch), "award-accept", event) {
            Some(award) if !award.is_accepted => {}
            Some(_) | None => return Vec::new(),
        }
        self.accepted(event)
    }

    /// The winner has accepted, or sent a report: rejects the other bidders.
    fn accepted(&mut self, event: &Event) -> Vec<Effect> {
        let AuctionStage::Awarded(award) = &mut self.stage else { return Vec::new() };
        award.is_accepted = true;
        let (winner, epoch) = (award.winner.clone(), award.epoch);
        self.record.set(&winner, CandidateResult::Accepted, None);
        let mut claimed = OutgoingSignal::about(SignalType::task_claimed(), &self.ownership.spec.task_id);
        claimed.subject = Some(winner.to_string());
        claimed.capability.clone_from(&self.ownership.spec.capability);
        claimed.refs.insert("epoch".into(), json!(epoch));
        let mut effects =
            vec![Effect::ClearTimer { timer: Timer::Accept }, Effect::Assign { doer: Some(winner.clone()) }];
        effects.extend(self.leave_queue());
        effects.extend(self.renew(event));
        effects.extend(self.ownership.status(TaskState::Working, format!("awarded to {winner}")));
        if !session::seat::is_sealed(&self.ownership.spec) {
            effects.push(Effect::Publish { signal: claimed });
        }
        effects.extend(self.reject_losers(&format!("awarded to {winner}")));
        effects
    }

    pub(super) fn renew(&mut self, event: &Event) -> Option<Effect> {
        let until = event.at + self.auction.lease();
        let AuctionStage::Awarded(award) = &mut self.stage else { return None };
        if award.is_away {
            return None;
        }
        award.revoked_at = until;
        Some(wake(Timer::Lease, until))
    }

    pub(super) fn receive_decline(
        &mut self,
        agent: &AgentId,
        decline: &AwardDecline,
        event: &Event,
    ) -> Vec<Effect> {
        if let Some(effects) = self.ends_in_vain(agent, Some(decline.epoch), decline.usage) {
            return effects;
        }
        let mut effects = self.returns(agent, Some(decline.epoch), event);
        let Some(award) = self.in_force(agent, Some(decline.epoch), "award-decline", event) else {
            return effects;
        };
        if decline.reason == BUSY && !award.is_accepted {
            effects.extend(self.found_no_place(decline.free_in_ms, event));
            return effects;
        }
        let why = format!("{agent} declined: {}", clip(&decline.reason));
        effects.extend(match (award.is_accepted, decline.usage) {
            (true, None) => self.charge_award_in_force(),
            (_, usage) => usage.and_then(|usage| self.ownership.add_usage(&usage)),
        });
        effects.extend(self.goes_to_another(CandidateResult::Declined, why, event));
        effects
    }

    /// All places of the winner were taken meanwhile. That is no failed attempt; the next bid follows.
    fn found_no_place(&mut self, free_in_ms: Option<u64>, event: &Event) -> Vec<Effect> {
        let AuctionStage::Awarded(award) = std::mem::replace(&mut self.stage, AuctionStage::Searching) else {
            return Vec::new();
        };
        self.record.set(&award.winner, CandidateResult::Declined, Some(BUSY.to_owned()));
        self.place_search.note_busy(free_in_ms);
        let mut effects = self.release(award.epoch);
        effects.extend(self.award_next(award.next, event));
        effects
    }

    /// The winner has not accepted in time, or was silent for a lease.
    pub(super) fn award_expires(&mut self, event: &Event) -> Vec<Effect> {
        let AuctionStage::Awarded(award) = &self.stage else { return Vec::new() };
        if event.at < award.revoked_at {
            let timer = if award.is_accepted { Timer::Lease } else { Timer::Accept };
            return vec![wake(timer, award.revoked_at)];
        }
        let winner = &award.winner;
        if !award.is_accepted {
            let why = format!("{winner} did not accept in time");
            return self.was_not_accepted(CandidateResult::AcceptTimeout, why, event);
        }
        let why = match award.is_away {
            true => format!("{winner} was away, and did not come back in time"),
            false => format!("{winner} fell silent for {} ms", self.auction.lease_ms),
        };
        self.lapses(CandidateResult::LeaseExpired, why, event)
    }

    /// A winner that has accepted keeps the award unless it is gone: its acceptance can overtake the acknowledgement.
    pub(super) fn undelivered(
        &mut self,
        label: Label,
        to: &AgentId,
        (reason, why): (&str, &str),
        event: &Event,
    ) -> Vec<Effect> {
        match (label, &self.stage) {
            (Label::Cfp, AuctionStage::Bidding { asked, .. }) if asked.contains_key(to) => {
                if reason == Reason::Overloaded.code() {
                    return self.receive_busy(to, (None, None), event);
                }
                if reason == Reason::RecipientUnreachable.code() {
                    self.place_search.note_unreachable();
                }
                self.passes(to, CandidateResult::Unreachable, why, event)
            }
            (Label::Award(epoch), AuctionStage::Awarded(award))
                if award.epoch == epoch
                    && award.winner == *to
                    && !award.is_away
                    && (!award.is_accepted || reason == Reason::RecipientUnreachable.code()) =>
            {
                if award.is_accepted {
                    let why = format!("{to} is gone: {}", clip(why));
                    return self.lapses(CandidateResult::Unreachable, why, event);
                }
                let why = format!("the award could not be delivered: {}", clip(why));
                match may_have_arrived(reason) {
                    true => self.was_not_accepted(CandidateResult::Unreachable, why, event),
                    false => self.goes_to_another(CandidateResult::Unreachable, why, event),
                }
            }
            (Label::Answer, AuctionStage::Awarded(award)) if award.winner == *to => {
                let Some(asked) = award.asked.as_deref() else { return Vec::new() };
                let message = Some(format!("the answer was not taken: {}", clip(why)));
                let status = Status { message, ..asked.clone() };
                self.ownership.show_status(status)
            }
            _ => Vec::new(),
        }
    }

    /// The award has failed before it was accepted, and the winner will not say what it has used.
    fn was_not_accepted(&mut self, fate: CandidateResult, why: String, event: &Event) -> Vec<Effect> {
        let charged = self.charge_award_in_force();
        charged.into_iter().chain(self.goes_to_another(fate, why, event)).collect()
    }

    fn charge_award_in_force(&mut self) -> Option<Effect> {
        let AuctionStage::Awarded(award) = &self.stage else { return None };
        let award = award.clone();
        self.charge_silent(&award)
    }

    /// The award has failed: the runner-up gets the next one, then another round follows.
    pub(super) fn goes_to_another(
        &mut self,
        fate: CandidateResult,
        why: String,
        event: &Event,
    ) -> Vec<Effect> {
        let AuctionStage::Awarded(award) = std::mem::replace(&mut self.stage, AuctionStage::Searching) else {
            return Vec::new();
        };
        self.record.set(&award.winner, fate, Some(why.clone()));
        self.was_tried |= self.rejections.get(&award.winner) != Some(&why);
        let left_queue = self.leave_queue();
        self.place_search.note_failure(award.winner == self.me);
        self.fulfilments.entry(award.winner.clone()).or_default().push(false);
        let mut effects = self.ownership.discard_artifacts();
        effects.extend(self.revoke(&award.winner, award.epoch, &format!("superseded: {why}")));
        effects.extend(left_queue);
        effects.extend(self.ownership.status(TaskState::Working, why.clone()));
        if let Some(why) = self.why_budget_ends_it(&why) {
            effects.extend(self.reject_losers(&why));
            effects.extend(self.finish(TaskState::Failed, Some(why)));
            return effects;
        }
        self.last_failure = Some(why);
        effects.extend(self.award_next(award.next, event));
        effects
    }

    pub(super) fn receive_update(
        &mut self,
        agent: &AgentId,
        update: &TaskUpdate,
        event: &Event,
    ) -> Vec<Effect> {
        let mut effects = self.returns(agent, update.epoch, event);
        let Some(award) = self.in_force(agent, update.epoch, "task-update", event) else { return effects };
        let was_accepted = award.is_accepted;
        let Err(place) = award.early.binary_search_by_key(&update.seq, |early| early.seq) else {
            return effects;
        };
        let is_next = update.seq == award.applied + 1;
        if update.seq <= award.applied && was_accepted {
            return effects;
        }
        if is_next || update.seq > award.applied && award.early.len() < MAX_EARLY {
            award.early.insert(place, update.clone());
        }
        let first_seq = award.applied + 1;
        let run = (first_seq..).zip(&award.early).take_while(|(seq, early)| *seq == early.seq).count();
        let in_turn: Vec<_> = award.early.drain(..run).collect();
        award.applied = in_turn.last().map_or(award.applied, |last| last.seq);
        let has_news =
            |update: &TaskUpdate| update.status.is_some() || update.artifact.is_some() || update.restarts;
        let chunks = |update: &TaskUpdate| usize::from(update.artifact.is_some()) + update.chunks.len();
        award.chunks += in_turn.iter().map(chunks).sum::<usize>() as u64;
        effects.extend(match was_accepted {
            true => self.renew(event).into_iter().collect(),
            false => self.accepted(event),
        });
        let away = in_turn.iter().rev().find_map(|update| update.away_ms);
        if away.is_none() && !in_turn.iter().any(has_news) {
            effects.extend(self.ownership.sign_of_life());
        }
        let asked = in_turn.iter().rev().find_map(|update| update.status.as_ref());
        let asked = asked.map(|status| (!status.questions.is_empty()).then(|| Box::new(status.clone())));
        for update in in_turn {
            let status = update.status.clone().filter(|status| !status.state.is_terminal());
            let status =
                status.map(|status| Status { by: status.by.clone().or(Some(agent.clone())), ..status });
            effects.extend(status.into_iter().flat_map(|status| self.ownership.show_status(status)));
            if update.restarts {
                effects.extend(self.ownership.discard_artifacts());
            }
            effects.extend(update.into_chunks().filter_map(|chunk| self.ownership.produce(chunk)));
        }
        effects.extend(self.ownership.report_chunks(false));
        effects.extend(away.map(|away_ms| self.is_away(away_ms, event)).unwrap_or_default());
        let AuctionStage::Awarded(award) = &mut self.stage else { return effects };
        if let Some(asked) = asked {
            award.asked = asked;
        }
        let chunks = award.chunks;
        if let Some(response) = award.result.take_if(|response| response.chunks <= Some(chunks)) {
            effects.extend(self.receive_response(agent, &response, event));
        }
        effects
    }

    pub(super) fn receive_response(
        &mut self,
        agent: &AgentId,
        response: &TaskResponse,
        event: &Event,
    ) -> Vec<Effect> {
        if response.state.is_terminal()
            && response.state != TaskState::Completed
            && let Some(effects) = self.ends_in_vain(agent, response.epoch, Some(response.usage))
        {
            return effects;
        }
        let mut effects = self.returns(agent, response.epoch, event);
        if self.in_force(agent, response.epoch, "task-response", event).is_none()
            || !response.state.is_terminal()
        {
            return effects;
        }
        effects.extend(self.take_response(agent, response, event));
        effects
    }

    fn take_response(&mut self, agent: &AgentId, response: &TaskResponse, event: &Event) -> Vec<Effect> {
        let has_message = response.message.as_ref().is_some_and(|text| !text.trim().is_empty());
        let has_artifact = response.artifacts.iter().any(|artifact| !artifact.is_empty());
        let has_result = has_message || has_artifact || self.ownership.has_content();
        if let AuctionStage::Awarded(award) = &mut self.stage
            && let Some(sent) = response.chunks.filter(|sent| *sent != award.chunks)
            && response.state == TaskState::Completed
        {
            let received = award.chunks;
            if sent > received {
                // A report is still under way. If it is lost, a response with everything follows, or else the lease ends.
                award.result = Some(Box::new(response.clone()));
                return if award.is_accepted {
                    self.renew(event).into_iter().collect()
                } else {
                    self.accepted(event)
                };
            }
            let why = format!("{received} pieces of the result arrived, and it counts {sent}");
            self.record.ignore(agent.to_string(), "task-response", &why, event.wall);
            return Vec::new();
        }
        let is_done = response.state == TaskState::Completed && has_result;
        let unkept = self.unkept_cost(&response.usage);
        if !is_done || unkept.is_some() {
            let silent = || match response.state == TaskState::Completed {
                true => "done without a result".to_owned(),
                false => response.state.word().to_owned(),
            };
            let unknown = unkept.filter(|_| is_done).map(|unkept| unkept.of(&format!("the work of {agent}")));
            let why = response.message.clone().unwrap_or_else(silent);
            let mut effects: Vec<_> = self.ownership.add_usage(&response.usage).into_iter().collect();
            let (fate, why) = if let Some(unknown) = unknown {
                (CandidateResult::Failed, format!("{unknown}. The answer: {}", clip(&why)))
            } else if response.state == TaskState::Rejected {
                let why = format!("{agent} rejected it: {}", clip(&why));
                self.rejections.insert(agent.clone(), why.clone());
                (CandidateResult::Declined, why)
            } else {
                let why = format!("{agent} did not manage: {}", clip(&why));
                if response.lasting && response.state == TaskState::Failed {
                    self.lasting_failures.insert(agent.clone(), why.clone());
                }
                (CandidateResult::Failed, why)
            };
            effects.extend(self.goes_to_another(fate, why, event));
            return effects;
        }
        let shows_acceptance = matches!(&self.stage, AuctionStage::Awarded(award) if !award.is_accepted);
        let mut effects = if shows_acceptance { self.accepted(event) } else { Vec::new() };
        let AuctionStage::Awarded(award) = std::mem::replace(&mut self.stage, AuctionStage::Over) else {
            return effects;
        };
        effects.push(Effect::ClearTimer { timer: Timer::Lease });
        effects.extend(self.take_results(&response.artifacts));
        self.ownership.doer = response.doer.clone().or_else(|| Some(agent.clone()));
        let is_seat_turn = session::seat::is_seat_turn(&self.ownership.spec);
        self.ownership.seat = response.seat.clone().or_else(|| is_seat_turn.then(SeatEnd::default));
        effects.extend(self.ownership.add_usage(&response.usage));
        effects.extend(self.check_result(award, response.message.clone(), event));
        effects
    }

    /// The result under `award` counts.
    pub(super) fn accept_result(&mut self, award: &ActiveAward, message: Option<String>) -> Vec<Effect> {
        self.record.set(&award.winner, CandidateResult::Completed, None);
        self.fulfilments.entry(award.winner.clone()).or_default().push(true);
        let task = self.ownership.spec.task_id.clone();
        let mut effects = vec![Effect::Release { task, epoch: award.epoch }];
        effects.extend(self.finish(TaskState::Completed, message));
        effects
    }

    /// Takes the results in a response: all there are, so they replace those in updates.
    fn take_results(&mut self, results: &[Artifact]) -> Vec<Effect> {
        if results.is_empty() {
            return Vec::new();
        }
        let mut effects = self.ownership.discard_artifacts();
        let whole = results.iter().cloned().map(ArtifactChunk::whole);
        effects.extend(whole.filter_map(|chunk| self.ownership.produce(chunk)));
        effects
    }

    /// Passes the owner's answer on to the winner, which asked.
    pub(super) fn pass_on_answer(
        &mut self,
        question: Option<&QuestionId>,
        answer: &Answer,
        message: Option<&Message>,
    ) -> Vec<Effect> {
        let award = match &self.stage {
            AuctionStage::Awarded(award) => Some(award),
            _ => self.lapsed.as_deref(),
        };
        let Some(award) = award else { return Vec::new() };
        let task_id = self.ownership.spec.task_id.clone();
        let answer = TaskAnswer::new(task_id, Some(award.epoch), question, answer, message);
        let answer = Payload::TaskAnswer(answer);
        let send_answer = self.send_to(Label::Answer, &award.winner, answer);
        let mut effects = vec![send_answer];
        effects.extend(self.ownership.status(TaskState::Working, "answered"));
        effects
    }
}
