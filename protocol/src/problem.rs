//! One error shape on every route: A2A's `{error: {code, status, message, details}}` (A2A §11.6, AIP-193),
//! and beside it `reasonCode` for people and shells.

use serde_json::{Value, json};
use std::{fmt, time::Duration};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal;)*) => {
        /// Why a request is refused. Closed: every refusal of every route is one of these.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            /// Every reason, ordered by status.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];

            /// `reasonCode`, snake case.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The HTTP status it is answered with.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// The reason a `reasonCode` names.
            pub fn from_code(code: &str) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }
        }
    };
}

reasons! {
    /// Not JSON, duplicate members, trailing bytes, not UTF-8, or nested too deep.
    MalformedJson = "malformed_json", 400;
    /// A member is missing, of the wrong type, or outside its range.
    InvalidField = "invalid_field", 400;
    /// `type` is none of the closed list; the message names the valid ones.
    UnknownType = "unknown_type", 400;
    /// A request that HTTP itself does not allow.
    BadRequest = "bad_request", 400;
    /// No credential, or one that proves nothing.
    Unauthenticated = "unauthenticated", 401;
    /// The signature is too old, or from the future.
    StaleSignature = "stale_signature", 401;
    /// `fromAgentId` is an agent's, the credential is not.
    SenderNotProven = "sender_not_proven", 403;
    /// The principal may not do this.
    Forbidden = "forbidden", 403;
    /// A `Host` that is not ours, or any `Origin`: a browser has no business here.
    ForeignOrigin = "foreign_origin", 403;
    /// No such agent is known.
    AgentNotFound = "agent_not_found", 404;
    /// No such task, or not yours.
    TaskNotFound = "task_not_found", 404;
    ContextNotFound = "context_not_found", 404;
    /// No such message, or not yours.
    MessageNotFound = "message_not_found", 404;
    /// No such artifact, or not yours.
    ArtifactNotFound = "artifact_not_found", 404;
    ClaimNotFound = "claim_not_found", 404;
    /// No turn of this key is open: it has ended, or begins again under another key.
    TurnNotFound = "turn_not_found", 404;
    /// No such space, or the reader is no member of it.
    SpaceNotFound = "space_not_found", 404;
    /// No such entry, or none that the reader may see.
    EntryNotFound = "entry_not_found", 404;
    /// No such schedule, or not yours.
    ScheduleNotFound = "schedule_not_found", 404;
    RouteNotFound = "route_not_found", 404;
    /// No such MCP session, or not yours; it may have ended.
    SessionNotFound = "session_not_found", 404;
    /// The route exists, the method does not; `Allow` lists the allowed ones.
    MethodNotAllowed = "method_not_allowed", 405;
    /// `Accept` names no media type that the answer has.
    NotAcceptable = "not_acceptable", 406;
    /// The client disconnected before the end of its request, or sent it too slowly.
    RequestTimeout = "request_timeout", 408;
    /// Same message id, other content.
    MessageIdReused = "message_id_reused", 409;
    /// Same task id, other content.
    TaskIdReused = "task_id_reused", 409;
    /// The sender has asked the agent for the same too often in one run.
    Loop = "loop", 409;
    /// Another agent holds it; the metadata names it and its lease.
    AlreadyClaimed = "already_claimed", 409;
    /// An older epoch than the one in force.
    Fenced = "fenced", 409;
    /// The task has ended before.
    TaskNotCancelable = "task_not_cancelable", 409;
    /// A session can't be steered so now; why is said.
    DirectiveRefused = "directive_refused", 409;
    /// Nothing was asked, or the task has ended.
    NotAwaitingAnswer = "not_awaiting_answer", 409;
    /// A smaller incarnation than the registered one.
    StaleIncarnation = "stale_incarnation", 409;
    /// The entry's state does not allow it; the state and what is possible are named.
    EntryState = "entry_state", 409;
    /// The author's proposal with this slug was merged or rejected.
    SlugClosed = "slug_closed", 409;
    /// The author has as many entries in the space as it may have; the limit is named.
    EntryQuota = "entry_quota", 409;
    /// The space has changed since the version that was named.
    SpaceChanged = "space_changed", 409;
    /// The schedule can't be changed so, or run now; why is said.
    ScheduleRefused = "schedule_refused", 409;
    /// The agent id is another's.
    AgentIdTaken = "agent_id_taken", 409;
    /// The agent is there, so it can't be forgotten.
    AgentPresent = "agent_present", 409;
    /// The process of the agent has not registered; it takes turns in another way than this.
    PeerNotRegistered = "peer_not_registered", 409;
    /// Another key is pinned for that id.
    KeyMismatch = "key_mismatch", 409;
    /// The key was given up or replaced; the id needs another one.
    KeyReset = "key_reset", 409;
    /// The agent has left, or has been away for longer than it may be.
    AgentDeparted = "agent_departed", 410;
    /// The agent is not there, but may come back.
    AgentAway = "agent_away", 503;
    /// `expiresAt` or the deadline had passed on arrival.
    Expired = "expired", 410;
    /// The cursor is below what is still kept; the floor is named.
    Trimmed = "trimmed", 410;
    /// The cursor is of another generation of the board's store; the present one and its floor are named.
    GenerationChanged = "generation_changed", 410;
    /// Too large; the limit is named.
    PayloadTooLarge = "payload_too_large", 413;
    /// Not `application/json`, or a `Content-Encoding`.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// The agent is registered elsewhere; its endpoint is named.
    RegisteredElsewhere = "registered_elsewhere", 421;
    /// The agent is already on the path.
    DelegationLoop = "delegation_loop", 422;
    /// More hops than the limit.
    TooManyHops = "too_many_hops", 422;
    /// No capability is named, and no peer takes open requests.
    CapabilityNeeded = "capability_needed", 422;
    /// The request's head is too long.
    HeadTooLarge = "head_too_large", 431;
    /// A quota is used up; the message names it, and `Retry-After` says when it opens again.
    QuotaReached = "quota_reached", 429;
    /// Over the rate; `Retry-After` says when.
    RateLimited = "rate_limited", 429;
    /// A fault of ours. Nothing was recorded.
    Internal = "internal", 500;
    /// The message made the agent fail twice: it is not taken again, and not retried.
    MessageFailed = "message_failed", 500;
    /// Too much at once; `Retry-After` says when.
    Overloaded = "overloaded", 503;
    /// The recipient cannot be reached.
    RecipientUnreachable = "recipient_unreachable", 503;
    /// The node is draining; `Retry-After` says when.
    Draining = "draining", 503;
    /// The store takes no writes.
    StoreUnavailable = "store_unavailable", 503;
    /// The registry cannot be reached.
    RegistryUnavailable = "registry_unavailable", 503;
    /// The blackboard cannot be reached.
    BlackboardUnavailable = "blackboard_unavailable", 503;
    /// The recipient did not acknowledge in time; the message stays queryable.
    GatewayTimeout = "gateway_timeout", 504;
    /// No room left on the device.
    StorageFull = "storage_full", 507;
}

/// A refusal: the reason, a sentence that names the field, limit or valid values, and details for machines.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub reason: Reason,
    pub message: String,
    /// Members for machines, each a text (A2A `ErrorInfo.metadata`).
    pub metadata: Vec<(&'static str, String)>,
    /// When to try again, where that makes sense (`Retry-After`).
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// A refusal for `reason`, explained by `message`.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let retry_after = match reason.status() {
            429 | 503 => Some(Duration::from_secs(1)),
            _ => None,
        };
        Self { reason, message: message.into(), metadata: Vec::new(), retry_after }
    }

    /// The same with one more member for machines.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.metadata.push((key, value.to_string()));
        self
    }

    /// The same, worth another try after `wait`.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The body every route answers with.
    pub fn body(&self) -> Value {
        let metadata: serde_json::Map<_, _> =
            self.metadata.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        json!({
            "error": {
                "code": self.reason.status(),
                "status": canonical_status(self.reason.status()),
                "message": self.message,
                "details": [{
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": self.reason.code().to_uppercase(),
                    "domain": "agent-mesh",
                    "metadata": metadata,
                }],
            },
            "reasonCode": self.reason.code(),
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.code(), self.message)
    }
}

impl std::error::Error for Problem {}

/// The canonical gRPC code name beside an HTTP status (AIP-193).
fn canonical_status(status: u16) -> &'static str {
    match status {
        400 | 405 | 413 | 415 | 422 | 431 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        410 | 421 => "FAILED_PRECONDITION",
        408 | 504 => "DEADLINE_EXCEEDED",
        429 | 507 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_code_that_leads_back_to_it() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), Some(*reason));
        }
    }
}
