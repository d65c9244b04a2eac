//! A fault that lasts: what is said of it is the first time, then now and then how often, and the end.

use std::time::{Duration, Instant};

/// How long nothing is said of a fault that goes on.
const SILENCE: Duration = Duration::from_secs(60);

/// What is known of a fault that may last.
#[derive(Debug, Default)]
pub struct Lasting {
    said: Option<Instant>,
    /// How often it has happened since it was said.
    times: u64,
    /// Whether it was said since it last worked.
    is_said: bool,
}

impl Lasting {
    /// It happens, at `now`: how often it has, since anything was said of it, if that is to be said now.
    pub fn failed(&mut self, now: Instant) -> Option<u64> {
        self.times += 1;
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < SILENCE) {
            return None;
        }
        (self.said, self.is_said) = (Some(now), true);
        Some(std::mem::take(&mut self.times))
    }

    /// It works: how often it has not, since anything was said of that, if it is to be said that it does. What comes and
    /// goes is said no oftener than what stays.
    pub fn worked(&mut self) -> Option<u64> {
        std::mem::take(&mut self.is_said).then(|| std::mem::take(&mut self.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_said_once_then_every_minute_and_so_is_its_end() {
        let (begun, mut fault) = (Instant::now(), Lasting::default());
        let at = |ms: u64| begun + Duration::from_millis(ms);
        assert_eq!(fault.worked(), None);
        assert_eq!(fault.failed(at(0)), Some(1));
        let said: Vec<_> = (1..=240).filter_map(|half| fault.failed(at(half * 500))).collect();
        assert_eq!(said, [120, 120]);
        assert_eq!(fault.failed(at(120_100)), None);
        assert_eq!(fault.worked(), Some(1));
        assert_eq!(fault.worked(), None);
    }

    #[test]
    fn a_fault_that_comes_and_goes_is_no_louder() {
        let (begun, mut fault) = (Instant::now(), Lasting::default());
        let mut said = 0;
        for ms in 0..120_000 {
            said += usize::from(fault.failed(begun + Duration::from_millis(ms)).is_some());
            said += usize::from(fault.worked().is_some());
        }
        assert_eq!(said, 4);
    }
}
