//! The pauses between attempts to deliver a message. Not `backon`, which sleeps and retries by itself: here an attempt is a
//! record, its pause outlives a restart, and the engine has neither clock nor randomness of its own.

use std::time::Duration;

const FIRST_CEILING_MS: u64 = 200;
const FAST_CEILING_MS: u64 = 30_000;
/// From this attempt on the ceiling is `SLOW_CEILING_MS`. The pauses before it add up to about five minutes, at most ten.
const FIRST_SLOW_ATTEMPT: u32 = 25;
const SLOW_CEILING_MS: u64 = 300_000;

/// The pause after attempt number `attempt` (from 0), with full jitter: between zero and a ceiling. The ceiling begins at
/// 200 ms and doubles with every attempt up to 30 s; from attempt 25 on it is five minutes. `random` is uniform over `u64`.
pub fn pause(attempt: u32, random: u64) -> Duration {
    let ceiling = match attempt {
        FIRST_SLOW_ATTEMPT.. => SLOW_CEILING_MS,
        _ => FIRST_CEILING_MS.saturating_mul(1 << attempt.min(8)).min(FAST_CEILING_MS),
    };
    Duration::from_millis(random % (ceiling + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_doubles_to_half_a_minute_and_is_five_minutes_from_attempt_25_on() {
        for (attempt, ceiling) in [(0, 200), (1, 400), (7, 25_600), (8, 30_000), (24, 30_000), (25, 300_000)]
        {
            assert_eq!(pause(attempt, ceiling), Duration::from_millis(ceiling), "{attempt}");
            assert_eq!(pause(attempt, ceiling + 1), Duration::ZERO, "{attempt}");
        }
    }
}
