//! Rate limits with a token bucket per key, in a bounded table: one for senders, one for addresses whose authentication
//! fails. `governor` would replace [`TokenBucket`] only, as its keyed limiter has no bound on its keys, and adds ten crates.

use protocol::problem::{Problem, Reason};
use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Limit of keys with a bucket of their own; further keys share one bucket.
const MAX_KEYS: usize = 4096;

pub(super) struct RateLimiter<K> {
    per_second: u32,
    buckets: Mutex<TokenBuckets<K>>,
}

struct TokenBuckets<K> {
    by_key: HashMap<K, TokenBucket>,
    shared: Option<TokenBucket>,
    swept: Option<Instant>,
}

/// Holds up to two seconds' worth of tokens.
#[derive(Clone, Copy)]
struct TokenBucket {
    tokens: f64,
    at: Instant,
}

impl<K: Eq + Hash + Clone + fmt::Display> RateLimiter<K> {
    /// Allows `per_second` requests for each key; 0 means no limit.
    pub(super) fn new(per_second: u32) -> Self {
        let buckets = TokenBuckets { by_key: HashMap::new(), shared: None, swept: None };
        Self { per_second, buckets: Mutex::new(buckets) }
    }

    /// Counts one request of `key`. Fails with 429 and the time to wait.
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

impl RateLimiter<IpAddr> {
    /// The answer to a request from `address` whose authentication failed with `problem`: `problem`, or 429 after too many.
    /// Only failures count, so valid credentials from the same address still work.
    pub(super) fn limit_failure(&self, address: Option<IpAddr>, problem: Problem, now: Instant) -> Problem {
        let Some(address) = address.filter(|_| problem.reason.status() == 401) else { return problem };
        match self.take(&address, now) {
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

impl<K: Eq + Hash + Clone> TokenBuckets<K> {
    fn of(&mut self, key: &K, rate: f64, now: Instant) -> &mut TokenBucket {
        let full = TokenBucket { tokens: 2.0 * rate, at: now };
        if !self.by_key.contains_key(key) {
            let due = self.swept.is_none_or(|at| now.saturating_duration_since(at) >= Duration::from_secs(1));
            if self.by_key.len() >= MAX_KEYS && due {
                self.by_key
                    .retain(|_, bucket| now.saturating_duration_since(bucket.at) < Duration::from_secs(2));
                self.swept = Some(now);
            }
            if self.by_key.len() >= MAX_KEYS {
                return self.shared.get_or_insert(full);
            }
            self.by_key.insert(key.clone(), full);
        }
        self.by_key.get_mut(key).unwrap_or_else(|| unreachable!("it was inserted"))
    }
}

impl TokenBucket {
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
    fn a_burst_of_two_seconds_is_allowed_then_the_rate() {
        let (rates, start) = (RateLimiter::new(10), Instant::now());
        assert_eq!((0..50).filter(|_| rates.take(&agent(1), start).is_ok()).count(), 20);
        assert!(rates.take(&agent(2), start).is_ok(), "another has its own");
        let later = start + Duration::from_secs(1);
        assert_eq!((0..50).filter(|_| rates.take(&agent(1), later).is_ok()).count(), 10);
        assert_eq!((0..50).filter(|_| RateLimiter::new(0).take(&agent(1), start).is_ok()).count(), 50);
    }

    /// RELIABILITY L12.
    #[test]
    fn the_table_is_bounded_and_drops_idle_keys() {
        let (rates, start) = (RateLimiter::new(10), Instant::now());
        for name in 0..2 * MAX_KEYS {
            let _ = rates.take(&agent(name), start);
        }
        assert_eq!(rates.buckets.lock().unwrap().by_key.len(), MAX_KEYS);
        assert!(rates.take(&agent(2 * MAX_KEYS), start).is_err(), "further keys share a bucket");
        assert!(rates.take(&agent(2 * MAX_KEYS), start + Duration::from_secs(3)).is_ok());
        assert_eq!(rates.buckets.lock().unwrap().by_key.len(), 1);
    }
}
