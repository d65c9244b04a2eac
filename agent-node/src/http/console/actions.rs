//! What a person does on a page. A form arrives, one operation is performed, and the page is told where to go.

use super::{
    answer_values::FormFields,
    elsewhere::Elsewhere,
    scope::ConsoleScope,
    secured,
    task_verb::{self, CANCELED, PageActor},
};
use crate::{
    agent::{AnswerTaskRequest, RedriveDeadLetter},
    http::{
        a2a::{A2aCall, A2aResponse},
        node_state::{HostedAgent, NodeState},
        routes::{dead_letters, task_requests, tasks},
    },
};
use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderName},
    web,
};
use bytes::Bytes;
use console::{
    location::{ConsoleLocation, ViewName},
    views::bulk::{BulkVerb, MAX_BULK},
};
use patterns::speech::Directive;
use protocol::{
    a2a::{request::A2aOperation, version::ProtocolVersion},
    ids::{BadId, MessageId, QuestionId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde_json::{Value, json};
use transport::refusal::Refusal;

/// Where the page goes next.
const GO: HeaderName = HeaderName::from_static("mesh-console-go");

/// A form of a person, and whose agents the page shows.
pub(super) struct SentForm {
    pub(super) scope: ConsoleScope,
    pub(super) fields: FormFields,
}

impl SentForm {
    pub(super) fn of(
        request: &HttpRequest,
        node: &NodeState,
        by: &Principal,
        body: &[u8],
    ) -> Result<Self, Problem> {
        Self::new(request, node, by, FormFields::parse(body)?)
    }

    /// The same for a form that may have files.
    async fn with_files(
        request: &HttpRequest,
        node: &NodeState,
        by: &Principal,
        body: &Bytes,
    ) -> Result<Self, Problem> {
        let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|of| of.to_str().ok());
        let fields = FormFields::with_files(content_type.unwrap_or_default(), body).await?;
        Self::new(request, node, by, fields)
    }

    fn new(
        request: &HttpRequest,
        node: &NodeState,
        by: &Principal,
        fields: FormFields,
    ) -> Result<Self, Problem> {
        let scope = ConsoleScope::of(request, node, by)?;
        if !scope.is_signed_in() {
            return Err(Problem::new(
                Reason::Unauthenticated,
                "sign in first: `mesh console` opens the console signed in",
            ));
        }
        Ok(Self { scope, fields })
    }

    fn agent(&self) -> Result<&HostedAgent, Problem> {
        self.scope.agent(self.fields.get("agent"))
    }

    /// The field of this name. Fails if it is empty.
    pub(super) fn required(&self, name: &str) -> Result<&str, Problem> {
        match self.fields.get(name).trim() {
            "" => {
                Err(Problem::new(Reason::InvalidField, format!("{name} must not be empty"))
                    .with("field", name))
            }
            text => Ok(text),
        }
    }
}

pub(super) fn done(to: Option<&ConsoleLocation>) -> HttpResponse {
    let mut answer = secured(HttpResponse::NoContent());
    if let Some(to) = to {
        answer.insert_header((GO, to.href()));
    }
    answer.finish()
}

fn no_answer(error: actix::MailboxError) -> Problem {
    Problem::new(Reason::Overloaded, error.to_string())
}

/// Sends a task, and goes to it.
pub(super) async fn send(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let form = SentForm::with_files(&request, &node, &by, &body).await?;
    let capability = form.fields.get("capability");
    let mut payload = json!({ "description": form.required("description")? });
    if !capability.is_empty() {
        payload["capability"] = capability.into();
    }
    if let Some(elsewhere) = Elsewhere::of(&request, &node, &form.scope).await?
        && let Some(card) = elsewhere.agent(form.fields.get("agent"))
    {
        if form.fields.file_parts().next().is_some() {
            let why = format!("{} is in another process: send files at its own console", card.agent_id);
            return Err(Problem::new(Reason::InvalidField, why).into());
        }
        let task = elsewhere.send(card, payload).await?;
        return Ok(done(Some(&ConsoleLocation::task(card.agent_id.as_str(), &task))));
    }
    let local = form.agent()?;
    if form.fields.file_parts().next().is_some() {
        let skill = Some(capability).filter(|capability| !capability.is_empty());
        let metadata = skill.map_or_else(|| json!({}), |skill| json!({ "skill": skill }));
        let description = form.required("description")?;
        let answer = say_to(&request, &node, &form, (description, metadata), json!({})).await?;
        let to = match (answer["task"]["id"].as_str(), answer["message"]["contextId"].as_str()) {
            (Some(task), _) => ConsoleLocation::task(local.id.as_str(), task),
            // It has answered at once, without a task for clients: the chat shows it.
            (None, context) => ConsoleLocation::chat(local.id.as_str(), context.unwrap_or_default()),
        };
        return Ok(done(Some(&to)));
    }
    let by = form.scope.by.clone();
    let (task, _) = task_requests::send(&request, &node, by, &local.id, (json!({}), payload)).await?;
    Ok(done(Some(&ConsoleLocation::task(local.id.as_str(), &task))))
}

/// Sends the task of the form again, as a new one whose thread names it, and goes to that.
pub(super) async fn retry(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let form = SentForm::of(&request, &node, &by, &body)?;
    form.required("task")?;
    let (agent, new) = act(&request, &node, form, BulkVerb::Retry).await?;
    Ok(done(Some(&ConsoleLocation::task(&agent, new.as_deref().unwrap_or_default()))))
}

/// Does it with the task of the form, here or at an agent of another process.
async fn act(
    request: &HttpRequest,
    node: &web::Data<NodeState>,
    form: SentForm,
    verb: BulkVerb,
) -> Result<(String, Option<String>), Problem> {
    let SentForm { scope, fields } = form;
    let elsewhere = Elsewhere::of(request, node, &scope).await?;
    let actor = PageActor { request: request.clone(), node: node.clone(), scope, elsewhere };
    let reason = match fields.get("reason").trim() {
        "" => CANCELED,
        reason => reason,
    };
    actor.perform(verb, (fields.get("agent"), fields.get("task").trim()), reason).await
}

/// Sends a dead letter again.
pub(super) async fn redrive(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let form = SentForm::of(&request, &node, &by, &body)?;
    dead_letters::check_operator(&form.scope.by)?;
    let message = MessageId::parse(form.required("message")?)
        .map_err(|bad| Problem::new(Reason::InvalidField, bad.to_string()))?;
    form.agent()?.actor.send(RedriveDeadLetter { message }).await.map_err(no_answer)??;
    Ok(done(None))
}

/// Begins an action with many tasks, exactly those that the form names, and goes to the page that shows its progress.
pub(super) async fn bulk(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let SentForm { scope, fields } = SentForm::of(&request, &node, &by, &body)?;
    let verb = task_verb::verb(fields.get("verb"))?;
    let named = fields.all("task").map(|task| task.split_once('/'));
    let tasks: Option<Vec<_>> =
        named.map(|named| named.map(|(agent, task)| (agent.to_owned(), task.to_owned()))).collect();
    let tasks = tasks.filter(|tasks| (1..=MAX_BULK).contains(&tasks.len())).ok_or_else(|| {
        let why = format!("task: from 1 to {MAX_BULK} tasks are named, each as AGENT/ID");
        Problem::new(Reason::InvalidField, why).with("field", "task")
    })?;
    let elsewhere = Elsewhere::of(&request, &node, &scope).await?;
    let id = PageActor { request, node, scope, elsewhere }.begin(verb, tasks)?;
    let to = ConsoleLocation { id, kind: verb.word().to_owned(), ..ConsoleLocation::of(ViewName::Bulk) };
    Ok(done(Some(&to)))
}

/// Answers a question.
pub(super) async fn answer(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let form = SentForm::of(&request, &node, &by, &body)?;
    let id = form.fields.get("question");
    let person = node.tokens.approves_with(&by);
    if let Some(elsewhere) = Elsewhere::of(&request, &node, &form.scope).await?
        && let Some(card) = elsewhere.agent(form.fields.get("agent"))
    {
        let invalid = |bad: BadId| Problem::new(Reason::InvalidField, bad.to_string());
        let task = TaskId::parse(form.required("task")?).map_err(invalid)?;
        elsewhere.answer(card, (&task, id), person, |question| form.fields.answer(question)).await?;
        return Ok(done(None));
    }
    let (local, row) = form.scope.task(form.fields.get("agent"), form.required("task")?)?;
    let question = row.task.status.questions.iter().find(|question| question.id == id).ok_or_else(|| {
        Problem::new(
            Reason::InvalidField,
            "the question is not open any more: it was answered, or its time is over",
        )
    })?;
    let mut answer = form.fields.answer(question)?;
    if let Some(person) = person {
        answer.prove_by(person, question);
    }
    let answer = AnswerTaskRequest {
        task: row.task.spec.task_id.clone(),
        by: form.scope.by.clone(),
        question: Some(
            QuestionId::parse(id).map_err(|error| Problem::new(Reason::InvalidField, error.to_string()))?,
        ),
        answer,
        message: None,
        is_persons: true,
    };
    local.actor.send(answer).await.map_err(no_answer)??;
    Ok(done(None))
}

/// Goes to a page of the console of an agent in another process, signed in there.
pub(super) async fn elsewhere(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let form = SentForm::of(&request, &node, &by, &body)?;
    let to = ConsoleLocation::parse(form.fields.get("to"))
        .map_err(|why| Problem::new(Reason::InvalidField, format!("to: {why}")))?;
    let all = Elsewhere::of(&request, &node, &form.scope).await?;
    let found = all.as_ref().and_then(|all| Some((all, all.agent(form.fields.get("agent"))?)));
    let (all, card) = found.ok_or_else(|| {
        Problem::new(Reason::AgentNotFound, "no agent of this name is there in another process")
    })?;
    let link = all.link(card, &to).await?;
    Ok(secured(HttpResponse::NoContent()).insert_header((GO, link)).finish())
}

/// Cancels a task.
pub(super) async fn cancel(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let form = SentForm::of(&request, &node, &by, &body)?;
    form.required("task")?;
    act(&request, &node, form, BulkVerb::Cancel).await?;
    Ok(done(None))
}

/// Steers a session.
pub(super) async fn steer(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let form = SentForm::of(&request, &node, &by, &body)?;
    let (local, row) = form.scope.task(form.fields.get("agent"), form.required("task")?)?;
    let named = ["verb", "stage", "seat", "text"].into_iter().filter_map(|name| {
        let value = form.fields.get(name).trim();
        (!value.is_empty()).then(|| (name.to_owned(), json!(value)))
    });
    let directive = Directive::read(Value::Object(named.collect()))
        .map_err(|why| Problem::new(Reason::InvalidField, why))?;
    tasks::steer(&node, local, &row, &form.scope.by, directive).await?;
    Ok(done(None))
}

/// Says something in a chat, and goes to it.
pub(super) async fn say(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let form = SentForm::with_files(&request, &node, &by, &body).await?;
    let (local, context) = (form.agent()?, form.required("context")?);
    let said = (form.required("text")?, json!({}));
    say_to(&request, &node, &form, said, json!({ "contextId": context })).await?;
    Ok(done(Some(&ConsoleLocation::chat(local.id.as_str(), context))))
}

/// Sends a text with the files of the form to its agent, as a message of A2A with these metadata and members. Returns the answer.
async fn say_to(
    request: &HttpRequest,
    node: &web::Data<NodeState>,
    form: &SentForm,
    (text, metadata): (&str, Value),
    mut message: Value,
) -> Result<Value, Problem> {
    message["messageId"] = format!("msg-{}", uuid::Uuid::now_v7()).into();
    message["role"] = "ROLE_USER".into();
    message["parts"] = [json!({ "text": text })].into_iter().chain(form.fields.file_parts()).collect();
    message["metadata"] = metadata;
    let agent = &form.agent()?.id;
    let params =
        json!({ "tenant": agent, "message": message, "configuration": { "returnImmediately": true } });
    let refused = |error: protocol::a2a::error::A2aError| Problem::new(Reason::BadRequest, error.message);
    let call = A2aCall::from_http(request, node.clone(), form.scope.by.clone(), ProtocolVersion::V1);
    let answered = call.map_err(refused)?.perform(A2aOperation::SendMessage, params).await;
    let (A2aResponse::Single(result), _) = answered.map_err(refused)? else { return Ok(Value::Null) };
    Ok(serde_json::to_value(result).unwrap_or_default())
}
