use super::{record::DelegationRecord, *};
use crate::artifact::{Artifact, Part, PartContent};
use proptest::prelude::*;
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

fn planned(text: &str) -> Vec<(String, String)> {
    let plan = plan(text, &TeamTerms::default(), &skills());
    plan.items.into_iter().map(|item| (item.skill, item.text)).collect()
}

#[test]
fn a_request_is_taken_apart_and_each_part_finds_its_skill() {
    for text in [
        "Am I free tomorrow afternoon, and is the weather good for an outdoor meeting?",
        "Check whether I am free tomorrow afternoon and whether the weather is good for an outdoor meeting.",
    ] {
        let found = planned(text);
        let names: Vec<_> = found.iter().map(|(skill, _)| skill.as_str()).collect();
        assert_eq!(names, ["check_availability", "get_forecast"], "{text}: {found:?}");
        assert!(found[1].1.contains("weather") && !found[1].1.contains("free"), "{found:?}");
    }
    let seoul = planned(
        "Ask the travel agent to draft a two-day Seoul itinerary and return the result as a summary.",
    );
    assert_eq!(seoul.len(), 1, "{seoul:?}");
    assert_eq!(seoul[0].0, "draft_itinerary");
}

#[test]
fn the_words_of_a_request_reach_their_parts_unharmed() {
    let mut skills = skills();
    skills.push(skill("Builder", "implement_api", "Implements REST endpoints", &["rest", "endpoint"], &[]));
    let parts = |text| {
        let vocabulary = matching::Vocabulary::of(&skills);
        parts::split(text, &vocabulary).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (text, expected) in [
        (
            "Implement a REST endpoint for items (name, price:float), and check the weather at https://a.b/c?d=e.f. Please be quick!",
            &[
                "Implement a REST endpoint for items (name, price:float)",
                "check the weather at https://a.b/c?d=e.f. Please be quick!",
            ][..],
        ),
        (
            "Print `a, check b. Then build c` on a poster; then tell me \"is it 1.5, and is it late?\"",
            &["Print `a, check b. Then build c` on a poster", "tell me \"is it 1.5, and is it late?\""],
        ),
        (
            "Implement this:\n    list  (a,\n      b)\nWhat is the weather?",
            &["Implement this:\n    list  (a,\n      b)", "What is the weather?"],
        ),
        ("A smile :) and is the weather good?", &["A smile :)", "is the weather good?"]),
        ("An open ( bracket, is the weather good?", &["An open ( bracket", "is the weather good?"]),
        ("and then", &[]),
        ("", &[]),
    ] {
        assert_eq!(parts(text), expected, "{text}");
    }
}

#[test]
fn a_skill_that_several_agents_offer_is_found_as_one_that_a_single_one_does() {
    let forecast = |agent: &str| {
        skill(agent, "get_forecast", "Weather forecast for a place and a day", &["weather", "forecast"], &[])
    };
    let found = |skills: &[AdvertisedSkill]| {
        let plan = plan("Is the weather good for an outdoor meeting?", &TeamTerms::default(), skills);
        plan.items.into_iter().map(|item| item.agent).collect::<Vec<_>>()
    };
    assert_eq!(found(&[forecast("a")]), ["a"]);
    assert_eq!(found(&["a", "b", "c", "d"].map(forecast)), ["a"]);
}

#[test]
fn a_similar_skill_that_joins_takes_no_match_away() {
    let similar = |at: usize| {
        let (agent, id) = (format!("sky-{at}"), format!("weather_report_{at}"));
        skill(&agent, &id, "Weather and forecasts", &["weather", "forecast"], &[])
    };
    for text in
        ["Is the weather good for an outdoor meeting?", "weather in Bern tomorrow", "weather tomorrow"]
    {
        let mut skills = vec![skill("a", "get_forecast", "", &["weather", "forecast"], &[])];
        let first = plan(text, &TeamTerms::default(), &skills).candidates.remove(0);
        for at in 0..8 {
            skills.push(similar(at));
            let plan = plan(text, &TeamTerms::default(), &skills);
            assert_eq!(plan.items.len(), 1, "{text}, {at} similar: {:?}", plan.unmatched);
            let still = plan.candidates.iter().find(|candidate| candidate.agent == "a");
            assert!(still.is_none_or(|still| still.score == first.score), "{still:?}");
        }
    }
}

#[test]
fn of_those_that_fit_the_one_that_has_the_words_to_itself_is_the_best() {
    let mut skills = vec![
        skill("a", "weather_news", "", &["weather"], &[]),
        skill("b", "harbour_tides", "", &["harbour", "tides"], &[]),
        skill("c", "weather_alerts", "", &["weather"], &[]),
    ];
    let chosen = |skills: &[AdvertisedSkill]| {
        plan("weather harbour", &TeamTerms::default(), skills).items.remove(0).agent
    };
    assert_eq!(chosen(&skills), "b", "two others speak of the weather");
    skills.truncate(1);
    assert_eq!(chosen(&skills), "a");
}

#[test]
fn a_shared_word_is_not_a_match_and_the_plan_says_why() {
    for text in [
        "Draft a poem about the weather",
        "Sing a song for the agent on Friday",
        "Tell the place where the day was spent in Rome with uncle Bob",
        "Buy a house",
    ] {
        let plan = plan(text, &TeamTerms::default(), &skills());
        assert!(plan.items.is_empty(), "{text}: {:?}", plan.items);
        assert_eq!(plan.unmatched.len(), 1, "{text}");
        assert!(!plan.unmatched[0].reason.is_empty());
        for alone in skills() {
            let plan = super::plan(text, &TeamTerms::default(), std::slice::from_ref(&alone));
            assert!(plan.items.is_empty(), "{text}, {} alone: {:?}", alone.skill, plan.items);
        }
    }
    let plan = plan("Draft a poem about the weather", &TeamTerms::default(), &skills());
    let why = |skill: &str| {
        let of_skill = plan.candidates.iter().find(|candidate| candidate.skill == skill);
        of_skill.map(|candidate| candidate.matched["draft"].clone()).unwrap_or_default()
    };
    assert_eq!(why("get_forecast"), "asked, and none of its deeds", "{:?}", plan.candidates);
    assert_eq!(why("draft_itinerary"), "its deed, and nothing that it is asked to be about");
}

#[test]
fn what_a_request_names_is_taken_as_it_says() {
    let terms =
        |items: Value| TeamTerms { items: serde_json::from_value(items).unwrap(), ..TeamTerms::default() };
    let unrelated = terms(json!([
        { "text": "xyz", "skill": "print_poster", "mode": "polling" }, { "text": "forecast", "agent": "Press" }
    ]));
    let plan = plan("whatever", &unrelated, &skills());
    assert_eq!(
        (plan.items.len(), plan.unmatched.len()),
        (0, 2),
        "a skill that shares nothing was not even a candidate"
    );
    let named = terms(json!([{ "text": "a poster", "skill": "print_poster", "mode": "polling" }]));
    let plan = super::plan("whatever", &named, &skills());
    assert_eq!((plan.items[0].agent.as_str(), plan.items[0].mode), ("Press", Some(InteractionMode::Polling)));
}

fn text(text: &str) -> Artifact {
    Artifact::text("result", "text/plain", text)
}

fn recorded() -> (DelegationRecord, Vec<TeamItem>) {
    let mut record = DelegationRecord::default();
    record.validated_agent_cards.insert("x".into(), json!({}));
    record.planned(plan(
        "Am I free tomorrow afternoon, and is the weather good for an outdoor meeting?",
        &TeamTerms::default(),
        &skills(),
    ));
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

fn some_words() -> impl Strategy<Value = Vec<&'static str>> {
    let word = prop::sample::select(vec![
        "weather", "forecast", "calendar", "poster", "travel", "print", "draft", "city", "harbour", "tides",
    ]);
    proptest::collection::vec(word, 0..4)
}

fn any_skill() -> impl Strategy<Value = AdvertisedSkill> {
    (0..4_u8, some_words(), some_words(), some_words()).prop_map(|(agent, id, description, tags)| {
        skill(&format!("agent-{agent}"), &id.join("_"), &description.join(" "), &tags, &[])
    })
}

proptest! {
    #[test]
    fn whoever_joins_takes_no_match_away(
        text in some_words(),
        mut skills in proptest::collection::vec(any_skill(), 1..5),
        one_more in any_skill(),
    ) {
        let terms = TeamTerms { items: vec![WantedPart { text: text.join(" "), ..WantedPart::default() }], ..TeamTerms::default() };
        let before = plan("whatever", &terms, &skills).items.len();
        skills.push(one_more);
        prop_assert!(plan("whatever", &terms, &skills).items.len() >= before);
    }

    #[test]
    fn any_text_is_planned_within_bounds(text in ".{0,200}") {
        for part in parts::split(&text, &matching::Vocabulary::of(&skills())) {
            prop_assert!(text.contains(part) && !part.trim().is_empty());
        }
        let plan = plan(&text, &TeamTerms::default(), &skills());
        prop_assert!(plan.candidates.iter().all(|candidate| (0.0..=1.0).contains(&candidate.score)));
        prop_assert!(plan.items.iter().all(|item| item.score >= matching::ENOUGH));
    }
}

#[test]
fn an_answer_is_made_of_what_each_part_has_reported() {
    use report::{ItemQuestion, ItemReport, ItemState, REPORT, aggregate, answer, artifact};
    let (record, items) = recorded();
    let of = |item: &TeamItem, report: ItemReport| {
        let mut artifact = artifact(&format!("ask.2.{REPORT}"), json!(report));
        artifact.metadata.insert(super::super::seat::SESSION.to_owned(), json!({ "from": item.alias }));
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
    let asks = ItemQuestion { task: "sub-1".into(), text: "Which town?".into(), auth: false };
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
