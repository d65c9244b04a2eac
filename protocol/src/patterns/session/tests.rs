//! Tests of the rules of sessions: a host that answers every turn, in any order.

use super::{
    directive::{Directive, DirectiveOutcome, DirectiveVerb},
    graph::Graph,
    *,
};
use crate::{
    patterns::turn::RequestResult,
    question::{Answer, Decision, QuestionKind},
    seat_end::SeatEnd,
};
use proptest::prelude::*;
use serde_json::json;

/// A session that is answered by a test.
struct Table {
    graph: Graph,
    session: Session,
    id: TaskId,
    used: Usage,
    chunks: u64,
    now: i64,
    /// The turns that run.
    open: Vec<SeatTurn>,
    /// All turns that were given, by name.
    given: Vec<String>,
    end: Option<(TaskState, String)>,
    recorded: Vec<Artifact>,
    /// The questions of gates that are open.
    asked: Vec<Question>,
    budget_ends: WallTime,
}

impl Table {
    fn new(graph: Value) -> Self {
        let graph = Graph::read(Some(&graph)).unwrap_or_else(|why| panic!("{why}"));
        let id = TaskId::parse("s-1").unwrap();
        let (session, used) = (Session::default(), Usage::default());
        let (open, given, recorded, asked) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut table = Self {
            graph,
            session,
            id,
            used,
            chunks: 0,
            now: 0,
            open,
            given,
            end: None,
            recorded,
            asked,
            budget_ends: WallTime(0),
        };
        table.run(Session::start);
        table
    }

    fn run(&mut self, rule: impl FnOnce(&mut Session, SessionContext<'_>) -> Vec<SessionAction>) {
        let cx = SessionContext {
            graph: &self.graph,
            id: &self.id,
            goal: "the goal",
            given: &[],
            used: &self.used,
            now: WallTime(self.now),
            next_chunk: self.chunks,
        };
        // A crash after every event changes nothing.
        let stored = serde_json::to_string(&self.session).unwrap();
        self.session = serde_json::from_str(&stored).unwrap();
        for action in rule(&mut self.session, cx) {
            assert!(self.end.is_none(), "nothing follows the end: {action:?}");
            match action {
                SessionAction::Record(artifact) => {
                    self.chunks += 1;
                    self.recorded.push(*artifact);
                }
                SessionAction::Turn(turn) => {
                    assert!(!self.given.contains(&turn.id), "{} is given twice", turn.id);
                    self.given.push(turn.id.clone());
                    self.open.push(*turn);
                }
                SessionAction::Ask(question) => self.asked.push(*question),
                SessionAction::Withdraw { turn, .. } => {
                    self.open.retain(|open| open.id != turn);
                    self.asked.retain(|open| open.id != turn);
                }
                SessionAction::Timer { timer: SessionTimer::Budget, at } => self.budget_ends = at,
                SessionAction::Timer { .. } | SessionAction::Show(_) => {}
                SessionAction::End { state, message } => self.end = Some((state, message)),
            }
        }
    }

    /// The result of a running turn.
    fn answer(&mut self, at: usize, text: &str, end: SeatEnd) {
        let turn = self.open.remove(at);
        let seat = Some(end);
        let result = RequestResult { id: turn.id, ok: true, text: text.into(), seat, ..Default::default() };
        let again = result.clone();
        self.run(|session, cx| session.turn_ended(cx, result));
        let before = self.session.clone();
        // The same result again changes nothing but the time.
        if self.end.is_none() {
            self.run(|session, cx| session.turn_ended(cx, again));
            assert_eq!(self.session, before);
        }
    }

    fn passes(&mut self, text: &str) {
        self.answer(0, text, SeatEnd { passed: true, ..SeatEnd::default() });
    }

    fn done(&mut self, text: &str) {
        self.answer(0, text, SeatEnd::default());
    }

    fn fails(&mut self) {
        let turn = self.open.remove(0);
        let result = RequestResult { id: turn.id, text: "it broke".into(), ..Default::default() };
        self.run(|session, cx| session.turn_ended(cx, result));
    }

    /// Decides at the only open gate.
    fn decides(&mut self, decision: Decision, reason: Option<&str>) {
        let question = self.asked.remove(0);
        let answer = Answer::Decision { decision, reason: reason.map(str::to_owned), proof: None };
        let (ok, decision) = (decision == Decision::Approve, Some(decision));
        let result =
            RequestResult { id: question.id, ok, text: answer.words(), decision, ..Default::default() };
        self.run(|session, cx| session.turn_ended(cx, result));
    }

    /// A person steers, if that is not refused.
    fn directs(&mut self, wanted: Value) -> Result<DirectiveOutcome, String> {
        let wanted: Directive = serde_json::from_value(wanted).unwrap();
        let mut outcome = Ok(DirectiveOutcome::Delivered);
        self.run(|session, cx| {
            outcome = session.check_directive(&cx, &wanted);
            session.direct(cx, &wanted)
        });
        outcome
    }

    fn turns(&self) -> Vec<&str> {
        self.open.iter().map(|turn| turn.id.as_str()).collect()
    }

    fn ended(&self) -> (TaskState, &str) {
        let (state, message) = self.end.as_ref().unwrap_or_else(|| panic!("{:#?}", self.session));
        (*state, message)
    }
}

fn refusal(graph: Value) -> String {
    Graph::read(Some(&graph)).unwrap_err()
}

#[test]
fn a_person_says_something_to_a_stage_that_runs_and_to_one_that_waits() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "table", "order": "turns", "seats": ["a", "b"] },
        { "id": "end", "after": ["table"], "seats": ["c"] },
    ] }));
    let say = |stage: &str, seat: Option<&str>, text: &str| json!({ "verb": "say", "stage": stage, "seat": seat, "text": text });
    assert_eq!(table.directs(say("table", None, "be quick")), Ok(DirectiveOutcome::Delivered));
    assert_eq!(table.directs(say("table", Some("a"), "only a")), Ok(DirectiveOutcome::Delivered));
    assert_eq!(table.directs(say("end", None, "be kind")), Ok(DirectiveOutcome::Queued));
    for (bad, why) in [
        (say("tabel", None, "x"), "is it table?"),
        (say("table", Some("z"), "x"), "has no seat"),
        (say("table", None, " "), "needs its `text`"),
        (json!({ "verb": "skip" }), "stage: is needed"),
        (json!({ "verb": "redirect", "stage": "end" }), "has not begun"),
    ] {
        let refused = table.directs(bad.clone()).unwrap_err();
        assert!(refused.contains(why), "{bad}: {refused}");
    }
    table.passes("one");
    assert_eq!(table.open[0].artifacts, ["table.1", "table.4"], "what is for a is not for b");
    table.passes("two");
    assert_eq!(table.open[0].artifacts, ["table.1", "table.2", "table.5"]);
    table.done("three");
    table.done("four");
    assert!(table.open[0].artifacts.contains(&"end.3".to_owned()), "{:?}", table.open[0]);
    assert!(table.directs(say("table", None, "late")).unwrap_err().contains("has ended"));
    table.done("five");
    assert_eq!(table.ended(), (TaskState::Completed, "five"));
    let view = Directive { verb: DirectiveVerb::Stop, stage: None, seat: None, text: None };
    table.end = None;
    assert_eq!(table.directs(serde_json::to_value(view).unwrap()), Err("the session has ended".to_owned()));
}

#[test]
fn a_person_skips_a_stage_begins_one_again_and_stops_the_session() {
    let graph = || {
        json!({ "stages": [
            { "id": "one", "seats": ["a", "b"] },
            { "id": "two", "after": ["one"], "seats": ["c"] },
        ] })
    };
    let mut table = Table::new(graph());
    table.done("from a");
    table.directs(json!({ "verb": "skip", "stage": "one" })).unwrap();
    assert_eq!(table.turns(), ["two.1.c.1"], "the turn of b is withdrawn");
    assert_eq!(table.open[0].artifacts, ["one.1"], "what a has said is kept");
    table.directs(json!({ "verb": "redirect", "stage": "one", "text": "shorter" })).unwrap();
    assert_eq!(table.turns(), ["one.2.a.1", "one.2.b.1"]);
    assert!(table.open[0].artifacts.contains(&"one.2".to_owned()));
    table.directs(json!({ "verb": "stop", "text": "enough" })).unwrap();
    assert!(table.turns().is_empty());
    assert_eq!(table.ended(), (TaskState::Failed, "stopped by a person: enough"));
    let mut table = gated_table(json!({ "id": "spec", "seats": ["lead"], "gate": ["approve", "decline"] }));
    table.done("a page");
    table.now = 7_200_000;
    table.run(|session, cx| session.timer(cx, SessionTimer::Budget));
    table.directs(json!({ "verb": "skip", "stage": "spec" })).unwrap();
    assert!(table.asked.is_empty(), "the question is taken back");
    assert_eq!(table.budget_ends, WallTime(3_600_000 + 7_200_000), "its time goes on");
    assert_eq!(table.turns(), ["build.1.builder.1"]);
}

fn gated() -> Table {
    gated_table(json!({ "id": "spec", "seats": ["lead"], "gate": ["approve", "revise", "decline"] }))
}

fn gated_table(spec: Value) -> Table {
    Table::new(json!({ "stages": [spec, { "id": "build", "after": ["spec"], "seats": ["builder"] }] }))
}

#[test]
fn nothing_begins_behind_a_gate_before_a_person_approves() {
    let mut table = gated();
    table.done("a login page");
    assert!(table.turns().is_empty() && table.end.is_none());
    assert!(table.asked[0].text.contains("a login page") && table.asked[0].kind == QuestionKind::Approval);
    table.decides(Decision::Approve, None);
    assert_eq!(table.turns(), ["build.1.builder.1"]);
    table.done("built");
    assert_eq!(table.ended(), (TaskState::Completed, "built"));
}

#[test]
fn a_denial_with_a_reason_revises_and_one_without_ends() {
    let mut table = gated();
    table.done("a login page");
    table.decides(Decision::Deny, Some("no passwords"));
    assert_eq!(table.turns(), ["spec.2.lead.1"]);
    let words: Vec<_> = table.recorded.iter().map(|artifact| artifact.as_text()).collect();
    assert_eq!(words, ["a login page", "no passwords"]);
    let ids: Vec<_> = table.recorded.iter().map(|artifact| artifact.artifact_id.clone()).collect();
    assert_eq!(table.open[0].artifacts, ids, "both are given to the next turn");
    table.done("a passkey page");
    table.decides(Decision::Deny, None);
    assert_eq!(table.ended(), (TaskState::Failed, "declined at stage spec"));
}

#[test]
fn a_gate_holds_however_its_stage_ended_and_whatever_label_a_seat_gave() {
    let spec = |more: Value| {
        let mut spec =
            json!({ "id": "spec", "order": "turns", "rounds": 1, "seats": ["lead"], "gate": ["approve"] });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let label = |label: &str| SeatEnd { label: Some(label.into()), ..SeatEnd::default() };
    // Its rounds are used up, it has found too little, a label leads on, and one leads back that may not any more.
    let cases: [(Value, SeatEnd, &str); 5] = [
        (json!({}), SeatEnd { passed: true, ..SeatEnd::default() }, "incomplete"),
        (json!({ "atLeast": 2 }), SeatEnd::default(), "too-few"),
        (
            json!({ "next": { "incomplete": "build" } }),
            SeatEnd { passed: true, ..SeatEnd::default() },
            "incomplete",
        ),
        (json!({ "next": { "approve": "build" } }), label("approve"), "approve"),
        (json!({ "next": { "good": "build" } }), label("good"), "good"),
    ];
    for (more, end, shown) in cases {
        let mut table = gated_table(spec(more.clone()));
        table.answer(0, "a page", end);
        assert!(table.turns().is_empty() && table.end.is_none(), "{more}");
        assert!(table.asked[0].text.contains(&format!("ended: {shown}")), "{}", table.asked[0].text);
        table.decides(Decision::Approve, None);
        assert_eq!(table.turns(), ["build.1.builder.1"], "{more}");
    }
    let mut table = gated_table(spec(json!({ "next": { "again": "spec" }, "loops": 1 })));
    table.answer(0, "one", label("again"));
    assert_eq!(table.turns(), ["spec.2.lead.1"], "nothing behind the gate begins");
    table.answer(0, "two", label("again"));
    assert!(table.turns().is_empty() && table.asked.len() == 1, "it may go back once");
    // Without a person nothing goes on.
    let id = table.asked.remove(0).id;
    let nobody = RequestResult { id, text: "there is no person".into(), ..Default::default() };
    table.run(|session, cx| session.turn_ended(cx, nobody));
    let (state, why) = table.ended();
    assert!(state == TaskState::Failed && why.contains("nobody decided at its gate"), "{why}");
}

#[test]
fn seats_choose_the_way_on_and_a_person_lets_it_be_gone() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "spec", "seats": ["lead"], "gate": ["approve"], "next": { "good": "build", "bad": "drop" } },
        { "id": "build", "after": ["spec"], "seats": ["builder"] },
        { "id": "drop", "after": ["spec"], "seats": ["cleaner"] },
    ] }));
    table.answer(0, "a page", SeatEnd { label: Some("bad".into()), ..SeatEnd::default() });
    table.decides(Decision::Approve, None);
    assert_eq!(table.turns(), ["drop.1.cleaner.1"]);
}

#[test]
fn the_time_of_a_person_at_a_gate_is_not_of_the_budget() {
    let mut table = gated();
    assert_eq!(table.budget_ends, WallTime(3_600_000));
    table.now = 1_000;
    table.done("a login page");
    table.now = 90_000_000;
    table.run(|session, cx| session.timer(cx, SessionTimer::Budget));
    assert!(table.end.is_none(), "a person may think for a day");
    table.decides(Decision::Approve, None);
    assert_eq!(table.budget_ends, WallTime(3_600_000 + 90_000_000 - 1_000));
}

#[test]
fn a_graph_that_can_not_work_is_refused_by_name() {
    let stages = |stages: Value| json!({ "stages": stages });
    for (graph, part) in [
        (json!({}), "`seats`, or `stages`"),
        (json!({ "seats": ["a"], "sets": 1 }), "unknown field `sets`"),
        (json!({ "seats": ["a"], "stages": [{ "id": "x", "seats": ["a"] }] }), "not both"),
        (json!({ "seats": [{ "agent": "a", "capability": "b" }] }), "exactly one of"),
        (json!({ "seats": [{ "agent": "a", "observer": true }] }), "unknown field `observer`"),
        (json!({ "seats": ["a", "a"] }), "two seats are called \"a\""),
        (json!({ "seats": ["team"] }), "no seat may be called \"team\""),
        (json!({ "seats": ["a"], "budget": { "turns": 0 } }), "budget: turns"),
        (json!({ "seats": ["a"], "budget": { "tokens": "many" } }), "is no number"),
        (stages(json!([{ "id": "x", "seats": [] }])), "stage x: it has no seats"),
        (stages(json!([{ "id": "x y", "seats": ["a"] }])), "a stage is called \"x y\""),
        (stages(json!([{ "id": "x", "seats": ["a"], "rounds": 0 }])), "rounds: 1 to 1000"),
        (
            stages(
                json!([{ "id": "plan", "seats": ["a"] }, { "id": "y", "seats": ["a"], "after": ["plam"] }]),
            ),
            "there is no stage \"plam\"; is it plan?",
        ),
        (stages(json!([{ "id": "x", "seats": ["a"], "next": { "again": "x" } }])), "`loops` says how often"),
        (
            stages(
                json!([{ "id": "x", "seats": ["a"] }, { "id": "y", "seats": ["a"], "next": { "l": "z" } }]),
            ),
            "there is no stage \"z\"",
        ),
        (
            stages(json!([
                { "id": "x", "seats": ["a"], "after": ["z"] }, { "id": "y", "seats": ["a"], "after": ["x"] },
                { "id": "z", "seats": ["a"], "after": ["y"] }
            ])),
            "the stages x → z → y → x wait for each other",
        ),
    ] {
        let why = refusal(graph.clone());
        assert!(why.contains(part), "{graph}: {why}");
    }
}

/// SEEDS §9, line 23: assignment order, one turn per cycle; line 24: done seats are skipped.
#[test]
fn seats_of_a_table_speak_in_order_and_those_that_are_done_are_skipped() {
    let mut table = Table::new(json!({ "seats": ["a", "b", "c"] }));
    assert_eq!(table.turns(), ["table.1.a.1"]);
    table.passes("one");
    assert_eq!(table.turns(), ["table.1.b.1"]);
    assert_eq!(table.open[0].artifacts, ["table.1"], "b is given what a said");
    table.done("two");
    table.passes("three");
    assert_eq!(table.turns(), ["table.1.a.2"], "the second round");
    assert_eq!(table.open[0].input["seat"]["new"], json!(["table.2", "table.3"]));
    table.done("four");
    assert_eq!(table.turns(), ["table.1.c.2"], "b is done");
    table.done("the result");
    assert_eq!(table.ended(), (TaskState::Completed, "the result"));
    assert_eq!(table.recorded.len(), 5);
}

/// SEEDS §9, line 25: the rounds used up are never a success.
#[test]
fn a_table_that_does_not_end_is_incomplete() {
    let mut table = Table::new(json!({ "seats": ["a", "b"] }));
    let mut count = 0;
    while table.end.is_none() {
        count += 1;
        table.passes(&format!("{count}"));
    }
    assert_eq!((count, table.ended().0), (60, TaskState::Failed));
    assert_eq!(table.ended().1, "incomplete: stage table: its 30 rounds are used up");
    let mut silent = Table::new(json!({ "seats": ["a", "b"] }));
    silent.passes("");
    silent.passes("");
    assert_eq!(silent.ended().1, "incomplete: stage table: nobody said anything in round 1");
    let mut same = Table::new(json!({ "seats": ["a", "b"] }));
    ["x", "y", "x", "y"].iter().for_each(|text| same.passes(text));
    assert_eq!(same.ended().1, "incomplete: stage table: rounds 1 and 2 are the same");
}

#[test]
fn a_failed_turn_is_tried_again_once_and_what_needs_it_is_blocked() {
    let graph = json!({ "stages": [
        { "id": "x", "seats": ["a", "b"] }, { "id": "y", "seats": ["a"], "after": ["x"] },
        { "id": "z", "seats": ["a"], "after": ["y"] },
    ] });
    let mut table = Table::new(graph.clone());
    assert_eq!(table.turns(), ["x.1.a.1", "x.1.b.1"]);
    table.fails();
    assert_eq!(table.turns(), ["x.1.b.1", "x.1.a.2"], "a is asked again");
    table.done("b's");
    table.fails();
    let (state, message) = table.ended();
    assert_eq!(state, TaskState::Failed);
    for part in ["stage x failed: a: it broke", "y is blocked: it needs x", "z is blocked: it needs y"] {
        assert!(message.contains(part), "{message}");
    }
    let mut settled = graph;
    settled["stages"][0]["needs"] = json!("settled");
    let mut table = Table::new(settled);
    table.fails();
    table.done("b's");
    table.fails();
    assert_eq!(table.open[0].input["seat"]["partial"], json!(true), "{:?}", table.turns());
    assert_eq!(table.open[0].artifacts, ["x.1"], "what b said");
}

#[test]
fn a_label_leads_back_as_often_as_it_may_and_resets_what_comes_after() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "x", "seats": ["a"] }, { "id": "y", "seats": ["b"], "after": ["x"], "next": { "again": "x" }, "loops": 1 },
        { "id": "z", "seats": ["c"], "after": ["y"] },
    ] }));
    let again = || SeatEnd { label: Some("again".into()), ..SeatEnd::default() };
    table.done("first");
    table.answer(0, "no", again());
    assert_eq!(table.turns(), ["x.2.a.1"]);
    assert_eq!(table.open[0].artifacts, ["x.1", "y.2"], "its own words, and what was said of them");
    table.done("second");
    table.answer(0, "no", again());
    assert_eq!(table.turns(), ["z.1.c.1"], "the loop guard");
    table.done("end");
    assert_eq!(table.ended(), (TaskState::Completed, "end"));
}

#[test]
fn a_budget_ends_a_session_in_the_middle_of_a_round() {
    let mut table = Table::new(json!({ "seats": ["a", "b", "c"], "budget": { "turns": 2 } }));
    table.passes("one");
    table.passes("two");
    assert_eq!(table.ended(), (TaskState::Failed, "incomplete: budget.turns: 2 used up"));
    assert_eq!(table.recorded.len(), 2, "what was said is kept");
    let mut costly = Table::new(json!({ "seats": ["a", "b"], "budget": { "cost": 2 } }));
    costly.used = Usage { input_tokens: 7, unpriced_tokens: 7, ..Usage::default() };
    costly.passes("one");
    let why = "incomplete: budget.cost: 2 can't be kept: the cost of the work of its seats is unknown";
    assert!(costly.ended().1.starts_with(why), "{}", costly.ended().1);
    let mut bounded = Table::new(json!({ "seats": ["a", "b"] }));
    bounded.graph.budget.bound(crate::budget::Budget { tokens: Some(50), cost: None });
    bounded.used = Usage { input_tokens: 60, ..Usage::default() };
    bounded.passes("one");
    assert_eq!(bounded.ended().1, "incomplete: budget.tokens: 50 used up: 60 used");
    let mut late = Table::new(json!({ "seats": ["a"], "budget": { "time": "2min" } }));
    late.run(|session, cx| session.timer(cx, SessionTimer::Budget));
    assert_eq!((late.ended().0, late.turns().len()), (TaskState::Failed, 0), "its turn is withdrawn");
}

/// The state of six seats over thirty rounds stays small, and a late turn is given as much as an early one.
#[test]
fn a_long_table_costs_the_same_at_its_end() {
    let mut table = Table::new(json!({ "seats": ["a", "b", "c", "d", "e", "f"] }));
    let mut sizes = Vec::new();
    while table.end.is_none() {
        let turn = &table.open[0];
        sizes.push(turn.artifacts.len());
        let text = format!("{:0>1000}", table.given.len());
        table.passes(&text);
        let state = serde_json::to_string(&table.session).unwrap().len();
        assert!(state < 64 * 1024, "{state}");
    }
    assert_eq!((sizes.len(), sizes[30], sizes[179]), (180, 12, 12));
}

proptest! {
    #[test]
    fn whatever_seats_do_a_session_ends_once_and_gives_no_turn_twice(
        choices in proptest::collection::vec((0usize..8, 0u8..6, "[a-c]{0,2}"), 1..400),
    ) {
        let mut table = Table::new(json!({ "stages": [
            { "id": "x", "seats": ["a", "b", "c"], "order": "turns", "rounds": 4 },
            { "id": "y", "seats": ["a", "d"], "until": { "findings": 3 }, "needs": "settled" },
            { "id": "z", "seats": ["e"], "after": ["x", "y"], "needs": "settled", "next": { "again": "x" }, "loops": 2 },
            { "id": "end", "seats": ["a"], "after": ["z"] },
        ], "budget": { "turns": 60 } }));
        let mut choices = choices.into_iter().cycle();
        for _ in 0..400 {
            if table.end.is_some() { break }
            prop_assert!(!table.open.is_empty(), "it waits for nothing: {:#?}", table.session);
            let (at, what, text) = choices.next().unwrap();
            let at = at % table.open.len();
            match what {
                0 | 1 => table.answer(at, &text, SeatEnd { passed: true, ..SeatEnd::default() }),
                2 | 3 => table.answer(at, &text, SeatEnd::default()),
                4 => table.answer(at, &text, SeatEnd { label: Some("again".into()), ..SeatEnd::default() }),
                _ => table.fails(),
            }
        }
        prop_assert!(table.end.is_some(), "it ends: {:#?}", table.session);
    }
}
