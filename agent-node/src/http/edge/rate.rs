//! How often one may ask: a token bucket each, in a table that cannot grow beyond its bound. One for agents, and one for
//! addresses that present what proves nothing. By hand: `governor` would replace the lines of [`Bucket`] only, as its keyed
//! limiter has no bound on its keys, and would bring ten crates.

use protocol::problem::{Problem, Reason};
use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Keys remembered at once; those beyond share one bucket.
const MAX_KEYS: usize = 4096;

/// The buckets of all.
pub(super) struct Rates<K> {
    per_second: u32,
    buckets: Mutex<Buckets<K>>,
}

struct Buckets<K> {
    own: HashMap<K, Bucket>,
    shared: Option<Bucket>,
    swept: Option<Instant>,
}

/// Holds up to two seconds' worth of tokens.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl<K: Eq + Hash + Clone + fmt::Display> Rates<K> {
    /// `per_second` for each; 0 is no limit.
    pub(super) fn new(per_second: u32) -> Self {
        let buckets = Buckets { own: HashMap::new(), shared: None, swept: None };
        Self { per_second, buckets: Mutex::new(buckets) }
    }

    /// One request of `key`, or 429 and when to try again.
    pub(super) fn take(&self, key: &K, now: Instant) -> Result<(), Problem> {
        if self.per_second == 0 {
            return Ok(());
        }
        let rate = f64::from(self.per_second);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.of(key, rate, now).take(rate, now).map_err(|wait| {
            let message = format!("{key} may send {} requests a second", self.per_second);
            Problem::new(Reason::RateLimited, message).with("limit", self.per_second).retry_after(wait)
        })
    }
}

impl Rates<IpAddr> {
    /// What a request from `address` is told whose credential was refused as `problem`: that, or 429 after too many. What
    /// does prove something is taken all the same, so that nobody is locked out by a neighbour.
    pub(super) fn refuse(&self, address: Option<IpAddr>, problem: Problem, now: Instant) -> Problem {
        let Some(address) = address.filter(|_| problem.reason.status() == 401) else { return problem };
        match self.take(&address.to_canonical(), now) {
            Ok(()) => problem,
            Err(limit) => Problem {
                message: format!(
                    "{} with credentials that prove nothing; the last one: {}",
                    limit.message, problem.message
                ),
                ..limit
            },
        }
    }
}

impl<K: Eq + Hash + Clone> Buckets<K> {
    fn of(&mut self, key: &K, rate: f64, now: Instant) -> &mut Bucket {
        let full = Bucket { tokens: 2.0 * rate, at: now };
        if !self.own.contains_key(key) {
            let due = self.swept.is_none_or(|at| now.saturating_duration_since(at) >= Duration::from_secs(1));
            if self.own.len() >= MAX_KEYS && due {
                self.own
                    .retain(|_, bucket| now.saturating_duration_since(bucket.at) < Duration::from_secs(2));
                self.swept = Some(now);
            }
            if self.own.len() >= MAX_KEYS {
                return self.shared.get_or_insert(full);
            }
            self.own.insert(key.clone(), full);
        }
        self.own.get_mut(key).unwrap_or_else(|| unreachable!("it was inserted"))
    }
}

impl Bucket {
    fn take(&mut self, rate: f64, now: Instant) -> Result<(), Duration> {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * rate;
        self.tokens = (self.tokens + earned).min(2.0 * rate);
        self.at = now;
        if self.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.tokens) / rate));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ids::AgentId;

    fn agent(name: usize) -> AgentId {
        AgentId::parse(&format!("a{name}")).unwrap()
    }

    #[test]
    fn a_burst_of_two_seconds_is_taken_then_the_rate() {
        let (rates, start) = (Rates::new(10), Instant::now());
        assert_eq!((0..50).filter(|_| rates.take(&agent(1), start).is_ok()).count(), 20);
        assert!(rates.take(&agent(2), start).is_ok(), "another has its own");
        let later = start + Duration::from_secs(1);
        assert_eq!((0..50).filter(|_| rates.take(&agent(1), later).is_ok()).count(), 10);
        assert_eq!((0..50).filter(|_| Rates::new(0).take(&agent(1), start).is_ok()).count(), 50);
    }

    /// RELIABILITY L12.
    #[test]
    fn the_table_is_bounded_and_forgets_the_idle() {
        let (rates, start) = (Rates::new(10), Instant::now());
        for name in 0..2 * MAX_KEYS {
            let _ = rates.take(&agent(name), start);
        }
        assert_eq!(rates.buckets.lock().unwrap().own.len(), MAX_KEYS);
        assert!(rates.take(&agent(2 * MAX_KEYS), start).is_err(), "latecomers share a bucket");
        assert!(rates.take(&agent(2 * MAX_KEYS), start + Duration::from_secs(3)).is_ok());
        assert_eq!(rates.buckets.lock().unwrap().own.len(), 1);
    }
}
