//! When schedules are due, and what of it is begun. The names of tests say what users of schedulers have reported.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;
const MINUTE: i64 = 60_000;

fn at(text: &str) -> WallTime {
    WallTime::parse(text).unwrap()
}

fn schedule(members: Value) -> Schedule {
    let mut all = json!({ "task": "x" });
    all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

fn cron(text: &str, zone: &str) -> Timing {
    schedule(json!({ "cron": text, "timezone": zone })).timing(at("2026-01-01T00:00:00Z")).unwrap()
}

fn due(timing: &Timing, from: &str, until: &str) -> Vec<String> {
    let (due, has_more) = timing.due(at(from), at(until));
    assert!(!has_more);
    due.into_iter().map(|due| due.to_string().replace(":00.000Z", "Z")).collect()
}

#[test]
fn a_fixed_time_that_the_clock_leaves_out_is_due_right_after_and_one_that_it_repeats_once() {
    // Berlin: from 02:00 to 03:00 on 2026-03-29 (01:00 UTC), from 03:00 to 02:00 on 2026-10-25 (01:00 UTC).
    let nightly = cron("30 2 * * *", "Europe/Berlin");
    assert_eq!(
        due(&nightly, "2026-03-27T23:00:00Z", "2026-03-30T23:00:00Z"),
        ["2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"]
    );
    assert_eq!(
        due(&nightly, "2026-10-23T23:00:00Z", "2026-10-26T23:00:00Z"),
        ["2026-10-24T00:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"]
    );
}

#[test]
fn what_follows_the_clock_goes_on_through_the_hour_that_is_left_out_or_repeated() {
    let often = cron("*/30 * * * *", "Europe/Berlin");
    let halves = |from: &str, count: i64| -> Vec<String> {
        let times = (0..count).map(|half| WallTime(at(from).0 + half * 30 * MINUTE));
        times.map(|time| time.to_string().replace(":00.000Z", "Z")).collect()
    };
    assert_eq!(
        due(&often, "2026-03-28T23:59:00Z", "2026-03-29T02:00:00Z"),
        halves("2026-03-29T00:00:00Z", 5)
    );
    assert_eq!(
        due(&often, "2026-10-24T23:59:00Z", "2026-10-25T03:00:00Z"),
        halves("2026-10-25T00:00:00Z", 7)
    );
    // A zone that moves by half an hour.
    let lord_howe = cron("15 2 * * *", "Australia/Lord_Howe");
    let found = lord_howe.due(at("2026-09-30T00:00:00Z"), at("2026-10-08T00:00:00Z")).0;
    assert_eq!(found.len(), 8, "{found:?}");
}

#[test]
fn working_days_months_and_nicknames_are_those_of_the_zone() {
    let monday = cron("0 0 * * mon", "America/New_York");
    assert_eq!(due(&monday, "2026-11-28T00:00:00Z", "2026-12-01T00:00:00Z"), ["2026-11-30T05:00Z"]);
    assert_eq!(
        due(&cron("@monthly", "UTC"), "2026-02-02T00:00:00Z", "2026-04-01T00:00:00Z"),
        ["2026-03-01T00:00Z", "2026-04-01T00:00Z"]
    );
    assert_eq!(
        due(&cron("0 12 29 2 *", "UTC"), "2026-01-02T00:00:00Z", "2029-01-01T00:00:00Z"),
        ["2028-02-29T12:00Z"]
    );
}

#[test]
fn a_schedule_that_makes_no_sense_is_refused_with_its_key() {
    for (members, key, part) in [
        (json!({}), "", "one of them"),
        (json!({ "cron": "0 6 * * *", "every": "1h" }), "", "one of them"),
        (json!({ "cron": "61 * * * *" }), "cron", "61"),
        (json!({ "cron": "0 6 * *" }), "cron", "minute, hour"),
        (json!({ "cron": "0 0 6 * * *" }), "cron", "minute, hour"),
        (json!({ "cron": "0 0 30 2 *" }), "cron", "never due"),
        (json!({ "cron": "0 6 * * *", "timezone": "Berlin" }), "timezone", "Europe/Berlin"),
        (json!({ "every": "1h", "timezone": "Europe/Berlin" }), "timezone", "`cron`"),
        (json!({ "every": 999 }), "every", "1 s"),
        (json!({ "every": "1h", "task": " " }), "task", "empty"),
        (json!({ "every": "1h", "missed": "all" }), "missed", "overlap"),
    ] {
        let fault = schedule(members.clone()).timing(at("2026-01-01T00:00:00Z")).unwrap_err();
        assert!(fault.key == key && fault.what.contains(part), "{members}: {fault:?}");
    }
    for (name, is_one) in [("nightly-1", true), ("a.b", false), ("", false), (&"x".repeat(41), false)] {
        assert_eq!(check_name(name).is_ok(), is_one, "{name}");
    }
}

#[test]
fn the_id_of_a_task_is_that_of_its_firing() {
    let due = at("2026-11-29T06:00:00Z");
    assert_eq!(task_id("nightly", due).unwrap().as_str(), "nightly-20261129T060000Z");
    assert!(task_id(&"x".repeat(MAX_NAME), due).is_ok());
}

/// Advances a progress without another task in the way, and begins what it can.
fn begun(progress: &mut ScheduleProgress, schedule: &Schedule, now: WallTime) -> Vec<WallTime> {
    let timing = schedule.timing(at("2026-01-01T00:00:00Z")).unwrap();
    let mut begun = Vec::new();
    progress.advance(schedule, &timing, now, None);
    while let Some(due) = progress.begin(schedule.overlap, false) {
        begun.push(due);
        progress.settle(FiringOutcome::Taken(task_id("s", due).unwrap()), now);
    }
    begun
}

#[test]
fn after_an_absence_the_newest_missed_firing_is_made_up_for_and_none_that_is_not_yet_due() {
    let evening = schedule(json!({ "cron": "30 19 * * *" }));
    let mut progress = ScheduleProgress::of_new(at("2026-08-01T12:00:00Z"));
    let now = at("2026-08-03T10:57:00Z");
    assert_eq!(begun(&mut progress, &evening, now), [at("2026-08-02T19:30:00Z")]);
    assert_eq!(progress.skips, 1);
    assert_eq!(progress.skipped.as_ref().unwrap().due, at("2026-08-01T19:30:00Z"));
    assert!(begun(&mut progress, &evening, at("2026-08-03T19:29:59Z")).is_empty());
    assert_eq!(begun(&mut progress, &evening, at("2026-08-03T19:30:00Z")), [at("2026-08-03T19:30:00Z")]);
}

#[test]
fn every_missed_firing_is_made_up_for_if_so_said_up_to_a_hundred() {
    let hourly = schedule(json!({ "cron": "0 * * * *", "missed": "all", "overlap": "wait" }));
    let mut progress = ScheduleProgress::of_new(at("2026-08-01T00:00:00Z"));
    let made_up = begun(&mut progress, &hourly, at("2026-08-01T05:30:00Z"));
    assert_eq!(
        made_up,
        (1..=5).map(|hour| WallTime(at("2026-08-01T00:00:00Z").0 + hour * HOUR)).collect::<Vec<_>>()
    );
    let made_up = begun(&mut progress, &hourly, at("2026-08-11T05:30:00Z"));
    assert_eq!((made_up.len(), made_up.last()), (100, Some(&at("2026-08-11T05:00:00Z"))));
    assert!(progress.skipped.unwrap().reason.contains("more than 100"));
}

#[test]
fn a_missed_firing_is_left_out_with_the_reason_if_so_said_and_a_late_one_is_not() {
    let daily = schedule(json!({ "cron": "0 6 * * *", "missed": "skip" }));
    let mut progress = ScheduleProgress::of_new(at("2026-08-01T00:00:00Z"));
    assert!(begun(&mut progress, &daily, at("2026-08-01T06:01:01Z")).is_empty());
    assert!(progress.skipped.as_ref().unwrap().reason.contains("61 s"), "{progress:?}");
    assert_eq!(begun(&mut progress, &daily, at("2026-08-02T06:00:59Z")), [at("2026-08-02T06:00:00Z")]);
}

#[test]
fn a_firing_beside_an_open_task_is_left_out_and_the_schedule_goes_on_after_it() {
    let often = schedule(json!({ "every": "15m" }));
    let made = at("2026-01-01T00:00:00Z");
    let timing = often.timing(made).unwrap();
    let mut progress = ScheduleProgress::of_new(made);
    let busy = |minutes: i64| WallTime(made.0 + minutes * MINUTE);
    progress.advance(&often, &timing, busy(15), Some("its task t is working"));
    assert_eq!(progress.begin(often.overlap, true), None);
    assert_eq!(progress.skipped.as_ref().unwrap().reason, "its task t is working");
    assert_eq!(progress.next(&timing), Some(busy(30)));
    progress.advance(&often, &timing, busy(30), None);
    assert_eq!(progress.begin(often.overlap, false), Some(busy(30)));
}

#[test]
fn with_wait_the_newest_firing_waits_and_with_allow_none_does() {
    let made = at("2026-01-01T00:00:00Z");
    let minute = |minutes: i64| WallTime(made.0 + minutes * MINUTE);
    for (overlap, expected) in
        [("wait", [None, Some(minute(3))]), ("allow", [Some(minute(2)), Some(minute(3))])]
    {
        let schedule = schedule(json!({ "every": "1m", "overlap": overlap }));
        let timing = schedule.timing(made).unwrap();
        let mut progress = ScheduleProgress::of_new(minute(1));
        for (minutes, expected) in [(2, expected[0]), (3, expected[1])] {
            let is_busy = minutes == 2;
            progress.advance(&schedule, &timing, minute(minutes), is_busy.then_some("busy"));
            assert_eq!(progress.begin(schedule.overlap, is_busy), expected, "{overlap}");
            if let Some(due) = expected {
                progress.settle(FiringOutcome::Taken(task_id("s", due).unwrap()), due);
            }
        }
    }
}

#[test]
fn what_was_due_in_a_pause_is_not_made_up_for() {
    let daily = schedule(json!({ "cron": "0 6 * * *" }));
    let mut progress = ScheduleProgress::of_new(at("2026-08-01T00:00:00Z"));
    progress.resume(at("2026-08-04T12:00:00Z"));
    assert!(begun(&mut progress, &daily, at("2026-08-05T05:59:59Z")).is_empty());
    assert_eq!(begun(&mut progress, &daily, at("2026-08-05T06:00:00Z")), [at("2026-08-05T06:00:00Z")]);
}

#[test]
fn a_clock_that_goes_back_begins_nothing_again() {
    let hourly = schedule(json!({ "cron": "0 * * * *" }));
    let mut progress = ScheduleProgress::of_new(at("2026-08-01T00:30:00Z"));
    assert_eq!(begun(&mut progress, &hourly, at("2026-08-01T01:00:00Z")), [at("2026-08-01T01:00:00Z")]);
    for now in ["2026-08-01T00:10:00Z", "2026-08-01T01:00:00Z", "2026-08-01T01:59:59Z"] {
        assert!(begun(&mut progress, &hourly, at(now)).is_empty(), "{now}");
    }
}

/// A node in virtual time: what is recorded survives its crashes. The agent takes a task once, by its id.
#[derive(Default)]
struct VirtualNode {
    recorded: BTreeMap<String, ScheduleProgress>,
    /// The tasks that were taken, by id, and how often each was requested.
    taken: BTreeMap<TaskId, u32>,
}

/// Where a process dies in the life of one firing.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CrashPoint {
    BeforeRecord,
    AfterRecord,
    AfterRequest,
    Nowhere,
}

impl VirtualNode {
    /// One look at a schedule. Returns whether the process lives on.
    fn look(
        &mut self,
        name: &str,
        (schedule, timing): &(Schedule, Timing),
        now: WallTime,
        crash: CrashPoint,
    ) -> bool {
        let recorded = self.recorded.get_mut(name).unwrap();
        let mut progress = recorded.clone();
        progress.advance(schedule, timing, now, None);
        while let Some(due) = progress.begin(schedule.overlap, false) {
            if crash == CrashPoint::BeforeRecord {
                return false;
            }
            *recorded = progress.clone();
            if crash == CrashPoint::AfterRecord {
                return false;
            }
            let id = task_id(name, due).unwrap();
            *self.taken.entry(id.clone()).or_default() += 1;
            if crash == CrashPoint::AfterRequest {
                return false;
            }
            progress.settle(FiringOutcome::Taken(id), now);
            *recorded = progress.clone();
        }
        *recorded = progress;
        true
    }
}

#[test]
fn a_month_of_schedules_with_a_restart_a_day_misses_none_and_begins_none_twice() {
    let made = at("2026-10-10T00:00:00Z");
    let schedules: BTreeMap<&str, (Schedule, Timing)> = [
        ("nightly", json!({ "cron": "30 2 * * *", "timezone": "Europe/Berlin" })),
        ("hourly", json!({ "cron": "0 * * * *", "timezone": "America/New_York" })),
        ("workdays", json!({ "cron": "0 9 * * mon-fri", "timezone": "Asia/Kolkata" })),
        ("often", json!({ "every": "7m" })),
        ("once", json!({ "at": "2026-10-25T01:30:00Z" })),
        ("monthly", json!({ "cron": "@monthly" })),
    ]
    .into_iter()
    .map(|(name, mut members)| {
        members["missed"] = "all".into();
        members["overlap"] = "wait".into();
        let schedule = schedule(members);
        let timing = schedule.timing(made).unwrap();
        (name, (schedule, timing))
    })
    .collect();
    let crashes =
        [CrashPoint::BeforeRecord, CrashPoint::AfterRecord, CrashPoint::AfterRequest, CrashPoint::Nowhere];
    let end = WallTime(made.0 + 31 * DAY);
    let recorded =
        schedules.keys().map(|name| ((*name).to_owned(), ScheduleProgress::of_new(made))).collect();
    let mut node = VirtualNode { recorded, ..VirtualNode::default() };
    let (mut now, mut restarts) = (made, 0);
    while now < end {
        // Once a day the process dies at some point of the first firing that it begins then, and is away for up to three hours.
        let day = (now.0 - made.0) / DAY;
        let dies = restarts <= day && (now.0 - made.0) % DAY > day * 17 % 20 * HOUR;
        let crash =
            if dies { crashes[usize::try_from(day).unwrap() % crashes.len()] } else { CrashPoint::Nowhere };
        let lives = schedules.iter().all(|(name, schedule)| node.look(name, schedule, now, crash));
        let next = if dies && (!lives || crash == CrashPoint::Nowhere) {
            restarts += 1;
            WallTime(now.0 + (day * 7 % 180 + 1) * MINUTE)
        } else {
            let next = schedules.iter().filter_map(|(name, (_, timing))| node.recorded[*name].next(timing));
            next.min().unwrap()
        };
        now = next.max(now).min(end);
    }
    for (name, schedule) in &schedules {
        assert!(node.look(name, schedule, end, CrashPoint::Nowhere));
    }
    assert_eq!(restarts, 31);
    let mut expected = BTreeSet::new();
    for (name, (_, timing)) in &schedules {
        let mut due = made;
        while let Some(next) = timing.next(due).filter(|next| *next <= end) {
            expected.insert(task_id(name, next).unwrap());
            due = next;
        }
    }
    assert_eq!(node.taken.keys().cloned().collect::<BTreeSet<_>>(), expected);
    assert!(expected.len() > 7_000, "{}", expected.len());
    let requests = |wanted: u32| node.taken.values().filter(|requests| **requests == wanted).count();
    assert_eq!(requests(1) + requests(2), expected.len());
    assert!(requests(2) > 5, "a crash after the request makes it twice, under one id: {}", requests(2));
    let skips: u64 = node.recorded.values().map(|progress| progress.skips).sum();
    assert_eq!(skips, 0);
}

fn timings() -> impl Strategy<Value = Schedule> {
    let zones = prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]);
    let patterns = prop::sample::select(vec![
        "30 2 * * *",
        "*/15 * * * *",
        "0 1,2,3 * * *",
        "10 0 * * sun",
        "5 2-4 * * *",
        "0 0 1 * *",
        "45 1 * * mon-fri",
    ]);
    let cron = (patterns, zones).prop_map(|(cron, zone)| schedule(json!({ "cron": cron, "timezone": zone })));
    let every = (1_u64..100_000).prop_map(|seconds| schedule(json!({ "every": seconds * 1_000 })));
    prop_oneof![cron, every]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_newest_firings_are_the_same_from_the_front_and_from_the_back(
        schedule in timings(), from in 0_i64..730, days in 1_i64..8,
    ) {
        let made = at("2026-01-01T00:00:00Z");
        let timing = schedule.timing(made).unwrap();
        let (after, until) = (WallTime(made.0 + from * DAY), WallTime(made.0 + (from + days) * DAY));
        let mut forward = Vec::new();
        let mut at = after;
        while let Some(next) = timing.next(at).filter(|next| *next <= until) {
            prop_assert!(next > at);
            forward.push(next);
            at = next;
        }
        let newest: Vec<_> = timing.newest(until).into_iter().filter(|due| *due > after).collect();
        let most = forward.len().saturating_sub(timing::MAX_DUE);
        prop_assert_eq!(&forward[most..], &newest[..]);
        let (due, has_more) = timing.due(after, until);
        prop_assert_eq!(&forward[most..], &due[..]);
        prop_assert_eq!(has_more, most > 0);
    }

    #[test]
    fn whenever_it_is_looked_at_a_firing_is_begun_or_left_out_once(
        mut schedule in timings(), looks in prop::collection::vec(1_i64..100_000, 1..60), policy in 0..4_u8,
    ) {
        (schedule.missed, schedule.overlap) = match policy {
            0 => (MissedPolicy::All, OverlapPolicy::Allow),
            1 => (MissedPolicy::Latest, OverlapPolicy::Skip),
            2 => (MissedPolicy::Latest, OverlapPolicy::Wait),
            _ => (MissedPolicy::Skip, OverlapPolicy::Allow),
        };
        let made = at("2026-01-01T00:00:00Z");
        let timing = schedule.timing(made).unwrap();
        let (mut progress, mut now, mut taken) = (ScheduleProgress::of_new(made), made, Vec::new());
        for (look, seconds) in looks.into_iter().enumerate() {
            now = WallTime(now.0 + seconds * 1_000);
            let busy = (look % 3 == 0).then_some("busy");
            progress.advance(&schedule, &timing, now, busy);
            // A restart has what was recorded.
            progress = serde_json::from_value(serde_json::to_value(&progress).unwrap()).unwrap();
            while let Some(due) = progress.begin(schedule.overlap, busy.is_some()) {
                taken.push(due);
                progress.settle(FiringOutcome::Taken(task_id("s", due).unwrap()), now);
            }
        }
        prop_assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "twice or out of order: {:?}", taken);
        prop_assert!(taken.iter().all(|due| *due <= now));
        let mut due = 0_u64;
        let mut at = made;
        while let Some(next) = timing.next(at).filter(|next| *next <= now) {
            due += 1;
            at = next;
        }
        let settled = taken.len() as u64 + progress.waiting.len() as u64;
        prop_assert!(settled + progress.skips <= due);
        if schedule.missed == MissedPolicy::All && progress.skips == 0 {
            prop_assert_eq!(settled, due);
        }
    }
}
