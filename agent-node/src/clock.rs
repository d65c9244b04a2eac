//! The node clock and the wall clock.

use protocol::time::{NodeTime, WallTime};
use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A node's clocks. The node clock never goes back. It pauses while the node is down, continuing from the newest record of its
/// agents, and while the process stands still ([`RunningTime`]).
#[derive(Debug, Clone, Copy)]
pub struct NodeClock {
    base: NodeTime,
    started: Duration,
}

impl NodeClock {
    /// A clock that continues from `base`.
    pub fn starting_at(base: NodeTime) -> Self {
        Self { base, started: running_time() }
    }

    /// The time of the node clock.
    pub fn node(&self) -> NodeTime {
        self.base + running_time().saturating_sub(self.started)
    }

    /// The time of the wall clock.
    pub fn wall(&self) -> WallTime {
        wall_time()
    }
}

/// The time of the wall clock.
pub fn wall_time() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    WallTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The interval of the ticks by which a process notices that it stood still.
const TICK: Duration = Duration::from_millis(250);
/// How much of the time between two ticks counts. A punctual holder renews a lease of some seconds within it.
const MAX_GAP: Duration = Duration::from_secs(1);

/// The time that a process has run: the monotonic clock without the times at which the process stood still, as a frozen virtual
/// machine or a stopped process does. A lease that it keeps for others thus has as much left afterwards as before: what they sent
/// meanwhile is read before it expires. Whoever keeps time for others stands still with it, so that a process that is always late
/// is slow but still expires the dead. Pure: `elapsed` is the monotonic clock's time.
#[derive(Debug, Default)]
struct RunningTime {
    last_tick: Duration,
    stood_still: Duration,
}

impl RunningTime {
    fn at(&self, elapsed: Duration) -> Duration {
        elapsed.min(self.last_tick + MAX_GAP).saturating_sub(self.stood_still)
    }

    /// Counts the time since the last tick; returns how long the process stood still.
    fn tick(&mut self, elapsed: Duration) -> Duration {
        let stood_still = elapsed.saturating_sub(self.last_tick + MAX_GAP);
        self.stood_still += stood_still;
        self.last_tick = self.last_tick.max(elapsed);
        stood_still
    }
}

/// How long this process has run, since this was first called.
fn running_time() -> Duration {
    static TIME: OnceLock<(Instant, Mutex<RunningTime>)> = OnceLock::new();
    let (started, time) = TIME.get_or_init(|| {
        let ticks = std::thread::Builder::new().name("clock".into()).spawn(|| {
            loop {
                std::thread::sleep(TICK);
                let Some((started, time)) = TIME.get() else { continue };
                // The lock first: a tick that waits for it is late, too.
                let mut time = time.lock().unwrap_or_else(PoisonError::into_inner);
                let stood_still = time.tick(started.elapsed());
                drop(time);
                if stood_still >= MAX_GAP {
                    tracing::warn!(
                        ?stood_still,
                        "the process stood still; leases and windows go on where they were"
                    );
                }
            }
        });
        if let Err(error) = ticks {
            tracing::error!(%error, "no thread for the clock: node time stands still");
        }
        (Instant::now(), Mutex::default())
    });
    let time = time.lock().unwrap_or_else(PoisonError::into_inner);
    time.at(started.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(of: u64) -> Duration {
        Duration::from_secs(of)
    }

    #[test]
    fn a_stall_does_not_count_whether_time_is_read_before_or_after_the_tick_that_notices_it() {
        let mut time = RunningTime::default();
        time.tick(seconds(1));
        assert_eq!(time.at(seconds(1)), seconds(1));
        assert_eq!(time.at(seconds(61)), seconds(2));
        assert_eq!(time.tick(seconds(61)), seconds(59));
        assert_eq!(time.at(seconds(61)), seconds(2));
        assert_eq!(time.at(seconds(62)), seconds(3));
    }

    #[test]
    fn a_process_that_is_always_late_still_reaches_the_end_of_a_lease() {
        let mut time = RunningTime::default();
        for n in 1..=30 {
            time.tick(seconds(n * 10));
        }
        assert_eq!(time.at(seconds(300)), seconds(30));
    }

    proptest! {
        #[test]
        fn time_never_goes_back_and_is_never_fast(steps in prop::collection::vec((0..5_000_u64, any::<bool>()), 1..50)) {
            let (mut time, mut elapsed, mut last) = (RunningTime::default(), Duration::ZERO, Duration::ZERO);
            for (step, is_tick) in steps {
                let step = Duration::from_millis(step);
                elapsed += step;
                if is_tick {
                    time.tick(elapsed);
                }
                let now = time.at(elapsed);
                prop_assert!(now >= last && now - last <= step);
                last = now;
            }
        }
    }
}
