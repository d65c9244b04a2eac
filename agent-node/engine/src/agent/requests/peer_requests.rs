//! What the process of an agent asks of others from outside of any turn: a task or a question, which the agent sends as it
//! sends the request of a turn. It is a task of that process here, of which the agent is the root.

use super::task_requests::digest_of_request;
use crate::{
    IncomingMessage, ReplyTo,
    agent::{
        Agent,
        begin::{OpenedTask, Opening},
    },
    context::Context,
    problems::internal,
};
use patterns::{
    ownership::TaskOwnership,
    turn::{Delegate, Help, Progress},
    work::Doing,
};
use protocol::{
    artifact::{Artifact, ArtifactRef},
    budget::Budget,
    envelope::TURN_KEY,
    ids::{Address, AgentId, Digest, EffectId, TaskId},
    message::{self, Payload},
    principal::{Principal, RootProof},
    problem::{Problem, Reason},
    task::{TaskSpec, TaskTerms},
    time::WallTime,
    words::counted,
};
use serde_json::Value;

/// The name of the only request.
const REQUEST: &str = "request";

/// What is asked, before its artifacts are resolved.
struct PeerRequest {
    task_id: Option<TaskId>,
    asked: Digest,
    terms: TaskTerms,
    artifacts: (Vec<Artifact>, Vec<ArtifactRef>),
    budget: Budget,
    request: Progress,
}

impl Agent {
    /// Takes a message of the agent's own process, which speaks as the agent.
    pub(super) fn take_peer_request(
        &mut self,
        message: IncomingMessage,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        if message.envelope.reply_to.is_some() {
            return Err(not_passed_on("replyTo"));
        }
        let to = message.envelope.to_agent_id.clone();
        let asked = match message.envelope.payload.clone() {
            Payload::TaskRequest(request) => task_request(to, request)?,
            Payload::HelpRequest(request) => help_request(to, request)?,
            other => {
                let kind = other.kind().wire();
                let what = format!(
                    "a peer sends task-request and help-request, not {kind}; anything else is a line of its turn"
                );
                return Err(Problem::new(Reason::Forbidden, what).with("field", "type"));
            }
        };
        let PeerRequest { task_id, asked, mut terms, artifacts: (inline, references), budget, mut request } =
            asked;
        let task_id = match task_id {
            Some(id) => id,
            None => TaskId::parse(&format!("task-{}", cx.world.uuid())).map_err(internal)?,
        };
        if self.answer_if_known_task(&task_id, &message, asked, reply, cx)? {
            self.counts.duplicates += 1;
            return Ok(());
        }
        let (path, deadline) = self.turn_of(&message)?;
        terms.deadline = terms.deadline.into_iter().chain(deadline).min();
        if terms.deadline.is_some_and(|deadline| deadline <= cx.wall()) {
            return Err(Problem::new(Reason::Expired, "the deadline has passed"));
        }
        let artifacts = self.resolve_artifacts(inline, &references, (&message.by, message.proof), cx)?;
        let ids = artifacts.iter().map(|artifact| artifact.artifact_id.clone()).collect();
        if let Progress::Delegate(Delegate { artifacts, .. }) | Progress::Help(Help { artifacts, .. }) =
            &mut request
        {
            *artifacts = ids;
        }
        let spec = TaskSpec {
            artifacts,
            path,
            root_proof: Some(RootProof::Signature),
            budget,
            space: message.envelope.space_id.clone(),
            ..TaskSpec::new(task_id, terms, Principal::Agent(self.me.clone()))
        };
        let task_id = self.id_among_agents(&spec.task_id, &message.by, cx)?;
        let ownership = TaskOwnership::new(TaskSpec { task_id, ..spec.clone() }, None);
        let pattern = Doing::requesting(self.me.clone(), ownership, request, self.config.work_limits).into();
        let task = Some(OpenedTask { spec, asked, equals: None, epoch: None, earlier: None });
        self.open(Opening { message, pattern, task, reply }, cx)
    }

    /// The path and the deadline of the turn that a message of the process is a part of, so that what agents ask each other within
    /// their turns makes no loop. A message that is part of none says so if a turn is open.
    fn turn_of(&self, message: &IncomingMessage) -> Result<(Vec<AgentId>, Option<WallTime>), Problem> {
        let refused = |reason, what: String| Err(Problem::new(reason, what).with("field", TURN_KEY));
        let key = match message.envelope.extra.get(TURN_KEY) {
            Some(Value::String(key)) => key,
            Some(Value::Null) => return Ok((Vec::new(), None)),
            Some(_) => {
                return refused(Reason::InvalidField, format!("{TURN_KEY}: the key of a turn, or null"));
            }
            None => {
                return match self.turns.running().count() {
                    0 => Ok((Vec::new(), None)),
                    open => {
                        let turns = counted(open, "turn is open", "turns are open");
                        let what = format!(
                            "{TURN_KEY}: {turns}: name the one that the message is a part of by its `key`, or say null"
                        );
                        refused(Reason::InvalidField, what)
                    }
                };
            }
        };
        let named = EffectId::parse(key).map(|effect| effect.conversation);
        let running = named.filter(|id| self.turns.running().any(|running| running == id));
        let Some(conversation) = running.and_then(|id| self.conversations.get(&id)) else {
            return refused(Reason::TurnNotFound, format!("{TURN_KEY}: no turn {key} is open"));
        };
        Ok(match &conversation.task {
            Some(row) => (row.task.spec.path.clone(), row.task.spec.deadline),
            None => (conversation.pattern.view().path.to_vec(), None),
        })
    }
}

/// The refusal of a member that a request of a turn has not either.
fn not_passed_on(field: &str) -> Problem {
    let what = format!("{field}: is not passed on; a peer looks at the result itself");
    Problem::new(Reason::InvalidField, what).with("field", field)
}

fn task_request(to: Address, request: message::TaskRequest) -> Result<PeerRequest, Problem> {
    if request.accept.is_some() {
        return Err(not_passed_on("payload.accept"));
    }
    if !request.accepted_modes.is_empty() {
        return Err(not_passed_on("payload.acceptedModes"));
    }
    let delegate = Delegate {
        id: REQUEST.to_owned(),
        to,
        capability: request.capability.clone(),
        description: request.description.clone(),
        input: request.input.clone(),
        artifacts: Vec::new(),
        budget: Budget::default(),
        hand_on: request.hand_on,
        wait: true,
    };
    Ok(PeerRequest {
        task_id: request.task_id.clone(),
        asked: digest_of_request(&request)?,
        artifacts: (request.inline_artifacts, request.artifacts),
        budget: request.budget,
        request: Progress::Delegate(delegate),
        terms: TaskTerms { deadline: request.terms.deadline, ..TaskTerms::new(request.terms.description) },
    })
}

fn help_request(to: Address, request: message::HelpRequest) -> Result<PeerRequest, Problem> {
    let asked = Digest::of(&serde_json::to_vec(&request).map_err(internal)?);
    let help = Help {
        id: REQUEST.to_owned(),
        to,
        question: request.question.clone(),
        artifacts: Vec::new(),
        budget: Budget::default(),
        wait: true,
    };
    Ok(PeerRequest {
        task_id: None,
        asked,
        terms: TaskTerms::new(request.question),
        artifacts: (request.inline_artifacts, request.artifacts),
        budget: request.budget,
        request: Progress::Help(help),
    })
}
