//! Reads what rules 10 have recorded.

use super::{help_request::HelpRequest, work::WorkLimits};
use protocol::{ids::AgentId, message, usage::TaskBounds};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Error, Map, Value, json};

/// The patterns and their parts in whose names rules 10 wrote a label or a timer.
const WRAPPERS: [&str; 8] =
    ["delegation", "helpRequest", "contractNet", "redelivery", "reaction", "openTask", "offer", "auction"];

/// A label or a timer without the names of the patterns that rules 10 put around it.
pub(super) fn plain_name(written: Value) -> Value {
    let Value::Object(members) = &written else { return written };
    let Some((wrapper, inner)) = members.iter().next() else { return written };
    match (wrapper.as_str(), inner.as_str()) {
        ("helpRequest", Some("search")) => json!({ "search": 0 }),
        ("openTask", Some("renew")) => json!("claim"),
        ("work", _) => inner.clone(),
        (wrapper, _) if WRAPPERS.contains(&wrapper) => plain_name(inner.clone()),
        _ => written,
    }
}

/// The members of an object.
type Members = Map<String, Value>;

/// A pattern's state in the form of these rules. What one pattern did is done by three now: doing, hosting and auctioning.
pub(super) fn state(written: Value) -> Result<Value, Error> {
    let Value::Object(mut old) = written else { return Ok(written) };
    let pattern = old.get("pattern").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(match pattern.as_str() {
        "delegation" => match (take(&mut old, "auction"), take(&mut old, "session")) {
            (Value::Object(auction), _) => tagged("contractNet", auction),
            (_, Value::Null) => tagged("doing", doing(old)),
            (_, session) => {
                tagged("hosting", members(json!({ "task": assignment(&mut old), "session": session })))
            }
        },
        "helpRequest" if old.get("side") == Some(&json!("responder")) => tagged("helpRequest", answer(old)?),
        "reaction" => {
            let mut work = doing(members(take(&mut old, "work")));
            work.insert("kind".to_owned(), json!("reaction"));
            work["task"]["ownership"]["isHidden"] = json!(true);
            old.insert("work".to_owned(), work.into());
            old.into()
        }
        "openTask" => {
            if let Some(work) = old.get_mut("stage").and_then(|stage| stage.get_mut("doing")?.get_mut("work"))
            {
                *work = doing(members(work.take())).into();
            }
            old.into()
        }
        _ => old.into(),
    })
}

/// What a brain's work and a session have in common.
fn assignment(old: &mut Members) -> Value {
    let mut task = json!({
        "me": take(old, "me"),
        "ownership": take(old, "ownership"),
        "limits": take(old, "workLimits"),
        "turn": take(old, "turn"),
        "pending": take(old, "pending"),
        "summary": old.get_mut("result").and_then(|result| result.get_mut("message")).map(Value::take),
    });
    if let Some(checks) = old.remove("checks") {
        task["checks"] = checks;
    }
    task
}

/// The work of a brain.
fn doing(mut old: Members) -> Members {
    let is_checking = old.get("checks").is_some_and(|checks| checks["current"]["stage"] == "node");
    let task = assignment(&mut old);
    if is_checking {
        old.insert("isThinking".to_owned(), json!(false));
    }
    let (may_auction, terms) = (take(&mut old, "mayAuction"), old.remove("auctionTerms"));
    if may_auction == json!(true) {
        old.insert("auction".to_owned(), terms.unwrap_or_else(|| json!({})));
    }
    if let Value::Object(mut result) = take(&mut old, "result") {
        let mut refused = json!({ "revision": take(&mut result, "refused") });
        if let Some(chunks) = result.remove("chunks") {
            refused["chunks"] = chunks;
        }
        old.insert("refused".to_owned(), refused);
    }
    old.insert("task".to_owned(), task);
    old
}

/// An answer to a peer.
fn answer(mut old: Members) -> Result<Members, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        me: AgentId,
        request: message::HelpRequest,
        #[serde(default)]
        bounds: TaskBounds,
        #[serde(default)]
        is_unmetered: bool,
    }
    let Answer { me, request, bounds, is_unmetered } = read(&old)?;
    let limits = WorkLimits { bounds, is_unmetered, ..WorkLimits::default() };
    let mut work = serde_json::to_value(HelpRequest::answering(me, request, None, limits))?["side"].take();
    let doing = &mut work["answering"]["work"];
    doing["isThinking"] = json!(true);
    doing["task"]["turn"] = json!(1);
    if let Some(log) = old.remove("log") {
        doing["log"] = log;
    }
    if let Some(usage) = old.get("usage") {
        doing["task"]["ownership"]["usage"] = usage.clone();
    }
    // Whether it pauses was not recorded; the timer goes on with it if it does.
    doing["pauses"] = json!({ "reason": "a pause", "total": take(&mut old, "paused") });
    let produced = take(&mut old, "produced");
    if let Some(count) = produced.as_array().map(Vec::len).filter(|count| *count > 0) {
        doing["task"]["ownership"]["produced"]["range"] = json!({ "from": 0, "to": count });
    }
    work["answering"]["produced"] = produced;
    old.insert("side".to_owned(), work);
    Ok(old)
}

fn read<T: DeserializeOwned>(members: &Members) -> Result<T, Error> {
    serde_json::from_value(Value::Object(members.clone()))
}

fn take(members: &mut Members, name: &str) -> Value {
    members.remove(name).unwrap_or_default()
}

fn members(value: Value) -> Members {
    if let Value::Object(members) = value { members } else { Members::new() }
}

fn tagged(pattern: &str, mut members: Members) -> Value {
    members.insert("pattern".to_owned(), json!(pattern));
    members.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AnyPattern, Effect, Event, EventKind, Label, RequestKey, SessionTimer, Timer, WorkPhase,
        turn::TurnEnd,
    };
    use protocol::time::{NodeTime, WallTime};

    #[test]
    fn labels_and_timers_of_rules_10_are_read() {
        let label = |written: Value| serde_json::from_value::<Label>(written).unwrap();
        assert_eq!(label(json!({ "delegation": { "request": [1, 2] } })), Label::Request(RequestKey(1, 2)));
        assert_eq!(label(json!({ "delegation": { "auction": { "award": 7 } } })), Label::Award(7));
        assert_eq!(label(json!({ "contractNet": { "search": 2 } })), Label::Search(2));
        assert_eq!(label(json!({ "helpRequest": "search" })), Label::Search(0));
        assert_eq!(label(json!({ "reaction": "space" })), Label::Space);
        assert_eq!(label(json!({ "redelivery": "resend" })), Label::Resend);
        let timer = |written: Value| serde_json::from_value::<Timer>(written).unwrap();
        let side = SessionTimer::Side(1, 4);
        assert_eq!(timer(json!({ "delegation": { "session": { "side": [1, 4] } } })), Timer::Session(side));
        assert_eq!(timer(json!({ "delegation": { "auction": "queue" } })), Timer::Queue);
        assert_eq!(timer(json!({ "openTask": "renew" })), Timer::Claim);
        assert_eq!(timer(json!({ "openTask": { "work": "review" } })), Timer::Review);
        assert_eq!(
            timer(json!({ "openTask": { "work": { "request": [1, 0] } } })),
            Timer::Request(RequestKey(1, 0))
        );
        assert_eq!(timer(json!({ "offer": "giveUp" })), Timer::GiveUp);
    }

    #[test]
    fn labels_and_timers_are_read_as_they_are_written() {
        for label in [Label::Search(3), Label::Award(1), Label::Request(RequestKey(2, 0)), Label::Cfp] {
            let written = serde_json::to_value(label).unwrap();
            assert_eq!(serde_json::from_value::<Label>(written).unwrap(), label);
        }
        let timer = Timer::Session(SessionTimer::Stall(1, 2, 3));
        assert_eq!(serde_json::from_str::<Timer>(&serde_json::to_string(&timer).unwrap()).unwrap(), timer);
    }

    /// States that the last program with rules 10 has written.
    const STATES: &str = include_str!("v10/states.jsonl");

    #[test]
    fn states_of_rules_10_are_read_and_go_on() {
        let mut names = Vec::new();
        for line in STATES.lines() {
            let sample: Value = serde_json::from_str(line).unwrap();
            let pattern = AnyPattern::read(10, sample["state"].clone());
            let pattern = pattern.unwrap_or_else(|error| panic!("{}: {error}", sample["what"]));
            let what = sample["what"].as_str().unwrap();
            let view = pattern.view();
            let expected = match what {
                "doing: a turn runs" | "doing: the node checks" | "open-task" => Some(WorkPhase::Active),
                "doing: it waits for a peer" | "session" => Some(WorkPhase::AwaitsAgents),
                _ => None,
            };
            assert_eq!(view.work, expected, "{what}");
            assert_eq!(view.session.is_some(), what == "session");
            assert_eq!(view.award.is_some(), what.starts_with("contract-net"));
            assert_eq!(view.turn.artifacts.len(), usize::from(what == "help-request: an answer"));
            assert_eq!(view.turn.checkpoints.to > 0, what == "help-request: a pause");
            let written = serde_json::to_value(&pattern).unwrap();
            assert_eq!(AnyPattern::read(AnyPattern::RULES, written).unwrap(), pattern, "{what}");
            names.push(pattern.name());
        }
        let all = "delegation delegation delegation contract-net contract-net session help-request help-request help-request \
                   reaction open-task offer";
        assert_eq!(names.join(" "), all);
    }

    #[test]
    fn an_answer_of_rules_10_goes_on_after_its_pause_and_ends() {
        let sample = STATES.lines().find(|line| line.contains("help-request: a pause")).unwrap();
        let sample: Value = serde_json::from_str(sample).unwrap();
        let mut answer = AnyPattern::read(10, sample["state"].clone()).unwrap();
        let mut on = |what| answer.on(&Event { at: NodeTime(0), wall: WallTime(0), what });
        let effects = on(EventKind::TimerFired { timer: Timer::Resume });
        assert!(matches!(effects.as_slice(), [Effect::RunTurn { turn: 1, .. }]), "{effects:?}");
        let end = TurnEnd::Done { message: Some("3 m".to_owned()) };
        let effects = on(EventKind::TurnEnded { turn: 1, updates: Vec::new(), end });
        assert!(matches!(effects.as_slice(), [Effect::Send(_), Effect::Finish(_)]), "{effects:?}");
    }

    #[test]
    fn states_of_older_rules_are_refused() {
        assert!(AnyPattern::read(9, json!({ "pattern": "delegation" })).is_err());
    }
}
