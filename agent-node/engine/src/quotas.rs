//! Quotas: what this agent has used of each in its present window, and whether new work may begin.
//!
//! A quota of the agent is decided by what the agent has recorded. One of the mesh is shared: the agent holds a share that the board
//! has granted, and work begins within it; without one, or beyond it, none begins.

use crate::{
    records::{expense::Expense, keys, scan::every_readable},
    settings::{Quota, QuotaRequester, WhenReached},
};
use protocol::{
    ids::{AgentId, Capability, ConversationId},
    message::{BUSY, Cfp, NoBid},
    principal::Principal,
    problem::{Problem, Reason},
    quota::{Amount, QuotaLevel, QuotaLimits, QuotaPeriod, Window},
    time::{NodeTime, WallTime},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use store_types::{Error, Snapshot};

/// How long a share is used without asking the board how much all have used.
const FRESH: Duration = Duration::from_secs(15);
/// How soon the board is asked again after it had nothing left.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long a share is kept that is not asked for.
const KEPT: Duration = Duration::from_secs(60);
/// From so many requesters of one quota on, those of earlier windows are forgotten.
const MANY: usize = 1_024;

/// Work that is about to begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewWork<'a> {
    pub(crate) capability: Option<&'a Capability>,
    /// Who asked first.
    pub(crate) requester: &'a Principal,
}

/// Where work is held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It is asked for from outside of the mesh.
    Asked,
    /// This agent is about to take it.
    Taken,
    /// The same, by an agent that has taken it before: it counts as no task of the mesh any more.
    Given,
    /// Its first turn is about to begin; it counts as a task already.
    Begun,
    /// The same, after it has waited for a quota: it counts from now on.
    Held,
}

impl Gate {
    /// What of a quota counts here, if anything does.
    fn limits(self, counted: &CountedQuota) -> Option<QuotaLimits> {
        let limits = counted.quota.limits();
        let without_tasks = QuotaLimits { tasks: None, ..limits };
        let limits = match (self, counted.is_of_mesh) {
            (Self::Asked, true) | (Self::Taken | Self::Given, false) | (Self::Held, _) => limits,
            (Self::Asked, false) | (Self::Taken, true) => return None,
            (Self::Given, true) | (Self::Begun, _) => without_tasks,
        };
        (limits != QuotaLimits::default()).then_some(limits)
    }
}

/// The quota that keeps work from beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClosedQuota {
    /// Which, how much, and when it opens again.
    pub(crate) why: String,
    /// Which, and when it opens again, for a task that waits.
    pub(crate) wait: String,
    pub(crate) opens: WallTime,
    /// Whether work waits until then.
    pub(crate) waits: bool,
}

impl ClosedQuota {
    /// The answer to a call for proposals. A bidder whose work waits for the quota is waited for as one that is busy.
    pub(crate) fn no_bid(self, cfp: &Cfp, now: WallTime) -> NoBid {
        let free_in_ms = u64::try_from(now.until(self.opens).as_millis()).ok().filter(|_| self.waits);
        let (reason, waits_for) =
            if self.waits { (BUSY.to_owned(), Some(self.why)) } else { (self.why, None) };
        NoBid { task_id: cfp.task_id.clone(), reason, free_in_ms, waits_for, extra: Default::default() }
    }

    /// The refusal of new work.
    pub(crate) fn problem(self, now: WallTime) -> Problem {
        Problem::new(Reason::QuotaReached, self.why)
            .with("opensAt", self.opens)
            .retry_after(now.until(self.opens).max(Duration::from_secs(1)))
    }
}

/// What is asked of the board: a share, or that it takes one back.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareRequest {
    pub per: QuotaPeriod,
    /// The window, by its label.
    pub window: String,
    /// Whose quota it is, if each requester has one of its own, or the quota is one requester's.
    pub requester: Option<Principal>,
    pub limits: QuotaLimits,
    /// What this agent has used in the window.
    pub used: Amount,
    pub gives_back: bool,
}

/// The board's answer to a [`ShareRequest`].
#[derive(Debug, Clone, PartialEq)]
pub struct GrantedShare {
    pub request: ShareRequest,
    /// What this agent may use in the window in all.
    pub granted: Amount,
    /// What all agents have used.
    pub used_by_all: Amount,
}

/// A quota is used up, or nearly.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaNotice {
    pub level: QuotaLevel,
    /// `the quota per day for research: 80 of 100 tokens`.
    pub figures: String,
    pub opens: WallTime,
    /// Whose it is, if it is a requester's.
    pub requester: Option<Principal>,
}

/// How much of a quota is used, for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaStatus {
    pub quota: String,
    pub limits: QuotaLimits,
    /// What this agent has used.
    pub used: Amount,
    /// What this agent may use, if agents share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Amount>,
    /// What all agents have used, if they share it, as the board last said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by_all: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Principal>,
    /// `open`, `near` or `reached`.
    pub state: String,
    pub opens_at: WallTime,
}

/// The quotas of an agent and of its mesh.
pub(crate) struct Quotas {
    counted: Vec<CountedQuota>,
    /// What the tasks that wait were told.
    told: BTreeMap<ConversationId, String>,
    /// Whether a timer is set to look at them again, and whether the board is being asked for shares that they need.
    looks: bool,
    asks: bool,
    /// The tasks that are about to begin, in one go.
    starting: Vec<Expense>,
    /// What is being recorded.
    pending: BTreeMap<ConversationId, Expense>,
}

struct CountedQuota {
    quota: Quota,
    is_of_mesh: bool,
    /// If each requester has one: those that have another one for the same time.
    except: Vec<Principal>,
    /// By requester, if each has one of its own.
    windows: BTreeMap<Option<Principal>, CountedWindow>,
}

#[derive(Default)]
struct CountedWindow {
    label: String,
    used: Amount,
    /// What was said of it.
    announced: Option<QuotaLevel>,
    share: Option<HeldShare>,
}

#[derive(Clone, Copy)]
struct HeldShare {
    granted: Amount,
    used_by_all: Amount,
    at: NodeTime,
    /// What this agent had used when it asked.
    used: Amount,
    /// Whether the board had nothing more to give.
    is_last: bool,
}

impl CountedQuota {
    /// Whose window it is for such work; `None` if it does not count it.
    fn window_of(&self, capability: Option<&Capability>, requester: &Principal) -> Option<Option<Principal>> {
        let Quota { capability: only, requester: whose, .. } = &self.quota;
        if only.as_ref().is_some_and(|only| Some(only) != capability) {
            return None;
        }
        match whose {
            None => Some(None),
            Some(QuotaRequester::Each) => (!self.except.contains(requester)).then(|| Some(requester.clone())),
            Some(QuotaRequester::One(one)) => (one == requester).then(|| Some(requester.clone())),
        }
    }

    fn amount(&self, expense: &Expense) -> Amount {
        if self.is_of_mesh { expense.of_mesh() } else { expense.amount }
    }

    /// Whether it is the quota of the mesh that a share of `per` and `key` belongs to.
    fn is_shared_as(&self, per: QuotaPeriod, key: &Option<Principal>) -> bool {
        let is_whose = match (&self.quota.requester, key) {
            (None, None) => true,
            (Some(QuotaRequester::Each), Some(key)) => !self.except.contains(key),
            (Some(QuotaRequester::One(one)), Some(key)) => one == key,
            (None, Some(_)) | (Some(_), None) => false,
        };
        self.is_of_mesh && self.quota.per == per && is_whose
    }

    fn name(&self, key: &Option<Principal>) -> String {
        match (self.is_of_mesh, key) {
            (true, Some(requester)) => format!("the quota per {} of {requester}", self.quota.per),
            (true, None) => format!("the quota per {} of the mesh", self.quota.per),
            (false, _) => self.quota.to_string(),
        }
    }

    /// Adds to what is used. Says whether that is nearly all now, or all, if that was not said before.
    fn add(&mut self, expense: &Expense, now: WallTime) -> Option<QuotaNotice> {
        let key = self.window_of(expense.capability.as_ref(), &expense.requester)?;
        let (amount, label) = (self.amount(expense), self.quota.per.label_of(&expense.hour).to_owned());
        if self.windows.len() > MANY {
            self.windows.retain(|_, window| window.label >= label);
        }
        let window = self.windows.entry(key.clone()).or_default();
        if window.label > label {
            return None;
        }
        if window.label < label {
            *window = CountedWindow { label, ..CountedWindow::default() };
        }
        window.used = window.used.plus(amount);
        let used = window.used;
        // What all have used of a shared one the board says.
        let level = self.quota.limits().level(used);
        (!self.is_of_mesh).then(|| self.announce(&key, level, used, now)).flatten()
    }

    fn announce(
        &mut self,
        key: &Option<Principal>,
        level: QuotaLevel,
        used: Amount,
        now: WallTime,
    ) -> Option<QuotaNotice> {
        let window = self.windows.get_mut(key)?;
        if level == QuotaLevel::Open || window.announced >= Some(level) {
            return None;
        }
        window.announced = Some(level);
        let figures = format!("{}: {}", self.name(key), self.quota.limits().figures(used));
        let opens = self.quota.per.window(now).ends;
        Some(QuotaNotice { level, figures, opens, requester: key.clone() })
    }
}

impl Quotas {
    pub(crate) fn new(own: &[Quota], of_mesh: &[Quota]) -> Self {
        let of = |quotas: &[Quota], is_of_mesh| {
            let counted = quotas.iter().map(move |quota| CountedQuota {
                quota: quota.clone(),
                is_of_mesh,
                except: quotas
                    .iter()
                    .filter(|other| other.per == quota.per)
                    .filter_map(Quota::one_requester)
                    .collect(),
                windows: BTreeMap::new(),
            });
            counted.collect::<Vec<_>>()
        };
        let counted = of(own, false).into_iter().chain(of(of_mesh, true)).collect();
        let (told, starting, pending) = Default::default();
        Self { counted, told, looks: false, asks: false, starting, pending }
    }

    /// Counts what was recorded in the present month.
    pub(crate) fn load(&mut self, me: &AgentId, store: &dyn Snapshot, now: WallTime) -> Result<(), Error> {
        if self.counted.is_empty() {
            return Ok(());
        }
        let month = keys::expenses(me, &QuotaPeriod::Month.window(now).label);
        let each = |record: store_types::Record| match serde_json::from_slice(&record.value) {
            Ok(expense) => drop(self.add(&expense, now)),
            Err(error) => tracing::warn!(agent = %me, key = %record.key, %error, "an expense can't be read"),
        };
        every_readable(store, &month, each, |key, error| {
            tracing::warn!(agent = %me, %key, %error, "an expense can't be read");
        })
    }

    /// Whether there are any.
    pub(crate) fn is_any(&self) -> bool {
        !self.counted.is_empty()
    }

    /// Whether one of them counts tasks.
    pub(crate) fn count_tasks(&self) -> bool {
        self.counted.iter().any(|counted| counted.quota.tasks.is_some())
    }

    /// What `conversation` uses is being recorded.
    pub(crate) fn begin(&mut self, conversation: &ConversationId, expense: &Expense) {
        if !self.counted.is_empty() {
            self.pending.insert(conversation.clone(), expense.clone());
        }
    }

    /// What `conversation` uses is recorded, or is not.
    pub(crate) fn settled(
        &mut self,
        conversation: &ConversationId,
        is_recorded: bool,
        now: WallTime,
    ) -> Vec<QuotaNotice> {
        match self.pending.remove(conversation) {
            Some(expense) if is_recorded => self.add(&expense, now),
            Some(_) | None => Vec::new(),
        }
    }

    /// Whether a task that has waited may begin: the quota that keeps it waiting. Those that may count from now on, until
    /// [`Self::started`].
    pub(crate) fn start_held(&mut self, work: NewWork<'_>, now: WallTime) -> Option<ClosedQuota> {
        let closed = self.closed(work, Gate::Held, now);
        if closed.is_none() {
            let capability = work.capability.cloned();
            let new = Expense::new(work.requester.clone(), now);
            self.starting.push(Expense { capability, amount: Amount::task(), is_asked: true, ..new });
        }
        closed
    }

    /// Whether `conversation` is to be told what it waits for: it was told something else, or nothing.
    pub(crate) fn tell(&mut self, conversation: &ConversationId, wait: &str) -> bool {
        let is_known = self.told.get(conversation).is_some_and(|told| told == wait);
        if !is_known {
            self.told.insert(conversation.clone(), wait.to_owned());
        }
        !is_known
    }

    /// Forgets what tasks were told that are not there.
    pub(crate) fn forget(&mut self, is_open: impl Fn(&ConversationId) -> bool) {
        self.told.retain(|conversation, _| is_open(conversation));
    }

    /// Whether a timer is to be set to look at the tasks that wait.
    pub(crate) fn look(&mut self) -> bool {
        !std::mem::replace(&mut self.looks, true)
    }

    /// The timer has fired.
    pub(crate) fn looked(&mut self) {
        (self.looks, self.asks) = (false, false);
    }

    /// Whether the board is to be asked for the shares that tasks wait for.
    pub(crate) fn ask(&mut self) -> bool {
        !std::mem::replace(&mut self.asks, true)
    }

    /// The board has answered.
    pub(crate) fn answered(&mut self) {
        self.asks = false;
    }

    /// What was about to begin is recorded from here on, or waits for a place.
    pub(crate) fn started(&mut self) {
        self.starting.clear();
    }

    /// Counts what is recorded.
    pub(crate) fn add(&mut self, expense: &Expense, now: WallTime) -> Vec<QuotaNotice> {
        self.counted.iter_mut().filter_map(|counted| counted.add(expense, now)).collect()
    }

    /// The quota that keeps such work from passing `gate`; of several the one that opens last.
    pub(crate) fn closed(&self, work: NewWork<'_>, gate: Gate, now: WallTime) -> Option<ClosedQuota> {
        let closed = self.counted.iter().filter_map(|counted| {
            let limits = gate.limits(counted)?;
            let key = counted.window_of(work.capability, work.requester)?;
            let (why, opens) = self.why_closed(counted, limits, &key, now)?;
            let (name, ends) = (counted.name(&key), counted.quota.per.window(now).ends);
            let wait = match opens == ends {
                true => format!("{name} is used up, and opens again at {ends}"),
                false => format!("waits for a share of {name}"),
            };
            Some(ClosedQuota { why, wait, opens, waits: counted.quota.reached == WhenReached::Wait })
        });
        closed.max_by_key(|closed| (!closed.waits, closed.opens))
    }

    fn why_closed(
        &self,
        counted: &CountedQuota,
        limits: QuotaLimits,
        key: &Option<Principal>,
        now: WallTime,
    ) -> Option<(String, WallTime)> {
        let Window { label, ends } = counted.quota.per.window(now);
        let held = counted.windows.get(key).filter(|window| window.label == label);
        let used = self.used(counted, held, key);
        let name = counted.name(key);
        let used_up = |used| {
            let why = format!("{name} is used up: {}; it opens again at {ends}", limits.figures(used));
            (limits.level(used) == QuotaLevel::UsedUp).then_some((why, ends))
        };
        if !counted.is_of_mesh {
            return used_up(used);
        }
        let soon = now.plus(ASK_AGAIN).min(ends);
        match held.and_then(|window| window.share) {
            None => Some((format!("{name}: this agent has no share of it, as the board can't be reached"), soon)),
            Some(share) if limits.has_left(share.granted, used) => None,
            Some(share) => used_up(share.used_by_all).or_else(|| {
                let figures = limits.figures(share.used_by_all);
                let why = format!(
                    "{name}: this agent has used its share, and gets no more for now: other agents hold the rest, or the board \
                     can't be reached; used in all: {figures}"
                );
                Some((why, soon))
            }),
        }
    }

    /// What this agent has used of a window, with what is being recorded.
    fn used(&self, counted: &CountedQuota, held: Option<&CountedWindow>, key: &Option<Principal>) -> Amount {
        let is_of_window = |expense: &&Expense| {
            counted.window_of(expense.capability.as_ref(), &expense.requester).as_ref() == Some(key)
        };
        let pending = self.pending.values().chain(&self.starting).filter(is_of_window);
        let recorded = held.map(|window| window.used).unwrap_or_default();
        pending.fold(recorded, |sum, expense| sum.plus(counted.amount(expense)))
    }

    /// The shares that are needed before such work can be decided.
    pub(crate) fn wanted_shares(
        &self,
        work: NewWork<'_>,
        gate: Gate,
        (now, wall): (NodeTime, WallTime),
    ) -> Vec<ShareRequest> {
        let shared = self.counted.iter().filter(|counted| counted.is_of_mesh);
        let wanted = shared.filter_map(|counted| {
            let limits = gate.limits(counted)?;
            let key = counted.window_of(work.capability, work.requester)?;
            let window = counted.quota.per.window(wall).label;
            let held = counted.windows.get(&key).filter(|held| held.label == window);
            let used = self.used(counted, held, &key);
            let is_enough = held.and_then(|held| held.share).is_some_and(|share| {
                let age = now.since(share.at);
                match limits.has_left(share.granted, used) {
                    true => age < FRESH,
                    false => share.is_last && age < ASK_AGAIN,
                }
            });
            let (per, limits) = (counted.quota.per, counted.quota.limits());
            (!is_enough).then_some(ShareRequest {
                per,
                window,
                requester: key,
                limits,
                used,
                gives_back: false,
            })
        });
        wanted.collect()
    }

    /// Takes what the board has granted. Returns what is nearly used up by all, or is, if that was not said before.
    pub(crate) fn granted(
        &mut self,
        shares: Vec<GrantedShare>,
        (now, wall): (NodeTime, WallTime),
    ) -> Vec<QuotaNotice> {
        let mut notices = Vec::new();
        for GrantedShare { request, granted, used_by_all } in shares {
            let ShareRequest { per, window: label, requester: key, used, .. } = request;
            let Some(counted) = self.counted.iter_mut().find(|counted| counted.is_shared_as(per, &key))
            else {
                continue;
            };
            let window = counted.windows.entry(key.clone()).or_default();
            if window.label > label {
                continue;
            }
            if window.label < label {
                *window = CountedWindow { label, ..CountedWindow::default() };
            }
            let is_last = !counted.quota.limits().has_left(granted, used);
            window.share = Some(HeldShare { granted, used_by_all, at: now, used, is_last });
            let level = counted.quota.limits().level(used_by_all);
            notices.extend(counted.announce(&key, level, used_by_all, wall));
        }
        notices
    }

    /// The shares that nobody has asked for lately: they are given back, and this agent uses no more of them.
    pub(crate) fn give_back(&mut self, now: NodeTime) -> Vec<ShareRequest> {
        let mut given = Vec::new();
        for counted in self.counted.iter_mut().filter(|counted| counted.is_of_mesh) {
            let (per, limits) = (counted.quota.per, counted.quota.limits());
            for (key, window) in &mut counted.windows {
                let is_idle = |share: &mut HeldShare| now.since(share.at) >= KEPT;
                if window.share.take_if(is_idle).is_some() {
                    let (window, used) = (window.label.clone(), window.used);
                    let requester = key.clone();
                    given.push(ShareRequest { per, window, requester, limits, used, gives_back: true });
                }
            }
        }
        given
    }

    /// All of them, for people.
    pub(crate) fn statuses(&self, wall: WallTime) -> Vec<QuotaStatus> {
        let of_quota = |counted: &CountedQuota| {
            let Window { label, ends } = counted.quota.per.window(wall);
            let current = counted.windows.iter().filter(|(_, window)| window.label == label);
            let mut windows: Vec<_> = current.map(|(key, window)| (key.clone(), Some(window))).collect();
            if windows.is_empty() && counted.quota.requester.is_none() {
                windows.push((None, None));
            }
            let limits = counted.quota.limits();
            let status = |(key, window): (Option<Principal>, Option<&CountedWindow>)| {
                let share = window.and_then(|window| window.share);
                let used = self.used(counted, window, &key);
                let all = share.map(|share| share.used_by_all.plus(used.minus(share.used)));
                // One that has no share has heard of nobody else.
                let all = all.or(Some(used).filter(|_| counted.is_of_mesh));
                QuotaStatus {
                    quota: counted.name(&key),
                    limits,
                    used,
                    share: share.map(|share| share.granted),
                    used_by_all: all,
                    state: limits.level(all.unwrap_or(used)).word().to_owned(),
                    requester: key,
                    opens_at: ends,
                }
            };
            windows.into_iter().map(status).collect::<Vec<_>>()
        };
        self.counted.iter().flat_map(of_quota).collect()
    }
}

#[cfg(test)]
mod tests;
