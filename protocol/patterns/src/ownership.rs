//! The duties of every agent that is accountable for a task: show its progress, report to the requester, end it once.

use super::{
    ChunkRange, Effect, Event, Label, Outcome, OutgoingMessage, OutgoingSignal, ProducedArtifact,
    RecordedArtifacts, Timer, TimerAt, Update,
    progress::ProducedChunks,
    session::{self, seat},
};
use protocol::{
    answer::SeatEnd,
    artifact::ArtifactChunk,
    handoff::Handoff,
    ids::{Address, AgentId, ConversationId, Digest, MessageId},
    message::{Epoch, Payload, Seq, TaskResponse, TaskUpdate},
    problem::Reason,
    question::Question,
    run_root::RunRoot,
    signal::{SHA256, SignalType},
    task::{Status, TaskSpec, TaskState},
    usage::Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use std::{collections::BTreeMap, time::Duration};

/// When the board is told of a task that has not ended.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// The agent that requested the task, and where reports go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requester {
    pub agent: AgentId,
    /// Its conversation, if it named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    pub message: MessageId,
    /// The epoch of the award, if the task was awarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
}

/// The most characters of a name or media type in a signal.
const MAX_NAMED: usize = 200;

/// One agent's accountability for one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskOwnership {
    /// The specification of the task.
    pub spec: TaskSpec,
    /// The requesting agent; `None` for a user, who polls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Requester>,
    /// Whether its end is published on the board: false under an award, because the manager publishes it.
    pub announces: bool,
    /// The epoch of its claim on the board, if it is an open task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Epoch>,
    /// Whether no other bidder is left: if it is handed back, a new round follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_last: bool,
    /// The agent whose brain did it, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) doer: Option<AgentId>,
    seq: Seq,
    ended: Option<TaskState>,
    produced: ProducedChunks,
    /// The message of a response that was sent while a report was in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unconfirmed: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_excused_itself: bool,
    /// What was used, that of other agents included.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    usage: Usage,
    /// How the turn of a seat ended, if its task is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seat: Option<SeatEnd>,
    /// To whom the doer hands on the chat of which it is a message, or back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) handed_on: Option<Handoff>,
    /// Whether neither waiting nor another try changes its failure, if it fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_failure_lasting: bool,
    /// Whether its result is checked before it counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_checked: bool,
    /// Whether nobody sees it as a task: only its end is shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_hidden: bool,
    /// The open questions. Every status shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) questions: Vec<Question>,
}

impl TaskOwnership {
    /// The ownership of `spec` for `requester`; for the user, if it is absent.
    pub fn new(spec: TaskSpec, requester: Option<Requester>) -> Self {
        let announces = requester.as_ref().is_none_or(|requester| requester.epoch.is_none());
        Self {
            spec,
            requester,
            announces,
            claim: None,
            is_last: false,
            doer: None,
            seq: 0,
            ended: None,
            produced: ProducedChunks::default(),
            unconfirmed: None,
            has_excused_itself: false,
            usage: Usage::default(),
            seat: None,
            handed_on: None,
            is_failure_lasting: false,
            is_checked: false,
            is_hidden: false,
            questions: Vec::new(),
        }
    }

    /// The run that the work for it is a part of.
    pub(super) fn run(&self, me: &AgentId) -> RunRoot {
        let own = || RunRoot { task: self.spec.task_id.clone(), agent: me.clone() };
        self.spec.run.clone().unwrap_or_else(own)
    }

    /// What was used.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Adds to what was used, and shows it.
    pub fn add_usage(&mut self, usage: &Usage) -> Option<Effect> {
        if usage.is_none() || self.has_ended() {
            return None;
        }
        self.usage = self.usage.plus(usage);
        (!self.is_hidden).then_some(Effect::Update(Update::Usage(self.usage)))
    }

    /// The timer of its deadline, if it has one.
    pub(super) fn deadline_timer(&self) -> Option<Effect> {
        Some(Effect::SetTimer { timer: Timer::Deadline, when: TimerAt::Wall(self.spec.deadline?) })
    }

    /// Whether `agent` is the requester, and `epoch`, if given, is its award.
    pub fn is_requested_by(&self, agent: &AgentId, epoch: Option<Epoch>) -> bool {
        let is_this_award = |requester: &Requester| epoch.is_none() || epoch == requester.epoch;
        self.requester.as_ref().is_some_and(|requester| requester.agent == *agent && is_this_award(requester))
    }

    /// Whether it has ended; everything after is late.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether it is done under an award.
    pub fn is_awarded(&self) -> bool {
        self.requester.as_ref().is_some_and(|requester| requester.epoch.is_some())
    }

    /// Whether what it produces is reported as it comes: to the manager, or to the agent that passes on what is said in a chat.
    fn reports_pieces(&self) -> bool {
        self.is_awarded() || self.requester.is_some() && self.spec.handed.is_some()
    }

    /// The epoch of the award or claim that it is done under.
    pub fn epoch(&self) -> Option<Epoch> {
        self.claim.or_else(|| self.requester.as_ref()?.epoch)
    }

    /// The chunks of what has been produced.
    pub fn produced(&self) -> ChunkRange {
        self.produced.range()
    }

    /// Whether the board is told of what it has produced.
    fn is_announced(&self) -> bool {
        self.announces || self.claim.is_some()
    }

    /// The digest of its result: of the ids and digests of its first artifacts, and of `message`.
    pub(super) fn result_digest(&self, message: Option<&str>) -> Digest {
        let artifacts = self.produced.described();
        let mut text: String =
            artifacts.iter().map(|made| format!("{} {}\n", made.sha256, made.artifact_id)).collect();
        text.extend(message);
        Digest::of(text.as_bytes())
    }

    /// The ids of the first artifacts that it has produced.
    pub(super) fn artifact_ids(&self) -> Vec<String> {
        self.produced.described().into_iter().map(|made| made.artifact_id).collect()
    }

    /// Whether anything with content has been produced.
    pub fn has_content(&self) -> bool {
        self.produced.has_content()
    }

    /// Whether the delivery of a report with chunks is not known yet.
    pub(super) fn has_reports_in_flight(&self) -> bool {
        self.produced.is_in_flight()
    }

    /// Adds an artifact, or a piece of one. [`Self::report_chunks`] reports it to the requester.
    pub fn produce(&mut self, chunk: ArtifactChunk) -> Option<Effect> {
        if self.has_ended() {
            return None;
        }
        let is_described = self.is_announced() || self.is_checked;
        let number = self.produced.add(&chunk, self.reports_pieces(), is_described);
        Some(Effect::Update(Update::Artifact { number, chunk }))
    }

    /// Reports chunks to whoever is told of them: one report if none is in flight, or with `all` whatever is not reported. Other
    /// requesters get the artifacts with the response.
    pub fn report_chunks(&mut self, all: bool) -> Vec<Effect> {
        if self.has_ended() {
            return Vec::new();
        }
        let Some(requester) = self.requester.clone() else { return Vec::new() };
        let reports = self.produced.next_reports(all).into_iter().map(|chunks| {
            self.seq += 1;
            let update = TaskUpdate::new(self.spec.task_id.clone(), self.seq, requester.epoch);
            let recorded = Some(RecordedArtifacts { chunks, only: Vec::new() });
            let message = requester.reply(Label::Chunks, Payload::TaskUpdate(update));
            Effect::Send(OutgoingMessage { recorded, ..message })
        });
        reports.collect()
    }

    /// A report with chunks was delivered, or given up; the next one follows. If the task has ended and it was given up, the
    /// manager waits for a response with everything, which follows once.
    pub fn chunks_settled(&mut self, is_delivered: bool) -> Vec<Effect> {
        let had_gap = self.produced.reported().is_none();
        self.produced.settled(is_delivered);
        if self.ended == Some(TaskState::Completed) && !is_delivered && !had_gap {
            let message = self.unconfirmed.take();
            return self.respond(TaskState::Completed, message).into_iter().collect();
        }
        self.report_chunks(false)
    }

    /// Discards what a doer produced that did not finish.
    pub fn discard_artifacts(&mut self) -> Vec<Effect> {
        let Some(from) = self.produced.discard().filter(|_| !self.is_hidden) else { return Vec::new() };
        let report = self.reports_pieces().then(|| self.report_update(|update| update.restarts = true));
        std::iter::once(Effect::Update(Update::Restart { from })).chain(report.flatten()).collect()
    }

    /// Shows a status with the open questions, and reports it to the requester.
    pub fn show_status(&mut self, mut status: Status) -> Vec<Effect> {
        if self.has_ended() || self.is_hidden {
            return Vec::new();
        }
        status.questions.extend(self.questions.iter().cloned());
        let mut effects = self.report_chunks(true);
        let report = self.report_update(|update| update.status = Some(status.clone()));
        effects.push(Effect::Update(Update::Status(status)));
        effects.extend(report);
        effects
    }

    /// What was produced, for whoever goes on behind it: nothing of it is reported.
    pub(super) fn produced_before(&self) -> ProducedChunks {
        self.produced.unreported()
    }

    /// The work goes on behind what was produced before.
    pub(super) fn go_on_with(&mut self, produced: ProducedChunks) {
        self.produced = produced;
    }

    /// Reports to the manager that the agent is away with its work for so long; with 0, that it is back.
    pub(super) fn is_away(&mut self, away_ms: u64) -> Option<Effect> {
        let label = if away_ms == 0 { Label::CheckIn } else { Label::Update };
        self.report(label, |update| update.away_ms = Some(away_ms))
    }

    /// Reports to the requester that the work continues, without progress.
    pub fn sign_of_life(&mut self) -> Vec<Effect> {
        if self.has_ended() {
            return Vec::new();
        }
        self.report_update(|_| {}).into_iter().collect()
    }

    fn report_update(&mut self, complete: impl FnOnce(&mut TaskUpdate)) -> Option<Effect> {
        self.report(Label::Update, complete)
    }

    fn report(&mut self, label: Label, complete: impl FnOnce(&mut TaskUpdate)) -> Option<Effect> {
        let requester = self.requester.clone()?;
        self.seq += 1;
        let mut update = TaskUpdate::new(self.spec.task_id.clone(), self.seq, requester.epoch);
        complete(&mut update);
        Some(report(&requester, label, Payload::TaskUpdate(update)))
    }

    /// A change of state with a sentence about it.
    pub fn status(&mut self, state: TaskState, message: impl Into<String>) -> Vec<Effect> {
        self.show_status(Status::new(state, message))
    }

    /// Ends the task: once.
    pub fn finish(
        &mut self,
        state: TaskState,
        message: Option<String>,
        fulfilments: BTreeMap<AgentId, Vec<bool>>,
    ) -> Vec<Effect> {
        if self.has_ended() {
            return Vec::new();
        }
        let mut effects = self.report_chunks(true);
        self.ended = Some(state);
        let chunks = self.produced.range();
        effects.extend(self.respond(state, message.clone()));
        if self.produced.is_in_flight() && state == TaskState::Completed {
            self.unconfirmed.clone_from(&message);
        }
        if self.announces {
            effects.extend(self.announcements(state));
        }
        effects.push(Effect::Finish(Outcome {
            chunks,
            produced: if self.is_announced() { self.produced.described() } else { Vec::new() },
            fulfilments,
            usage: self.usage,
            ..Outcome::new(Status { message, ..Status::of(state) })
        }));
        effects
    }

    /// The response to the requester. A manager that has got all chunks in reports gets their number, anyone else the artifacts.
    fn respond(&mut self, state: TaskState, message: Option<String>) -> Option<Effect> {
        let requester = self.requester.clone()?;
        self.seq += 1;
        let reported = self.produced.reported().filter(|_| self.reports_pieces());
        let response = TaskResponse {
            task_id: self.spec.task_id.clone(),
            seq: self.seq,
            state,
            epoch: requester.epoch,
            doer: self.doer.clone(),
            artifacts: Vec::new(),
            chunks: reported,
            message,
            lasting: self.is_failure_lasting && state == TaskState::Failed,
            usage: self.usage,
            seat: self.seat.clone(),
            handed_on: self.handed_on.clone(),
            extra: Map::new(),
        };
        let chunks = self.produced.range();
        let is_whole = reported.is_none() && !chunks.is_empty();
        let recorded = is_whole.then(|| RecordedArtifacts { chunks, only: Vec::new() });
        let response = requester.reply(Label::Response, Payload::TaskResponse(response));
        Some(Effect::Send(OutgoingMessage { recorded, ..response }))
    }

    /// The response could not be delivered, for `reason`. If the requester is there but refused it, it is sent a failure
    /// instead, once.
    pub fn response_undelivered(&mut self, reason: &str, message: &str) -> Vec<Effect> {
        let requester = self.requester.clone().filter(|_| is_recipient_there(reason) && self.has_ended());
        let Some(requester) = requester else { return Vec::new() };
        if std::mem::replace(&mut self.has_excused_itself, true) {
            return Vec::new();
        }
        self.seq += 1;
        let response = TaskResponse {
            task_id: self.spec.task_id.clone(),
            seq: self.seq,
            state: TaskState::Failed,
            epoch: requester.epoch,
            doer: None,
            artifacts: Vec::new(),
            chunks: None,
            message: Some(format!("the result could not be handed over: {message}")),
            lasting: false,
            usage: self.usage,
            seat: None,
            handed_on: None,
            extra: Map::new(),
        };
        vec![report(&requester, Label::Response, Payload::TaskResponse(response))]
    }

    /// The board is told of a task that was not awarded if it has not ended soon: who depends on it may wait for its end. Nobody
    /// waits for the turn of a seat.
    pub fn is_told_later(&self, event: &Event) -> Option<Effect> {
        let is_told = self.announces && !seat::is_seat_turn(&self.spec);
        is_told.then(|| Effect::SetTimer { timer: Timer::Tell, when: TimerAt::Node(event.at + TOLD_AFTER) })
    }

    /// Tells the board that `me` has taken the task.
    pub fn tell(&self, me: &AgentId) -> Option<Effect> {
        if !self.announces || self.has_ended() {
            return None;
        }
        let mut taken = OutgoingSignal::about(SignalType::task_claimed(), &self.spec.task_id);
        taken.subject = Some(me.to_string());
        taken.capability.clone_from(&self.spec.capability);
        Some(Effect::Publish { signal: taken })
    }

    fn announcements(&self, state: TaskState) -> Vec<Effect> {
        // Signals would tell other seats how many turns there were.
        if seat::is_sealed(&self.spec) {
            return Vec::new();
        }
        let kind = if state == TaskState::Completed {
            SignalType::task_complete()
        } else {
            SignalType::task_failed()
        };
        let mut ended = OutgoingSignal {
            capability: self.spec.capability.clone(),
            ..OutgoingSignal::about(kind, &self.spec.task_id)
        };
        ended.refs.insert("state".into(), json!(state));
        // What seats say is shown to people only, so no signal refers to it.
        let is_session = session::is_session(&self.spec) || seat::is_seat_turn(&self.spec);
        let tells_results = state == TaskState::Completed && !is_session;
        let produced =
            if tells_results { produced(&self.spec, &self.produced.described()) } else { Vec::new() };
        produced.into_iter().chain([Effect::Publish { signal: ended }]).collect()
    }
}

impl Requester {
    /// A message that answers its request.
    pub(super) fn reply(&self, label: Label, payload: Payload) -> OutgoingMessage {
        OutgoingMessage {
            conversation: self.conversation.clone(),
            in_reply_to: Some(self.message.clone()),
            ..OutgoingMessage::new(label, Address::Agent(self.agent.clone()), payload)
        }
    }
}

fn report(requester: &Requester, label: Label, payload: Payload) -> Effect {
    Effect::Send(requester.reply(label, payload))
}

/// Whether a message given up for this reason had a recipient that can be notified, and that still waits for it.
pub(super) fn is_recipient_there(reason: &str) -> bool {
    let absent = [
        Reason::Fenced,
        Reason::Expired,
        Reason::AgentNotFound,
        Reason::AgentDeparted,
        Reason::AgentAway,
        Reason::RegisteredElsewhere,
        Reason::Overloaded,
        Reason::RecipientUnreachable,
        Reason::TaskNotFound,
        Reason::MessageNotFound,
    ];
    !absent.iter().any(|absent| absent.code() == reason)
}

/// Whether a message that was given up for this reason may have reached its recipient: nobody has refused it.
pub(super) fn may_have_arrived(reason: &str) -> bool {
    let unknown = [Reason::Expired, Reason::RecipientUnreachable, Reason::GatewayTimeout];
    unknown.iter().any(|unknown| unknown.code() == reason)
}

/// The signals about a finished task's results. Each names an artifact by its id and by the digest of its content.
pub(super) fn produced(spec: &TaskSpec, artifacts: &[ProducedArtifact]) -> Vec<Effect> {
    let produced = artifacts.iter().map(|artifact| {
        let id: String = artifact.artifact_id.chars().take(MAX_NAMED).collect();
        let media_type: String = artifact.media_type.chars().take(MAX_NAMED).collect();
        let mut produced = OutgoingSignal::about(SignalType::artifact_produced(), &spec.task_id);
        produced.capability.clone_from(&spec.capability);
        produced.refs = Map::from_iter([
            ("artifactId".to_owned(), json!(id)),
            (SHA256.to_owned(), json!(artifact.sha256)),
            ("mediaType".to_owned(), json!(media_type)),
            ("bytes".to_owned(), json!(artifact.bytes)),
        ]);
        produced.subject = Some(id);
        Effect::Publish { signal: produced }
    });
    produced.collect()
}
