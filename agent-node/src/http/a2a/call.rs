//! One request of any binding: the caller, the agent, and the negotiated version and extensions.

use crate::http::{
    edge::{InFlightPermit, SpooledFile, SpooledFiles, take_permit},
    headers::{A2A_EXTENSIONS, A2A_VERSION, V03_EXTENSIONS},
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
        hitl::HITL_EXTENSION,
        limits::MAX_TENANT,
        route,
        version::{self, ProtocolVersion, VERSION_PARAMETER},
    },
    identity::PersonKey,
    ids::{AgentId, TaskId},
    limits::Limits,
    principal::Principal,
    task::{EXTENSION, Task},
    time::WallTime,
    trace::TraceContext,
};
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
    /// The version that its client speaks.
    pub(super) version: ProtocolVersion,
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
#[derive(Debug)]
pub(crate) struct CallHeaders {
    pub(crate) version: ProtocolVersion,
    /// Extensions that the client requests.
    pub(crate) extensions: Vec<String>,
    pub(crate) trace: Option<TraceContext>,
}

impl A2aCall {
    /// The call in an HTTP request of this version.
    pub(in crate::http) fn from_http(
        http: &HttpRequest,
        node: web::Data<NodeState>,
        by: Principal,
        version: ProtocolVersion,
    ) -> Result<Self, A2aError> {
        let headers = http.headers();
        let legacy = headers.get_all(&V03_EXTENSIONS).filter(|_| version == ProtocolVersion::V03);
        let lines = headers.get_all(&A2A_EXTENSIONS).chain(legacy).filter_map(|line| line.to_str().ok());
        let headers = CallHeaders { version, extensions: version::extensions(lines), trace: trace_of(http) };
        let local = node.default_agent(http)?.clone();
        let is_persons = is_persons(http, &by);
        let person = person_token::key(http, &node);
        let call = Self::new(headers, local, node.into_inner(), by, take_permit(http));
        let SpooledFiles(files) = http.extensions_mut().remove().unwrap_or_default();
        Ok(Self { is_persons, person, is_grpc: false, files: Mutex::new(files), ..call })
    }

    /// Counts a message of `bytes` in the caller's quota of content.
    pub(super) fn check_quota(&self, bytes: usize) -> Result<(), protocol::problem::Problem> {
        let (HostedAgent { id, store, .. }, max) =
            (&self.local, self.node.limits.max_artifact_bytes_per_principal);
        self.node.artifact_quota.add_message(store.as_ref(), id, &self.by, bytes, max)
    }

    /// A call of `by` to the agent `local`, which a tenant in the parameters may replace. Holds `permit` until it only waits.
    pub(crate) fn new(
        headers: CallHeaders,
        local: HostedAgent,
        node: Arc<NodeState>,
        by: Principal,
        permit: Option<InFlightPermit>,
    ) -> Self {
        let CallHeaders { version, extensions, trace } = headers;
        let is_persons = matches!(&by, Principal::User(_)) && by != Principal::local_user();
        Self {
            local,
            by,
            is_persons,
            person: None,
            extensions,
            version,
            tenant: None,
            trace,
            permit: Mutex::new(permit),
            is_grpc: true,
            files: Mutex::default(),
            node,
        }
    }

    /// Selects the agent that `tenant` names; any other name becomes the tenant of the caller's tasks.
    pub(super) fn select_tenant(&mut self, tenant: Option<&str>) -> Result<(), A2aError> {
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

/// The version that an HTTP request names in its header, or as a parameter.
pub(super) fn named_version(http: &HttpRequest) -> Option<String> {
    let query = || {
        let members = route::query(http.query_string()).ok()?;
        let mut named = members.iter().filter(|(name, _)| name.eq_ignore_ascii_case(VERSION_PARAMETER));
        named.next()?.1.as_str().map(str::to_owned)
    };
    text(http.headers(), &A2A_VERSION).map(str::to_owned).or_else(query)
}

/// The same error for an unknown task and for another caller's.
pub(super) fn task_not_found(id: &str) -> A2aError {
    let id: String = id.chars().take(80).collect();
    A2aError::new(A2aErrorKind::TaskNotFound, format!("no task {id} of yours")).with("taskId", id)
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
pub(super) fn store(error: &store::Error) -> A2aError {
    protocol::problem::Problem::from(error.clone()).into()
}
