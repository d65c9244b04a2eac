//! Restarts an actor after a panic. A panic ends an actix actor for good, also under `actix::Supervisor`. The new actor
//! reads its state from the store.

use protocol::problem::{Problem, Reason};
use std::{
    collections::VecDeque,
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::oneshot, time::Instant};

/// How often an actor may be restarted.
#[derive(Debug, Clone, Copy)]
pub struct RestartBudget {
    pub restarts: usize,
    pub within: Duration,
    /// The pause before each restart.
    pub pause: Duration,
}

impl Default for RestartBudget {
    fn default() -> Self {
        Self { restarts: 5, within: Duration::from_secs(60), pause: Duration::from_millis(20) }
    }
}

/// Held by an actor. If it is dropped without [`RestartGuard::mark_stopped`], the actor has panicked and is restarted.
#[derive(Debug)]
pub struct RestartGuard(Option<oneshot::Sender<()>>);

impl RestartGuard {
    /// The guard of an actor that is not restarted.
    pub fn unsupervised() -> Self {
        Self(None)
    }

    fn supervised() -> (Self, oneshot::Receiver<()>) {
        let (ended, panicked) = oneshot::channel();
        (Self(Some(ended)), panicked)
    }

    /// Records a regular stop. actix calls `stopped` during a panic too; that call is ignored.
    pub fn mark_stopped(&mut self) {
        if !std::thread::panicking() {
            self.0 = None;
        }
    }
}

impl Drop for RestartGuard {
    fn drop(&mut self) {
        if let Some(ended) = self.0.take() {
            // The supervisor may be gone.
            let _ = ended.send(());
        }
    }
}

/// Gives access to an actor across its restarts.
#[derive(Debug)]
pub struct Supervisor<T> {
    name: &'static str,
    unavailable: Reason,
    restarts: AtomicU64,
    current: RwLock<Result<T, String>>,
}

impl<T: Clone + Send + Sync + 'static> Supervisor<T> {
    /// Starts an actor with `start_actor`, and restarts it after each panic within `budget`. While it is down, [`Self::get`]
    /// fails with `unavailable`. Runs on the current thread.
    pub fn start(
        name: &'static str,
        unavailable: Reason,
        budget: RestartBudget,
        mut start_actor: impl FnMut(RestartGuard) -> Result<T, Problem> + 'static,
    ) -> Result<Arc<Self>, Problem> {
        let (guard, panicked) = RestartGuard::supervised();
        let current = RwLock::new(Ok(start_actor(guard)?));
        let supervisor = Arc::new(Self { name, unavailable, restarts: AtomicU64::new(0), current });
        actix::spawn(watch(Arc::downgrade(&supervisor), budget, panicked, start_actor));
        Ok(supervisor)
    }

    /// An actor that runs already and is not restarted.
    pub fn unsupervised(name: &'static str, unavailable: Reason, actor: T) -> Arc<Self> {
        Arc::new(Self { name, unavailable, restarts: AtomicU64::new(0), current: RwLock::new(Ok(actor)) })
    }

    /// The running actor, or why there is none.
    pub fn get(&self) -> Result<T, Problem> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current
            .as_ref()
            .map(T::clone)
            .map_err(|why| Problem::new(self.unavailable, format!("{}: {why}", self.name)))
    }

    /// Restarts since the start.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    fn set(&self, current: Result<T, String>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
    }
}

async fn watch<T: Clone + Send + Sync + 'static>(
    supervisor: Weak<Supervisor<T>>,
    budget: RestartBudget,
    mut panicked: oneshot::Receiver<()>,
    mut start_actor: impl FnMut(RestartGuard) -> Result<T, Problem>,
) {
    let mut recent = VecDeque::new();
    loop {
        if panicked.await.is_err() {
            return;
        }
        let Some(supervisor) = supervisor.upgrade() else { return };
        let name = supervisor.name;
        supervisor.set(Err("it has panicked and is started anew".to_owned()));
        loop {
            recent.retain(|at: &Instant| at.elapsed() < budget.within);
            if recent.len() >= budget.restarts {
                let why = format!("it has panicked {} times too often and stays down", recent.len() + 1);
                tracing::error!(name, "{why}");
                return supervisor.set(Err(why));
            }
            recent.push_back(Instant::now());
            tokio::time::sleep(budget.pause).await;
            let (guard, next) = RestartGuard::supervised();
            match start_actor(guard) {
                Ok(actor) => {
                    let restarts = supervisor.restarts.fetch_add(1, Ordering::Relaxed) + 1;
                    tracing::error!(name, restarts, "it had panicked and is started anew");
                    supervisor.set(Ok(actor));
                    panicked = next;
                    break;
                }
                Err(problem) => {
                    tracing::error!(name, %problem, "it can't be started anew");
                    supervisor
                        .set(Err(format!("it has panicked and can't be started anew: {}", problem.message)));
                }
            }
        }
    }
}
