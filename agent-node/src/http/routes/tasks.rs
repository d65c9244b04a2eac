//! `/a2a/tasks`: tasks for curl and the CLI. A task is an A2A `Task`, a stream has A2A `StreamResponse`s.

use super::{id, messages::proof_of, person_token, task_requests};
use crate::{
    agent::{AnswerTaskRequest, DirectSessionRequest},
    http::{
        events,
        node_state::{HostedAgent, NodeState},
    },
    model_talk::{self, ModelTalk},
    tasks::{
        self,
        search::{self, TaskSearch},
    },
};
use actix_web::{HttpRequest, HttpResponse, web};
use engine::PeerLocation;
use engine::records::TaskRow;
use patterns::{
    session::is_shown_to,
    speech::{Directive, DirectiveOutcome, DirectiveVerb},
};
use protocol::{
    a2a::task::A2aTask,
    identity::ApprovalProof,
    ids::{AgentId, QuestionId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    question::{Answer, Decision},
    task::{EXTENSION, Task},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::Revision;
use transport::refusal::Refusal;

const MAX_TASKS: usize = 1_000;

/// The task at the port's agent. If that agent does not have it, or the port has no agent: at the accountable agent, the one
/// with the shortest path.
pub(super) fn find<'a>(
    request: &HttpRequest,
    node: &'a NodeState,
    task: &TaskId,
    by: &Principal,
) -> Result<(&'a HostedAgent, TaskRow), Problem> {
    let own = node.agent_of_port(request).map(|local| &local.id);
    let mut best: Option<(&HostedAgent, TaskRow)> = None;
    for local in node.agents_in_lookup_order(request) {
        let found = tasks::row(local.store.as_ref(), &local.id, task, by).map_err(Problem::from)?;
        let Some(row) = found.filter(|row| may_be_shown(request, by, &row.task)) else { continue };
        if own == Some(&local.id) {
            return Ok((local, row));
        }
        let hops = |row: &TaskRow| row.task.spec.path.len();
        if best.as_ref().is_none_or(|(_, best)| hops(&row) < hops(best)) {
            best = Some((local, row));
        }
    }
    best.ok_or_else(|| Problem::new(Reason::TaskNotFound, format!("no task {task} of yours")))
}

/// Whether a request may be told of a task that its principal may see: a session and its turns are shown to people only if they
/// have proven who they are.
fn may_be_shown(request: &HttpRequest, by: &Principal, task: &Task) -> bool {
    is_shown_to(task, by, proof_of(request))
}

/// Whether a request may be told of what belongs to `task` at `local`, if to any.
pub(super) fn is_shown(
    request: &HttpRequest,
    local: &HostedAgent,
    task: Option<&TaskId>,
    by: &Principal,
) -> Result<bool, Problem> {
    let Some(task) = task else { return Ok(true) };
    let row = tasks::row(local.store.as_ref(), &local.id, task, by).map_err(Problem::from)?;
    Ok(row.is_none_or(|row| may_be_shown(request, by, &row.task)))
}

/// A task of `local` as it is shown, with who has answered its questions.
fn shown(local: &HostedAgent, row: TaskRow) -> Result<A2aTask, Problem> {
    let row = tasks::with_artifacts(local.store.as_ref(), &local.id, row, Revision::MAX);
    let TaskRow { task, answered, .. } = row.map_err(Problem::from)?;
    let mut shown = task.to_a2a();
    local.shown_files().link_task(&mut shown);
    let ours = shown.metadata.get_mut(EXTENSION).and_then(Value::as_object_mut);
    if let Some(ours) = ours.filter(|_| !answered.is_empty()) {
        ours.insert("answered".to_owned(), json!(answered));
    }
    Ok(shown)
}

/// Lists the tasks of the port's agent that the caller may see and the filters select, the latest status first.
pub async fn list(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    query: web::Query<TaskSearch>,
) -> Result<HttpResponse, Refusal> {
    let local = node.default_agent(&request)?;
    let limit = match &query.limit {
        None => 50,
        Some(limit) => {
            limit.parse().ok().filter(|limit| (1..=MAX_TASKS).contains(limit)).ok_or_else(|| {
                Problem::new(Reason::InvalidField, format!("limit must be 1 to {MAX_TASKS}"))
            })?
        }
    };
    let (local, by, proof) = (local.clone(), by.into_inner(), proof_of(&request));
    let criteria = query.into_inner().criteria(&by)?;
    let id = local.id.clone();
    let listed =
        web::block(move || search::list(local.store.as_ref(), &local.id, (&by, proof), &criteria, limit))
            .await;
    let tasks = listed.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?;
    let tasks = tasks.map_err(Problem::from)?;
    let files = node.agent(&id)?.shown_files();
    let tasks = tasks.iter().map(|task| {
        let mut task = task.to_a2a();
        files.link_task(&mut task);
        task
    });
    let tasks: Vec<_> = tasks.collect();
    Ok(HttpResponse::Ok().json(json!({ "agentId": id, "tasks": tasks })))
}

/// Returns one task.
pub async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let (local, row) = find(&request, &node, &id(&path)?, &by)?;
    Ok(HttpResponse::Ok().json(shown(local, row)?))
}

/// Streams a task's events, from the first one or after `Last-Event-ID`, to the terminal one.
pub async fn events(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let (local, row) = find(&request, &node, &id(&path)?, &by)?;
    let last = request.headers().get("last-event-id").and_then(|header| header.to_str().ok());
    let after = match last {
        Some(text) => events::parse_id(text).ok_or_else(|| {
            Problem::new(Reason::InvalidField, format!("Last-Event-ID {text:?} is none of this stream's"))
        })?,
        None => (0, 0),
    };
    let shows_activity = tasks::activity::is_shown(&row.task, &by);
    Ok(events::of_task(local.shown_files(), row, after, shows_activity).await?)
}

/// Returns the award record: this agent's, or that of the agent of this node that awarded the task to it.
pub async fn award(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let (local, row) = find(&request, &node, &task, &by)?;
    let award_of = |local: &HostedAgent, row: &TaskRow| {
        let award = tasks::award(local.store.as_ref(), &local.id, &row.task.conversation);
        award.map_err(Problem::from)
    };
    let answer =
        |local: &HostedAgent, award| HttpResponse::Ok().json(json!({ "agentId": local.id, "award": award }));
    if let Some(award) = award_of(local, &row)? {
        return Ok(answer(local, award));
    }
    let Principal::Agent(owner) = &row.task.owner else {
        let message = format!("task {task} was not awarded: {} did it itself", local.id);
        return Err(Problem::new(Reason::TaskNotFound, message).into());
    };
    if let Some(awarding) = node.agents.get(owner) {
        let row = tasks::row(awarding.store.as_ref(), owner, &task, &by).map_err(Problem::from)?;
        if let Some(award) = row.map(|row| award_of(awarding, &row)).transpose()?.flatten() {
            return Ok(answer(awarding, award));
        }
    }
    Err(award_not_here(&node, &local.id, &task, owner).into())
}

/// Returns what was said between the agent of the task and its model. For the person of the mesh alone.
pub async fn model(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let (local, row) = find(&request, &node, &task, &by)?;
    if !model_talk::is_shown(&row.task, &by, proof_of(&request)) {
        let why = "what is said to a model is shown to the person of the mesh (`mesh token`), of a sealed stage to nobody";
        return Err(Problem::new(Reason::Forbidden, why).into());
    }
    let (local, capture) = (local.clone(), node.telemetry.capture().in_full());
    let id = local.id.clone();
    let talk =
        web::block(move || model_talk::read(local.store.as_ref(), &local.id, &row.task, &capture)).await;
    let talk = talk.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?;
    let ModelTalk { omitted, lines } = talk.map_err(Problem::from)?;
    let answer = json!({ "agentId": id, "taskId": task, "omitted": omitted, "lines": lines });
    Ok(HttpResponse::Ok().json(answer))
}

/// Refuses what is not a person's: without its token or a caller's credential anything on the machine could ask.
fn check_persons(request: &HttpRequest, by: &Principal, what: &str) -> Result<(), Problem> {
    if person_token::is_persons(request, by) {
        return Ok(());
    }
    let why =
        format!("{what} needs the person's token (`mesh token`, --token FILE) or the credential of a caller");
    Err(Problem::new(Reason::Forbidden, why))
}

/// Returns the session that a task is: its graph, whose turn it is, why something waits, and what was used. For persons only: a
/// seat must not see the others' stages.
pub async fn session(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let (local, row) = find(&request, &node, &task, &by)?;
    check_persons(&request, &by, "the view of a session")?;
    let session = session_of(&node, local, &row)?;
    let (state, input) = (row.task.status.state, &row.task.spec.input);
    let answer = json!({ "agentId": local.id, "state": state, "session": session, "input": input });
    Ok(HttpResponse::Ok().json(answer))
}

/// The session that a task is, as people see it.
pub(in crate::http) fn session_of(
    node: &NodeState,
    local: &HostedAgent,
    row: &TaskRow,
) -> Result<Value, Problem> {
    let session = tasks::session(local.store.as_ref(), &local.id, row).map_err(Problem::from)?;
    let none = || Problem::new(Reason::TaskNotFound, format!("task {} is no session", row.task.spec.task_id));
    let mut session = session.ok_or_else(none)?;
    mark_unreachable(node, &mut session);
    Ok(session)
}

/// Marks the seats at work whose agent has left the registry or has lost its lease there.
fn mark_unreachable(node: &NodeState, session: &mut Value) {
    let stages = session["stages"].as_array_mut().into_iter().flatten();
    for seat in stages.filter_map(|stage| stage["seats"].as_array_mut()).flatten() {
        let agent = seat["agent"].as_str().or(seat["who"].as_str()).and_then(|id| AgentId::parse(id).ok());
        let has_left = |agent: AgentId| node.peers.locate(&agent).is_absent();
        if seat["state"] == "working" && agent.is_some_and(has_left) {
            seat["reachable"] = false.into();
        }
    }
}

/// Steers a session: `{verb, stage, seat, text}`. Returns when the directive takes effect, and the session.
pub async fn direct(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let invalid = |why: String| Problem::new(Reason::InvalidField, why);
    let body = protocol::json::parse(&body, node.limits.max_depth)?;
    let directive = Directive::read(body).map_err(invalid)?;
    let (local, row) = find(&request, &node, &task, &by)?;
    check_persons(&request, &by, "a directive")?;
    let outcome = steer(&node, local, &row, &by, directive).await?;
    let (local, row) = find(&request, &node, &task, &by)?;
    let session = session_of(&node, local, &row)?;
    Ok(HttpResponse::Ok().json(json!({ "id": task, "outcome": outcome, "session": session })))
}

/// Steers the session that `row` is, for a person who has proven it. Returns when the directive takes effect.
pub(in crate::http) async fn steer(
    node: &NodeState,
    local: &HostedAgent,
    row: &TaskRow,
    by: &Principal,
    directive: Directive,
) -> Result<DirectiveOutcome, Problem> {
    let session = session_of(node, local, row)?;
    let stages = session["stages"].as_array().into_iter().flatten();
    let is_named = |stage: &Value| stage["stage"].as_str() == directive.stage.as_deref();
    let waits = match directive.verb {
        DirectiveVerb::Say | DirectiveVerb::Amend if directive.stage.is_some() => {
            stages.into_iter().any(|stage| is_named(stage) && stage["state"] == "waiting")
        }
        DirectiveVerb::Say => false,
        DirectiveVerb::Amend => stages.into_iter().all(|stage| stage["state"] != "running"),
        DirectiveVerb::Skip | DirectiveVerb::Redirect | DirectiveVerb::Stop => false,
    };
    let (task, directive) = (row.task.spec.task_id.clone(), Box::new(directive));
    let direct = DirectSessionRequest { task, by: by.clone(), directive };
    local.actor.send(direct).await.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))??;
    Ok(if waits { DirectiveOutcome::Queued } else { DirectiveOutcome::Delivered })
}

/// The error that the award record of a task which `me` does for `owner` is at `owner`.
fn award_not_here(node: &NodeState, me: &AgentId, task: &TaskId, owner: &AgentId) -> Problem {
    let message =
        format!("{me} has task {task} from {owner}, and only {owner} knows how it was awarded: ask there");
    match node.peers.locate(owner) {
        PeerLocation::At(endpoint) => {
            let message = format!("{message}, at {endpoint} or where that is published");
            Problem::new(Reason::TaskNotFound, message).with("endpoint", endpoint)
        }
        PeerLocation::Away { .. } | PeerLocation::Left => {
            Problem::new(Reason::TaskNotFound, format!("{message} when it is back"))
        }
        PeerLocation::Here | PeerLocation::Unknown => Problem::new(Reason::TaskNotFound, message),
    }
    .with("owner", owner.as_str())
}

/// Cancels a task.
pub async fn cancel(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let reason = member(&node, &body, "reason")?.unwrap_or_else(|| "cancelled by its owner".to_owned());
    let (local, _) = find(&request, &node, &task, &by)?;
    task_requests::cancel(local, task.clone(), by.clone().into_inner(), reason).await?;
    let (local, row) = find(&request, &node, &task, &by)?;
    Ok(HttpResponse::Ok().json(shown(local, row)?))
}

/// Sends a task again, as a new one whose thread names it.
pub async fn retry(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let (local, row) = find(&request, &node, &id(&path)?, &by)?;
    let by = by.into_inner();
    Ok(task_requests::send_again(&request, &node, by, &local.id, &row.task.spec).await?.1)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AnswerBody {
    #[serde(default)]
    question_id: Option<QuestionId>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    values: Option<Map<String, Value>>,
    #[serde(default)]
    decision: Option<Decision>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    proof: Option<Box<ApprovalProof>>,
}

impl AnswerBody {
    fn answer(self) -> Result<(Option<QuestionId>, Answer), Problem> {
        let Self { question_id, text, values, decision, reason, proof } = self;
        let answer = match (text, values, decision) {
            (Some(text), None, None) if reason.is_none() => Answer::Text(text),
            (None, Some(values), None) if reason.is_none() => Answer::Values(values),
            (None, values, Some(decision)) => Answer::Decision { decision, reason, values, proof },
            _ => {
                let what = "exactly one of text, values and decision (approve or deny, with reason; to approve other arguments, with values) is \
                     required";
                return Err(Problem::new(Reason::InvalidField, what));
            }
        };
        Ok((question_id, answer))
    }
}

/// Answers a question of a task.
pub async fn answer(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let body = match body.is_empty() {
        true => Value::Object(Map::new()),
        false => protocol::json::parse(&body, node.limits.max_depth)?,
    };
    let invalid = |error: serde_json::Error| Problem::new(Reason::InvalidField, error.to_string());
    let body: AnswerBody = serde_json::from_value(body).map_err(invalid)?;
    let (question, mut answer) = body.answer()?;
    let (local, row) = find(&request, &node, &task, &by)?;
    if let (Some(key), Some(id)) = (person_token::key(&request, &node), &question) {
        let asked = row.task.status.questions.iter().find(|asked| asked.id == id.as_str());
        asked.into_iter().for_each(|asked| answer.prove_by(&key, asked));
    }
    let answer = AnswerTaskRequest {
        task: task.clone(),
        by: by.clone().into_inner(),
        question,
        answer,
        message: None,
        is_persons: person_token::is_persons(&request, &by),
    };
    local.actor.send(answer).await.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))??;
    let (local, row) = find(&request, &node, &task, &by)?;
    Ok(HttpResponse::Ok().json(shown(local, row)?))
}

/// A text member of a JSON body; `None` if it is absent or the body is empty.
fn member(node: &NodeState, body: &[u8], name: &str) -> Result<Option<String>, Problem> {
    if body.is_empty() {
        return Ok(None);
    }
    let invalid = |what: &str| Problem::new(Reason::InvalidField, what.to_owned());
    let Value::Object(mut members) = protocol::json::parse(body, node.limits.max_depth)? else {
        return Err(invalid("the body must be a JSON object"));
    };
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(&format!("{name} must be a text"))),
    }
}
