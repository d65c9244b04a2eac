//! The checks of a result before it counts. A pattern that is accountable for a task embeds them: it begins them with a
//! result, hands them its events, and gets a verdict.
//!
//! The node's own checks, of schemas and commands, are one turn ([`TurnSubject::Check`]). A review is a task that the agent
//! sends to itself, which finds the reviewer by contract net; the doer is on its path, so it does not review its own result.

use super::{
    Effect, Event, EventKind, Label, OutgoingMessage, RecordedArtifacts, Timer, TimerAt, Update,
    ownership::TaskOwnership,
    turn::{Prompt, ResultToCheck, TurnEnd, TurnSubject},
};
use protocol::{
    acceptance::{
        AcceptanceTerms, CheckVerdict, ResultCheck, clip_findings, json_in, json_of, verdict_schema,
    },
    budget::Budget,
    ids::{Address, AgentId, Capability, Digest, TaskId},
    message::{Payload, TaskCancel, TaskRequest, TaskResponse},
    task::{TaskState, TaskTerms},
    usage::TaskBounds,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use std::time::Duration;

/// How long a review may take, if the task has no earlier deadline.
const REVIEW: Duration = Duration::from_secs(3_600);

/// How often a review is asked for if the answers have no verdict.
const MAX_TRIES: u32 = 2;

/// The number of the turn of the node's own checks. At most one turn of a conversation runs at a time.
pub(super) const CHECK_TURN: u32 = 0;

/// The checks of one task's results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResultChecks {
    terms: AcceptanceTerms,
    /// The check under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<Box<CurrentCheck>>,
    /// The reviews that were asked for.
    #[serde(default)]
    reviews: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CurrentCheck {
    doer: AgentId,
    message: Option<String>,
    sha256: Digest,
    stage: CheckStage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum CheckStage {
    /// The node's own checks run.
    Node,
    /// A reviewer works. `at` is its position in the terms, `tries` how often it was asked.
    Review { at: usize, tries: u32, task: TaskId },
}

/// What the checks say about a result.
#[derive(Debug, PartialEq)]
pub(super) enum AcceptanceVerdict {
    Accepted,
    /// It does not; the findings.
    Refused(String),
    /// It can't be checked; why.
    Unchecked(String),
}

/// What follows from an event of a check.
pub(super) struct CheckStep {
    pub(super) effects: Vec<Effect>,
    /// Once all checks have ended.
    pub(super) verdict: Option<AcceptanceVerdict>,
}

/// The task whose result is checked, and the pattern's names for what the checks do.
pub(super) struct CheckedTask<'a> {
    pub(super) me: &'a AgentId,
    pub(super) ownership: &'a mut TaskOwnership,
    /// What the task may use in all, beside the budget of its request. A review may use what is left.
    pub(super) bounds: TaskBounds,
}

impl CheckedTask<'_> {
    fn left(&self) -> Budget {
        let bounds = Budget::from(&self.bounds).within(self.ownership.spec.budget);
        bounds.left(self.ownership.usage(), Budget::default())
    }

    /// Charges the review, which will not say what it has used.
    fn charge_review(&mut self) -> Option<Effect> {
        let lost = self.left();
        self.ownership.add_usage(&lost.charged_whole())
    }
}

impl ResultChecks {
    pub(super) fn of(terms: AcceptanceTerms) -> Self {
        Self { terms, ..Self::default() }
    }

    /// Whether results count at once.
    pub(super) fn is_none(&self) -> bool {
        self.terms.is_default()
    }

    pub(super) fn terms(&self) -> &AcceptanceTerms {
        &self.terms
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Whether the node's own checks run.
    pub(super) fn runs_turn(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.stage == CheckStage::Node)
    }

    /// Begins to check the result of `doer` in `task`: what it has produced, and `message`.
    pub(super) fn begin(
        &mut self,
        doer: &AgentId,
        message: Option<String>,
        task: CheckedTask<'_>,
        event: &Event,
    ) -> Vec<Effect> {
        let sha256 = task.ownership.result_digest(message.as_deref());
        let what = format!("checks the result of {doer} before it counts");
        let mut effects = task.ownership.status(TaskState::Working, what);
        let current = CurrentCheck { doer: doer.clone(), message, sha256, stage: CheckStage::Node };
        if self.terms.has_own_check() {
            let spec = &task.ownership.spec;
            let about = TurnSubject::Check(ResultToCheck {
                task_id: spec.task_id.clone(),
                description: spec.description.clone(),
                capability: spec.capability.clone(),
                input: spec.input.clone(),
                doer: doer.clone(),
                message: current.message.clone(),
                schema: self.terms.schema.clone(),
            });
            effects.push(Effect::RunTurn {
                turn: CHECK_TURN,
                prompt: Box::new(Prompt::new(CHECK_TURN, about)),
                deadline: spec.deadline,
                input: Default::default(),
            });
            self.current = Some(Box::new(current));
        } else {
            self.current = Some(Box::new(current));
            effects.extend(self.ask_reviewer(0, 1, task, event));
        }
        effects
    }

    fn ask_reviewer(&mut self, at: usize, tries: u32, task: CheckedTask<'_>, event: &Event) -> Vec<Effect> {
        let (Some(current), Some(capability)) = (&mut self.current, self.terms.reviewers.get(at)) else {
            return Vec::new();
        };
        self.reviews += 1;
        let budget = task.left();
        let CheckedTask { me, ownership, .. } = task;
        let spec = &ownership.spec;
        let id = review_id(me, ownership, self.reviews);
        current.stage = CheckStage::Review { at, tries, task: id.clone() };
        let wait = spec.deadline.map_or(REVIEW, |deadline| event.wall.until(deadline).min(REVIEW));
        let input = json!({
            "task": spec.description,
            "capability": spec.capability,
            "input": spec.input,
            "doer": current.doer,
            "message": current.message,
            "answer": verdict_schema(),
        });
        let mut description = format!(
            "Review the result of a task. The task is in the input, the result in the artifacts and in the input's message. \
             Answer with nothing but the JSON object {{\"accepted\": true}}, or {{\"accepted\": false, \"findings\": \"what is wrong \
             with it\"}}. The task was: {}",
            spec.description
        );
        if tries > 1 {
            description.push_str(
                "\n\nThe last review had no such JSON object, neither as an artifact nor as its message.",
            );
        }
        let terms = TaskTerms {
            capability: Some(capability.clone()),
            input: Some(input),
            deadline: Some(event.wall.plus(wait)),
            ..TaskTerms::new(description)
        };
        let request = TaskRequest {
            task_id: Some(id),
            on_behalf_of: Some(spec.root.clone()),
            root_proof: spec.root_proof,
            parent_task_id: Some(spec.task_id.clone()),
            budget,
            is_review: true,
            ..TaskRequest::new(terms)
        };
        let chunks = ownership.produced();
        let doer = (current.doer != *me).then(|| current.doer.clone());
        let message = OutgoingMessage {
            recorded: (!chunks.is_empty()).then(|| RecordedArtifacts { chunks, only: Vec::new() }),
            path: spec.path.iter().cloned().chain(doer).collect(),
            expires: Some(event.wall.plus(wait)),
            ..OutgoingMessage::new(
                Label::Review,
                Address::Capability(capability.clone()),
                Payload::TaskRequest(request),
            )
        };
        vec![
            Effect::Send(message),
            Effect::SetTimer { timer: Timer::Review, when: TimerAt::Node(event.at + wait) },
        ]
    }

    /// Takes an event of the check under way; `None` if it is about something else.
    pub(super) fn on(&mut self, mut task: CheckedTask<'_>, event: &Event) -> Option<CheckStep> {
        let current = self.current.as_ref()?;
        match (&current.stage, &event.what) {
            (CheckStage::Node, EventKind::TurnEnded { end, .. }) => Some(match end {
                TurnEnd::Done { message } => {
                    let effects =
                        vec![self.record(CheckVerdict::Accepted, message.clone().unwrap_or_default(), event)];
                    self.next(0, effects, task, event)
                }
                TurnEnd::Rejected { reason } => self.refused(reason, event),
                TurnEnd::Failed { reason }
                | TurnEnd::LastingFailure { reason }
                | TurnEnd::Pause { reason, .. } => self.unchecked(reason, event),
                TurnEnd::Message { .. }
                | TurnEnd::Seat { .. }
                | TurnEnd::Waiting
                | TurnEnd::Handoff(_)
                | TurnEnd::WaitingFor { .. } => self.unchecked("it ended without a verdict", event),
            }),
            (CheckStage::Node, EventKind::TurnFailed { reason, .. }) => Some(self.unchecked(reason, event)),
            (CheckStage::Node, EventKind::TurnProgress { .. }) => Some(nothing()),
            (CheckStage::Review { task: review, .. }, EventKind::MessageReceived { by, envelope, .. })
                if envelope.payload.task_id() == Some(review) =>
            {
                if by.agent() != Some(task.me) {
                    return Some(nothing());
                }
                let Payload::TaskResponse(response) = &envelope.payload else { return Some(nothing()) };
                Some(self.reviewed(response, task, event))
            }
            (CheckStage::Review { .. }, EventKind::Undelivered { label, message, .. })
                if *label == Label::Review =>
            {
                let mut step = self.unchecked(message, event);
                step.effects.push(Effect::ClearTimer { timer: Timer::Review });
                Some(step)
            }
            (CheckStage::Review { .. }, EventKind::TimerFired { timer }) if *timer == Timer::Review => {
                let mut effects = self.stop("the review took too long", &task);
                effects.retain(|effect| !matches!(effect, Effect::ClearTimer { .. }));
                effects.extend(task.charge_review());
                let mut step = self.unchecked("the review took too long", event);
                step.effects.splice(..0, effects);
                Some(step)
            }
            _ => None,
        }
    }

    fn reviewed(&mut self, response: &TaskResponse, task: CheckedTask<'_>, event: &Event) -> CheckStep {
        let Some(CheckStage::Review { at, tries, .. }) = self.current.as_ref().map(|current| &current.stage)
        else {
            return nothing();
        };
        let (at, tries) = (*at, *tries);
        let mut effects: Vec<_> = task.ownership.add_usage(&response.usage).into_iter().collect();
        effects.push(Effect::ClearTimer { timer: Timer::Review });
        let is_done = response.state == TaskState::Completed;
        let what = format!("the review by {}", self.by());
        let unknown = task.bounds.unknown_cost(task.ownership.spec.budget, &response.usage, &what);
        let mut step = match verdict_of(response).filter(|_| is_done) {
            _ if is_done && unknown.is_some() => self.unchecked(&unknown.unwrap_or_default(), event),
            Some((true, findings)) => {
                effects.push(self.record(CheckVerdict::Accepted, findings, event));
                return self.next(at + 1, effects, task, event);
            }
            Some((false, findings)) => self.refused(&findings, event),
            None if is_done && tries < MAX_TRIES => {
                effects.push(self.record(CheckVerdict::Failed, NO_VERDICT.to_owned(), event));
                CheckStep { effects: self.ask_reviewer(at, tries + 1, task, event), verdict: None }
            }
            None if is_done => self.unchecked(NO_VERDICT, event),
            None => {
                let why = response.message.as_deref().unwrap_or(response.state.word());
                self.unchecked(why, event)
            }
        };
        step.effects.splice(..0, effects);
        step
    }

    /// The next check after those before the reviewer `at`.
    fn next(
        &mut self,
        at: usize,
        mut effects: Vec<Effect>,
        task: CheckedTask<'_>,
        event: &Event,
    ) -> CheckStep {
        if at < self.terms.reviewers.len() {
            effects.extend(self.ask_reviewer(at, 1, task, event));
            return CheckStep { effects, verdict: None };
        }
        self.current = None;
        CheckStep { effects, verdict: Some(AcceptanceVerdict::Accepted) }
    }

    fn refused(&mut self, findings: &str, event: &Event) -> CheckStep {
        let findings = if findings.trim().is_empty() { "refused without findings" } else { findings };
        let effects = vec![self.record(CheckVerdict::Refused, findings.to_owned(), event)];
        self.current = None;
        CheckStep { effects, verdict: Some(AcceptanceVerdict::Refused(clip_findings(findings))) }
    }

    fn unchecked(&mut self, why: &str, event: &Event) -> CheckStep {
        let by = self.by();
        let effects = vec![self.record(CheckVerdict::Failed, why.to_owned(), event)];
        self.current = None;
        let why = format!("the result could not be checked by {by}: {}", clip_findings(why));
        CheckStep { effects, verdict: Some(AcceptanceVerdict::Unchecked(why)) }
    }

    /// What the check under way checks by.
    fn by(&self) -> String {
        match self.current.as_ref().map(|current| &current.stage) {
            Some(CheckStage::Review { at, .. }) => {
                let capability = self.terms.reviewers.get(*at).map(Capability::as_str);
                format!("capability:{}", capability.unwrap_or_default())
            }
            Some(CheckStage::Node) | None => "node".to_owned(),
        }
    }

    fn record(&self, verdict: CheckVerdict, findings: String, event: &Event) -> Effect {
        let current = self.current.as_deref();
        let doer = current.map(|current| current.doer.clone());
        let review = current.and_then(|current| match &current.stage {
            CheckStage::Node => None,
            CheckStage::Review { task, .. } => Some(task.clone()),
        });
        Effect::Update(Update::Checked(Box::new(ResultCheck {
            by: self.by(),
            review,
            doer: doer.unwrap_or_else(|| unreachable!("a check is under way")),
            verdict,
            findings: clip_findings(&findings),
            sha256: current.map_or_else(|| Digest::of(b""), |current| current.sha256),
            at: event.wall,
        })))
    }

    /// Ends the check under way without a verdict.
    pub(super) fn abort(&mut self, why: &str, mut task: CheckedTask<'_>) -> Vec<Effect> {
        let mut effects = self.stop(why, &task);
        let current = self.current.take().map(|current| current.stage);
        if let Some(CheckStage::Review { .. }) = current {
            effects.extend(task.charge_review());
        }
        effects
    }

    fn stop(&self, why: &str, task: &CheckedTask<'_>) -> Vec<Effect> {
        match self.current.as_ref().map(|current| &current.stage) {
            None => Vec::new(),
            Some(CheckStage::Node) => vec![Effect::StopTurn],
            Some(CheckStage::Review { task: review, .. }) => {
                let cancel = TaskCancel {
                    task_id: review.clone(),
                    reason: Some(why.to_owned()),
                    epoch: None,
                    extra: Map::new(),
                };
                let to = Address::Agent(task.me.clone());
                let cancel = OutgoingMessage::new(Label::Review, to, Payload::TaskCancel(cancel));
                vec![Effect::Send(cancel), Effect::ClearTimer { timer: Timer::Review }]
            }
        }
    }
}

const NO_VERDICT: &str = "the review has no verdict: a JSON object with a boolean \"accepted\"";

fn nothing() -> CheckStep {
    CheckStep { effects: Vec::new(), verdict: None }
}

/// A unique id for a review; the same review gets the same id.
fn review_id(me: &AgentId, ownership: &TaskOwnership, number: u32) -> TaskId {
    let spec = &ownership.spec;
    let requester = ownership.requester.as_ref();
    let epoch = ownership.epoch();
    let request = requester.map(|requester| requester.message.as_str()).unwrap_or_default();
    let seed =
        format!("{}|{me}|{}|{epoch:?}|{request}|{:?}|review {number}", spec.root, spec.task_id, spec.path);
    let digest = Digest::of(seed.as_bytes()).to_string();
    TaskId::parse(&format!("review-{}", &digest[..20])).unwrap_or_else(|_| spec.task_id.clone())
}

/// The verdict in a reviewer's response: whether it accepts, and its findings. `None` if there is none: neither an artifact,
/// the last one first, nor the message is a JSON object with a boolean `accepted`.
fn verdict_of(response: &TaskResponse) -> Option<(bool, String)> {
    let artifacts = response.artifacts.iter().rev().filter_map(json_of);
    let message = response.message.as_deref().and_then(json_in);
    artifacts.chain(message).find_map(|answer| {
        let accepted = answer.get("accepted")?.as_bool()?;
        let findings = answer.get("findings");
        let findings = findings.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        Some((accepted, clip_findings(&findings.unwrap_or_default())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::artifact::Artifact;

    fn response(artifacts: Vec<Artifact>, message: Option<&str>) -> TaskResponse {
        TaskResponse {
            seat: None,
            handed_on: None,
            task_id: TaskId::parse("t").unwrap(),
            seq: 1,
            state: TaskState::Completed,
            epoch: None,
            doer: None,
            artifacts,
            chunks: None,
            message: message.map(str::to_owned),
            lasting: false,
            usage: Default::default(),
            extra: Default::default(),
        }
    }

    #[test]
    fn a_verdict_is_json_in_an_artifact_or_in_the_message_and_words_are_none() {
        let text = |text: &str| vec![Artifact::text("a", "text/plain", text)];
        for (artifacts, message, verdict) in [
            (text(r#"{"accepted":true}"#), None, Some((true, ""))),
            (
                text("```json\n{\"accepted\":false,\"findings\":\"no test\"}\n```"),
                None,
                Some((false, "no test")),
            ),
            (
                text("I looked at it."),
                Some(r#"{"accepted":false,"findings":["a"]}"#),
                Some((false, "[\"a\"]")),
            ),
            (text("accepted: true"), Some("fine"), None),
            (text(r#"{"accepted":"true"}"#), None, None),
        ] {
            let expected = verdict.map(|(accepted, findings)| (accepted, findings.to_owned()));
            assert_eq!(verdict_of(&response(artifacts, message)), expected);
        }
    }
}
