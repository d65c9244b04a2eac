//! What went wrong, as gRPC says it (A2A §10.6): a code, and `google.rpc.Status` with its details beside it.

use prost::{Message, Name};
use prost_types::Any;
use protocol::a2a::error::{A2aError, DOMAIN, Kind};
use std::collections::BTreeMap;
use tonic::{Code, Status, metadata::MetadataMap};

/// `error` as a status.
pub(super) fn status(error: &A2aError) -> Status {
    let code = code(error.kind.grpc_status());
    let mut details = vec![packed(&ErrorInfo {
        reason: error.kind.reason().to_owned(),
        domain: DOMAIN.to_owned(),
        metadata: error.metadata.clone(),
    })];
    if !error.violations.is_empty() {
        let violation = |invalid: &protocol::a2a::json::Invalid| FieldViolation {
            field: invalid.field.clone(),
            description: invalid.problem.clone(),
        };
        details
            .push(packed(&BadRequest { field_violations: error.violations.iter().map(violation).collect() }));
    }
    if let Some(wait) = error.retry_after.and_then(|wait| prost_types::Duration::try_from(wait).ok()) {
        details.push(packed(&RetryInfo { retry_delay: Some(wait) }));
    }
    let whole = RpcStatus { code: code.into(), message: error.message.clone(), details };
    Status::with_details_and_metadata(code, &error.message, whole.encode_to_vec().into(), MetadataMap::new())
}

/// What a foreign agent says went wrong: by its details if there are some, else by the code alone.
pub(crate) fn error_of(status: &Status) -> A2aError {
    let details = RpcStatus::decode(status.details()).unwrap_or_default().details;
    let info = details.iter().find(|detail| detail.type_url == ErrorInfo::type_url());
    let info = info.and_then(|info| ErrorInfo::decode(&*info.value).ok()).unwrap_or_default();
    let by_code = match status.code() {
        Code::NotFound => Kind::TaskNotFound,
        Code::FailedPrecondition => Kind::UnsupportedOperation,
        Code::InvalidArgument | Code::OutOfRange => Kind::InvalidParams,
        Code::Unimplemented => Kind::MethodNotFound,
        Code::Unauthenticated => Kind::Unauthenticated,
        Code::PermissionDenied => Kind::Forbidden,
        Code::ResourceExhausted => Kind::RateLimited,
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Kind::Unavailable,
        Code::Ok | Code::Unknown | Code::AlreadyExists | Code::Aborted | Code::Internal | Code::DataLoss => {
            Kind::Internal
        }
    };
    let kind = Kind::from_reason(&info.reason).filter(|_| info.domain == DOMAIN).unwrap_or(by_code);
    let mut error = A2aError::new(kind, status.message().chars().take(1_000).collect::<String>());
    error.metadata = info.metadata.into_iter().take(32).collect();
    error
}

fn code(name: &str) -> Code {
    match name {
        "NOT_FOUND" => Code::NotFound,
        "FAILED_PRECONDITION" => Code::FailedPrecondition,
        "INVALID_ARGUMENT" => Code::InvalidArgument,
        "UNIMPLEMENTED" => Code::Unimplemented,
        "UNAUTHENTICATED" => Code::Unauthenticated,
        "PERMISSION_DENIED" => Code::PermissionDenied,
        "UNAVAILABLE" => Code::Unavailable,
        "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
        _ => Code::Internal,
    }
}

fn packed<T: Name>(detail: &T) -> Any {
    Any { type_url: T::type_url(), value: detail.encode_to_vec() }
}

macro_rules! named {
    ($($name:ident)*) => {
        $(impl Name for $name {
            const NAME: &'static str = stringify!($name);
            const PACKAGE: &'static str = "google.rpc";

            fn type_url() -> String {
                concat!("type.googleapis.com/google.rpc.", stringify!($name)).to_owned()
            }
        })*
    };
}

named!(ErrorInfo BadRequest RetryInfo);

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) details: Vec<Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ErrorInfo {
    #[prost(string, tag = "1")]
    pub(super) reason: String,
    #[prost(string, tag = "2")]
    pub(super) domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(super) metadata: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct BadRequest {
    #[prost(message, repeated, tag = "1")]
    field_violations: Vec<FieldViolation>,
}

#[derive(Clone, PartialEq, Message)]
struct FieldViolation {
    #[prost(string, tag = "1")]
    field: String,
    #[prost(string, tag = "2")]
    description: String,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::a2a::json::Invalid;

    #[test]
    fn every_error_has_its_code_and_says_why() {
        for kind in Kind::ALL {
            let status = status(&A2aError::new(*kind, "why").with("k", "v"));
            let name = format!("{:?}", status.code()).to_uppercase();
            assert_eq!(name, kind.grpc_status().replace('_', ""), "{kind:?}");
            let whole = RpcStatus::decode(status.details()).unwrap();
            assert_eq!((whole.code, whole.message.as_str()), (status.code().into(), "why"));
            assert_eq!(whole.details[0].type_url, "type.googleapis.com/google.rpc.ErrorInfo");
            let info = ErrorInfo::decode(&*whole.details[0].value).unwrap();
            assert_eq!((info.reason.as_str(), info.domain.as_str()), (kind.reason(), "a2a-protocol.org"));
            assert_eq!(info.metadata["k"], "v");
            assert_eq!(error_of(&status), A2aError::new(*kind, "why").with("k", "v"));
        }
    }

    #[test]
    fn what_is_invalid_is_named() {
        let status = status(&A2aError::from(Invalid::new("message.parts", "is required")));
        let whole = RpcStatus::decode(status.details()).unwrap();
        assert_eq!(whole.details[1].type_url, "type.googleapis.com/google.rpc.BadRequest");
        let bad = BadRequest::decode(&*whole.details[1].value).unwrap();
        assert_eq!(bad.field_violations[0].field, "message.parts");
    }
}
