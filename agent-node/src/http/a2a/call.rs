//! One request of any binding: the caller, the agent, and the negotiated version and extensions.

use super::{facade::AgentFacade, files, send, stream::TaskEventStream, task_operations, webhooks};
use crate::http::{
    edge::{InFlightPermit, SpooledFile, SpooledFiles, take_permit},
    headers::{A2A_EXTENSIONS, A2A_VERSION},
    node_state::{HostedAgent, NodeState},
    routes::{
        messages::trace_of,
        person_token::{self, is_persons},
    },
};
use actix_web::{
    HttpMessage as _, HttpRequest,
    http::header::{AsHeaderName, HeaderMap},
    web,
};
use patterns::session::is_confidential;
use protocol::{
    a2a::{
        error::{A2aError, A2aErrorKind},
        event::SendMessageResponse,
        hitl::HITL_EXTENSION,
        limits::MAX_TENANT,
        push::PushConfig,
        request::{A2aOperation, PushConfigPage, Request, TaskPage},
        route,
        task::A2aTask,
        version::{self, VERSION_PARAMETER},
    },
    identity::PersonKey,
    ids::{AgentId, TaskId},
    limits::Limits,
    principal::Principal,
    task::{EXTENSION, Task},
    time::WallTime,
    trace::TraceContext,
};
use serde::Serialize;
use serde_json::Value;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

/// An A2A request that is being performed.
pub(crate) struct A2aCall {
    pub(super) local: HostedAgent,
    pub(super) by: Principal,
    /// Whether the caller is proven to be a person, who may approve.
    pub(super) is_persons: bool,
    /// The key of the person, if the request carries the person's token.
    pub(super) person: Option<PersonKey>,
    pub(super) extensions: Vec<String>,
    /// The tenant, if it is not one of this node's agents.
    pub(super) tenant: Option<String>,
    pub(super) trace: Option<TraceContext>,
    permit: Mutex<Option<InFlightPermit>>,
    /// Whether it came over gRPC.
    pub(super) is_grpc: bool,
    /// The files that its body has brought.
    pub(super) files: Mutex<Vec<SpooledFile>>,
    node: Arc<NodeState>,
}

/// What a request says in its headers.
#[derive(Debug, Default)]
pub(crate) struct CallHeaders {
    pub(crate) version: Option<String>,
    /// Extensions that the client requests.
    pub(crate) extensions: Vec<String>,
    pub(crate) trace: Option<TraceContext>,
}

/// The successful result of a request.
pub(crate) enum A2aResponse {
    Single(Box<OperationResult>),
    Stream(Box<TaskEventStream>),
}

/// The result of a unary operation, which serializes to its JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum OperationResult {
    Message(SendMessageResponse),
    Task(A2aTask),
    Tasks(TaskPage),
    Webhook(PushConfig),
    Webhooks(PushConfigPage),
    Card(Value),
    Done {},
}

impl A2aCall {
    /// The call in an HTTP request. Fails if the protocol version is not supported.
    pub(super) fn from_http(
        http: &HttpRequest,
        node: web::Data<NodeState>,
        by: Principal,
    ) -> Result<Self, A2aError> {
        let headers = http.headers();
        let query = || {
            let members = route::query(http.query_string()).ok()?;
            let mut named = members.iter().filter(|(name, _)| name.eq_ignore_ascii_case(VERSION_PARAMETER));
            named.next()?.1.as_str().map(str::to_owned)
        };
        let lines = headers.get_all(&A2A_EXTENSIONS).filter_map(|line| line.to_str().ok());
        let headers = CallHeaders {
            version: text(headers, &A2A_VERSION).map(str::to_owned).or_else(query),
            extensions: version::extensions(lines),
            trace: trace_of(http),
        };
        let local = node.default_agent(http)?.clone();
        let is_persons = is_persons(http, &by);
        let person = person_token::key(http, &node);
        let call = Self::new(headers, local, node.into_inner(), by, take_permit(http))?;
        let SpooledFiles(files) = http.extensions_mut().remove().unwrap_or_default();
        Ok(Self { is_persons, person, is_grpc: false, files: Mutex::new(files), ..call })
    }

    /// Counts a message of `bytes` in the caller's quota of content.
    pub(super) fn check_quota(&self, bytes: usize) -> Result<(), protocol::problem::Problem> {
        let (HostedAgent { id, store, .. }, max) =
            (&self.local, self.node.limits.max_artifact_bytes_per_principal);
        self.node.artifact_quota.add_message(store.as_ref(), id, &self.by, bytes, max)
    }

    /// A call of `by` to the agent `local`, which a tenant in the parameters may replace. Fails if the protocol version is
    /// not supported. Holds `permit` until it only waits.
    pub(crate) fn new(
        headers: CallHeaders,
        local: HostedAgent,
        node: Arc<NodeState>,
        by: Principal,
        permit: Option<InFlightPermit>,
    ) -> Result<Self, A2aError> {
        version::negotiate(headers.version.as_deref())?;
        let CallHeaders { extensions, trace, version: _ } = headers;
        let is_persons = matches!(&by, Principal::User(_)) && by != Principal::local_user();
        Ok(Self {
            local,
            by,
            is_persons,
            person: None,
            extensions,
            tenant: None,
            trace,
            permit: Mutex::new(permit),
            is_grpc: true,
            files: Mutex::default(),
            node,
        })
    }

    /// Performs `operation`. Returns the result and the value of the extensions header.
    pub(crate) async fn perform(
        mut self,
        operation: A2aOperation,
        params: Value,
    ) -> Result<(A2aResponse, Option<String>), A2aError> {
        // The tenant decides which agent's policy applies.
        self.select_tenant(params.get("tenant").and_then(Value::as_str).filter(|tenant| !tenant.is_empty()))?;
        let facade = self.local.facade.get();
        facade.policy.check(operation, &self.extensions, facade.schemes)?;
        let activated_extensions = activated_extensions(&self.extensions, &facade);
        if !matches!(operation, A2aOperation::SendMessage | A2aOperation::SendStreamingMessage) {
            files::check_left(&self)?;
        }
        Ok((self.answer(Request::read(operation, params)?).await?, activated_extensions))
    }

    async fn answer(self, request: Request) -> Result<A2aResponse, A2aError> {
        let shown = self.local.shown_files();
        let answer = match request {
            Request::SendMessage(request) => {
                let mut answer = send::send(&self, request).await?;
                shown.show_answer(&mut answer).await;
                OperationResult::Message(answer)
            }
            Request::SendStreamingMessage(request) => {
                return Ok(A2aResponse::Stream(Box::new(send::stream(&self, request).await?)));
            }
            Request::GetTask(request) => {
                let mut task = task_operations::get(&self, &request)?;
                shown.show_task(&mut task).await;
                OperationResult::Task(task)
            }
            Request::ListTasks(request) => {
                let mut page = task_operations::list(&self, request).await?;
                page.tasks.iter_mut().for_each(|task| shown.link_task(task));
                OperationResult::Tasks(page)
            }
            Request::CancelTask(request) => {
                let mut task = task_operations::cancel(&self, request).await?;
                shown.show_task(&mut task).await;
                OperationResult::Task(task)
            }
            Request::SubscribeToTask(request) => {
                return Ok(A2aResponse::Stream(Box::new(task_operations::subscribe(&self, &request)?)));
            }
            Request::CreateTaskPushNotificationConfig(config) => {
                OperationResult::Webhook(webhooks::create(&self, config).await?)
            }
            Request::GetTaskPushNotificationConfig(name) => {
                OperationResult::Webhook(webhooks::get(&self, &name)?)
            }
            Request::ListTaskPushNotificationConfigs(request) => {
                OperationResult::Webhooks(webhooks::list(&self, &request)?)
            }
            Request::DeleteTaskPushNotificationConfig(name) => {
                webhooks::delete(&self, name).await?;
                OperationResult::Done {}
            }
            Request::GetExtendedAgentCard(_) => {
                if self.by == Principal::local_user() {
                    let message = "the extended card is for callers with a credential of a declared scheme";
                    return Err(A2aError::new(A2aErrorKind::Unauthenticated, message));
                }
                OperationResult::Card(self.local.facade.get().extended.clone())
            }
        };
        Ok(A2aResponse::Single(Box::new(answer)))
    }

    /// Selects the agent that `tenant` names; any other name becomes the tenant of the caller's tasks.
    fn select_tenant(&mut self, tenant: Option<&str>) -> Result<(), A2aError> {
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

    pub(super) fn node(&self) -> &NodeState {
        &self.node
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.node.limits
    }

    /// The time of the wall clock.
    pub(super) fn wall(&self) -> WallTime {
        self.node.clock.wall()
    }

    /// Time limit for an agent's acknowledgement.
    pub(super) fn ack(&self) -> std::time::Duration {
        self.node.limits.ack()
    }

    /// Releases the permit among the requests in flight: from here on the call only waits.
    pub(super) fn release_permit(&self) {
        drop(self.permit.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Returns when the node drains.
    pub(super) fn drained(&self) -> impl Future<Output = ()> + use<> {
        self.node.drain.started()
    }

    /// Whether the client requests the mesh's extension.
    pub(super) fn wants_extension(&self) -> bool {
        self.extensions.iter().any(|uri| uri == EXTENSION)
    }

    /// Whether the client activates kagent's human-in-the-loop extension.
    pub(super) fn wants_hitl(&self) -> bool {
        self.extensions.iter().any(|uri| uri == HITL_EXTENSION)
    }

    /// Whether a person calls without a proof, to whom no session is shown.
    pub(super) fn is_unproven(&self) -> bool {
        matches!(self.by, Principal::User(_)) && !self.is_persons
    }

    /// Whether the caller may see a task under this tenant.
    pub(super) fn may_see(&self, task: &Task) -> bool {
        if self.is_unproven() && is_confidential(task) {
            return false;
        }
        task.is_visible_to(&self.by) && task.tenant() == self.tenant.as_deref() && !task.is_message
    }

    /// Parses a task id. A malformed one is not found.
    pub(super) fn task_id(&self, id: &str) -> Result<TaskId, A2aError> {
        TaskId::parse(id).map_err(|_| task_not_found(id))
    }
}

/// The same error for an unknown task and for another caller's.
pub(super) fn task_not_found(id: &str) -> A2aError {
    let id: String = id.chars().take(80).collect();
    A2aError::new(A2aErrorKind::TaskNotFound, format!("no task {id} of yours")).with("taskId", id)
}

/// The requested extensions that this agent supports, for the response header.
fn activated_extensions(extensions: &[String], facade: &AgentFacade) -> Option<String> {
    let is_spoken = |uri: &&String| {
        [EXTENSION, HITL_EXTENSION].contains(&uri.as_str()) || facade.policy.requires.contains(uri)
    };
    let activated_extensions: Vec<_> = extensions.iter().filter(is_spoken).map(String::as_str).collect();
    (!activated_extensions.is_empty()).then(|| activated_extensions.join(", "))
}

/// The first header of this name, as text.
pub(super) fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The error for an actor that does not answer.
pub(super) fn unavailable(error: impl std::fmt::Display) -> A2aError {
    A2aError::new(A2aErrorKind::Unavailable, format!("the agent does not answer: {error}"))
}

/// The error for a store that can't be read.
pub(super) fn store(error: &blackboard::store::Error) -> A2aError {
    protocol::problem::Problem::from(error.clone()).into()
}
