//! Tests of the rules of sessions: a host that answers every turn, in any order.

use super::{graph::Graph, *};
use crate::{
    speech::{Directive, DirectiveOutcome, DirectiveVerb, SideMode},
    turn::RequestResult,
    work::hosting::tests::stored_and_read,
};
use proptest::prelude::*;
use protocol::{
    answer::SeatEnd,
    question::{Answer, Decision, QuestionKind},
};
use serde_json::json;
use std::collections::BTreeSet;

mod autopilot;
mod candidates;
mod directives;
mod failed_stages;
mod observers;
mod outcomes;
mod people;
mod plans;
mod routing;
mod sealed;
mod side;
mod summaries;
mod workspaces;

/// A session that is answered by a test.
struct Table {
    graph: Graph,
    session: Session,
    id: TaskId,
    host: AgentId,
    used: Usage,
    chunks: u64,
    now: i64,
    /// The turns that run.
    open: Vec<SeatTurn>,
    /// All turns that were given, by name.
    given: Vec<String>,
    end: Option<(TaskState, String)>,
    recorded: Vec<Artifact>,
    summary: Option<String>,
    /// The questions of gates that are open.
    asked: Vec<Question>,
    /// What the autopilot has answered.
    answered: Vec<(String, String)>,
    budget_ends: WallTime,
    stalls: Vec<(SessionTimer, WallTime)>,
    /// The times of side conversations that were set.
    sides: Vec<(SessionTimer, WallTime)>,
    /// The sealed stages whose entries were released.
    released: Vec<(String, u32)>,
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
            host: AgentId::parse("host").unwrap(),
            used,
            chunks: 0,
            now: 0,
            open,
            given,
            end: None,
            recorded,
            summary: None,
            asked,
            answered: Vec::new(),
            budget_ends: WallTime(0),
            stalls: Vec::new(),
            sides: Vec::new(),
            released: Vec::new(),
        };
        table.run(Session::start);
        table
    }

    fn run(&mut self, rule: impl FnOnce(&mut Session, SessionContext<'_>) -> Vec<SessionAction>) {
        self.run_once(rule);
        if self.session.has_grown() {
            self.run_once(Session::grown);
        }
        let is_discussion = |turn: &SeatTurn| matches!(turn.to, TurnDoer::Host(HostWork::Discussion(_)));
        while let Some(at) = self.open.iter().position(is_discussion) {
            self.writes_down(at);
        }
        if let Some(at) = self.open.iter().position(|turn| turn.id == summary::SUMMARY) {
            self.sums_up(at);
        }
    }

    /// The host writes a discussion down.
    fn writes_down(&mut self, at: usize) {
        let turn = self.open.remove(at);
        let TurnDoer::Host(HostWork::Discussion(about)) = turn.to else { panic!("{turn:?}") };
        let range = turn.chunks.from as usize..turn.chunks.to as usize;
        let artifacts = about.written(&self.recorded[range]).into();
        let result = RequestResult { id: turn.id, ok: true, artifacts, ..Default::default() };
        self.run_once(|session, cx| session.turn_ended(cx, result));
        if self.session.has_grown() {
            self.run_once(Session::grown);
        }
    }

    /// The host makes the summary, and the session ends.
    fn sums_up(&mut self, at: usize) {
        let turn = self.open.remove(at);
        assert!(self.end.is_none() && self.open.is_empty() && self.asked.is_empty(), "nothing else is open");
        let TurnDoer::Host(HostWork::Summarize(outline)) = turn.to else { panic!("{turn:?}") };
        let given = self.recorded.iter().filter(|said| turn.artifacts.contains(&said.artifact_id));
        let given: Vec<_> = given.cloned().collect();
        let summary = outline.text(&given);
        let text = outline.message(&given).unwrap_or_default();
        let result = RequestResult {
            id: turn.id,
            ok: true,
            text,
            artifacts: outline.files(&given),
            ..Default::default()
        };
        self.run_once(|session, cx| session.turn_ended(cx, result));
        assert!(self.end.is_some(), "the session ends with its summary");
        self.summary = Some(summary);
        self.given.pop();
    }

    fn run_once(&mut self, rule: impl FnOnce(&mut Session, SessionContext<'_>) -> Vec<SessionAction>) {
        self.session.complete(&mut self.graph);
        let cx = SessionContext {
            graph: &self.graph,
            id: &self.id,
            host: &self.host,
            goal: "the goal",
            given: &[],
            history: &[],
            used: &self.used,
            now: WallTime(self.now),
            next_chunk: self.chunks,
        };
        // A crash after every event changes nothing.
        let has_grown = self.session.has_grown;
        self.session = stored_and_read(&self.session);
        self.session.has_grown = has_grown;
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
                SessionAction::Answer { question, text } => self.answered.push((question, text)),
                SessionAction::Timer { timer: SessionTimer::Budget, at } => self.budget_ends = at,
                SessionAction::Timer { timer: timer @ SessionTimer::Stall(..), at } => {
                    self.stalls.push((timer, at));
                }
                SessionAction::Timer { timer: timer @ SessionTimer::Side(..), at } => {
                    self.sides.push((timer, at))
                }
                SessionAction::Timer { .. } | SessionAction::Show(_) => {}
                SessionAction::Release { stage, iteration } => self.released.push((stage, iteration)),
                SessionAction::End { state, message } => self.end = Some((state, message)),
            }
        }
    }

    /// The result of a running turn.
    fn answer(&mut self, at: usize, text: &str, end: SeatEnd) {
        self.speaks(at, Vec::new(), text, end);
    }

    /// The result of the first running turn, with messages.
    fn sends(&mut self, artifacts: Vec<Artifact>, text: &str, passed: bool) {
        self.speaks(0, artifacts, text, SeatEnd { passed, ..SeatEnd::default() });
    }

    fn speaks(&mut self, at: usize, artifacts: Vec<Artifact>, text: &str, end: SeatEnd) {
        let turn = self.open.remove(at);
        let (text, seat) = (text.to_owned(), Some(end));
        let result = RequestResult { id: turn.id, ok: true, text, artifacts, seat, ..Default::default() };
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
        self.ends(false, "it broke", Vec::new());
    }

    fn ends(&mut self, ok: bool, text: &str, artifacts: Vec<Artifact>) {
        let turn = self.open.remove(0);
        let result = RequestResult { id: turn.id, ok, text: text.into(), artifacts, ..Default::default() };
        self.run(|session, cx| session.turn_ended(cx, result));
    }

    /// Decides at the only open gate.
    fn decides(&mut self, decision: Decision, reason: Option<&str>) {
        let question = self.asked.remove(0);
        let answer = Answer::decide(decision, reason.map(str::to_owned));
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

    /// A message is given to those that it is for and to those that watch, and a side conversation has the table for itself.
    fn check_audience(&self) {
        let view = self.view();
        let talking = view["stages"][0]["side"]["between"].as_array();
        for turn in &self.open {
            let seat = &turn.input["seat"];
            let watches = seat.get("as").is_some();
            if let Some(between) = talking.filter(|_| seat["stage"] == "x" && !watches) {
                assert!(between.contains(&seat["seat"]) && seat.get("side").is_some(), "{seat:#}");
            }
            for given in &turn.artifacts {
                let artifact = self.recorded.iter().find(|one| one.artifact_id == *given).unwrap();
                let about = &artifact.metadata[names::SESSION];
                let to = about["to"].as_array().unwrap();
                let is_for = [&json!(names::TEAM), &seat["seat"]].iter().any(|name| to.contains(name));
                assert!(watches || is_for || about["from"] == seat["seat"], "{seat:#} is given {about:#}");
            }
        }
    }

    fn view(&self) -> Value {
        let (id, used, now) = (&self.id, &self.used, WallTime(self.now));
        let cx = SessionContext {
            graph: &self.graph,
            id,
            host: &self.host,
            goal: "the goal",
            given: &[],
            history: &[],
            used,
            now,
            next_chunk: self.chunks,
        };
        self.session.view(&cx, self.end.is_some())
    }

    fn turns(&self) -> Vec<&str> {
        self.open.iter().map(|turn| turn.id.as_str()).collect()
    }

    fn ended(&self) -> (TaskState, &str) {
        let (state, message) = self.end.as_ref().unwrap_or_else(|| panic!("{:#?}", self.session));
        (*state, message)
    }
}

fn says(to: &[&str], text: &str) -> Artifact {
    let to: Vec<String> = to.iter().map(|to| (*to).to_owned()).collect();
    seat::say(1, &to, text, SideMode::Dialogue).unwrap()
}

/// What the open turn is newly given, as text.
fn news(table: &Table) -> Vec<String> {
    let new = table.open[0].input["seat"]["new"].as_array().unwrap().clone();
    let text = |id: &Value| {
        let artifact = table.recorded.iter().find(|artifact| json!(artifact.artifact_id) == *id).unwrap();
        artifact.as_text()
    };
    new.iter().map(text).collect()
}

fn refusal(graph: Value) -> String {
    Graph::read(Some(&graph)).unwrap_err().to_string()
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
    assert_eq!(table.open[0].artifacts, ["table.person.1", "table.1.a.1"], "what is for a is not for b");
    table.passes("two");
    assert_eq!(
        table.open[0].artifacts,
        ["table.person.1", "table.person.2", "table.1.a.1", "table.1.b.1"],
        "and what it has said itself"
    );
    table.done("three");
    table.done("four");
    assert!(table.open[0].artifacts.contains(&"end.person.3".to_owned()), "{:?}", table.open[0]);
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
    assert_eq!(table.open[0].artifacts, ["one.1.a.1"], "what a has said is kept");
    table.directs(json!({ "verb": "redirect", "stage": "one", "text": "shorter" })).unwrap();
    assert_eq!(table.turns(), ["one.2.a.1", "one.2.b.1"]);
    assert!(table.open[0].artifacts.contains(&"one.person.1".to_owned()));
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
fn line_33_nothing_begins_behind_a_gate_before_a_person_approves() {
    let mut table = gated();
    table.done("a login page");
    assert!(table.turns().is_empty() && table.end.is_none());
    assert!(table.asked[0].text.contains("a login page") && table.asked[0].kind == QuestionKind::Approval);
    table.decides(Decision::Approve, None);
    assert_eq!(table.turns(), ["build.1.builder.1"]);
    assert!(table.session.is_approved());
    table.done("built");
    assert_eq!(table.ended(), (TaskState::Completed, "built"));
}

#[test]
fn line_33_a_denial_with_a_reason_revises_and_asks_again_and_one_without_ends() {
    let mut table = gated();
    table.done("a login page");
    table.decides(Decision::Deny, Some("no passwords"));
    assert!(!table.session.is_approved());
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
        (json!({}), "`seats`, `phases`, `stages`, or a `preset`"),
        (json!({ "seats": ["a"], "sets": 1 }), "sets: unknown key; did you mean `seats`?"),
        (json!({ "seats": ["a"], "stages": [{ "id": "x", "seats": ["a"] }] }), "a session has one of"),
        (json!({ "seats": [{ "agent": "a", "capability": "b" }] }), "exactly one of"),
        (json!({ "seats": [{ "agent": "a", "observer": true }] }), "seats[0].observer: unknown key"),
        (json!({ "seats": [{ "agent": "a", "as": "spy" }] }), "seats[0].as: must be one of `member`"),
        (json!({ "seats": [{ "agent": "a", "as": "observer" }] }), "all its seats watch"),
        (
            json!({ "seats": ["a", { "agent": "b", "reviews": "each-action" }] }),
            "`reviews` is for a seat with",
        ),
        (
            json!({ "seats": ["a", { "agent": "b", "as": "supervisor", "approachable": true }] }),
            "a supervisor is not approachable",
        ),
        (stages(json!([{ "id": "x", "seats": ["a", "b"], "side": {} }])), "side: needs `order: turns`"),
        (
            stages(json!([{ "id": "x", "seats": ["a", "b"], "order": "turns", "side": { "max": 1 } }])),
            "stages[0].side.max: 2 to 100, not 1",
        ),
        (json!({ "seats": ["a", "a"] }), "two seats are called \"a\""),
        (json!({ "seats": ["team"] }), "no seat may be called \"team\""),
        (json!({ "seats": ["a"], "budget": { "turns": 0 } }), "budget.turns: must be more than 0"),
        (json!({ "seats": ["a"], "budget": { "tokens": "many" } }), "is no number"),
        (stages(json!([{ "id": "x", "seats": [] }])), "stages[0].seats: a stage needs a seat"),
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

#[test]
fn every_fault_is_named_with_its_key() {
    let faults = |graph: Value| -> Vec<String> {
        Graph::read(Some(&graph)).unwrap_err().0.iter().map(ToString::to_string).collect()
    };
    let unreadable = json!({
        "budgt": {}, "stages": [
            { "id": "a", "ordr": "turns", "seats": [{ "agnet": "x" }, "y", 7, "no agent"] },
            "b",
            { "id": "c", "seats": [{ "capability": "no name" }], "until": { "time": 20 } },
        ],
    });
    assert_eq!(
        faults(unreadable),
        [
            "budgt: unknown key; did you mean `budget`?",
            "stages[0].ordr: unknown key; did you mean `order`?",
            "stages[0].seats[0].agnet: unknown key; did you mean `agent`?",
            "stages[0].seats[2]: invalid type: integer `7`, expected struct SeatMembers",
            "stages[0].seats[3]: an agent id must match [A-Za-z0-9][A-Za-z0-9._-]{0,63}, got \"no agent\"",
            "stages[1]: invalid type: string \"b\", expected struct Stage",
            "stages[2].until.time: a time needs its unit, such as `20s` or `20min`, not 20",
            "stages[2].seats[0].capability: a capability must match [A-Za-z0-9][A-Za-z0-9._-]{0,63}, got \"no name\"",
        ]
    );
    let impossible = json!({
        "cast": { "lead": "no agent" }, "autopilot": "nobody", "budget": { "turns": 0 },
        "stages": [
            { "id": "a", "seats": ["x", "x"], "rounds": 0 },
            { "id": "a", "seats": [], "after": ["a", "z"], "next": { "l": "y" } },
        ],
    });
    let found = faults(impossible);
    let keys: Vec<&str> = found.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    assert_eq!(
        keys,
        [
            "cast.lead",
            "budget.turns",
            "stages[0].rounds",
            "stages[0].seats[1]",
            "stages[1].id",
            "stages[1].seats",
            "stages[1].after[1]",
            "stages[1].next.l",
            "autopilot",
        ]
    );
    assert_eq!(
        faults(json!({ "seats": ["x", "x"] }))[0].split(": ").next(),
        Some("seats[1]"),
        "as it is written"
    );
}

#[test]
fn a_preset_has_its_stages_and_names_what_its_cast_lacks() {
    let graph = json!({ "preset": "round-table", "cast": { "lead": "boss-01", "critic": "critic-01" } });
    let mut table = Table::new(graph);
    assert_eq!(table.turns(), ["table.1.critic.1"], "in the order of the names");
    table.sends(vec![says(&["lead"], "why?")], "", true);
    assert_eq!(table.open[0].input["seat"]["side"]["with"], "critic", "two may talk alone");
    let graph = json!({ "preset": "round-table", "cast": { "lead": "boss-01" }, "seats": ["x", "lead"] });
    assert_eq!(Table::new(graph).turns(), ["table.1.x.1"]);
    let names = ["lead", "dreamer", "researcher", "critic"];
    let cast = |names: &[&str]| -> Value { names.iter().map(|name| (*name, "a-01")).collect() };
    let mut storm = Table::new(json!({ "preset": "brainstorm", "cast": cast(&names) }));
    let mut stages = BTreeSet::new();
    while storm.end.is_none() {
        match storm.open.first() {
            Some(turn) => {
                stages.insert(turn.input["seat"]["stage"].to_string());
                storm.done("one idea");
            }
            None => storm.decides(Decision::Approve, None),
        }
    }
    assert_eq!((storm.ended(), stages.len()), ((TaskState::Completed, "one idea"), 9), "{stages:?}");
    for (graph, why) in [
        (
            json!({ "preset": "brainstorm", "cast": cast(&["lead", "critic"]) }),
            "cast: the preset needs critic, dreamer, lead, researcher there, each with an agent; there is no dreamer, researcher",
        ),
        (json!({ "preset": "workshop" }), "there is no curator, lead"),
        (json!({ "preset": "round-table" }), "seats: a stage needs a seat"),
        (
            json!({ "preset": "round-table", "stages": [{ "id": "x", "seats": ["a"] }] }),
            "a session has one of",
        ),
        (json!({ "preset": "workshop", "seats": ["a"] }), "a session has one of"),
        (json!({ "preset": "round-table", "cast": { "no name": "a" } }), "cast: "),
    ] {
        let refused = refusal(graph.clone());
        assert!(refused.contains(why), "{graph}: {refused}");
    }
}

#[test]
fn a_time_without_its_unit_is_refused_everywhere() {
    let of_stage = |more: Value| {
        let mut stage = json!({ "id": "x", "order": "turns", "makes": "work-plan", "seats": ["a", "b"] });
        stage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "stages": [stage] })
    };
    let everywhere = |time: Value| {
        [
            ("budget.time", json!({ "seats": ["a"], "budget": { "time": time } })),
            ("stages[0].until.time", of_stage(json!({ "until": { "time": time } }))),
            ("stages[0].stall", of_stage(json!({ "stall": time }))),
            ("stages[0].children.stall", of_stage(json!({ "children": { "stall": time } }))),
            ("stages[0].side.time", of_stage(json!({ "side": { "time": time } }))),
            ("seats[0].timeout", json!({ "seats": [{ "person": "ada", "timeout": time }] })),
        ]
    };
    for (key, graph) in everywhere(json!(20)) {
        let refused = refusal(graph);
        assert_eq!(refused, format!("{key}: a time needs its unit, such as `20s` or `20min`, not 20"));
    }
    for (key, graph) in everywhere(json!("20")) {
        assert!(refusal(graph).starts_with(&format!("{key}: must be a duration")), "{key}");
    }
    for (key, graph) in everywhere(json!("20min")) {
        assert!(Graph::read(Some(&graph)).is_ok(), "{key}");
    }
}

/// Assignment order, one turn per cycle; done seats are skipped. Lines of SEEDS §9.
#[test]
fn line_23_and_24_seats_of_a_table_speak_in_order_and_those_that_are_done_are_skipped() {
    let mut table = Table::new(json!({ "seats": ["a", "b", "c"] }));
    assert_eq!(table.turns(), ["table.1.a.1"]);
    table.passes("one");
    assert_eq!(table.turns(), ["table.1.b.1"]);
    assert_eq!(table.open[0].artifacts, ["table.1.a.1"], "b is given what a said");
    table.done("two");
    table.passes("three");
    assert_eq!(table.turns(), ["table.1.a.2"], "the second round");
    assert_eq!(table.open[0].input["seat"]["new"], json!(["table.1.b.1", "table.1.c.1"]));
    table.done("four");
    assert_eq!(table.turns(), ["table.1.c.2"], "b is done");
    table.done("the result");
    assert_eq!(table.ended(), (TaskState::Completed, "the result"));
    assert_eq!(table.recorded.len(), 5);
}

/// Of SEEDS §9: the rounds used up are never a success.
#[test]
fn line_25_a_table_that_does_not_end_is_incomplete() {
    let mut table = Table::new(json!({ "seats": ["a", "b"] }));
    let mut count = 0;
    while table.end.is_none() {
        count += 1;
        table.passes(&format!("{count}"));
    }
    assert_eq!((count, table.ended().0), (60, TaskState::Failed));
    assert_eq!(table.ended().1, "incomplete: stage table: its 30 rounds are used up");
    let mut silent = Table::new(json!({ "seats": ["a", "b"] }));
    (0..6).for_each(|_| silent.passes(""));
    let why = "incomplete: stage table: nobody said or did anything in 3 rounds in a row (`quiet`)";
    assert_eq!(silent.ended().1, why);
    let mut same = Table::new(json!({ "seats": ["a", "b"] }));
    ["x", "y", "x", "y", "x", "y"].iter().for_each(|text| same.passes(text));
    let why = "incomplete: stage table: the same was said in 3 rounds in a row (`quiet`)";
    assert_eq!(same.ended().1, why);
    let why = "incomplete: stage all: the same was said in 2 rounds in a row (`quiet`)";
    for (last, end) in [("x", Some(why)), ("z", None)] {
        let mut parallel =
            Table::new(json!({ "stages": [{ "id": "all", "seats": ["a", "b"], "quiet": 2 }] }));
        parallel.passes("x");
        parallel.passes("y");
        parallel.answer(1, "y", SeatEnd { passed: true, ..SeatEnd::default() });
        parallel.passes(last);
        assert_eq!(parallel.end.as_ref().map(|(_, why)| why.as_str()), end, "whatever seat ends first");
    }
}

/// Defect A4: a seat that works without words does not end the table.
#[test]
fn a_seat_that_works_in_silence_is_waited_for() {
    let mut table = Table::new(json!({ "seats": ["slow", "quick"] }));
    table.passes("");
    table.done("found it");
    table.passes("");
    table.passes("");
    table.done("here it is");
    assert_eq!(table.ended().0, TaskState::Completed);
    let mut working = Table::new(json!({ "seats": ["a"], "budget": { "turns": 9 } }));
    while working.end.is_none() {
        working.answer(0, "", SeatEnd { passed: true, acted: true, ..SeatEnd::default() });
    }
    assert_eq!(working.ended().1, "incomplete: budget.turns: 9 used up", "who calls tools works");
}

#[test]
fn thirty_rounds_are_thirty_rounds_for_eight_seats_that_are_reviewed() {
    let seats: Vec<_> = ('a'..='h').map(|seat| json!(seat)).collect();
    let watcher = json!({ "agent": "w", "as": "observer", "reviews": "each-action" });
    let all: Vec<_> = seats.iter().cloned().chain([watcher]).collect();
    for (seats, turns) in [(seats, 240), (all, 480)] {
        let mut table = Table::new(json!({ "seats": seats }));
        let mut count = 0;
        while table.end.is_none() {
            count += 1;
            table.passes(&format!("{count}"));
        }
        assert_eq!(table.ended().1, "incomplete: stage table: its 30 rounds are used up");
        assert!(count >= turns, "{count}");
        assert_eq!(table.budget_ends, WallTime(turns * 3 / 2 * 18_000), "its time is longer, too");
    }
}

#[test]
fn a_message_to_several_reaches_those_who_can_be_reached_and_each_other_name_is_told() {
    let seats = json!(["alice", { "agent": "bob", "approachable": false }, "carol", "dave"]);
    let mut table = Table::new(json!({ "stages": [{ "id": "table", "order": "turns", "seats": seats }] }));
    let input = table.open[0].input.clone();
    let to = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        seat::unreached(Some(&input), &names)
    };
    let expected =
        [("bob", "it can't be addressed alone"), ("eve", "no such seat here; there are bob, carol, dave")];
    assert_eq!(to(&["bob", "carol", "eve"]), expected.map(|(name, why)| (name.to_owned(), why.to_owned())));
    assert!(to(&["team"]).is_empty() && to(&["alice"])[0].1 == "that is you");
    table.sends(vec![says(&["bob", "carol", "eve", "dave"], "psst")], "hello", true);
    assert_eq!(news(&table), ["hello"], "bob");
    table.passes("");
    assert_eq!(news(&table), ["psst", "hello"], "carol");
    table.passes("");
    assert_eq!(news(&table), ["psst", "hello"], "dave");
    table.passes("");
    let refused = table.open[0].input["seat"]["refused"].clone();
    assert_eq!(
        refused,
        json!([
            "a message to bob was not delivered: it can't be addressed alone",
            "a message to eve was not delivered: no such seat here"
        ])
    );
}

#[test]
fn phases_are_three_tables_one_after_the_other() {
    let mut table = Table::new(json!({ "phases": {
        "start": ["fetcher"],
        "default": ["planner", "builder"],
        "complete": { "seats": ["closer"], "next": { "again": "default" }, "loops": 1 },
    } }));
    assert_eq!(table.turns(), ["start.1.fetcher.1"]);
    table.done("the data");
    assert_eq!(table.turns(), ["default.1.planner.1"]);
    table.sends(vec![says(&["builder"], "a word alone")], "", true);
    assert_eq!(table.turns(), ["default.1.builder.1"]);
    assert!(table.open[0].input["seat"]["side"].is_object(), "they may talk alone");
    table.passes("");
    table.sends(vec![says(&["closer"], "psst")], "one", false);
    table.done("two");
    assert_eq!(table.turns(), ["complete.1.closer.1"]);
    table.answer(0, "no", SeatEnd { label: Some("again".into()), ..SeatEnd::default() });
    assert_eq!(table.turns(), ["default.2.planner.1"], "a label leads back");
    for (phases, part) in [
        (json!({ "defualt": ["a"] }), "phases.defualt: unknown phase; there are start, default, complete"),
        (json!({ "start": 7 }), "phases.start: is a list of seats, or has the members of a stage"),
        (json!({ "start": { "id": "x", "seats": ["a"] } }), "phases.start.id: follows from the phase"),
        (json!({ "default": [{ "agnet": "a" }] }), "phases.default.seats[0].agnet: unknown key"),
        (json!({ "default": { "seats": ["a"], "rounds": 0 } }), "phases.default.rounds: 1 to 1000"),
        (json!([]), "phases: has the phases start, default, complete, each with seats"),
    ] {
        let why = refusal(json!({ "phases": phases }));
        assert!(why.contains(part), "{why}");
    }
    let both = refusal(json!({ "phases": { "start": ["a"] }, "stages": [{ "id": "x", "seats": ["a"] }] }));
    assert!(both.contains("`phases` or `stages`, not both"), "{both}");
}

#[test]
fn line_27_a_seat_that_is_not_approachable_is_addressed_by_none_and_addresses_others() {
    let mut table = Table::new(json!({ "seats": ["a", { "agent": "b", "approachable": false }] }));
    table.sends(vec![says(&["b"], "psst")], "one", true);
    assert_eq!(news(&table), ["one"]);
    table.sends(vec![says(&["a"], "quietly"), says(&["team"], "to all")], "two", true);
    assert_eq!(news(&table), ["quietly", "to all", "two"]);
    let refused = table.open[0].input["seat"]["refused"].clone();
    assert_eq!(refused, json!(["a message to b was not delivered: it can't be addressed alone"]));
}

fn phases() -> Table {
    Table::new(json!({ "stages": [
        { "id": "start", "seats": ["opener"] },
        { "id": "table", "after": ["start"], "order": "turns", "seats": ["a", "b"] },
        { "id": "complete", "after": ["table"], "seats": ["closer"] },
    ] }))
}

#[test]
fn line_31_a_message_to_a_seat_of_another_stage_is_refused_by_name() {
    let mut table = phases();
    table.done("facts");
    table.sends(
        vec![says(&["closer"], "psst"), says(&["opener"], "why?"), says(&["nobody"], "x")],
        "one",
        true,
    );
    table.passes("two");
    let refused = table.open[0].input["seat"]["refused"].clone();
    let why = |name: &str, why: &str| format!("a message to {name} was not delivered: {why}");
    let elsewhere = |stage: &str| format!("it has a seat in stage {stage}, not in this one");
    let expected = [
        why("closer", &elsewhere("complete")),
        why("opener", &elsewhere("start")),
        why("nobody", "no such seat here"),
    ];
    assert_eq!(refused, json!(expected));
    table.done("three");
    table.done("four");
    let given: Vec<_> =
        table.recorded.iter().filter(|one| table.open[0].artifacts.contains(&one.artifact_id)).collect();
    assert!(given.iter().all(|one| one.as_text() != "psst"), "{given:?}");
}

#[test]
fn line_32_stages_run_before_and_after_a_table_and_are_given_what_it_made() {
    let mut table = phases();
    assert_eq!(table.turns(), ["start.1.opener.1"]);
    table.done("facts");
    let texts = |table: &Table| -> Vec<String> {
        let given = table.recorded.iter().filter(|one| table.open[0].artifacts.contains(&one.artifact_id));
        given.map(|one| one.as_text()).collect()
    };
    assert_eq!((table.turns(), texts(&table)), (vec!["table.1.a.1"], vec!["facts".to_owned()]));
    ["one", "two"].iter().for_each(|text| table.passes(text));
    table.done("a's last word");
    assert_eq!(table.turns(), ["table.1.b.2"], "nothing comes after it before all are done");
    table.done("b's last word");
    assert_eq!(table.turns(), ["complete.1.closer.1"]);
    let given = texts(&table);
    assert_eq!(given[..3], ["facts", "a's last word", "b's last word"], "of all stages before");
    assert!(given.len() == 5 && given[3].contains("- round 1: one") && given[4].contains("two"), "{given:?}");
    table.done("the report");
    assert_eq!(table.ended(), (TaskState::Completed, "the report"));
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
    assert_eq!(table.open[0].artifacts, ["x.1.b.1"], "what b said");
}

#[test]
fn line_51_a_label_leads_back_as_often_as_it_may_and_resets_what_comes_after() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "x", "seats": ["a"] }, { "id": "y", "seats": ["b"], "after": ["x"], "next": { "again": "x" }, "loops": 1 },
        { "id": "z", "seats": ["c"], "after": ["y"] },
    ] }));
    let again = || SeatEnd { label: Some("again".into()), ..SeatEnd::default() };
    table.done("first");
    table.answer(0, "no", again());
    assert_eq!(table.turns(), ["x.2.a.1"]);
    assert_eq!(table.open[0].artifacts, ["x.1.a.1", "y.1.b.1"], "its own words, and what was said of them");
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
    bounded.graph.budget.bound(protocol::budget::Budget { tokens: Some(50), cost: None });
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
        choices in proptest::collection::vec((0usize..8, 0u8..9, "[a-e]{0,2}"), 1..400),
    ) {
        // A timer that fires alone ends no turn.
        prop_assume!(choices.iter().any(|(_, what, _)| *what != 7));
        let watcher = json!({ "agent": "w", "as": "observer", "reviews": "each-action" });
        let mut table = Table::new(json!({ "stages": [
            { "id": "x", "seats": ["a", watcher, "b", "c", { "agent": "s", "as": "supervisor" }], "order": "turns",
              "rounds": 4, "side": { "max": 4 } },
            { "id": "y", "seats": ["a", "d", { "agent": "v", "as": "observer" }], "until": { "findings": 3 },
              "needs": "settled" },
            { "id": "z", "seats": ["e"], "after": ["x", "y"], "needs": "settled", "next": { "again": "x" }, "loops": 2 },
            { "id": "end", "seats": ["a"], "after": ["z"] },
        ], "budget": { "turns": 120 } }));
        let mut choices = choices.into_iter().cycle();
        for _ in 0..800 {
            if table.end.is_some() { break }
            prop_assert!(!table.open.is_empty(), "it waits for nothing: {:#?}", table.session);
            table.check_audience();
            let (at, what, text) = choices.next().unwrap();
            let at = at % table.open.len();
            let to: String = text.chars().take(1).collect();
            match what {
                7 if !table.sides.is_empty() => {
                    let timer = table.sides.last().map(|(timer, _)| *timer);
                    timer.into_iter().for_each(|timer| table.run(|session, cx| session.timer(cx, timer)));
                }
                0 | 1 | 7 => table.answer(at, &text, SeatEnd { passed: true, ..SeatEnd::default() }),
                2 | 3 => table.answer(at, &text, SeatEnd::default()),
                4 => table.answer(at, &text, SeatEnd { label: Some("again".into()), ..SeatEnd::default() }),
                5 | 6 => {
                    let passed = SeatEnd { passed: what == 5, ..SeatEnd::default() };
                    table.speaks(at, vec![says(&[to.as_str()], "psst")], &text, passed);
                }
                _ => table.fails(),
            }
        }
        prop_assert!(table.end.is_some(), "it ends: {:#?}", table.session);
    }
}

#[test]
fn a_foreign_seat_is_done_after_its_first_answer_and_is_not_asked_again_if_it_fails() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "ask", "task": "the stage", "needs": "settled", "seats": [
            { "card": "https://me:pw@sky.example:8443/card?x", "mode": "webhook", "skill": "forecast" },
            { "card": "https://sea.example", "task": "only this" },
        ] },
    ] }));
    let [sky, sea] = &table.open[..] else { panic!("{:?}", table.given) };
    assert_eq!(table.given, ["ask.1.sky-example-8443.1", "ask.1.sea-example.1"]);
    assert_eq!((sky.description.as_str(), sea.description.as_str()), ("the goal\n\nthe stage", "only this"));
    let TurnDoer::Host(HostWork::Call(seat)) = &sky.to else { panic!("{sky:?}") };
    assert_eq!(
        (seat.skill.as_deref(), seat.mode.map(|mode| mode.word())),
        (Some("forecast"), Some("webhook"))
    );
    table.fails();
    assert_eq!(table.turns(), ["ask.1.sea-example.1"], "it is not asked again");
    table.done("calm");
    assert_eq!(table.ended(), (TaskState::Completed, "calm"));
    for (seat, why) in [
        (json!({ "card": "https://a.b", "agent": "x" }), "exactly one of"),
        (json!({ "agent": "x", "skill": "y" }), "of a seat with a `card`"),
        (json!({ "card": "https://a.b", "mode": "pigeon" }), "pigeon"),
        (json!({ "card": "https://a.b", "credential": "k" }), "credential"),
    ] {
        let refused = refusal(json!({ "seats": [seat] }));
        assert!(refused.contains(why), "{refused}");
    }
}

/// A team whose request was matched to these agents.
fn matched(agents: &[&str], order: &str) -> Table {
    let mut table = Table::new(json!({ "stages": [
        { "id": "match", "does": "match" },
        { "id": "ask", "after": ["match"], "does": "dispatch", "order": order, "needs": "settled" },
        { "id": "answer", "after": ["ask"], "does": "aggregate" },
    ] }));
    assert!(matches!(&table.open[0].to, TurnDoer::Host(HostWork::Match(_))), "{:?}", table.open);
    let item = |agent: &&str| json!({ "alias": format!("task-{agent}"), "agent": agent, "skill": "s", "text": "t", "mode": null, "score": 1.0, "reason": "" });
    let plan = json!({ "delegation_plan": agents.iter().map(item).collect::<Vec<_>>() });
    let orders = agents.iter().map(|agent| Artifact::text(&format!("task-{agent}"), "text/plain", "order"));
    let plan = team::report::artifact(team::RECORD, plan);
    table.ends(true, "planned", std::iter::once(plan).chain(orders).collect());
    table
}

#[test]
fn a_team_asks_who_was_matched_and_answers_whatever_they_have_done() {
    let mut table = matched(&["a", "b", "c"], "parallel");
    assert_eq!(table.turns(), ["ask.1.task-a.1", "ask.1.task-b.1", "ask.1.task-c.1"]);
    assert_eq!(table.open[1].artifacts, ["match.1.match.1.task-b"], "each is given its own order");
    assert!(matches!(&table.open[1].to, TurnDoer::Host(HostWork::Item(alias)) if alias == "task-b"));
    table.done("one");
    table.fails();
    assert_eq!(table.turns(), ["ask.1.task-c.1"], "a part that failed is not asked again");
    let asks =
        team::report::ItemQuestion { task: "sub".into(), mode: None, text: "which?".into(), auth: false };
    let asks = [("ask.1.task-c.1".to_owned(), asks)];
    for _ in 0..2 {
        table.run(|session, cx| session.asking(cx, &asks));
        assert_eq!(table.turns(), ["ask.1.task-c.1", "interim.1"], "the answer so far is made once");
    }
    let interim = table.open.pop().unwrap();
    let TurnDoer::Host(HostWork::Aggregate { items, is_interim: true, .. }) = &interim.to else {
        panic!("{interim:?}")
    };
    assert_eq!(items.iter().map(|item| item.asks.is_some()).collect::<Vec<_>>(), [false, false, true]);
    assert!(interim.artifacts.contains(&"match.1.match.1.delegation_record".to_owned()), "{interim:?}");
    let output = Artifact::text(team::OUTPUT, "text/plain", "so far");
    let result = RequestResult { id: interim.id, ok: true, artifacts: vec![output], ..Default::default() };
    table.run(|session, cx| session.turn_ended(cx, result));
    assert_eq!(table.recorded.last().unwrap().artifact_id, team::OUTPUT);
    table.done("three");
    let TurnDoer::Host(HostWork::Aggregate { items, is_interim: false, .. }) = &table.open[0].to else {
        panic!("{:?}", table.open)
    };
    assert_eq!(items.iter().map(|item| item.why.is_some()).collect::<Vec<_>>(), [false, true, false]);
    table.ends(true, "the answer", vec![Artifact::text(team::OUTPUT, "text/plain", "all")]);
    assert_eq!(table.ended(), (TaskState::Completed, "the answer"));
    assert_eq!(table.recorded.iter().filter(|made| made.artifact_id == team::OUTPUT).count(), 2);

    let mut ordered = matched(&["a", "b"], "turns");
    ordered.fails();
    assert_eq!(ordered.turns(), ["ask.1.task-b.1"]);
    ordered.fails();
    ordered.ends(false, "failed: nobody could", Vec::new());
    assert_eq!(ordered.ended(), (TaskState::Failed, "failed: nobody could"));

    let mut nobody = matched(&[], "parallel");
    assert_eq!(nobody.turns(), ["answer.1.aggregate.1"]);
    nobody.ends(false, "no_matching_skill: none", Vec::new());
    assert_eq!(nobody.ended(), (TaskState::Failed, "no_matching_skill: none"));
}

#[test]
fn a_team_that_can_not_work_is_refused() {
    for (graph, why) in [
        (json!({ "stages": [{ "id": "a", "does": "match", "seats": ["x"] }] }), "not both"),
        (json!({ "stages": [{ "id": "a", "does": "dispatch" }] }), "`after` one stage that does match"),
        (json!({ "stages": [{ "id": "a", "does": "aggregate" }] }), "`after` one stage that does dispatch"),
        (json!({ "stages": [{ "id": "a", "seats": ["x"], "discovery": {} }] }), "`discovery` is of a stage"),
        (json!({ "seats": ["x"], "preset": "foreign" }), "a session has one of"),
        (json!({ "seats": ["x"], "discovery": {} }), "of the preset foreign"),
        (json!({ "preset": "foreign", "discovery": { "itmes": [] } }), "itmes"),
        (json!({ "preset": "foreign", "discovery": { "hosts": vec!["h"; 33] } }), "33 hosts are named"),
        (json!({ "preset": "forein" }), "foreign"),
    ] {
        let refused = refusal(graph.clone());
        assert!(refused.contains(why), "{graph}: {refused}");
    }
}

#[test]
fn who_takes_a_seat_over_is_told_what_the_seat_has_said() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "table", "order": "turns", "rounds": 4, "seats": [{ "capability": "plan", "name": "planner" }, "b"] },
    ] }));
    let ends = |table: &mut Table, ok: bool, text: &str| {
        let id = table.open.remove(0).id;
        let from = Some(AgentId::parse("first").unwrap());
        let seat = Some(SeatEnd { passed: true, ..SeatEnd::default() });
        let result = RequestResult { id, ok, from, text: text.into(), seat, ..Default::default() };
        table.run(|session, cx| session.turn_ended(cx, result));
    };
    for text in ["\n  use SQLite\nbecause it is small", ""] {
        ends(&mut table, true, text);
        assert_eq!(table.open[0].input["seat"]["seat"], "b");
        ends(&mut table, true, "hm");
    }
    assert_eq!(table.open[0].to, TurnDoer::Peer(Address::Agent(AgentId::parse("first").unwrap())));
    assert_eq!(table.open[0].input["seat"].get("takenOver"), None);
    ends(&mut table, false, "it is gone");
    assert!(matches!(table.open[0].to, TurnDoer::Peer(Address::Capability(_))));
    assert_eq!(table.open[0].input["seat"]["takenOver"], json!(["use SQLite", "passes"]));
}
