//! Whether quotas let work begin, and what it uses of them.

use crate::{
    BidQuestionId, GrantedShare, IncomingMessage, Observation, Output, QuotaNotice, QuotaStatus,
    ShareRequest,
    agent::{Agent, requests::task_requests::root},
    commits::StandaloneRecords,
    context::Context,
    fate::Fate,
    quotas::{ClosedQuota, Gate, NewWork},
    records::{TaskRow, expense::Expense},
    timer_purpose::TimerPurpose,
};
use patterns::{EventKind, WorkPhase};
use protocol::{
    ids::{Capability, ConversationId},
    message::{Payload, TaskRequest},
    principal::Principal,
    problem::Problem,
    quota::{Amount, QuotaLevel},
    task::TaskState,
    time::{NodeTime, WallTime},
    usage::Usage,
};
use std::time::Duration;
use store_types::Batch;

/// How often turns that a quota keeps waiting are looked at, at least: the wall clock may be set.
const LOOK: Duration = Duration::from_secs(30);
/// In place of the conversation of what bids have used.
const BIDS: &str = "bids";

impl Agent {
    /// The shares of quotas of the mesh that are needed before `message` can be decided. The board is asked for them first; what
    /// it answers is [`crate::Input::SharesGranted`].
    pub fn wanted_shares(&self, message: &IncomingMessage, now: (NodeTime, WallTime)) -> Vec<ShareRequest> {
        if self.config.mesh_quotas.is_empty() {
            return Vec::new();
        }
        let (requester, capability, gate) = match &message.envelope.payload {
            Payload::TaskRequest(request) => {
                let (requester, _) = root(message, request.on_behalf_of.clone(), None);
                (requester, request.capability.clone(), request_gate(message))
            }
            Payload::Award(award) => (award.task.root.clone(), award.task.capability.clone(), Gate::Given),
            _ => return Vec::new(),
        };
        let work = NewWork { capability: capability.as_ref(), requester: &requester };
        self.quotas.wanted_shares(work, gate, now)
    }

    /// How much of each quota is used.
    pub fn quota_statuses(&self, now: WallTime) -> Vec<QuotaStatus> {
        self.quotas.statuses(now)
    }

    pub(super) fn take_shares(&mut self, shares: Vec<GrantedShare>, cx: &mut Context<'_>) {
        // A board that can't be reached is asked again when it is time to look.
        if !shares.is_empty() {
            self.quotas.answered();
        }
        let notices = self.quotas.granted(shares, (cx.world.now(), cx.wall()));
        for notice in notices {
            cx.observe(Observation::Quota(notice));
        }
        self.turns.release_held();
    }

    /// It is time to look again at the turns that a quota keeps waiting. The board is asked first for the shares that they need.
    pub(super) fn look_at_held(&mut self, cx: &mut Context<'_>) {
        self.quotas.looked();
        if !self.ask_for_held(cx) {
            self.turns.release_held();
        }
    }

    pub(super) fn give_back_shares(&mut self, cx: &mut Context<'_>) {
        let conversations = &self.conversations;
        self.quotas.forget(|id| conversations.get(id).is_some());
        let given = self.quotas.give_back(cx.world.now());
        if !given.is_empty() {
            cx.out.push(Output::AskShares(given));
        }
    }

    /// The quota that keeps work from passing `gate`.
    pub(super) fn closed_quota(
        &self,
        gate: Gate,
        (capability, requester): (Option<&Capability>, &Principal),
        cx: &Context<'_>,
    ) -> Option<ClosedQuota> {
        self.quotas.closed(NewWork { capability, requester }, gate, cx.wall())
    }

    /// The fate of a request as quotas allow it: it waits for one, which is named, or is refused. What this agent asks of itself belongs to work that
    /// has begun.
    pub(super) fn within_quotas(
        &self,
        fate: Fate,
        (message, request, capability): (&IncomingMessage, &TaskRequest, Option<&Capability>),
        cx: &Context<'_>,
    ) -> Result<(Fate, Option<String>), Problem> {
        if message.by.agent() == Some(&self.me) {
            return Ok((fate, None));
        }
        let (requester, _) = root(message, request.on_behalf_of.clone(), None);
        let work = (capability, &requester);
        let does = matches!(fate, Fate::Do { .. } | Fate::Host);
        let own = does.then(|| self.closed_quota(Gate::Taken, work, cx)).flatten();
        let of_mesh = self
            .closed_quota(request_gate(message), work, cx)
            .filter(|_| does || request_gate(message) == Gate::Asked);
        match (own.into_iter().chain(of_mesh).max_by_key(|closed| !closed.waits), fate) {
            (None, fate) => Ok((fate, None)),
            (Some(closed), Fate::Do { is_bound, .. }) if closed.waits => {
                Ok((Fate::Do { is_queued: true, is_bound }, Some(closed.wait)))
            }
            (Some(closed), _) => Err(closed.problem(cx.wall())),
        }
    }

    /// What a conversation uses is recorded. The owner of a running task is told if a quota is nearly used up by that.
    pub(super) fn expense_recorded(&mut self, id: &ConversationId, cx: &mut Context<'_>) {
        for notice in self.quotas.settled(id, true, cx.wall()) {
            self.events.push(id, None, EventKind::QuotaNear { message: told(&notice) });
            cx.observe(Observation::Quota(notice));
        }
    }

    /// Charges what the brain has used to answer a call for proposals.
    pub(super) fn charge_bid(&mut self, id: BidQuestionId, used: &Usage, cx: &mut Context<'_>) {
        let Some((by, cfp)) = self.bids.called_by(id).filter(|_| !used.is_none()) else { return };
        let (task, capability) = (Some(cfp.task_id.clone()), Some(cfp.capability.clone()));
        let amount = Amount::from(used);
        let expense = Expense { capability, task, amount, ..Expense::new(by.clone(), cx.wall()) };
        let conversation = ConversationId::parse(&format!("{BIDS}-{}", cfp.task_id));
        let write = conversation.map_err(|error| error.to_string()).and_then(|conversation| {
            let written = expense.write((&self.me, &conversation), cx.wall(), cx.store);
            written.map_err(|error| error.to_string())
        });
        match write {
            Ok(write) => {
                let batch = Batch { writes: vec![write], expectations: Vec::new() };
                self.commit_standalone(batch, StandaloneRecords::default(), cx);
            }
            Err(error) => tracing::warn!(agent = %self.me, error, "the use of a bid is not recorded"),
        }
        for notice in self.quotas.add(&expense, cx.wall()) {
            cx.observe(Observation::Quota(notice));
        }
    }

    /// Keeps the first turns waiting that a quota does not let begin.
    pub(super) fn hold_turns(&mut self, cx: &mut Context<'_>) {
        let (quotas, conversations, wall) = (&mut self.quotas, &self.conversations, cx.wall());
        let held = self.turns.hold(|turn| {
            let id = &turn.key.conversation;
            let row = conversations.get(id).and_then(|open| open.task.as_ref());
            let is_new =
                |row: &&TaskRow| turn.prompt.turn == 1 && row.task.status.state == TaskState::Submitted;
            let spec = &row.filter(is_new)?.task.spec;
            let work = NewWork { capability: spec.capability.as_ref(), requester: &spec.root };
            match conversations.phase(id) {
                Some(WorkPhase::Held) => quotas.start_held(work, wall),
                _ => quotas.closed(work, Gate::Begun, wall),
            }
        });
        quotas.started();
        let Some(first) = held.iter().map(|(_, closed)| closed.opens).min() else { return };
        for (conversation, closed) in held {
            // It is told once what it waits for.
            if self.quotas.tell(&conversation, &closed.wait) {
                self.events.push(&conversation, None, EventKind::TurnHeld { turn: 1, why: closed.wait });
            }
        }
        self.ask_for_held(cx);
        if self.quotas.look() {
            let after = wall.until(first).min(LOOK).max(Duration::from_millis(10));
            self.timers.set(after, TimerPurpose::QuotaOpens, cx);
        }
    }

    /// Asks the board for the shares that tasks wait for, unless it was asked just now. Returns whether it does.
    fn ask_for_held(&mut self, cx: &mut Context<'_>) -> bool {
        let now = (cx.world.now(), cx.wall());
        let specs = self.turns.held().filter_map(|id| self.conversations.get(id)?.task.as_ref());
        let mut wanted: Vec<ShareRequest> = Vec::new();
        for spec in specs.map(|row| &row.task.spec) {
            let work = NewWork { capability: spec.capability.as_ref(), requester: &spec.root };
            let more = self.quotas.wanted_shares(work, Gate::Held, now).into_iter();
            wanted.extend(more.filter(|request| !wanted.contains(request)).collect::<Vec<_>>());
        }
        let asks = !wanted.is_empty() && self.quotas.ask();
        if asks {
            cx.out.push(Output::AskShares(wanted));
        }
        asks
    }
}

/// Where a request is held up: it is a task of the mesh if no agent sends it.
fn request_gate(message: &IncomingMessage) -> Gate {
    if message.by.agent().is_none() { Gate::Asked } else { Gate::Given }
}

fn told(notice: &QuotaNotice) -> String {
    let QuotaNotice { level, figures, opens, .. } = notice;
    match level {
        QuotaLevel::UsedUp => {
            format!("{figures}: it is used up, and opens again at {opens}; this task goes on")
        }
        QuotaLevel::Open | QuotaLevel::Near => figures.clone(),
    }
}
