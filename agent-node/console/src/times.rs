//! Times and durations for people.

use maud::{Markup, html};
use protocol::time::WallTime;
use std::time::Duration;

/// How long ago it was. The script of the page writes the same words later.
fn ago(elapsed: Duration) -> String {
    match elapsed.as_millis().saturating_add(500) / 1_000 {
        0..5 => "just now".to_owned(),
        seconds @ 5..60 => format!("{seconds} s ago"),
        seconds @ 60..3_600 => format!("{} min ago", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

/// A time in the past, relative to `now`.
pub fn since(now: WallTime, at: WallTime) -> Markup {
    html! { time.nowrap datetime=(at) title=(at) data-ago { (ago(at.until(now))) } }
}

/// A time to come, or one that has passed.
pub fn until(now: WallTime, at: WallTime) -> Markup {
    let left = now.until(at);
    html! {
        time.nowrap datetime=(at) title=(at) {
            @if left.is_zero() { "overdue" } @else { "in " (duration(left)) }
        }
    }
}

/// The time of day, UTC.
pub fn clock(at: WallTime) -> Markup {
    let text = at.to_string();
    let time = text.get(11..19).unwrap_or(&text);
    html! { time.nowrap datetime=(text) title=(text) { (time) } }
}

/// A duration in at most two units.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let two = |(large, one): (u64, &str), (small, other): (u64, &str)| match small {
        0 => format!("{large} {one}"),
        _ => format!("{large} {one} {small} {other}"),
    };
    match time.as_millis() {
        ms @ 0..1_000 => format!("{ms} ms"),
        ms @ 1_000..60_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        60_000..3_600_000 => two((seconds / 60, "min"), (seconds % 60, "s")),
        3_600_000..86_400_000 => two((seconds / 3_600, "h"), (seconds / 60 % 60, "min")),
        _ => two((seconds / 86_400, "d"), (seconds / 3_600 % 24, "h")),
    }
}

/// A count with thin spaces between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join("\u{202f}")
}

/// A number of things that `noun` names.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (ms, text) in
            [(0, "just now"), (59_400, "59 s ago"), (3_599_000, "59 min ago"), (90_000_000, "1 d ago")]
        {
            assert_eq!(ago(Duration::from_millis(ms)), text);
        }
        for (ms, text) in [
            (999, "999 ms"),
            (1_500, "1.5 s"),
            (61_000, "1 min 1 s"),
            (7_260_000, "2 h 1 min"),
            (86_400_000, "1 d"),
        ] {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
        assert_eq!([counted(1, "node"), counted(1_000, "node")], ["1 node", "1\u{202f}000 nodes"]);
        assert_eq!([count(0), count(1_234_567)], ["0", "1\u{202f}234\u{202f}567"]);
        assert_eq!(clock(WallTime(0)).into_string().matches("00:00:00").count(), 3);
    }
}
