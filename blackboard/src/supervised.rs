//! An actor that is started anew when it has panicked. A panic kills an actor of actix for good, its supervisor's too; what
//! it knew is in its store, and a new one reads it there.

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

/// How often an actor may be started anew.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// So many times…
    pub restarts: usize,
    /// …within this.
    pub within: Duration,
    /// The pause before each.
    pub pause: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self { restarts: 5, within: Duration::from_secs(60), pause: Duration::from_millis(20) }
    }
}

/// What an actor holds for as long as it lives. Dropped without [`Life::over`], it says that the actor has panicked.
#[derive(Debug)]
pub struct Life(Option<oneshot::Sender<()>>);

impl Life {
    /// The life of an actor that nobody starts anew.
    pub fn unwatched() -> Self {
        Self(None)
    }

    fn watched() -> (Self, oneshot::Receiver<()>) {
        let (ended, panicked) = oneshot::channel();
        (Self(Some(ended)), panicked)
    }

    /// The actor stops as it should. actix says so of one that panics too, while the panic is under way.
    pub fn over(&mut self) {
        if !std::thread::panicking() {
            self.0 = None;
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(ended) = self.0.take() {
            // Nobody waits for it any more.
            let _ = ended.send(());
        }
    }
}

/// The way to an actor, whichever of its lives it is in.
#[derive(Debug)]
pub struct Supervised<T> {
    name: &'static str,
    away: Reason,
    restarts: AtomicU64,
    now: RwLock<Result<T, String>>,
}

impl<T: Clone + Send + Sync + 'static> Supervised<T> {
    /// What `make` starts, and starts again after each panic, as far as `budget` allows. While it is not there, its users
    /// are refused for `away`. Runs on this thread.
    pub fn start(
        name: &'static str,
        away: Reason,
        budget: Budget,
        mut make: impl FnMut(Life) -> Result<T, Problem> + 'static,
    ) -> Result<Arc<Self>, Problem> {
        let (life, panicked) = Life::watched();
        let now = RwLock::new(Ok(make(life)?));
        let supervised = Arc::new(Self { name, away, restarts: AtomicU64::new(0), now });
        actix::spawn(watch(Arc::downgrade(&supervised), budget, panicked, make));
        Ok(supervised)
    }

    /// What is there already and is not started anew.
    pub fn as_it_is(name: &'static str, away: Reason, now: T) -> Arc<Self> {
        Arc::new(Self { name, away, restarts: AtomicU64::new(0), now: RwLock::new(Ok(now)) })
    }

    /// The way to it, or why there is none.
    pub fn get(&self) -> Result<T, Problem> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        now.as_ref().map(T::clone).map_err(|why| Problem::new(self.away, format!("{}: {why}", self.name)))
    }

    /// How often it was started anew.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    fn set(&self, now: Result<T, String>) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

async fn watch<T: Clone + Send + Sync + 'static>(
    supervised: Weak<Supervised<T>>,
    budget: Budget,
    mut panicked: oneshot::Receiver<()>,
    mut make: impl FnMut(Life) -> Result<T, Problem>,
) {
    let mut recent = VecDeque::new();
    loop {
        if panicked.await.is_err() {
            return;
        }
        let Some(supervised) = supervised.upgrade() else { return };
        let name = supervised.name;
        supervised.set(Err("it has panicked and is started anew".to_owned()));
        loop {
            recent.retain(|at: &Instant| at.elapsed() < budget.within);
            if recent.len() >= budget.restarts {
                let why = format!("it has panicked {} times too often and stays down", recent.len() + 1);
                tracing::error!(name, "{why}");
                return supervised.set(Err(why));
            }
            recent.push_back(Instant::now());
            tokio::time::sleep(budget.pause).await;
            let (life, next) = Life::watched();
            match make(life) {
                Ok(made) => {
                    let restarts = supervised.restarts.fetch_add(1, Ordering::Relaxed) + 1;
                    tracing::error!(name, restarts, "it had panicked and is started anew");
                    supervised.set(Ok(made));
                    panicked = next;
                    break;
                }
                Err(problem) => {
                    tracing::error!(name, %problem, "it can't be started anew");
                    supervised
                        .set(Err(format!("it has panicked and can't be started anew: {}", problem.message)));
                }
            }
        }
    }
}
