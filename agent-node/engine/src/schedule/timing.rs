//! When a schedule is due.

use super::BadSchedule;
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{Timestamp, Zoned, tz::TimeZone};
use protocol::{bid::Eta, time::WallTime};

/// The most firings that are looked at, at once.
pub(super) const MAX_DUE: usize = 100;
/// The shortest time between two firings, milliseconds.
const MIN_EVERY_MS: u64 = 1_000;

/// When a schedule is due. All times are whole seconds.
#[derive(Debug, Clone)]
pub enum Timing {
    /// By the clock of a time zone.
    Cron(Box<Cron>, TimeZone),
    /// So many milliseconds apart, from a time on.
    Every(i64, WallTime),
    /// At this time.
    Once(WallTime),
}

impl Timing {
    pub(super) fn cron(text: &str, timezone: Option<&str>, made: WallTime) -> Result<Self, BadSchedule> {
        let zone = match timezone {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|_| {
                BadSchedule::new("timezone", format!("{name:?} is no time zone such as Europe/Berlin"))
            })?,
        };
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|error| {
            let what = format!("{text:?} is not minute, hour, day, month and day of the week: {error}");
            BadSchedule::new("cron", what)
        })?;
        let timing = Self::Cron(Box::new(cron), zone);
        match timing.next(made) {
            Some(_) => Ok(timing),
            None => Err(BadSchedule::new("cron", format!("{text:?} is never due"))),
        }
    }

    pub(super) fn every(Eta(every): Eta, made: WallTime) -> Result<Self, BadSchedule> {
        match i64::try_from(every).ok().filter(|_| every >= MIN_EVERY_MS) {
            Some(every) => Ok(Self::Every(every, WallTime(made.0 - made.0.rem_euclid(1_000)))),
            None => Err(BadSchedule::new("every", "must be at least 1 s")),
        }
    }

    /// The first time after `after`.
    pub fn next(&self, after: WallTime) -> Option<WallTime> {
        let next = match self {
            Self::Cron(cron, zone) => wall(cron.find_next_occurrence(&zoned(after, zone)?, false).ok()?),
            Self::Every(every, from) => {
                let passed = after.0.saturating_sub(from.0).max(0) / every;
                WallTime(from.0.checked_add(passed.checked_add(1)?.checked_mul(*every)?)?)
            }
            Self::Once(at) => *at,
        };
        Some(next).filter(|next| *next > after)
    }

    /// The last time that is not after `until`.
    fn last(&self, until: WallTime) -> Option<WallTime> {
        let last = match self {
            Self::Cron(cron, zone) => wall(cron.find_previous_occurrence(&zoned(until, zone)?, true).ok()?),
            Self::Every(every, from) => {
                let passed = until.0.checked_sub(from.0)?.div_euclid(*every);
                WallTime(from.0 + (passed > 0).then(|| passed * every)?)
            }
            Self::Once(at) => *at,
        };
        Some(last).filter(|last| *last <= until)
    }

    /// The times after `after` and not after `until`, the oldest first: the newest [`MAX_DUE`], and whether there are more.
    pub(super) fn due(&self, after: WallTime, until: WallTime) -> (Vec<WallTime>, bool) {
        let (mut due, mut at) = (Vec::new(), after);
        while let Some(next) = self.next(at).filter(|next| *next <= until) {
            if due.len() == MAX_DUE {
                return (self.newest(until), true);
            }
            due.push(next);
            at = next;
        }
        (due, false)
    }

    /// The newest [`MAX_DUE`] times that are not after `until`, the oldest first.
    pub(super) fn newest(&self, mut until: WallTime) -> Vec<WallTime> {
        let mut newest = Vec::new();
        while newest.len() < MAX_DUE {
            let Some(last) = self.last(until) else { break };
            newest.push(last);
            until = WallTime(last.0 - 1);
        }
        newest.reverse();
        newest
    }
}

/// `time` in a zone, without the part of a second.
fn zoned(time: WallTime, zone: &TimeZone) -> Option<Zoned> {
    let second = Timestamp::from_second(time.0.div_euclid(1_000)).ok()?;
    Some(second.to_zoned(zone.clone()))
}

fn wall(time: Zoned) -> WallTime {
    WallTime(time.timestamp().as_second() * 1_000)
}
