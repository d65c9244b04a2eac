use super::{record::DelegationRecord, *};
use protocol::artifact::{Artifact, Part, PartContent};
use serde_json::{Value, json};

fn skill(agent: &str, id: &str, description: &str, tags: &[&str], examples: &[&str]) -> AdvertisedSkill {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    AdvertisedSkill {
        agent: agent.into(),
        skill: id.into(),
        name: id.replace('_', " "),
        description: description.into(),
        tags: own(tags),
        examples: own(examples),
    }
}

fn skills() -> Vec<AdvertisedSkill> {
    vec![
        skill(
            "Calendar Agent",
            "check_availability",
            "Says when you are free",
            &["calendar", "availability"],
            &["Am I free on Friday afternoon?"],
        ),
        skill(
            "WeatherBot",
            "get_forecast",
            "The forecast for a place and a day",
            &["weather", "forecast"],
            &["Is the weather good for a picnic outdoors?"],
        ),
        skill(
            "Travel Agent",
            "draft_itinerary",
            "Drafts itineraries for a few days",
            &["travel", "itinerary"],
            &[],
        ),
        skill("Press", "print_poster", "Prints posters", &["print", "poster"], &[]),
    ]
}

/// The user's words in seed 004.
const SEED: &str =
    "Check whether I am free tomorrow afternoon and whether the weather is good for an outdoor meeting.";

/// The agents and skills that are asked for `text`.
fn planned(text: &str, skills: &[AdvertisedSkill]) -> Vec<(String, String)> {
    let plan = plan(text, &TeamTerms::default(), skills);
    assert_eq!(plan.items.is_empty(), !plan.unmatched.is_empty(), "{:?}", plan.unmatched);
    assert!(plan.items.iter().all(|item| item.text == text), "{:?}", plan.items);
    plan.items.into_iter().map(|item| (item.agent, item.skill)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(agent, skill)| ((*agent).to_owned(), (*skill).to_owned())).collect()
}

#[test]
fn each_skill_that_shares_a_telling_word_has_the_whole_request() {
    let both = pairs(&[("Calendar Agent", "check_availability"), ("WeatherBot", "get_forecast")]);
    assert_eq!(planned(SEED, &skills()), both);
    let reasons: Vec<_> = plan(SEED, &TeamTerms::default(), &skills()).items;
    let reasons: Vec<_> = reasons.iter().map(|item| item.reason.as_str()).collect();
    assert_eq!(reasons, ["it shares afternoon, check, free", "it shares good, outdoor, weather"]);
    assert_eq!(planned("WEATHER?", &skills()), both[1..]);
    for nothing in ["Buy a house", "am I on a day", "天気はどうですか"] {
        assert_eq!(planned(nothing, &skills()), [], "{nothing}");
    }
}

#[test]
fn the_skill_with_the_most_words_is_first() {
    let text = "the weather of the weekend, and a picnic";
    let both = pairs(&[("WeatherBot", "get_forecast"), ("Pages", "read_page")]);
    let page = skill("Pages", "read_page", "Says what a page says of the weather", &[], &[]);
    for order in [[0, 1], [1, 0]] {
        let skills = order.map(|at| [skills().remove(1), page.clone()][at].clone());
        assert_eq!(planned(text, &skills), both[..1], "weather is a word of both");
        let with_more = [&skills[..], &[skill("Press", "print", "", &[], &[])]].concat();
        assert_eq!(planned(text, &with_more), both);
    }
}

#[test]
fn of_agents_that_offer_the_same_skill_the_first_is_asked() {
    let forecast = |agent: &str| skill(agent, "get_forecast", "Weather for a place", &["weather"], &[]);
    for count in 1..4 {
        let skills: Vec<_> = ["a", "b", "c"].into_iter().take(count).map(forecast).collect();
        assert_eq!(planned("Is the weather good?", &skills), pairs(&[("a", "get_forecast")]));
    }
}

#[test]
fn a_request_reaches_at_most_as_many_skills_as_it_may_have_parts() {
    let many = (0..MAX_PARTS + 3).map(|at| skill("a", &format!("tides_{at:04}"), "", &[], &[]));
    let skills: Vec<_> = many.chain([skill("b", "print", "", &[], &[])]).collect();
    assert_eq!(planned("tides", &skills).len(), MAX_PARTS);
}

#[test]
fn what_a_request_names_is_taken_as_it_says() {
    let planned = |items: Value| {
        let terms = TeamTerms { items: serde_json::from_value(items).unwrap(), ..TeamTerms::default() };
        plan("the weather", &terms, &skills())
    };
    let plan =
        planned(json!([{ "text": "forecast", "agent": "Press" }, { "text": "forecast", "skill": "none" }]));
    assert_eq!((plan.items.len(), plan.unmatched.len()), (0, 2));
    let plan = planned(json!([
        { "text": "xyz", "skill": "print_poster", "mode": "polling" },
        { "text": "a poster of the weather with a forecast" },
        { "text": " ", "skill": "get_forecast" },
    ]));
    let items: Vec<_> = plan.items.iter().map(|item| (item.agent.as_str(), item.text.as_str())).collect();
    assert_eq!(
        items,
        [("Press", "xyz"), ("WeatherBot", "a poster of the weather with a forecast\nthe weather")]
    );
    assert_eq!(plan.items[0].mode, Some(InteractionMode::Polling));
}

fn text(text: &str) -> Artifact {
    Artifact::text("result", "text/plain", text)
}

fn recorded() -> (DelegationRecord, Vec<TeamItem>) {
    let mut record = DelegationRecord::default();
    record.validated_agent_cards.insert("x".into(), json!({}));
    record.planned(plan(SEED, &TeamTerms::default(), &skills()));
    let items = record.delegation_plan.clone();
    (record, items)
}

#[test]
fn a_part_that_fails_marks_the_answer_and_leaves_the_rest_alone() {
    let (mut record, items) = recorded();
    record.done(&items[0], &[text("free from 13:00 to 17:00")], &[]);
    record.task_ids.insert(items[1].alias.clone(), "t-9".into());
    record.failed(&items[1], "failed", "no satellite");
    let output = record.finish(&TeamTerms::default());
    assert_eq!(output["status"], "partial");
    let answer = output["answer"].as_str().unwrap();
    assert!(answer.contains("13:00 to 17:00") && answer.contains("only a part"), "{answer}");
    assert!(
        output["errors"][0]
            .as_str()
            .unwrap()
            .contains("WeatherBot (get_forecast) task t-9 failed: no satellite")
    );
    let strict = TeamTerms { all_or_nothing: true, ..TeamTerms::default() };
    assert_eq!(record.finish(&strict)["status"], "failed");
}

#[test]
fn every_outcome_has_its_status() {
    let (mut record, items) = recorded();
    record.done(&items[0], &[text("yes")], &[]);
    record.asks(&items[1], "input-required", "Which town?");
    let output = record.finish(&TeamTerms::default());
    assert_eq!(
        (output["status"].as_str(), &output["pending_user_questions"]),
        (Some("input_required"), &json!(["Which town?"]))
    );
    record.done(&items[1], &[text("sunny")], &[]);
    assert_eq!(record.finish(&TeamTerms::default())["status"], "ok");
    for (how, status) in
        [("auth_failed", "auth_failed"), ("unsupported", "unsupported"), ("timeout", "failed")]
    {
        let (mut record, items) = recorded();
        items.iter().for_each(|item| record.failed(item, how, "so it is"));
        assert_eq!(record.finish(&TeamTerms::default())["status"], status);
    }
    assert_eq!(DelegationRecord::default().finish(&TeamTerms::default())["status"], "no_agents_available");
    let mut refused = DelegationRecord::default();
    refused.refuse("it is blank");
    assert_eq!(refused.finish(&TeamTerms::default())["errors"], json!(["it is blank"]));
    let mut nothing = DelegationRecord::default();
    nothing.validated_agent_cards.insert("x".into(), json!({}));
    assert_eq!(nothing.finish(&TeamTerms::default())["status"], "no_matching_skill");
}

#[test]
fn what_can_not_be_used_is_refused_as_a_whole() {
    let part = |content| Artifact { parts: vec![Part::new(content)], ..text("x") };
    for (bad, why) in [
        (vec![], "nothing in it"),
        (vec![text("")], "nothing in it"),
        (vec![text("fine"), text(" ").clone(), Artifact { parts: vec![], ..text("") }], "is empty"),
        (vec![text(&"x".repeat(5_001))], "5001 characters"),
        (vec![part(PartContent::Raw("AAAA".into()))], "bytes are not taken"),
        (vec![part(PartContent::Url("https://x".into()))], "not fetched"),
    ] {
        let said = results::why_not(&bad, &[]).unwrap();
        assert!(said.contains(why), "{said}");
    }
    assert!(
        results::why_not(&[text("fine")], &["application/json".into()])
            .unwrap()
            .contains("text/plain is none of")
    );
    let pieces = Artifact {
        parts: vec![Part::new(PartContent::Text("a".into())), Part::new(PartContent::Text("b".into()))],
        ..text("")
    };
    assert_eq!(results::normalised(&[pieces])[0]["parts"], results::normalised(&[text("ab")])[0]["parts"]);
}

#[test]
fn an_answer_is_made_of_what_each_part_has_reported() {
    use report::{ItemQuestion, ItemReport, ItemState, REPORT, aggregate, answer, artifact};
    let (record, items) = recorded();
    let of = |item: &TeamItem, report: ItemReport| {
        let mut artifact = artifact(&format!("ask.2.{REPORT}"), json!(report));
        artifact.metadata.insert(super::super::names::SESSION.to_owned(), json!({ "from": item.alias }));
        artifact
    };
    let done = ItemReport {
        status: "completed".into(),
        mode: Some("polling".into()),
        requests: vec![json!({ "message": { "parts": [] } })],
        credential: Some("available".into()),
        polls: 3,
        events: vec![json!({})],
        task_id: Some("foreign-1".into()),
        artifacts: vec![text("free")],
        ..ItemReport::default()
    };
    let plan = artifact("match.1.delegation_record", json!(record));
    let given = [plan, of(&items[0], done)];
    let state =
        |why: Option<&str>, asks| ItemState { alias: items[1].alias.clone(), why: why.map(Into::into), asks };
    let asks = ItemQuestion { task: "sub-1".into(), mode: None, text: "Which town?".into(), auth: false };
    for (state, status, error) in [
        (state(Some("killed"), None), "partial", "failed: killed"),
        (state(None, Some(asks)), "input_required", ""),
    ] {
        let (output, record) = aggregate(&given, &TeamTerms::default(), &[state]).unwrap();
        assert_eq!(output["status"], status, "{output:#}");
        assert_eq!(output["artifact_summary"], json!({ "Calendar Agent": "free" }));
        assert_eq!(output["agents_used"][0]["task_id"], "foreign-1");
        assert!(
            output["errors"].as_array().unwrap().iter().all(|found| found.as_str().unwrap().contains(error))
        );
        assert_eq!((record.poll_attempts.values().next(), record.stream_events.len()), (Some(&3), 1));
        assert_eq!(report::find::<Value>(&answer(&output, &record), OUTPUT), Some(output));
    }
    assert!(aggregate(&[], &TeamTerms::default(), &[]).is_err());
}
