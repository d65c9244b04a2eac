//! Pauses between attempts.

use std::time::Duration;

const FIRST: u64 = 200;
const LONGEST: u64 = 30_000;
/// From this attempt on, about ten minutes after the first, the longest pause is `SLOW`.
const SLOW_FROM: u32 = 25;
const SLOW: u64 = 300_000;

/// The pause after attempt number `attempt` (from 0), with full jitter: up to 200 ms, doubled at every attempt to at most
/// 30 s; after about ten minutes up to five minutes. `random` is any number.
pub fn pause(attempt: u32, random: u64) -> Duration {
    let ceiling = match attempt {
        SLOW_FROM.. => SLOW,
        _ => FIRST.saturating_mul(1 << attempt.min(8)).min(LONGEST),
    };
    Duration::from_millis(random % (ceiling + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute_and_last_up_to_five_minutes_after_ten() {
        for (attempt, most) in [(0, 200), (1, 400), (7, 25_600), (8, 30_000), (24, 30_000), (25, 300_000)] {
            assert_eq!(pause(attempt, most), Duration::from_millis(most), "{attempt}");
            assert_eq!(pause(attempt, most + 1), Duration::ZERO, "{attempt}");
        }
    }
}
