//! Processes whose standard input stays open. Each takes one turn at a time. A worker takes many, one after the other, and is idle
//! between them; the others exit after the turn.

use super::{ExecBrain, ExecMode, command::RunningCommand};
use crate::brain::{BrainError, TurnHandle, TurnRequest, bidding::BrainEnd};
use protocol::ids::AgentId;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

/// The first pause between the failure of a process and the start of the next one; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause. It is at most half of the turn's `idle`, so that the process has time to report.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// What a process is given.
#[derive(Clone)]
pub(super) struct BrainQuestion {
    pub(super) agent: AgentId,
    pub(super) key: String,
    pub(super) prompt: Vec<u8>,
    /// The turn, if it is about one.
    pub(super) turn: Option<Box<TurnRequest>>,
}

/// A turn for a process. If `done` is dropped, the turn was not begun.
struct TurnJob {
    question: BrainQuestion,
    report: TurnHandle,
    done: oneshot::Sender<Result<BrainEnd, BrainError>>,
    /// How the worker that gets it takes its next turn.
    worker: Option<mpsc::Sender<TurnJob>>,
}

/// The idle workers of an agent.
#[derive(Debug, Default)]
pub(super) struct WorkerPool {
    idle: Mutex<VecDeque<mpsc::Sender<TurnJob>>>,
    /// How many processes in a row have failed, and when the last one has.
    failures: Mutex<Option<(u32, Instant)>>,
    /// Each process and each turn that runs has a clone of these.
    processes: Arc<()>,
    turns: Arc<()>,
    /// The most turns that have run at once.
    most_turns: AtomicUsize,
}

impl WorkerPool {
    /// Runs a turn in an idle worker or in a new process. If the future is dropped, the process is told so, and killed if it does
    /// not end the turn.
    pub(super) async fn run(
        self: &Arc<Self>,
        exec: &ExecBrain,
        question: &BrainQuestion,
        report: &TurnHandle,
    ) -> Result<BrainEnd, BrainError> {
        let _turn = self.turns.clone();
        self.most_turns.fetch_max(clones(&self.turns), Ordering::Relaxed);
        loop {
            let (done, end) = oneshot::channel();
            let (question, report) = (question.clone(), report.clone());
            let worker = self.take_idle();
            let job = TurnJob { question, report, done, worker: worker.clone() };
            match worker {
                // A worker that has just ended drops the job.
                Some(worker) => drop(worker.try_send(job)),
                None => self.start(exec, job).await?,
            }
            if let Ok(end) = end.await {
                return end;
            }
        }
    }

    async fn start(self: &Arc<Self>, exec: &ExecBrain, job: TurnJob) -> Result<(), BrainError> {
        let turn = job.question.turn.as_deref();
        let failures = *self.failures();
        if let Some((count, last)) = failures {
            let idle = turn.and_then(|turn| turn.prompt.remaining.idle_ms).map(Duration::from_millis);
            let longest = idle.map_or(MAX_PAUSE, |idle| MAX_PAUSE.min(idle / 2));
            let pause = FIRST_PAUSE.saturating_mul(1 << (count - 1).min(16)).min(longest);
            tokio::time::sleep_until(last + pause).await;
        }
        let turn = turn.filter(|_| exec.mode != ExecMode::Worker);
        let command = RunningCommand::start(exec, turn);
        let command = command.inspect_err(|_| self.note_failure())?;
        // A worker ends when nothing holds the pool.
        let exec = ExecBrain { workers: Arc::default(), ..exec.clone() };
        let process = self.processes.clone();
        let pool = Arc::downgrade(self);
        drop(tokio::spawn(async move {
            let mut command = command;
            serve(&exec, &mut command, job, pool).await;
            drop(process);
            command.close(&exec).await;
        }));
        Ok(())
    }

    fn take_idle(&self) -> Option<mpsc::Sender<TurnJob>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    #[cfg(test)]
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Keeps a process for later turns; not if others are idle, and there are more than turns were at once: while a turn is
    /// cancelled, another process takes the next one. Returns whether it is kept.
    fn keep(&self, worker: mpsc::Sender<TurnJob>) -> bool {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|worker| !worker.is_closed());
        let is_surplus =
            !idle.is_empty() && clones(&self.processes) > self.most_turns.load(Ordering::Relaxed);
        if !is_surplus {
            idle.push_back(worker);
        }
        !is_surplus
    }

    fn failures(&self) -> MutexGuard<'_, Option<(u32, Instant)>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_failure(&self) {
        let mut failures = self.failures();
        let count = failures.map_or(0, |(count, _)| count);
        *failures = Some((count.saturating_add(1), Instant::now()));
    }
}

/// How many clones of `original` there are beside it.
fn clones(original: &Arc<()>) -> usize {
    Arc::strong_count(original).saturating_sub(1)
}

/// Gives a process its turns until it can take no more, or the pool is gone.
async fn serve(exec: &ExecBrain, command: &mut RunningCommand, first: TurnJob, pool: Weak<WorkerPool>) {
    let (this, mut jobs) = mpsc::channel(1);
    let agent = first.question.agent.clone();
    let mut next = TurnJob { worker: Some(this), ..first };
    loop {
        let TurnJob { question, report, mut done, worker } = next;
        let end = tokio::select! {
            biased;
            end = command.run_turn(exec, &question.prompt, &question.key, &report) => Some(end),
            () = done.closed() => None,
        };
        drop(report);
        let has_ended = match &end {
            Some(end) => end.is_ok(),
            None => command.cancel(exec, &question.key).await,
        };
        command.end_turn();
        let is_usable = has_ended && command.is_usable();
        let mut is_kept = false;
        if let Some(pool) = pool.upgrade() {
            match &end {
                Some(Ok(_)) => *pool.failures() = None,
                Some(Err(_)) => pool.note_failure(),
                None => {}
            }
            is_kept = worker.filter(|_| is_usable).is_some_and(|worker| pool.keep(worker));
        }
        if let Some(end) = end {
            drop(done.send(end));
        }
        if !is_kept {
            return;
        }
        let why = tokio::select! {
            biased;
            job = jobs.recv() => match (job, command.check_silence()) {
                (None, _) => return,
                (Some(job), Ok(())) => {
                    next = job;
                    continue;
                }
                // A job that is dropped goes to another process.
                (Some(_), Err(why)) => why,
            },
            why = command.idle() => why,
        };
        tracing::warn!(target: "brain", %agent, why, "a worker can take no more turns; the next turn starts another");
        if let Some(pool) = pool.upgrade() {
            pool.note_failure();
        }
        return;
    }
}
