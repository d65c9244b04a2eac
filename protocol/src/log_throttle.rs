//! Throttles the log lines of a repeated fault: the first occurrence, then a count per minute, then the recovery.

use std::time::{Duration, Instant};

/// The least time between two log lines of one fault.
const SILENCE: Duration = Duration::from_secs(60);

/// The throttle of one fault.
#[derive(Debug, Default)]
pub struct LogThrottle {
    said: Option<Instant>,
    /// Occurrences since the last log line.
    times: u64,
    /// Whether the fault was logged since the last success.
    is_said: bool,
}

impl LogThrottle {
    /// Records a failure at `now`. Returns the number of failures since the last log line if a line is due.
    pub fn failed(&mut self, now: Instant) -> Option<u64> {
        self.times += 1;
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < SILENCE) {
            return None;
        }
        (self.said, self.is_said) = (Some(now), true);
        Some(std::mem::take(&mut self.times))
    }

    /// Records a success. Returns the number of failures since the last log line if the fault had been logged.
    pub fn worked(&mut self) -> Option<u64> {
        std::mem::take(&mut self.is_said).then(|| std::mem::take(&mut self.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_logged_once_then_every_minute_and_its_end_is_logged() {
        let (begun, mut fault) = (Instant::now(), LogThrottle::default());
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
        let (begun, mut fault) = (Instant::now(), LogThrottle::default());
        let mut said = 0;
        for ms in 0..120_000 {
            said += usize::from(fault.failed(begun + Duration::from_millis(ms)).is_some());
            said += usize::from(fault.worked().is_some());
        }
        assert_eq!(said, 4);
    }
}
