//! Every error of A2A with its JSON-RPC code, HTTP status, gRPC status and reason (A2A §5.4, v1.0.1), and the two shapes
//! it goes over the wire in (§9.5, §11.6).

use super::json::InvalidField;
use crate::problem::{Problem, Reason};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt, time::Duration};

const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
/// Whose errors these are.
pub const DOMAIN: &str = "a2a-protocol.org";

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $rpc:literal, $grpc:literal, $http:literal, $reason:literal;)*) => {
        /// Which error it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum A2aErrorKind { $($(#[$doc])* $name,)* }

        impl A2aErrorKind {
            /// Every kind.
            pub const ALL: &'static [A2aErrorKind] = &[$(A2aErrorKind::$name,)*];

            /// The JSON-RPC code.
            pub fn rpc_code(self) -> i32 {
                match self { $(Self::$name => $rpc,)* }
            }

            /// The name of the gRPC status.
            pub fn grpc_status(self) -> &'static str {
                match self { $(Self::$name => $grpc,)* }
            }

            /// The HTTP status.
            pub fn http_status(self) -> u16 {
                match self { $(Self::$name => $http,)* }
            }

            /// `ErrorInfo.reason`.
            pub fn reason(self) -> &'static str {
                match self { $(Self::$name => $reason,)* }
            }
        }
    };
}

kinds! {
    /// No such task, or not the caller's.
    TaskNotFound = -32001, "NOT_FOUND", 404, "TASK_NOT_FOUND";
    /// It has ended already.
    TaskNotCancelable = -32002, "FAILED_PRECONDITION", 400, "TASK_NOT_CANCELABLE";
    /// This agent pushes nothing.
    PushNotificationNotSupported = -32003, "FAILED_PRECONDITION", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED";
    /// Not declared, or not in this state.
    UnsupportedOperation = -32004, "FAILED_PRECONDITION", 400, "UNSUPPORTED_OPERATION";
    /// A media type that is not taken.
    ContentTypeNotSupported = -32005, "INVALID_ARGUMENT", 400, "CONTENT_TYPE_NOT_SUPPORTED";
    /// The answer is not valid A2A.
    InvalidAgentResponse = -32006, "INTERNAL", 500, "INVALID_AGENT_RESPONSE";
    /// Declared, and none there.
    ExtendedAgentCardNotConfigured = -32007, "FAILED_PRECONDITION", 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED";
    /// The client did not ask for an extension that is required.
    ExtensionSupportRequired = -32008, "FAILED_PRECONDITION", 400, "EXTENSION_SUPPORT_REQUIRED";
    /// Another version than is spoken here.
    VersionNotSupported = -32009, "FAILED_PRECONDITION", 400, "VERSION_NOT_SUPPORTED";
    Parse = -32700, "INVALID_ARGUMENT", 400, "PARSE_ERROR";
    /// JSON, but no request.
    InvalidRequest = -32600, "INVALID_ARGUMENT", 400, "INVALID_REQUEST";
    /// No such method or route.
    MethodNotFound = -32601, "UNIMPLEMENTED", 404, "METHOD_NOT_FOUND";
    /// A route, and not for this method.
    MethodNotAllowed = -32015, "UNIMPLEMENTED", 405, "METHOD_NOT_ALLOWED";
    /// A member is missing, of the wrong type, or outside its range.
    InvalidParams = -32602, "INVALID_ARGUMENT", 400, "INVALID_PARAMS";
    /// A fault of ours.
    Internal = -32603, "INTERNAL", 500, "INTERNAL_ERROR";
    /// No credential, or one that proves nothing.
    Unauthenticated = -32010, "UNAUTHENTICATED", 401, "UNAUTHENTICATED";
    /// The caller may not.
    Forbidden = -32011, "PERMISSION_DENIED", 403, "PERMISSION_DENIED";
    /// Too much at once.
    Unavailable = -32012, "UNAVAILABLE", 503, "UNAVAILABLE";
    /// Too much from this caller.
    RateLimited = -32013, "RESOURCE_EXHAUSTED", 429, "RATE_LIMITED";
    /// More than is taken.
    TooLarge = -32014, "RESOURCE_EXHAUSTED", 413, "PAYLOAD_TOO_LARGE";
}

impl A2aErrorKind {
    /// Whether it is one of A2A's own, whose details must name it.
    pub fn is_a2a(self) -> bool {
        (-32009..=-32001).contains(&self.rpc_code())
    }

    /// The kind with this JSON-RPC code.
    pub fn from_rpc_code(code: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| i64::from(kind.rpc_code()) == code)
    }

    /// The kind an `ErrorInfo.reason` names.
    pub fn from_reason(reason: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.reason() == reason)
    }
}

/// An error as a client gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct A2aError {
    pub kind: A2aErrorKind,
    pub message: String,
    /// Members for machines (`ErrorInfo.metadata`).
    pub metadata: BTreeMap<String, String>,
    /// Which members of the request are wrong (`BadRequest.fieldViolations`).
    pub violations: Vec<InvalidField>,
    /// When to try again, where that makes sense.
    pub retry_after: Option<Duration>,
}

impl A2aError {
    /// An error of that kind, explained by `message`.
    pub fn new(kind: A2aErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            metadata: BTreeMap::new(),
            violations: Vec::new(),
            retry_after: None,
        }
    }

    /// The same with one more member for machines.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.metadata.insert(key.to_owned(), value.to_string());
        self
    }

    /// `google.rpc` details: who it is, and what is wrong with the request.
    pub fn details(&self) -> Vec<Value> {
        let mut details = vec![json!({
            "@type": ERROR_INFO,
            "reason": self.kind.reason(),
            "domain": DOMAIN,
            "metadata": self.metadata,
        })];
        if !self.violations.is_empty() {
            let violations = self
                .violations
                .iter()
                .map(|invalid| json!({ "field": invalid.field, "description": invalid.problem }));
            let violations: Vec<Value> = violations.collect();
            details.push(json!({ "@type": BAD_REQUEST, "fieldViolations": violations }));
        }
        details
    }

    /// A JSON-RPC `error`.
    pub fn to_rpc(&self) -> Value {
        json!({ "code": self.kind.rpc_code(), "message": self.message, "data": self.details() })
    }

    /// The body of an HTTP+JSON answer.
    pub fn to_rest(&self) -> Value {
        json!({ "error": {
            "code": self.kind.http_status(),
            "status": self.kind.grpc_status(),
            "message": self.message,
            "details": self.details(),
        }})
    }

    /// The error in a JSON-RPC `error`; unknown codes are taken for internal errors of the other side.
    pub fn from_rpc(error: &Value) -> Self {
        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
        let kind = A2aErrorKind::from_rpc_code(code).unwrap_or(A2aErrorKind::Internal);
        Self::from_parts(kind, error, error.get("data"))
    }

    /// The error in the body of an HTTP+JSON answer; without one in the body, the error for `status`.
    pub fn from_rest(status: u16, body: &Value) -> Self {
        let error = body.get("error").unwrap_or(body);
        let details = error.get("details");
        let reason = details.and_then(info).and_then(|info| info.get("reason")?.as_str());
        let by_status = match status {
            401 => A2aErrorKind::Unauthenticated,
            403 => A2aErrorKind::Forbidden,
            404 => A2aErrorKind::TaskNotFound,
            413 => A2aErrorKind::TooLarge,
            415 => A2aErrorKind::ContentTypeNotSupported,
            429 => A2aErrorKind::RateLimited,
            503 => A2aErrorKind::Unavailable,
            400..500 => A2aErrorKind::InvalidParams,
            _ => A2aErrorKind::Internal,
        };
        Self::from_parts(reason.and_then(A2aErrorKind::from_reason).unwrap_or(by_status), error, details)
    }

    fn from_parts(kind: A2aErrorKind, error: &Value, details: Option<&Value>) -> Self {
        let said = error.get("message").and_then(Value::as_str).unwrap_or("no reason was given");
        let mut parsed = Self::new(kind, said.chars().take(1_000).collect::<String>());
        let metadata = details.and_then(info).and_then(|info| info.get("metadata")?.as_object());
        for (key, value) in metadata.into_iter().flatten().take(32) {
            parsed.metadata.extend(value.as_str().map(|value| (key.clone(), value.to_owned())));
        }
        parsed
    }
}

/// The `ErrorInfo` among some details, which may also be the one object that old servers send.
fn info(details: &Value) -> Option<&Map<String, Value>> {
    let is_info = |detail: &&Map<String, Value>| detail.get("@type").is_some_and(|kind| kind == ERROR_INFO);
    match details {
        Value::Array(details) => details.iter().filter_map(Value::as_object).find(is_info),
        Value::Object(detail) => Some(detail).filter(is_info),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

impl fmt::Display for A2aError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.reason(), self.message)
    }
}

impl std::error::Error for A2aError {}

impl From<InvalidField> for A2aError {
    fn from(invalid: InvalidField) -> Self {
        let mut error = Self::new(A2aErrorKind::InvalidParams, format!("invalid parameters: {invalid}"));
        error.violations.push(invalid);
        error
    }
}

impl From<Problem> for A2aError {
    fn from(problem: Problem) -> Self {
        let kind = kind_of(problem.reason);
        let mut error = Self::new(kind, problem.message);
        error.retry_after = problem.retry_after;
        error.metadata = problem.metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        if kind == A2aErrorKind::InvalidParams {
            error.metadata.insert("reasonCode".to_owned(), problem.reason.code().to_owned());
            if let Some(field) = error.metadata.remove("field") {
                error.violations.push(InvalidField::new(field, error.message.clone()));
            }
        }
        error
    }
}

/// What a refusal of the mesh is called in A2A.
fn kind_of(reason: Reason) -> A2aErrorKind {
    match reason {
        Reason::MalformedJson => A2aErrorKind::Parse,
        Reason::InvalidField
        | Reason::UnknownType
        | Reason::BadRequest
        | Reason::HeadTooLarge
        | Reason::NotAcceptable
        | Reason::SessionNotFound
        | Reason::MessageIdReused
        | Reason::TaskIdReused
        | Reason::Expired
        | Reason::DelegationLoop
        | Reason::Loop
        | Reason::TooManyHops
        | Reason::CapabilityNeeded
        | Reason::Trimmed
        | Reason::GenerationChanged
        | Reason::AgentNotFound
        | Reason::AgentDeparted
        | Reason::AgentPresent
        | Reason::RegisteredElsewhere
        | Reason::ArtifactNotFound
        | Reason::ClaimNotFound
        | Reason::SpaceNotFound
        | Reason::EntryNotFound
        | Reason::ScheduleNotFound
        | Reason::ScheduleRefused
        | Reason::EntryState
        | Reason::DirectiveRefused
        | Reason::SlugClosed
        | Reason::SpaceChanged
        | Reason::EntryQuota
        | Reason::AlreadyClaimed
        | Reason::Fenced
        | Reason::StaleIncarnation
        | Reason::AgentIdTaken
        | Reason::TurnNotFound
        | Reason::PeerNotRegistered
        | Reason::KeyMismatch
        | Reason::KeyReset => A2aErrorKind::InvalidParams,
        Reason::Unauthenticated | Reason::StaleSignature => A2aErrorKind::Unauthenticated,
        Reason::SenderNotProven | Reason::Forbidden | Reason::ForeignOrigin => A2aErrorKind::Forbidden,
        Reason::TaskNotFound | Reason::MessageNotFound | Reason::ContextNotFound => {
            A2aErrorKind::TaskNotFound
        }
        Reason::RouteNotFound | Reason::MethodNotAllowed => A2aErrorKind::MethodNotFound,
        Reason::TaskNotCancelable => A2aErrorKind::TaskNotCancelable,
        Reason::NotAwaitingAnswer => A2aErrorKind::UnsupportedOperation,
        Reason::PayloadTooLarge => A2aErrorKind::TooLarge,
        Reason::UnsupportedMediaType => A2aErrorKind::ContentTypeNotSupported,
        Reason::RateLimited | Reason::QuotaReached => A2aErrorKind::RateLimited,
        Reason::RequestTimeout
        | Reason::Overloaded
        | Reason::RecipientUnreachable
        | Reason::AgentAway
        | Reason::Draining
        | Reason::StoreUnavailable
        | Reason::RegistryUnavailable
        | Reason::BlackboardUnavailable
        | Reason::GatewayTimeout
        | Reason::StorageFull => A2aErrorKind::Unavailable,
        Reason::Internal | Reason::MessageFailed => A2aErrorKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_recognised_in_both_shapes() {
        for kind in A2aErrorKind::ALL {
            let error = A2aError::new(*kind, "why").with("k", "v");
            assert_eq!(A2aError::from_rpc(&error.to_rpc()), error);
            assert_eq!(A2aError::from_rest(500, &error.to_rest()), error);
        }
    }

    #[test]
    fn an_invalid_member_is_named_in_a_bad_request() {
        let error = A2aError::from(InvalidField::new("message.parts[0]", "needs one of text"));
        let details = error.details();
        assert_eq!(details[1]["fieldViolations"][0]["field"], "message.parts[0]");
        assert!(details.iter().all(|detail| detail["@type"].is_string()));
    }
}
