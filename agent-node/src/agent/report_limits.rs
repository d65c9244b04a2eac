//! How many reports of a turn are recorded. The bytes of a brain's output are bounded where it is read.

use patterns::turn::{Delegate, Help, Progress};
use std::collections::BTreeMap;

/// The most status reports of a turn, and the most of a kind of report that is only for telemetry.
const MAX_REPORTS: u32 = 10_000;
/// The most signals of a turn, and the most of its lines in the node's log.
const MAX_SIGNALS: u32 = 1_000;
const MAX_LOGGED_LINES: u32 = 1_000;
/// How many status reports in a row are recorded at once; of more, the last counts.
const MAX_STATUSES_AT_ONCE: usize = 16;

#[derive(Debug, Default)]
pub(super) struct ReportLimits {
    statuses: u32,
    logged: u32,
    signals: u32,
    calls: u32,
    /// The requests by their ids, and [`Progress::request_content`] of each.
    requests: BTreeMap<String, u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReportVerdict {
    Take,
    /// It is left out.
    Drop,
    /// The turn fails, for this reason.
    Fail(String),
}

impl ReportLimits {
    /// Counts a report. The last status and the last line for the log that are taken say that no further ones are.
    pub(super) fn admit(&mut self, progress: &mut Progress) -> ReportVerdict {
        let note = |count: &mut u32, max: u32, text: &mut String, what: &str| {
            *count = count.saturating_add(1);
            if *count == max {
                text.push_str(&format!(" [the turn has {max} {what}; further ones are left out]"));
            }
            if *count > max { ReportVerdict::Drop } else { ReportVerdict::Take }
        };
        let bounded = |count: &mut u32, max: u32, what: &str| {
            *count = count.saturating_add(1);
            match *count > max {
                true => ReportVerdict::Fail(format!("the turn has more than {max} {what}")),
                false => ReportVerdict::Take,
            }
        };
        match progress {
            Progress::Status { message } => note(&mut self.statuses, MAX_REPORTS, message, "status reports"),
            Progress::Log { message } => {
                note(&mut self.logged, MAX_LOGGED_LINES, message, "lines for the log")
            }
            Progress::Signal { .. } => bounded(&mut self.signals, MAX_SIGNALS, "signals"),
            Progress::Usage(_) | Progress::Tool(_) => {
                bounded(&mut self.calls, MAX_REPORTS, "reports of calls (usage, tool)")
            }
            Progress::Help(Help { .. })
            | Progress::Delegate(Delegate { .. })
            | Progress::Question(_)
            | Progress::Find { .. }
            | Progress::AwaitTask { .. } => self.admit_request(progress),
            _ => ReportVerdict::Take,
        }
    }

    /// Refuses another request under the id of an earlier one. A repeat is taken.
    fn admit_request(&mut self, request: &Progress) -> ReportVerdict {
        let (Some(id), Some(content)) = (request.request_id(), request.request_content()) else {
            return ReportVerdict::Take;
        };
        match *self.requests.entry(id.clone()).or_insert(content) == content {
            true => ReportVerdict::Take,
            false => ReportVerdict::Fail(format!(
                "request id {id:?}: the turn has used it for another request; each request needs an id of its own"
            )),
        }
    }
}

/// Adds a report to those that are recorded at once.
pub(super) fn gather(updates: &mut Vec<Progress>, progress: Progress) {
    let is_status = |update: &Progress| matches!(update, Progress::Status { .. });
    let in_a_row = updates.iter().rev().take_while(|update| is_status(update)).count();
    if is_status(&progress) && in_a_row >= MAX_STATUSES_AT_ONCE {
        updates.pop();
    }
    updates.push(progress);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(at: u32) -> Progress {
        Progress::Status { message: at.to_string() }
    }

    #[test]
    fn of_a_flood_of_status_reports_few_are_recorded_and_the_last_says_so() {
        let (mut limits, mut updates) = (ReportLimits::default(), Vec::new());
        let mut taken = 0;
        for at in 1..=20_000 {
            let mut progress = status(at);
            if limits.admit(&mut progress) == ReportVerdict::Take {
                taken += 1;
                gather(&mut updates, progress);
            }
        }
        assert_eq!((taken, updates.len()), (MAX_REPORTS, MAX_STATUSES_AT_ONCE));
        assert_eq!(updates[14], status(15));
        let last = "10000 [the turn has 10000 status reports; further ones are left out]";
        assert_eq!(updates[15], Progress::Status { message: last.into() });
    }

    #[test]
    fn an_id_is_refused_for_another_request_and_taken_for_the_same() {
        let mut limits = ReportLimits::default();
        let mut admit = |line: &str| {
            let mut progress: Progress = serde_json::from_str(line).unwrap();
            limits.admit(&mut progress)
        };
        for line in [
            r#"{"type":"help","id":"h","to":"capability:plan","question":"how?"}"#,
            r#"{"type":"help","id":"h","to":"capability:plan","question":"how?","wait":false}"#,
            r#"{"type":"help","id":"other","to":"capability:plan","question":"when?"}"#,
        ] {
            assert_eq!(admit(line), ReportVerdict::Take, "{line}");
        }
        for line in [
            r#"{"type":"help","id":"h","to":"capability:plan","question":"when?"}"#,
            r#"{"type":"delegate","id":"h","to":"capability:plan","description":"how?"}"#,
        ] {
            assert!(matches!(admit(line), ReportVerdict::Fail(why) if why.contains("\"h\"")), "{line}");
        }
    }

    #[test]
    fn a_flood_of_signals_or_calls_fails_the_turn() {
        let mut limits = ReportLimits::default();
        let mut flood = |line: &str, max: u32| {
            let mut progress: Progress = serde_json::from_str(line).unwrap();
            let verdicts = (0..max).map(|_| limits.admit(&mut progress.clone()));
            assert!(verdicts.into_iter().all(|verdict| verdict == ReportVerdict::Take), "{line}");
            limits.admit(&mut progress)
        };
        let failed = flood(r#"{"type":"signal","signal":"acme.noted"}"#, MAX_SIGNALS);
        assert_eq!(failed, ReportVerdict::Fail("the turn has more than 1000 signals".into()));
        let failed = flood(r#"{"type":"tool","id":"c","name":"t"}"#, MAX_REPORTS);
        assert!(matches!(failed, ReportVerdict::Fail(why) if why.contains("10000 reports of calls")));
        assert_eq!(flood(r#"{"type":"log","message":"x"}"#, MAX_LOGGED_LINES), ReportVerdict::Drop);
    }
}
