//! An agent hosts a session: the seats do the work. The rules are in [`session`](crate::session); here is what they
//! decide done.

use super::{Assignment, WorkLimits, doing::lines::TurnKind, pending_requests::Expiry};
use crate::{
    ChunkRange, Effect, Event, EventKind, Label, Pattern, RecordedArtifacts, SessionView, Timer, TimerAt,
    View, WorkPhase,
    ownership::TaskOwnership,
    result_check::{AcceptanceVerdict, CheckStep},
    session::{
        self, SeatTurn, Session, SessionAction, SessionContext, TurnDoer,
        graph::Graph,
        host_work::{HOST_WORK, HostWork, WORK},
    },
    speech::{Directive, DirectiveOutcome},
    turn::{Delegate, Progress},
};
use protocol::{
    acceptance::AcceptanceTerms,
    artifact::{Artifact, ArtifactChunk, Part, PartContent},
    budget::Budget,
    ids::{Address, AgentId, Capability, QuestionId, StageId},
    message::{MessageKind, Payload, TaskUpdate},
    principal::Principal,
    question::{Answer, AskedBy},
    spaces::{
        request::{SpaceAction, SpaceAnswer, SpaceRequest},
        sealed::EntryRelease,
    },
    task::{TaskSpec, TaskState},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// How much longer than its question the turn of a person is waited for.
const LATE: Duration = Duration::from_secs(60);

/// The host's side of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "RecordedHosting")]
pub struct Hosting {
    task: Assignment,
    session: Session,
    /// The releases that the board has not answered.
    #[serde(default, skip_serializing_if = "is_zero")]
    releases: u32,
    /// The turns that wait for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    held: Vec<SeatTurn>,
    /// What is to be done, with the stages and seats that the session has planned. It follows from the other members.
    #[serde(skip)]
    graph: Result<Box<Graph>, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedHosting {
    task: Assignment,
    session: Session,
    #[serde(default)]
    releases: u32,
    #[serde(default)]
    held: Vec<SeatTurn>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl From<RecordedHosting> for Hosting {
    fn from(RecordedHosting { task, session, releases, held }: RecordedHosting) -> Self {
        let mut graph = read_graph(&task.ownership.spec);
        if let Ok(graph) = &mut graph {
            session.complete(graph);
        }
        Self { task, session, releases, held, graph }
    }
}

fn read_graph(spec: &TaskSpec) -> Result<Box<Graph>, String> {
    let mut graph = Graph::read(spec.input.as_ref()).map_err(|faults| faults.to_string())?;
    graph.budget.bound(spec.budget);
    Ok(Box::new(graph))
}

impl Hosting {
    /// `me` hosts the session of the task. Its result is checked on these terms before it counts.
    pub fn new(me: AgentId, ownership: TaskOwnership, limits: WorkLimits, terms: AcceptanceTerms) -> Self {
        let mut task = Assignment::new(me, ownership, limits);
        task.check_on(terms);
        let (session, held) = (Session::default(), Vec::new());
        Self::from(RecordedHosting { task, session, releases: 0, held })
    }

    fn context<'a>(task: &'a Assignment, graph: &'a Graph, now: WallTime) -> SessionContext<'a> {
        let spec = &task.ownership.spec;
        SessionContext {
            graph,
            id: &spec.task_id,
            host: &task.me,
            goal: &spec.description,
            given: &spec.artifacts,
            history: &spec.history,
            used: task.ownership.usage(),
            now,
            next_chunk: task.ownership.produced().to,
        }
    }

    /// What the rules of the session decide about an event.
    fn decide(
        &mut self,
        event: &Event,
        rule: impl FnOnce(&mut Session, SessionContext<'_>) -> Vec<SessionAction>,
    ) -> Vec<Effect> {
        if self.task.ownership.has_ended() || self.task.checks.is_under_way() {
            return Vec::new();
        }
        let mut effects = self.decide_once(event, rule);
        // Seats that were added just now are in the graph from here on.
        if self.session.has_grown() {
            effects.extend(self.decide_once(event, Session::grown));
        }
        effects
    }

    fn decide_once(
        &mut self,
        event: &Event,
        rule: impl FnOnce(&mut Session, SessionContext<'_>) -> Vec<SessionAction>,
    ) -> Vec<Effect> {
        let graph = match &mut self.graph {
            Ok(graph) => graph,
            Err(why) => {
                let why = why.clone();
                return self.fail(why);
            }
        };
        let actions = rule(&mut self.session, Self::context(&self.task, graph, event.wall));
        self.session.complete(graph);
        self.task.begin_turn();
        actions.into_iter().flat_map(|action| self.act(action, event)).collect()
    }

    fn start(&mut self, event: &Event) -> Vec<Effect> {
        let mut effects: Vec<_> = self.task.ownership.deadline_timer().into_iter().collect();
        let message = format!("{} is working on it", self.task.me);
        effects.extend(self.task.ownership.is_told_later(event));
        effects.extend(self.task.ownership.status(TaskState::Working, message));
        effects.extend(self.decide(event, Session::start));
        effects
    }

    /// Takes the results of seats that have come.
    fn take_results(&mut self, event: &Event) -> Vec<Effect> {
        if !self.task.pending.has_results() {
            return Vec::new();
        }
        let mut effects = Vec::new();
        let results = self.task.pending.take_results();
        // Every turn of a seat has an id of its own.
        self.task.pending.forget_ids();
        for result in results {
            effects.extend(self.decide(event, |session, cx| session.turn_ended(cx, result)));
        }
        effects.extend(self.tell_what_waits(event));
        self.task.ownership.questions = self.task.pending.questions();
        if !self.task.ownership.has_ended() && self.task.pending.waits_for_person() {
            effects.extend(self.show_questions(""));
        }
        effects
    }

    /// If nothing goes on without a person, the session makes the answer so far.
    fn tell_what_waits(&mut self, event: &Event) -> Vec<Effect> {
        if self.task.pending.works_beside_questions() {
            return Vec::new();
        }
        let asks = self.task.pending.asking();
        self.decide(event, |session, cx| session.asking(cx, &asks))
    }

    /// Tells the rules what turns ask, if that has changed.
    fn tell_questions(&mut self, event: &Event) -> Vec<Effect> {
        let asked = self.task.pending.questions_of_doers();
        match self.session.has_other_questions(&asked) {
            true => self.decide(event, |session, cx| session.questions(cx, &asked)),
            false => Vec::new(),
        }
    }

    fn show_questions(&mut self, why: &str) -> Vec<Effect> {
        let is_working = self.is_working();
        self.task.show_questions(why, is_working)
    }

    /// Whether something goes on, whatever is asked.
    fn is_working(&self) -> bool {
        self.task.checks.runs_turn() || self.task.pending.works_beside_questions()
    }

    /// The doer of a seat's turn has reported.
    fn note_report(&mut self, by: &Principal, update: &TaskUpdate, event: &Event) -> Vec<Effect> {
        let turn = self.task.pending.request_of(by, &update.task_id);
        if let Some(turn) = turn {
            let state = update.status.as_ref().map(|status| status.state);
            self.session.reported(turn, state.is_none_or(|state| state == TaskState::Working), event.wall);
        }
        let asker = self.asker(by, update);
        if !self.task.pending.take_questions(by, update, asker.as_ref()) {
            return Vec::new();
        }
        let mut effects = self.tell_what_waits(event);
        // What the autopilot is asked waits for nobody.
        effects.extend(self.tell_questions(event));
        effects.extend(self.show_questions(""));
        effects
    }

    /// Which seat asks the questions of a report, if it is from one.
    fn asker(&self, by: &Principal, update: &TaskUpdate) -> Option<AskedBy> {
        update.status.as_ref().filter(|status| !status.questions.is_empty())?;
        let turn = self.task.pending.request_of(by, &update.task_id)?;
        self.session.asker(self.graph.as_ref().ok()?, turn, by.agent()?)
    }

    fn receive(
        &mut self,
        by: &Principal,
        answers: Option<Label>,
        payload: &Payload,
        event: &Event,
    ) -> Vec<Effect> {
        match payload {
            Payload::TaskCancel(_) => match self.task.cancel_reason(by, payload) {
                Some(reason) => self.finish(TaskState::Canceled, Some(reason)),
                None => Vec::new(),
            },
            Payload::TaskAnswer(answer) => match self.task.requesters_answer(by, answer) {
                Some(said) => {
                    let passed_on = self.task.pending.answer(
                        answer.question_id.as_ref(),
                        &said,
                        answer.message.as_deref(),
                    );
                    self.answered(passed_on)
                }
                None => Vec::new(),
            },
            Payload::TaskUpdate(update) => self.note_report(by, update, event),
            _ => {
                let is_known = self.task.pending.take_answer(by, answers, payload).is_some();
                let usage = payload.usage().filter(|_| is_known);
                usage.and_then(|usage| self.task.ownership.add_usage(usage)).into_iter().collect()
            }
        }
    }

    /// A question was answered, if there is an answer: what is passed on to its doer, if one has asked.
    fn answered(&mut self, answer: Option<Option<Effect>>) -> Vec<Effect> {
        let Some(passed_on) = answer else { return Vec::new() };
        let mut effects: Vec<_> = passed_on.into_iter().collect();
        if self.task.pending.is_waiting() {
            effects.extend(self.show_questions(""));
        }
        effects
    }

    /// Charges what was reserved for agents that will not say what they have used.
    fn charge_lost(&mut self) -> Vec<Effect> {
        let lost = self.task.pending.take_lost();
        self.task.ownership.add_usage(&lost.charged_whole()).into_iter().collect()
    }

    fn act(&mut self, action: SessionAction, event: &Event) -> Vec<Effect> {
        if self.task.ownership.has_ended() {
            return Vec::new();
        }
        match action {
            SessionAction::Record(artifact) => {
                self.task.ownership.produce(ArtifactChunk::whole(*artifact)).into_iter().collect()
            }
            SessionAction::Turn(turn) if self.releases > 0 => {
                self.held.push(*turn);
                Vec::new()
            }
            SessionAction::Turn(turn) => self.ask_seat(*turn, event),
            SessionAction::Ask(question) => {
                let mut effects = self.send(Progress::Question(*question), self.task.limits, event);
                effects.extend(self.show_questions(""));
                effects
            }
            SessionAction::Withdraw { turn, why } => {
                self.held.retain(|held| held.id != turn);
                self.task.pending.withdraw_one(&turn, &why)
            }
            SessionAction::Answer { question, text } => {
                let question = QuestionId::parse(&question).ok();
                let passed_on = self.task.pending.answer(question.as_ref(), &Answer::Text(text), None);
                let mut effects: Vec<_> = passed_on.flatten().into_iter().collect();
                effects.extend(self.show_questions(""));
                effects
            }
            SessionAction::Timer { timer, at } => {
                vec![Effect::SetTimer { timer: Timer::Session(timer), when: TimerAt::Wall(at) }]
            }
            SessionAction::Release { stage, iteration } => self.release(&stage, iteration),
            SessionAction::Show(message) => {
                self.task.ownership.questions = self.task.pending.questions();
                match self.task.ownership.questions.is_empty() {
                    true => self.task.ownership.status(TaskState::Working, message),
                    false => self.show_questions(&format!("{message}\n")),
                }
            }
            SessionAction::End { state: TaskState::Completed, message } => self.check_result(message, event),
            SessionAction::End { state, message } => self.finish(state, Some(message)),
        }
    }

    /// Has the board release what a sealed stage has posted; the turns that follow wait for it, so that their briefs have it.
    fn release(&mut self, stage: &str, iteration: u32) -> Vec<Effect> {
        let Ok(stage) = StageId::parse(stage) else { return Vec::new() };
        self.releases += 1;
        let session = self.task.ownership.spec.task_id.clone();
        vec![self.ask_release(Label::Release, EntryRelease { session, stage: Some(stage), iteration })]
    }

    fn ask_release(&self, label: Label, release: EntryRelease) -> Effect {
        let space = self.task.ownership.spec.space();
        let request = Box::new(SpaceRequest { space, root: None, action: SpaceAction::Release(release) });
        Effect::AskSpace { label, request }
    }

    /// The board has released what a stage has posted, or refused to; the turns that have waited follow.
    fn released(&mut self, answer: &SpaceAnswer, event: &Event) -> Vec<Effect> {
        self.releases = self.releases.saturating_sub(1);
        let is_working = self.is_working();
        let mut effects = match answer {
            SpaceAnswer::Released { refused, .. } if !refused.is_empty() => {
                let why = format!("the space refused sealed entries: {}", refused.join("; "));
                self.task.ownership.status(TaskState::Working, why)
            }
            other => self.task.posted(other, is_working),
        };
        if self.releases == 0 {
            for turn in std::mem::take(&mut self.held) {
                effects.extend(self.ask_seat(turn, event));
            }
        }
        effects
    }

    /// Sends a request. The session ends when its seats have used its budget up: nothing is reserved for one.
    fn send(&mut self, ask: Progress, limits: WorkLimits, event: &Event) -> Vec<Effect> {
        self.task.send(Some(ask), (limits, Budget::default(), TurnKind::Task), event)
    }

    fn ask_seat(&mut self, turn: SeatTurn, event: &Event) -> Vec<Effect> {
        let SeatTurn { id, to, description, mut input, artifacts, chunks } = turn;
        let mut limits = self.task.limits;
        if let TurnDoer::Host(HostWork::Ask(turn)) = &to {
            // The question ends first.
            limits.delegate = limits.delegate.max(event.wall.until(turn.until) + LATE);
        }
        let (to, capability) = match to {
            TurnDoer::Peer(to) => (to, None),
            TurnDoer::Host(work) => {
                input[WORK] = json!(work);
                (Address::Agent(self.task.me.clone()), Capability::parse(HOST_WORK).ok())
            }
        };
        // Without names all that the chunks hold is given.
        let all = artifacts.is_empty().then_some(RecordedArtifacts { chunks, only: Vec::new() });
        let (input, budget) = (Some(input), Budget::default());
        let ask = Progress::Delegate(Delegate {
            id,
            to,
            capability,
            description,
            input,
            artifacts,
            budget,
            hand_on: false,
            wait: true,
        });
        let mut effects = self.send(ask, limits, event);
        for effect in &mut effects {
            if let Effect::Send(message) = effect {
                message.recorded = narrowed(message.recorded.take().or_else(|| all.clone()), chunks);
            }
        }
        effects
    }

    /// Checks the result, if there is something to check by.
    fn check_result(&mut self, message: String, event: &Event) -> Vec<Effect> {
        if self.task.checks.is_none() {
            return self.finish(TaskState::Completed, Some(message));
        }
        let mut effects = self.task.withdraw_requests();
        effects.extend(self.charge_lost());
        effects.extend(self.task.begin_check(Some(message), event));
        effects
    }

    fn checked(&mut self, step: CheckStep) -> Vec<Effect> {
        let CheckStep { mut effects, verdict } = step;
        effects.extend(match verdict {
            None => Vec::new(),
            Some(AcceptanceVerdict::Accepted) => {
                let summary = self.task.summary.take();
                self.finish(TaskState::Completed, summary)
            }
            Some(AcceptanceVerdict::Unchecked(why)) => self.fail(why),
            Some(AcceptanceVerdict::Refused(findings)) => {
                self.fail(format!("its result was refused: {findings}"))
            }
        });
        effects
    }

    fn fail(&mut self, reason: String) -> Vec<Effect> {
        self.finish(TaskState::Failed, Some(reason))
    }

    fn finish(&mut self, state: TaskState, message: Option<String>) -> Vec<Effect> {
        if self.task.ownership.has_ended() {
            return Vec::new();
        }
        self.held.clear();
        let mut effects = self.task.stop(message.as_deref().unwrap_or("no longer needed"));
        // Its findings end with its record.
        let session = self.task.ownership.spec.task_id.clone();
        effects.push(self.ask_release(Label::Space, EntryRelease { session, stage: None, iteration: 0 }));
        // What it decides for everybody needs a person who has sent the session and one who has approved at a gate: any brain can
        // have its agent host a session.
        let is_approved = self.session.is_approved() && self.task.ownership.requester.is_none();
        let declined = self.session.is_declined().then(|| message.clone().unwrap_or_default());
        if state == TaskState::Completed || declined.is_some() {
            effects.extend(self.task.curate(is_approved && declined.is_none(), declined));
        }
        effects.extend(self.task.remember(state, message.as_deref()));
        effects.extend(self.task.settle_usage());
        effects.extend(self.record());
        effects.extend(self.task.ownership.finish(state, message, BTreeMap::new()));
        effects
    }

    /// How the session has gone, as the last artifact of its task.
    fn record(&mut self) -> Option<Effect> {
        let view = self.shown_as(true)?;
        let part = Part { media_type: Some("application/json".into()), ..Part::new(PartContent::Data(view)) };
        let record = Artifact {
            artifact_id: session::RECORD.to_owned(),
            name: Some(session::RECORD.to_owned()),
            description: Some("How the session has gone".to_owned()),
            parts: vec![part],
            metadata: serde_json::Map::new(),
            extensions: Vec::new(),
        };
        self.task.ownership.produce(ArtifactChunk::whole(record))
    }

    /// What would become of a directive, or why it is refused.
    pub(crate) fn check_directive(&self, directive: &Directive) -> Result<DirectiveOutcome, String> {
        if self.task.ownership.has_ended() || self.task.checks.is_under_way() {
            return Err("it is no session that runs".to_owned());
        }
        let graph = self.graph.as_ref().map_err(Clone::clone)?;
        self.session.check_directive(&Self::context(&self.task, graph, WallTime::default()), directive)
    }

    /// The session as people see it.
    pub(crate) fn shown(&self) -> Option<Value> {
        self.shown_as(self.task.ownership.has_ended())
    }

    fn shown_as(&self, has_ended: bool) -> Option<Value> {
        let cx = Self::context(&self.task, self.graph.as_ref().ok()?, WallTime::default());
        Some(self.session.view(&cx, has_ended))
    }

    fn phase(&self) -> Option<WorkPhase> {
        if self.task.ownership.has_ended() {
            None
        } else if self.task.checks.runs_turn() || self.task.turn == 0 {
            Some(WorkPhase::Active)
        } else if self.task.pending.waits_for_person() {
            Some(WorkPhase::AwaitsPerson)
        } else {
            Some(WorkPhase::AwaitsAgents)
        }
    }

    fn step(&mut self, event: &Event) -> Vec<Effect> {
        let has_ended = self.task.ownership.has_ended();
        match &event.what {
            EventKind::Undelivered { label: Label::Response, reason, message, .. } if has_ended => {
                self.task.ownership.response_undelivered(reason, message)
            }
            _ if has_ended => Vec::new(),
            _ if let Some(step) = self.task.check_event(event) => self.checked(step),
            EventKind::Started if self.task.turn == 0 => self.start(event),
            EventKind::MessageReceived { by, answers, envelope } => {
                self.receive(by, *answers, &envelope.payload, event)
            }
            what if let Some((mut effects, is_lost)) = self.task.request_delivery(what) => {
                if is_lost {
                    effects.extend(self.charge_lost());
                }
                effects
            }
            EventKind::Undelivered { label: Label::Answer, to, message, .. }
                if self.task.pending.reopen_questions(to) =>
            {
                let mut effects = self.tell_what_waits(event);
                effects.extend(self.show_questions(&format!("the answer was not taken: {message}\n")));
                effects
            }
            EventKind::Answered { question, answer, message, .. } => {
                let passed_on = self.task.pending.answer(question.as_ref(), answer, message.as_deref());
                self.answered(passed_on)
            }
            EventKind::SpaceAnswered { label: Label::Release, answer } => self.released(answer, event),
            EventKind::SpaceAnswered { label: Label::Space, answer } => {
                let is_working = self.is_working();
                self.task.posted(answer, is_working)
            }
            EventKind::TimerFired { timer: Timer::Tell } => {
                self.task.ownership.tell(&self.task.me).into_iter().collect()
            }
            EventKind::TimerFired { timer: Timer::Deadline } => self.fail("its deadline passed".to_owned()),
            EventKind::TimerFired { timer: Timer::Request(key) } => match self.task.pending.expire(*key) {
                Expiry::Late | Expiry::Extended => Vec::new(),
                Expiry::Request => self.charge_lost(),
                Expiry::Question => self.answered(Some(None)),
                Expiry::Fails(why) => self.fail(why),
            },
            EventKind::TimerFired { timer: Timer::Session(timer) } => {
                self.decide(event, |session, cx| session.timer(cx, *timer))
            }
            EventKind::Directed { directive, .. } => {
                self.decide(event, |session, cx| session.direct(cx, directive))
            }
            EventKind::Cancelled { reason, .. } => self.finish(TaskState::Canceled, Some(reason.clone())),
            _ => Vec::new(),
        }
    }
}

impl Pattern for Hosting {
    const NAME: &'static str = "session";
    const OPENED_BY: &'static [MessageKind] = &[MessageKind::TaskRequest];
    const RECEIVES: &'static [MessageKind] = &[
        MessageKind::TaskUpdate,
        MessageKind::TaskResponse,
        MessageKind::TaskCancel,
        MessageKind::TaskAnswer,
    ];

    fn view(&self) -> View<'_> {
        View {
            work: self.phase(),
            session: Some(SessionView(self)),
            turn: self.task.turn_progress(self.task.limits.bounds.turns),
            ..View::default()
        }
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        let reserved = self.task.pending.reserved();
        let mut effects = self.step(event);
        effects.extend(self.take_results(event));
        effects.extend(self.tell_questions(event));
        // Before the effect that ends the task.
        effects.splice(0..0, self.task.show_reserved(reserved));
        effects
    }
}

/// The same artifacts, read from fewer chunks: a turn costs the same however much was said before.
fn narrowed(recorded: Option<RecordedArtifacts>, chunks: ChunkRange) -> Option<RecordedArtifacts> {
    let recorded = recorded?;
    (!chunks.is_empty()).then_some(RecordedArtifacts { chunks, ..recorded })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{AnyPattern, ownership::Requester};
    use protocol::ids::MessageId;

    fn host(is_approved: bool, requester: Option<&str>) -> Hosting {
        let input = json!({ "seats": ["a"] });
        let spec = json!({ "taskId": "t-1", "description": "talk", "root": "user:local", "input": input });
        let requester = requester.map(|id| Requester {
            agent: AgentId::parse(id).unwrap(),
            conversation: None,
            message: MessageId::parse("m-1").unwrap(),
            epoch: None,
        });
        let ownership = TaskOwnership::new(serde_json::from_value(spec).unwrap(), requester);
        let me = AgentId::parse("host").unwrap();
        let mut host = Hosting::new(me, ownership, WorkLimits::default(), AcceptanceTerms::default());
        host.session = serde_json::from_value(json!({ "isApproved": is_approved })).unwrap();
        host
    }

    /// The session as it is after a restart: written and read with the whole pattern.
    pub(crate) fn stored_and_read(session: &Session) -> Session {
        let stored =
            serde_json::to_vec(&AnyPattern::from(Hosting { session: session.clone(), ..host(false, None) }));
        let state = serde_json::from_slice(&stored.unwrap()).unwrap();
        match AnyPattern::read(AnyPattern::RULES, state) {
            Ok(AnyPattern::Hosting(hosting)) => hosting.session,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_session_decides_what_its_host_has_proposed_only_if_a_person_has_sent_it_and_approved_at_a_gate() {
        let curates = |is_approved: bool, requester: Option<&str>, state: TaskState| {
            let effects = host(is_approved, requester).finish(state, None);
            let is_curation = |effect: &Effect| {
                let Effect::AskSpace { request, .. } = effect else { return false };
                matches!(request.action, SpaceAction::Curate { session: true, .. })
            };
            effects.iter().any(is_curation)
        };
        assert!(curates(true, None, TaskState::Completed));
        assert!(!curates(true, None, TaskState::Failed));
        assert!(
            !curates(false, None, TaskState::Completed),
            "it has no gate, or the autopilot has confirmed it"
        );
        assert!(!curates(true, Some("host"), TaskState::Completed), "a brain has had its agent host it");
        assert!(!curates(true, Some("another-01"), TaskState::Completed), "it is part of another task");
    }

    #[test]
    fn a_session_at_the_root_has_what_was_proposed_in_it_merged_or_rejected() {
        let curation = |declined: bool, run: bool, state: TaskState| {
            let mut host = host(false, None);
            host.session = serde_json::from_value(json!({ "isDeclined": declined })).unwrap();
            host.task.ownership.spec.run = run.then(|| protocol::run_root::RunRoot {
                task: protocol::ids::TaskId::parse("t-0").unwrap(),
                agent: AgentId::parse("another").unwrap(),
            });
            host.finish(state, Some("declined at stage review".to_owned())).into_iter().find_map(|effect| {
                let Effect::AskSpace { request, .. } = effect else { return None };
                let SpaceAction::Curate { declined, .. } = request.action else { return None };
                Some(declined)
            })
        };
        assert_eq!(curation(false, false, TaskState::Completed), Some(None));
        assert_eq!(
            curation(true, false, TaskState::Failed),
            Some(Some("declined at stage review".to_owned()))
        );
        assert_eq!(curation(false, false, TaskState::Failed), None, "a person decides");
        assert_eq!(curation(true, true, TaskState::Failed), None, "it is part of another task");
    }

    #[test]
    fn the_graph_is_read_again_with_the_state_and_one_that_cannot_be_read_ends_the_session() {
        let host = host(false, None);
        assert!(host.graph.is_ok());
        let mut written = serde_json::to_value(&host).unwrap();
        assert!(written.get("graph").is_none(), "it follows from the input of the task");
        assert_eq!(serde_json::from_value::<Hosting>(written.clone()).unwrap(), host);
        written["task"]["ownership"]["spec"]["input"] = json!({ "seats": 7 });
        let mut damaged: Hosting = serde_json::from_value(written).unwrap();
        let started = Event { at: protocol::time::NodeTime(0), wall: WallTime(0), what: EventKind::Started };
        let effects = damaged.on(&started);
        assert!(matches!(effects.last(), Some(Effect::Finish(end)) if end.status.state == TaskState::Failed));
    }
}
