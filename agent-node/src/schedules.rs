//! The schedules of one agent: those of its file and those that users have added. Each is one record in the agent's store, and so
//! goes where the agent's tasks go. A firing is recorded before its task is requested, under an id that the same firing always has:
//! a crash between the two leads to the same request again, which the agent knows.

#[cfg(test)]
mod tests;

use crate::{
    agent::AgentStatus,
    callers::Callers,
    clock::NodeClock,
    inbox::{TakeMessage, own_request},
    journal::for_each_record,
    tasks,
};
use actix::Recipient;
use engine::{
    records::{TaskRow, keys},
    schedule::{
        BadSchedule, FiringOutcome, OverlapPolicy, Schedule, ScheduleProgress, StartedFiring, Timing,
        check_name, task_id,
    },
};
use protocol::{
    ids::{AgentId, TaskId},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    task::{TaskOrigin, TaskState, TaskTerms},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::{Batch, Error, Lane, SharedStore, Write};
use tokio::sync::{Mutex, Notify};

/// The most schedules of one agent.
const MAX_SCHEDULES: usize = 256;
/// The longest time until the wall clock is read again.
const CLOCK_CHECK: Duration = Duration::from_secs(60);
/// How long after a failure a task is requested again, and how often it is looked whether a task has ended for which a firing waits.
const RETRY: Duration = Duration::from_secs(1);

/// A user, and what proves it.
pub type ScheduleUser<'a> = (&'a Principal, SenderProof);

/// What the schedules of an agent need.
pub struct ScheduleParts {
    pub me: AgentId,
    /// The store of the agent.
    pub store: SharedStore,
    pub inbox: Recipient<TakeMessage>,
    pub status: Arc<AgentStatus>,
    pub clock: NodeClock,
    /// The users that may own schedules, beside the local one.
    pub callers: Callers,
    /// How long the agent has to take a task.
    pub ack: Duration,
}

/// The schedules of one agent.
#[derive(Clone)]
pub struct Schedules(Arc<ScheduleState>);

struct ScheduleState {
    parts: ScheduleParts,
    entries: Mutex<BTreeMap<String, ScheduleEntry>>,
    changed: Notify,
}

/// The record of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScheduleRow {
    schedule: Schedule,
    /// Who made it: its tasks have the rights of this user.
    by: Principal,
    /// Whether that was proven by a credential.
    is_proven: bool,
    /// Whether it is in the agent's file.
    #[serde(default)]
    from_file: bool,
    made_at: WallTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused_at: Option<WallTime>,
    progress: ScheduleProgress,
}

struct ScheduleEntry {
    row: ScheduleRow,
    /// When it is due, or why that can't be told.
    timing: Result<Timing, BadSchedule>,
    /// Why what is due has not begun.
    problem: Option<String>,
}

/// A schedule as its user is shown it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleView {
    pub name: String,
    pub by: Principal,
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Whether it is in the agent's file.
    pub from_file: bool,
    pub made_at: WallTime,
    /// Since when it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<WallTime>,
    /// When it is due next; absent if never, or while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_run: Option<WallTime>,
    /// What ran last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRunView>,
    /// What was left out last, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_skipped: Option<engine::schedule::SkippedFiring>,
    /// How many were left out.
    pub skips: u64,
    /// What is due and has not begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WallTime>,
    /// Why that has not begun, or why the schedule does not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What ran last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRunView {
    #[serde(flatten)]
    pub run: StartedFiring,
    /// The state of its task; absent if it was refused, or the task's record has been deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
}

impl ScheduleEntry {
    fn new(row: ScheduleRow) -> Self {
        Self { timing: row.schedule.timing(row.made_at), row, problem: None }
    }

    /// Fails if `by` may not change it.
    fn check_owner(&self, name: &str, (_, proof): ScheduleUser<'_>) -> Result<(), Problem> {
        match self.row.is_proven && proof != SenderProof::Credential {
            true => {
                let message = format!("{name} acts with the rights of {}: it needs their token", self.row.by);
                Err(Problem::new(Reason::Forbidden, message))
            }
            false => Ok(()),
        }
    }

    fn proof(&self) -> SenderProof {
        if self.row.is_proven { SenderProof::Credential } else { SenderProof::Address }
    }
}

impl Schedules {
    /// The schedules in the agent's store, with those of its file as they are there now, and starts them.
    pub async fn start(parts: ScheduleParts, of_file: &BTreeMap<String, Schedule>) -> Result<Self, Error> {
        let mut entries = BTreeMap::new();
        for_each_record(parts.store.as_ref(), &keys::all(&parts.me, "schedule"), |record| {
            let name = record.key.tokens().get(2).cloned();
            match (name, serde_json::from_slice::<ScheduleRow>(&record.value)) {
                (Some(name), Ok(row)) => drop(entries.insert(name, ScheduleEntry::new(row))),
                (_, Err(error)) => {
                    tracing::error!(agent = %parts.me, key = %record.key, %error, "a schedule can't be read")
                }
                (None, _) => {}
            }
            Ok(())
        })?;
        let state = ScheduleState { parts, entries: Mutex::new(entries), changed: Notify::new() };
        state.adopt(of_file).await?;
        let this = Self(Arc::new(state));
        actix::spawn(run(this.0.clone()));
        Ok(this)
    }

    /// The schedules of `by`.
    pub async fn list(&self, by: &Principal) -> Result<Vec<ScheduleView>, Problem> {
        let entries = self.0.entries.lock().await;
        let own = entries.iter().filter(|(_, entry)| entry.row.by == *by);
        own.map(|(name, entry)| self.0.view(name, entry)).collect()
    }

    /// The schedule `name` of `by`.
    pub async fn get(&self, by: &Principal, name: &str) -> Result<ScheduleView, Problem> {
        let entries = self.0.entries.lock().await;
        let entry = entries.get(name).filter(|entry| entry.row.by == *by);
        self.0.view(name, entry.ok_or_else(|| self.0.unknown(name))?)
    }

    /// Adds a schedule of `by`. Fails if there is one of this name.
    pub async fn add(
        &self,
        (by, proof): ScheduleUser<'_>,
        name: &str,
        schedule: Schedule,
    ) -> Result<ScheduleView, Problem> {
        let invalid = |what: String, key: &str| Problem::new(Reason::InvalidField, what).with("field", key);
        check_name(name).map_err(|what| invalid(what, "name"))?;
        let now = self.0.parts.clock.wall();
        schedule.timing(now).map_err(|fault| invalid(fault.to_string(), fault.key))?;
        if schedule.at.is_some_and(|at| at <= now) {
            return Err(invalid("at: has passed".to_owned(), "at"));
        }
        let mut entries = self.0.entries.lock().await;
        let refused = |why: String| Problem::new(Reason::ScheduleRefused, why);
        if entries.contains_key(name) {
            return Err(refused(format!(
                "{} has a schedule {name}; remove it, or take another name",
                self.0.parts.me
            )));
        }
        if entries.len() >= MAX_SCHEDULES {
            return Err(refused(format!("an agent has {MAX_SCHEDULES} schedules at most")));
        }
        let row = ScheduleRow {
            schedule,
            by: by.clone(),
            is_proven: proof == SenderProof::Credential,
            from_file: false,
            made_at: now,
            paused_at: None,
            progress: ScheduleProgress::of_new(now),
        };
        self.0.record(name, &row).await?;
        let entry = ScheduleEntry::new(row);
        let view = self.0.view(name, &entry);
        entries.insert(name.to_owned(), entry);
        self.0.changed.notify_one();
        view
    }

    /// Pauses the schedule `name`, or lets it go on. What is due while it is paused is left out.
    pub async fn pause(
        &self,
        by: ScheduleUser<'_>,
        name: &str,
        pauses: bool,
    ) -> Result<ScheduleView, Problem> {
        let mut entries = self.0.entries.lock().await;
        let entry = self.0.owned(&mut entries, by, name)?;
        if entry.row.paused_at.is_some() != pauses {
            let now = self.0.parts.clock.wall();
            let mut row = entry.row.clone();
            row.paused_at = pauses.then_some(now);
            row.progress.resume(now);
            self.0.record(name, &row).await?;
            entry.row = row;
            self.0.changed.notify_one();
        }
        self.0.view(name, entry)
    }

    /// Removes the schedule `name`. Its tasks stay. Fails if it is in the agent's file.
    pub async fn remove(&self, by: ScheduleUser<'_>, name: &str) -> Result<(), Problem> {
        let mut entries = self.0.entries.lock().await;
        if self.0.owned(&mut entries, by, name)?.row.from_file {
            let why = format!("{name} is in the agent's file: remove it there, or pause it");
            return Err(Problem::new(Reason::ScheduleRefused, why));
        }
        self.0.commit(vec![Write::Delete(keys::schedule(&self.0.parts.me, name))]).await?;
        entries.remove(name);
        Ok(())
    }

    /// Begins a task of the schedule `name` now, whatever is due. Fails if the last one is still open and both may not run.
    pub async fn run_now(&self, by: ScheduleUser<'_>, name: &str) -> Result<TaskId, Problem> {
        let mut entries = self.0.entries.lock().await;
        let entry = self.0.owned(&mut entries, by, name)?;
        if let Some(why) = self.0.busy(entry)? {
            return Err(Problem::new(Reason::ScheduleRefused, why));
        }
        let now = self.0.parts.clock.wall();
        let task = TaskId::parse(&format!("{name}-{}", &uuid::Uuid::now_v7().simple().to_string()[8..24]))
            .map_err(|error| Problem::new(Reason::Internal, error.to_string()))?;
        let origin = TaskOrigin::Schedule { name: name.to_owned(), due_at: now, by_hand: true };
        // Recorded before: whoever repeats the call, and the next firing, knows of the task even if the answer is lost.
        let mut row = entry.row.clone();
        row.progress.last =
            Some(StartedFiring { due: now, task_id: Some(task.clone()), refused: None, at: now });
        self.0.record(name, &row).await?;
        entry.row = row;
        self.0.request(entry, &task, origin).await?;
        Ok(task)
    }
}

impl ScheduleState {
    /// Makes the schedules of the file those that they are there now: one whose times have changed begins anew.
    async fn adopt(&self, of_file: &BTreeMap<String, Schedule>) -> Result<(), Error> {
        let now = self.parts.clock.wall();
        let mut entries = self.entries.lock().await;
        let (mut writes, mut adopted) = (Vec::new(), Vec::new());
        for (name, schedule) in of_file {
            let known = entries.get(name).map(|entry| &entry.row).filter(|row| row.from_file);
            let mut row = known.cloned().unwrap_or_else(|| ScheduleRow {
                schedule: schedule.clone(),
                by: Principal::local_user(),
                is_proven: true,
                from_file: true,
                made_at: now,
                paused_at: None,
                progress: ScheduleProgress::of_new(now),
            });
            if known.is_none() && entries.contains_key(name) {
                tracing::warn!(agent = %self.parts.me, schedule = name, "the file's schedule replaces the one that was added under this name");
            }
            if !row.schedule.is_due_like(schedule) {
                row = ScheduleRow { made_at: now, ..row };
                row.progress.resume(now);
            }
            row.schedule = schedule.clone();
            if known != Some(&row) {
                writes.push(Write::Put(keys::schedule(&self.parts.me, name), encoded(&row)?));
            }
            adopted.push((name.clone(), row));
        }
        entries.retain(|name, entry| {
            let stays = !entry.row.from_file || of_file.contains_key(name);
            writes.extend((!stays).then(|| Write::Delete(keys::schedule(&self.parts.me, name))));
            stays
        });
        entries.extend(adopted.into_iter().map(|(name, row)| (name, ScheduleEntry::new(row))));
        if !writes.is_empty() {
            self.parts.store.commit(Lane::Progress, Batch { writes, expectations: Vec::new() }).await?;
        }
        Ok(())
    }

    fn unknown(&self, name: &str) -> Problem {
        Problem::new(Reason::ScheduleNotFound, format!("{} has no schedule {name:?} of yours", self.parts.me))
    }

    fn owned<'a>(
        &self,
        entries: &'a mut BTreeMap<String, ScheduleEntry>,
        by: ScheduleUser<'_>,
        name: &str,
    ) -> Result<&'a mut ScheduleEntry, Problem> {
        let entry = entries.get_mut(name).filter(|entry| entry.row.by == *by.0);
        let entry = entry.ok_or_else(|| self.unknown(name))?;
        entry.check_owner(name, by)?;
        Ok(entry)
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), Problem> {
        self.parts.store.commit(Lane::Progress, Batch { writes, expectations: Vec::new() }).await?;
        Ok(())
    }

    async fn record(&self, name: &str, row: &ScheduleRow) -> Result<(), Problem> {
        self.commit(vec![Write::Put(keys::schedule(&self.parts.me, name), encoded(row)?)]).await
    }

    fn task(&self, by: &Principal, task: &TaskId) -> Result<Option<TaskRow>, Error> {
        tasks::row(self.parts.store.as_ref(), &self.parts.me, task, by)
    }

    fn view(&self, name: &str, entry: &ScheduleEntry) -> Result<ScheduleView, Problem> {
        let ScheduleRow { schedule, by, from_file, made_at, paused_at, progress, .. } = entry.row.clone();
        let last_run = match progress.last.clone() {
            None => None,
            Some(run) => {
                let row = run.task_id.as_ref().map(|task| self.task(&by, task)).transpose()?.flatten();
                Some(LastRunView { run, state: row.map(|row| row.task.status.state) })
            }
        };
        let timing = entry.timing.as_ref().ok().filter(|_| paused_at.is_none());
        Ok(ScheduleView {
            name: name.to_owned(),
            next_run: timing.and_then(|timing| progress.next(timing)),
            by,
            schedule,
            from_file,
            made_at,
            paused_at,
            last_run,
            waiting: progress.begun.into_iter().chain(progress.waiting).collect(),
            last_skipped: progress.skipped,
            skips: progress.skips,
            problem: entry.timing.as_ref().err().map(ToString::to_string).or_else(|| entry.problem.clone()),
        })
    }

    /// Why another task of a schedule can't begin beside the last one, if that is so.
    fn busy(&self, entry: &ScheduleEntry) -> Result<Option<String>, Problem> {
        if entry.row.schedule.overlap == OverlapPolicy::Allow {
            return Ok(None);
        }
        let last = entry.row.progress.last.as_ref().and_then(|last| last.task_id.as_ref());
        let Some(task) = last else { return Ok(None) };
        let open = self.task(&entry.row.by, task)?.filter(|row| row.ended_at.is_none());
        Ok(open.map(|row| match row.task.status.state {
            state if state.is_interrupted() => format!("its task {task} waits for an answer (`mesh inbox`)"),
            state => format!("its task {task} is {}", state.word()),
        }))
    }

    /// Requests the task of a schedule. Fails if the agent does not take it.
    async fn request(&self, entry: &ScheduleEntry, task: &TaskId, origin: TaskOrigin) -> Result<(), Problem> {
        let ScheduleRow { schedule, by, .. } = &entry.row;
        if !self.parts.callers.knows(by) {
            return Err(Problem::new(Reason::Forbidden, format!("{by} is no caller of this mesh any more")));
        }
        let terms = TaskTerms {
            capability: schedule.capability.clone(),
            input: schedule.input.clone(),
            ..TaskTerms::new(schedule.task.clone())
        };
        let request = own_request(&self.parts.me, (by.clone(), entry.proof()), (task.clone(), terms), origin)
            .map_err(|error| Problem::new(Reason::Internal, error.to_string()))?;
        let taken = tokio::time::timeout(self.parts.ack, self.parts.inbox.send(TakeMessage(request))).await;
        let stopped = |_| Problem::new(Reason::Overloaded, format!("{} has stopped", self.parts.me));
        let late =
            |_| Problem::new(Reason::GatewayTimeout, format!("{} did not answer in time", self.parts.me));
        taken.map_err(late)?.map_err(stopped)?.map(drop)
    }

    /// Decides and begins what is due, and returns how long nothing else is.
    async fn advance_all(&self) -> Duration {
        let mut pause = CLOCK_CHECK;
        if self.parts.status.is_draining() {
            return pause;
        }
        let mut entries = self.entries.lock().await;
        for (name, entry) in entries.iter_mut().filter(|(_, entry)| entry.row.paused_at.is_none()) {
            match self.advance(name, entry).await {
                Ok(next) => {
                    entry.problem = None;
                    pause = pause.min(next);
                }
                Err(problem) => {
                    if entry.problem.as_ref() != Some(&problem.message) {
                        tracing::warn!(agent = %self.parts.me, schedule = name, %problem, "what is due has to wait");
                    }
                    entry.problem = Some(problem.message);
                    pause = pause.min(RETRY);
                    // The agent does not answer: the others wait with this one, and the list of schedules can be read.
                    if problem.reason == Reason::GatewayTimeout {
                        break;
                    }
                }
            }
        }
        pause
    }

    /// The same for one schedule. Fails if what is due can't be begun yet.
    async fn advance(&self, name: &str, entry: &mut ScheduleEntry) -> Result<Duration, Problem> {
        let Ok(timing) = &entry.timing else { return Ok(CLOCK_CHECK) };
        let now = self.parts.clock.wall();
        let is_quiet = entry.row.progress.begun.is_none() && entry.row.progress.waiting.is_empty();
        let next = entry.row.progress.next(timing);
        if is_quiet && next.is_none_or(|next| next > now) {
            return Ok(next.map_or(CLOCK_CHECK, |next| now.until(next)));
        }
        let busy = self.busy(entry)?;
        let mut row = entry.row.clone();
        row.progress.advance(&row.schedule, timing, now, busy.as_deref());
        let begun = row.progress.begin(row.schedule.overlap, busy.is_some());
        if row.progress.skips > entry.row.progress.skips
            && let Some(skipped) = &row.progress.skipped
        {
            tracing::warn!(agent = %self.parts.me, schedule = name, due = %skipped.due, reason = skipped.reason, "a firing is left out");
        }
        if row != entry.row {
            self.record(name, &row).await?;
            entry.row = row;
        }
        let Some(due) = begun else { return Ok(RETRY) };
        let task = task_id(name, due).map_err(|error| Problem::new(Reason::Internal, error.to_string()))?;
        let origin = TaskOrigin::Schedule { name: name.to_owned(), due_at: due, by_hand: false };
        let outcome = match self.task(&entry.row.by, &task)? {
            // It was taken before a crash.
            Some(row) if row.task.spec.origin.as_deref() == Some(&origin) => FiringOutcome::Taken(task),
            Some(_) => FiringOutcome::Refused(format!("{task} is the id of another task")),
            None => match self.request(entry, &task, origin).await {
                Ok(()) => FiringOutcome::Taken(task),
                Err(problem) if is_lasting(&problem) => FiringOutcome::Refused(problem.to_string()),
                Err(problem) => return Err(problem),
            },
        };
        match &outcome {
            FiringOutcome::Taken(task) => {
                tracing::info!(agent = %self.parts.me, schedule = name, %due, %task, "a schedule has begun a task")
            }
            FiringOutcome::Refused(why) => {
                tracing::warn!(agent = %self.parts.me, schedule = name, %due, why, "the task of a schedule is refused")
            }
        }
        let mut row = entry.row.clone();
        row.progress.settle(outcome, self.parts.clock.wall());
        self.record(name, &row).await?;
        entry.row = row;
        // What else waits, or was due meanwhile.
        Ok(Duration::ZERO)
    }
}

/// Whether the same request will be refused again.
fn is_lasting(problem: &Problem) -> bool {
    let status = problem.reason.status();
    (400..500).contains(&status) && status != 429
}

fn encoded(row: &ScheduleRow) -> Result<bytes::Bytes, Error> {
    let encoded = serde_json::to_vec(row);
    encoded.map(Into::into).map_err(|error| Error::Refused(format!("a schedule can't be written: {error}")))
}

/// Begins what is due, as long as the process lives.
async fn run(state: Arc<ScheduleState>) {
    loop {
        let pause = state.advance_all().await;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = state.changed.notified() => {}
        }
    }
}
