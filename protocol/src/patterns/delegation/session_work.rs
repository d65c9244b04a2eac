//! The work on a session: its seats do it, and this agent hosts it. The rules are in [`session`](crate::patterns::session).

use super::{Delegation, Effect, Event, Timer, pending_requests::RequestSender};
use crate::{
    artifact::{Artifact, ArtifactChunk, Part, PartContent},
    budget::Budget,
    ids::{Address, AgentId, Capability, QuestionId, TaskId},
    message::TaskUpdate,
    patterns::{
        ChunkRange, RecordedArtifacts, SessionTimer, TimerAt,
        session::{
            self, SeatTurn, Session, SessionAction, SessionContext, TurnDoer,
            graph::Graph,
            host_work::{HOST_WORK, HostWork, WORK},
        },
        speech::{Directive, DirectiveOutcome},
        turn::{Delegate, Progress},
    },
    principal::Principal,
    question::{Answer, AskedBy},
    task::TaskState,
    time::WallTime,
    usage::Usage,
};
use serde_json::{Value, json};
use std::time::Duration;

/// How much longer than its question the turn of a person is waited for.
const LATE: Duration = Duration::from_secs(60);

/// What the rules of a session are asked about, owned: the rules change the delegation's session meanwhile.
struct Hosted {
    graph: Graph,
    id: TaskId,
    host: AgentId,
    goal: String,
    given: Vec<String>,
    used: Usage,
    next_chunk: u64,
}

impl Hosted {
    fn at(&self, now: WallTime) -> SessionContext<'_> {
        SessionContext {
            graph: &self.graph,
            id: &self.id,
            host: &self.host,
            goal: &self.goal,
            given: &self.given,
            used: &self.used,
            now,
            next_chunk: self.next_chunk,
        }
    }
}

impl Delegation {
    /// The task is a session: its seats do it.
    #[must_use]
    pub fn with_session(mut self, is_session: bool) -> Self {
        self.session = is_session.then(Box::default);
        self.is_queued &= !is_session;
        self
    }

    /// Whether it is a turn of a session that this agent hosts, which its brain has no part in.
    pub(super) fn does_host_work(&self) -> bool {
        let spec = &self.ownership.spec;
        spec.capability.as_ref().is_some_and(|capability| capability.as_str() == HOST_WORK)
            && self.ownership.is_requested_by(&self.me, None)
    }

    fn hosted(&self) -> Result<Hosted, String> {
        let spec = &self.ownership.spec;
        let mut graph = Graph::read(spec.input.as_ref()).map_err(|faults| faults.to_string())?;
        graph.budget.bound(spec.budget);
        if let Some(session) = &self.session {
            session.complete(&mut graph);
        }
        Ok(Hosted {
            graph,
            id: spec.task_id.clone(),
            host: self.me.clone(),
            goal: spec.description.clone(),
            given: spec.artifacts.iter().map(|artifact| artifact.artifact_id.clone()).collect(),
            used: *self.ownership.usage(),
            next_chunk: self.ownership.produced().to,
        })
    }

    /// What the rules of the session decide about an event.
    pub(super) fn decide(
        &mut self,
        event: &Event,
        rule: impl FnOnce(&mut Session, SessionContext<'_>) -> Vec<SessionAction>,
    ) -> Vec<Effect> {
        if self.ownership.has_ended() || self.checks.is_under_way() {
            return Vec::new();
        }
        let mut effects = self.decide_once(event, rule);
        // Seats that were added just now are in the graph from here on.
        if self.session.as_ref().is_some_and(|session| session.has_grown()) {
            effects.extend(self.decide_once(event, Session::grown));
        }
        effects
    }

    fn decide_once(
        &mut self,
        event: &Event,
        rule: impl FnOnce(&mut Session, SessionContext<'_>) -> Vec<SessionAction>,
    ) -> Vec<Effect> {
        let hosted = match self.hosted() {
            Ok(hosted) => hosted,
            Err(why) => return self.fail(why),
        };
        let Some(session) = &mut self.session else { return Vec::new() };
        let actions = rule(session, hosted.at(event.wall));
        self.turn += 1;
        self.pending.begin_turn();
        actions.into_iter().flat_map(|action| self.act(action, event)).collect()
    }

    /// Begins the session.
    pub(super) fn start_session(&mut self, event: &Event) -> Vec<Effect> {
        self.decide(event, Session::start)
    }

    /// Takes the results of seats that have come.
    pub(super) fn session_results(&mut self, event: &Event) -> Vec<Effect> {
        if self.session.is_none() || !self.pending.has_results() {
            return Vec::new();
        }
        let mut effects = Vec::new();
        let results = self.pending.take_results();
        // Every turn of a seat has an id of its own.
        self.pending.forget_ids();
        for result in results {
            effects.extend(self.decide(event, |session, cx| session.turn_ended(cx, result)));
        }
        effects.extend(self.session_asks(event));
        self.ownership.questions = self.pending.questions();
        if !self.ownership.has_ended() && self.pending.waits_for_person() {
            effects.extend(self.show_questions());
        }
        effects
    }

    /// The doer of a seat's turn has reported.
    pub(super) fn note_report(&mut self, by: &Principal, update: &TaskUpdate, event: &Event) {
        let turn = self.pending.request_of(by, &update.task_id);
        if let (Some(session), Some(turn)) = (&mut self.session, turn) {
            let state = update.status.as_ref().map(|status| status.state);
            session.reported(turn, state.is_none_or(|state| state == TaskState::Working), event.wall);
        }
    }

    /// Which seat asks the questions of a report, if it is from one.
    pub(super) fn asker(&self, by: &Principal, update: &TaskUpdate) -> Option<AskedBy> {
        update.status.as_ref().filter(|status| !status.questions.is_empty())?;
        let turn = self.pending.request_of(by, &update.task_id)?;
        self.session.as_ref()?.asker(&self.hosted().ok()?.graph, turn, by.agent()?)
    }

    /// If nothing goes on without a person, the session makes the answer so far.
    pub(super) fn session_asks(&mut self, event: &Event) -> Vec<Effect> {
        if self.session.is_none() || self.pending.works_beside_questions() {
            return Vec::new();
        }
        let asks = self.pending.asking();
        self.decide(event, |session, cx| session.asking(cx, &asks))
    }

    /// Tells the rules what turns ask, if that has changed.
    pub(super) fn session_questions(&mut self, event: &Event) -> Vec<Effect> {
        let asked = self.pending.questions_of_doers();
        match self.session.as_ref().is_some_and(|session| session.has_other_questions(&asked)) {
            true => self.decide(event, |session, cx| session.questions(cx, &asked)),
            false => Vec::new(),
        }
    }

    /// A timer of the session has fired.
    pub(super) fn session_timer(&mut self, timer: SessionTimer, event: &Event) -> Vec<Effect> {
        self.decide(event, |session, cx| session.timer(cx, timer))
    }

    fn act(&mut self, action: SessionAction, event: &Event) -> Vec<Effect> {
        if self.ownership.has_ended() {
            return Vec::new();
        }
        match action {
            SessionAction::Record(artifact) => {
                self.ownership.produce(ArtifactChunk::whole(*artifact)).into_iter().collect()
            }
            SessionAction::Turn(turn) => self.ask_seat(*turn, event),
            SessionAction::Ask(question) => {
                let sender = RequestSender {
                    ownership: &self.ownership,
                    me: &self.me,
                    turn: self.turn,
                    limits: &self.work_limits,
                    bounds: Budget::default(),
                    event,
                };
                let mut effects = self.pending.send_at_once(Progress::Question(*question), sender);
                effects.extend(self.show_questions());
                effects
            }
            SessionAction::Withdraw { turn, why } => self.pending.withdraw_one(&turn, &why),
            SessionAction::Answer { question, text } => {
                let question = QuestionId::parse(&question).ok();
                let passed_on = self.pending.answer(question.as_ref(), &Answer::Text(text), None);
                let mut effects: Vec<_> = passed_on.flatten().into_iter().collect();
                effects.extend(self.show_questions());
                effects
            }
            SessionAction::Timer { timer, at } => {
                vec![Effect::SetTimer { timer: Timer::Session(timer), when: TimerAt::Wall(at) }]
            }
            SessionAction::Show(message) => {
                let mut effects = self.ownership.report_chunks(false);
                self.ownership.questions = self.pending.questions();
                effects.extend(match self.ownership.questions.is_empty() {
                    true => self.ownership.status(TaskState::Working, message),
                    false => self.show_questions_because(&format!("{message}\n")),
                });
                effects
            }
            SessionAction::End { state: TaskState::Completed, message } => {
                self.check_result(Some(message), event)
            }
            SessionAction::End { state, message } => self.finish(state, Some(message)),
        }
    }

    fn ask_seat(&mut self, turn: SeatTurn, event: &Event) -> Vec<Effect> {
        let SeatTurn { id, to, description, mut input, artifacts, chunks } = turn;
        let mut limits = self.work_limits;
        if let TurnDoer::Host(HostWork::Ask(turn)) = &to {
            // The question ends first.
            limits.delegate = limits.delegate.max(event.wall.until(turn.until) + LATE);
        }
        let (to, capability) = match to {
            TurnDoer::Peer(to) => (to, None),
            TurnDoer::Host(work) => {
                input[WORK] = json!(work);
                (Address::Agent(self.me.clone()), Capability::parse(HOST_WORK).ok())
            }
        };
        let (input, budget) = (Some(input), Budget::default());
        let ask = Progress::Delegate(Delegate {
            id,
            to,
            capability,
            description,
            input,
            artifacts,
            budget,
            wait: true,
        });
        let sender = RequestSender {
            ownership: &self.ownership,
            me: &self.me,
            turn: self.turn,
            limits: &limits,
            // The session ends when its seats have used its budget up: nothing is reserved for one.
            bounds: budget,
            event,
        };
        let mut effects = self.pending.send_at_once(ask, sender);
        for effect in &mut effects {
            if let Effect::Send(message) = effect {
                message.recorded = narrowed(message.recorded.take(), chunks);
            }
        }
        effects
    }

    /// How the session has gone, as the last artifact of its task.
    pub(super) fn record_session(&mut self) -> Vec<Effect> {
        let Some(view) = self.view_of_session(true) else { return Vec::new() };
        let part = Part { media_type: Some("application/json".into()), ..Part::new(PartContent::Data(view)) };
        let record = Artifact {
            artifact_id: session::RECORD.to_owned(),
            name: Some(session::RECORD.to_owned()),
            description: Some("How the session has gone".to_owned()),
            parts: vec![part],
            metadata: serde_json::Map::new(),
            extensions: Vec::new(),
        };
        self.ownership.produce(ArtifactChunk::whole(record)).into_iter().collect()
    }

    /// What would become of a directive, or why it is refused.
    pub(in crate::patterns) fn check_session_directive(
        &self,
        directive: &Directive,
    ) -> Result<DirectiveOutcome, String> {
        let session =
            self.session.as_ref().filter(|_| !self.ownership.has_ended() && !self.checks.is_under_way());
        let session = session.ok_or("it is no session that runs")?;
        session.check_directive(&self.hosted()?.at(WallTime::default()), directive)
    }

    /// The session as people see it.
    pub(in crate::patterns) fn session_view(&self) -> Option<Value> {
        self.view_of_session(self.ownership.has_ended())
    }

    fn view_of_session(&self, has_ended: bool) -> Option<Value> {
        let session = self.session.as_ref()?;
        let hosted = self.hosted().ok()?;
        Some(session.view(&hosted.at(WallTime::default()), has_ended))
    }
}

/// The same artifacts, read from fewer chunks: a turn costs the same however much was said before.
fn narrowed(recorded: Option<RecordedArtifacts>, chunks: ChunkRange) -> Option<RecordedArtifacts> {
    let recorded = recorded?;
    (!chunks.is_empty()).then_some(RecordedArtifacts { chunks, ..recorded })
}
