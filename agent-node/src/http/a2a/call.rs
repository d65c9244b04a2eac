//! One request, whatever binding it came through: who calls, which agent is meant, and what was agreed on.

use super::{look, send, stream::Heard, webhooks};
use crate::http::{
    edge::stop_counting,
    routes::{Local, Node, messages::trace_of},
};
use actix_web::{HttpRequest, http::header::HeaderMap, web};
use protocol::{
    a2a::{
        error::{A2aError, Kind},
        request::{Operation, Request},
        route,
        version::{self, EXTENSIONS_PARAMETER, VERSION_PARAMETER},
    },
    ids::{AgentId, TaskId},
    principal::Principal,
    task::{EXTENSION, Task},
    trace::TraceContext,
};
use serde_json::Value;

/// A request on its way.
pub(super) struct Call {
    pub(super) local: Local,
    pub(super) by: Principal,
    /// Extensions the client asks for.
    pub(super) wanted: Vec<String>,
    /// Whose tasks they are, where the tenant is none of this node's agents.
    pub(super) tenant: Option<String>,
    pub(super) trace: Option<TraceContext>,
    http: HttpRequest,
    node: web::Data<Node>,
}

/// What comes of a request.
pub(super) enum Reply {
    /// One value.
    One(Value),
    /// Event after event.
    Many(Box<Heard>),
}

impl Call {
    /// The call that `request` makes, if it speaks our version.
    pub(super) fn begin(http: &HttpRequest, node: web::Data<Node>, by: Principal) -> Result<Self, A2aError> {
        let headers = http.headers();
        let query = || {
            let members = route::query(http.query_string()).ok()?;
            members.get(VERSION_PARAMETER)?.as_str().map(str::to_owned)
        };
        let version = text(headers, VERSION_PARAMETER).map(str::to_owned).or_else(query);
        version::negotiate(version.as_deref())?;
        let lines = headers.get_all(EXTENSIONS_PARAMETER).filter_map(|line| line.to_str().ok());
        let wanted = version::extensions(lines);
        let local = node.host(http)?.clone();
        let trace = trace_of(http);
        Ok(Self { local, by, wanted, tenant: None, trace, http: http.clone(), node })
    }

    /// Performs what `operation` asks with `params`.
    pub(super) async fn perform(mut self, operation: Operation, params: Value) -> Result<Reply, A2aError> {
        let schemes = self.local.face.schemes;
        self.local.face.terms.check(operation, &self.wanted, schemes)?;
        let request = Request::read(operation, params)?;
        self.turn_to(request.tenant())?;
        // What an agent offers is its own matter, also where it is named as a tenant.
        self.local.face.terms.check(operation, &self.wanted, schemes)?;
        let one = |value: Result<Value, serde_json::Error>| {
            value.map(Reply::One).map_err(|error| A2aError::new(Kind::Internal, error.to_string()))
        };
        match request {
            Request::SendMessage(request) => one(serde_json::to_value(send::send(&self, request).await?)),
            Request::SendStreamingMessage(request) => {
                Ok(Reply::Many(Box::new(send::stream(&self, request).await?)))
            }
            Request::GetTask(request) => one(serde_json::to_value(look::get(&self, &request)?)),
            Request::ListTasks(request) => look::list(&self, request).await.map(Reply::One),
            Request::CancelTask(request) => one(serde_json::to_value(look::cancel(&self, request).await?)),
            Request::SubscribeToTask(request) => Ok(Reply::Many(Box::new(look::subscribe(&self, &request)?))),
            Request::CreateTaskPushNotificationConfig(config) => {
                one(serde_json::to_value(webhooks::create(&self, config).await?))
            }
            Request::GetTaskPushNotificationConfig(name) => {
                one(serde_json::to_value(webhooks::get(&self, &name)?))
            }
            Request::ListTaskPushNotificationConfigs(request) => {
                one(serde_json::to_value(webhooks::list(&self, &request)?))
            }
            Request::DeleteTaskPushNotificationConfig(name) => {
                webhooks::delete(&self, name).await?;
                Ok(Reply::One(Value::Object(Default::default())))
            }
            Request::GetExtendedAgentCard(_) => {
                if self.by == Principal::local_user() {
                    let message = "the extended card is for callers with a credential of a declared scheme";
                    return Err(A2aError::new(Kind::Unauthenticated, message));
                }
                Ok(Reply::One(self.local.face.extended.clone()))
            }
        }
    }

    /// Turns to the agent that `tenant` names; any other name is kept with what is done under it.
    fn turn_to(&mut self, tenant: Option<&str>) -> Result<(), A2aError> {
        let Some(tenant) = tenant else { return Ok(()) };
        let named = AgentId::parse(tenant).ok().and_then(|id| self.node.agents.get(&id));
        match named {
            Some(local) => self.local = local.clone(),
            None if tenant.chars().count() > 128 || tenant.chars().any(char::is_control) => {
                return Err(protocol::a2a::json::Invalid::new(
                    "tenant",
                    "may have 128 characters, no control ones",
                )
                .into());
            }
            None => self.tenant = Some(tenant.to_owned()),
        }
        Ok(())
    }

    /// How long an agent may take to acknowledge.
    pub(super) fn ack(&self) -> std::time::Duration {
        self.node.limits.ack()
    }

    /// From here on it only waits, and keeps nobody out.
    pub(super) fn only_waits(&self) {
        stop_counting(&self.http);
    }

    /// Whether the client asks for what the mesh adds.
    pub(super) fn wants_ours(&self) -> bool {
        self.wanted.iter().any(|uri| uri == EXTENSION)
    }

    /// Whether a task is one of this caller's, under this tenant.
    pub(super) fn may_see(&self, task: &Task) -> bool {
        task.is_visible_to(&self.by) && task.tenant() == self.tenant.as_deref() && !task.is_message
    }

    /// The task that `id` may name.
    pub(super) fn task_id(&self, id: &str) -> Result<TaskId, A2aError> {
        TaskId::parse(id).map_err(|_| no_task(id))
    }
}

/// The same for a task that is not there and for somebody else's.
pub(super) fn no_task(id: &str) -> A2aError {
    let id: String = id.chars().take(80).collect();
    A2aError::new(Kind::TaskNotFound, format!("no task {id} of yours")).with("taskId", id)
}

/// An extension that was asked for and is spoken here, for the answer's header.
pub(super) fn activated(http: &HttpRequest, local: &Local) -> Option<String> {
    let lines = http.headers().get_all(EXTENSIONS_PARAMETER).filter_map(|line| line.to_str().ok());
    let requires = &local.face.terms.requires;
    let spoken: Vec<_> = version::extensions(lines)
        .into_iter()
        .filter(|uri| uri == EXTENSION || requires.contains(uri))
        .collect();
    (!spoken.is_empty()).then(|| spoken.join(", "))
}

/// A header that is there once, as text.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// An actor that does not answer.
pub(super) fn away(error: impl std::fmt::Display) -> A2aError {
    A2aError::new(Kind::Unavailable, format!("the agent does not answer: {error}"))
}

/// A store that can't be read.
pub(super) fn store(error: &blackboard::store::Error) -> A2aError {
    crate::agent::store_problem(error).into()
}
