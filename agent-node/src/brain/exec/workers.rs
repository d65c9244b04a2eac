//! Processes whose standard input stays open. Each takes one turn at a time. A worker takes many, one after the other, and is idle
//! between them; the others exit after the turn.

use super::{ExecBrain, ExecMode, command::RunningCommand};
use crate::brain::{BrainError, TurnHandle, TurnRequest, bidding::BrainEnd};
use protocol::ids::AgentId;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// The first pause before a process is started after a failed one; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// What a process is given.
#[derive(Clone)]
pub(super) struct BrainQuestion {
    pub(super) agent: AgentId,
    pub(super) key: String,
    /// The line.
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
    /// How many processes in a row have failed.
    failures: AtomicU32,
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
        let failures = self.failures.load(Ordering::Relaxed);
        if failures > 0 {
            let pause = FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(16)).min(MAX_PAUSE);
            tokio::time::sleep(pause).await;
        }
        let turn = job.question.turn.as_deref().filter(|_| exec.mode != ExecMode::Worker);
        let command = RunningCommand::start(exec, turn);
        let command = command.inspect_err(|_| self.note_failure())?;
        // A worker ends when nothing holds the pool.
        let exec = ExecBrain { workers: Arc::default(), ..exec.clone() };
        drop(tokio::spawn(serve(exec, command, job, Arc::downgrade(self))));
        Ok(())
    }

    fn take_idle(&self) -> Option<mpsc::Sender<TurnJob>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    #[cfg(test)]
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn add_idle(&self, worker: mpsc::Sender<TurnJob>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push_back(worker);
    }

    fn note_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// Gives a process its turns until it can take no more, or the pool is gone.
async fn serve(exec: ExecBrain, mut command: RunningCommand, first: TurnJob, pool: Weak<WorkerPool>) {
    let (this, mut jobs) = mpsc::channel(1);
    let agent = first.question.agent.clone();
    let mut next = Some(TurnJob { worker: Some(this), ..first });
    while let Some(TurnJob { question, report, mut done, worker }) = next {
        let end = tokio::select! {
            biased;
            end = command.run_turn(&exec, &question.prompt, &question.key, &report) => Some(end),
            () = done.closed() => None,
        };
        drop(report);
        let has_ended = match &end {
            Some(end) => end.is_ok(),
            None => command.cancel(&exec, &question.key).await,
        };
        let is_usable = has_ended && command.is_usable();
        if let Some(pool) = pool.upgrade() {
            match &end {
                Some(Ok(_)) => pool.failures.store(0, Ordering::Relaxed),
                Some(Err(_)) => pool.note_failure(),
                None => {}
            }
            if let Some(worker) = worker.filter(|_| is_usable) {
                pool.add_idle(worker);
            }
        }
        if let Some(end) = end {
            drop(done.send(end));
        }
        if !is_usable {
            break;
        }
        next = tokio::select! {
            biased;
            // A job that is dropped goes to another process.
            job = jobs.recv() => job.filter(|_| !command.has_written()),
            why = command.idle() => {
                tracing::warn!(target: "brain", %agent, why, "a worker can take no more turns; the next turn starts another");
                if let Some(pool) = pool.upgrade() {
                    pool.note_failure();
                }
                break;
            }
        };
    }
    drop(jobs);
    command.close(&exec).await;
}
