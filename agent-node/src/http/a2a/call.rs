//! One request, whatever binding it came through: who calls, which agent is meant, and what was agreed on.

use super::{face::Face, look, send, stream::Heard, webhooks};
use crate::http::{
    edge::{Permit, take_permit},
    headers::{A2A_EXTENSIONS, A2A_VERSION},
    node_state::{HostedAgent, Node},
    routes::messages::trace_of,
};
use actix_web::{
    HttpRequest,
    http::header::{AsHeaderName, HeaderMap},
    web,
};
use protocol::{
    a2a::{
        error::{A2aError, A2aErrorKind},
        event::SendMessageResponse,
        limits::MAX_TENANT,
        push::PushConfig,
        request::{A2aOperation, PushConfigPage, Request, TaskPage},
        route,
        task::A2aTask as Shown,
        version::{self, VERSION_PARAMETER},
    },
    ids::{AgentId, TaskId},
    principal::Principal,
    task::{EXTENSION, Task},
    trace::TraceContext,
};
use serde::Serialize;
use serde_json::Value;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

/// A request on its way.
pub(crate) struct Call {
    pub(super) local: HostedAgent,
    pub(super) by: Principal,
    /// Extensions the client asks for.
    pub(super) wanted: Vec<String>,
    /// Whose tasks they are, where the tenant is none of this node's agents.
    pub(super) tenant: Option<String>,
    pub(super) trace: Option<TraceContext>,
    place: Mutex<Option<Permit>>,
    node: Arc<Node>,
}

/// What a request says beside its parameters.
#[derive(Debug, Default)]
pub(crate) struct Heading {
    /// The version it speaks.
    pub(crate) version: Option<String>,
    /// Extensions the client asks for.
    pub(crate) wanted: Vec<String>,
    /// The trace it comes under.
    pub(crate) trace: Option<TraceContext>,
}

/// What comes of a request.
pub(crate) enum Reply {
    /// One value.
    One(Box<Answer>),
    /// Event after event.
    Many(Box<Heard>),
}

/// One value that answers a request, and its JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    /// What came of a message.
    Sent(SendMessageResponse),
    /// A task.
    Task(Shown),
    /// Some of the caller's tasks.
    Tasks(TaskPage),
    /// A webhook.
    Webhook(PushConfig),
    /// Some webhooks of a task.
    Webhooks(PushConfigPage),
    /// A card.
    Card(Value),
    /// It is done.
    Done {},
}

impl Call {
    /// The call that `http` makes, if it speaks our version.
    pub(super) fn begin(http: &HttpRequest, node: web::Data<Node>, by: Principal) -> Result<Self, A2aError> {
        let headers = http.headers();
        let query = || {
            let members = route::query(http.query_string()).ok()?;
            let mut named = members.iter().filter(|(name, _)| name.eq_ignore_ascii_case(VERSION_PARAMETER));
            named.next()?.1.as_str().map(str::to_owned)
        };
        let lines = headers.get_all(&A2A_EXTENSIONS).filter_map(|line| line.to_str().ok());
        let heading = Heading {
            version: text(headers, &A2A_VERSION).map(str::to_owned).or_else(query),
            wanted: version::extensions(lines),
            trace: trace_of(http),
        };
        let local = node.host(http)?.clone();
        Self::new(heading, local, node.into_inner(), by, take_permit(http))
    }

    /// The call of `by` at the agent `local`, unless it is said to be replaced by a tenant, if it speaks our version. It
    /// keeps its place among the requests in flight for as long as it works.
    pub(crate) fn new(
        heading: Heading,
        local: HostedAgent,
        node: Arc<Node>,
        by: Principal,
        place: Option<Permit>,
    ) -> Result<Self, A2aError> {
        version::negotiate(heading.version.as_deref())?;
        let Heading { wanted, trace, version: _ } = heading;
        Ok(Self { local, by, wanted, tenant: None, trace, place: Mutex::new(place), node })
    }

    /// Performs what `operation` asks with `params`. With the reply goes which extensions are spoken where it came from.
    pub(crate) async fn perform(
        mut self,
        operation: A2aOperation,
        params: Value,
    ) -> Result<(Reply, Option<String>), A2aError> {
        // What an agent offers is its own matter: the port's says nothing about one that is named as a tenant.
        self.turn_to(params.get("tenant").and_then(Value::as_str).filter(|tenant| !tenant.is_empty()))?;
        let face = self.local.face.get();
        face.terms.check(operation, &self.wanted, face.schemes)?;
        let spoken = spoken(&self.wanted, &face);
        Ok((self.answer(Request::read(operation, params)?).await?, spoken))
    }

    async fn answer(self, request: Request) -> Result<Reply, A2aError> {
        let answer = match request {
            Request::SendMessage(request) => Answer::Sent(send::send(&self, request).await?),
            Request::SendStreamingMessage(request) => {
                return Ok(Reply::Many(Box::new(send::stream(&self, request).await?)));
            }
            Request::GetTask(request) => Answer::Task(look::get(&self, &request)?),
            Request::ListTasks(request) => Answer::Tasks(look::list(&self, request).await?),
            Request::CancelTask(request) => Answer::Task(look::cancel(&self, request).await?),
            Request::SubscribeToTask(request) => {
                return Ok(Reply::Many(Box::new(look::subscribe(&self, &request)?)));
            }
            Request::CreateTaskPushNotificationConfig(config) => {
                Answer::Webhook(webhooks::create(&self, config).await?)
            }
            Request::GetTaskPushNotificationConfig(name) => Answer::Webhook(webhooks::get(&self, &name)?),
            Request::ListTaskPushNotificationConfigs(request) => {
                Answer::Webhooks(webhooks::list(&self, &request)?)
            }
            Request::DeleteTaskPushNotificationConfig(name) => {
                webhooks::delete(&self, name).await?;
                Answer::Done {}
            }
            Request::GetExtendedAgentCard(_) => {
                if self.by == Principal::local_user() {
                    let message = "the extended card is for callers with a credential of a declared scheme";
                    return Err(A2aError::new(A2aErrorKind::Unauthenticated, message));
                }
                Answer::Card(self.local.face.get().extended.clone())
            }
        };
        Ok(Reply::One(Box::new(answer)))
    }

    /// Turns to the agent that `tenant` names; any other name is kept with what is done under it.
    fn turn_to(&mut self, tenant: Option<&str>) -> Result<(), A2aError> {
        let Some(tenant) = tenant else { return Ok(()) };
        let named = AgentId::parse(tenant).ok().and_then(|id| self.node.agents.get(&id));
        match named {
            Some(local) => self.local = local.clone(),
            None if tenant.chars().count() > MAX_TENANT || tenant.chars().any(char::is_control) => {
                return Err(protocol::a2a::json::InvalidField::new(
                    "tenant",
                    format!("may have {MAX_TENANT} characters, no control ones"),
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
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Returns when the node leaves.
    pub(super) fn left(&self) -> impl Future<Output = ()> + use<> {
        self.node.leaving.begun()
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
    A2aError::new(A2aErrorKind::TaskNotFound, format!("no task {id} of yours")).with("taskId", id)
}

/// The extensions of `wanted` that are spoken by the agent with this face, for the answer's header.
fn spoken(wanted: &[String], face: &Face) -> Option<String> {
    let is_spoken = |uri: &&String| *uri == EXTENSION || face.terms.requires.contains(uri);
    let spoken: Vec<_> = wanted.iter().filter(is_spoken).map(String::as_str).collect();
    (!spoken.is_empty()).then(|| spoken.join(", "))
}

/// A header that is there once, as text.
pub(super) fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// An actor that does not answer.
pub(super) fn away(error: impl std::fmt::Display) -> A2aError {
    A2aError::new(A2aErrorKind::Unavailable, format!("the agent does not answer: {error}"))
}

/// A store that can't be read.
pub(super) fn store(error: &blackboard::store::Error) -> A2aError {
    protocol::problem::Problem::from(error.clone()).into()
}
