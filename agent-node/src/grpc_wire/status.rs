//! Converts A2A errors to gRPC statuses with `google.rpc` details (A2A §10.6), and back.

use protocol::a2a::error::{A2aError, A2aErrorKind, DOMAIN};
use tonic::{Code, Status};
use tonic_types::{BadRequest, ErrorDetail, ErrorInfo, FieldViolation, RetryInfo, StatusExt as _};

/// `error` as a status. The `ErrorInfo` comes first among its details.
pub(crate) fn status(error: &A2aError) -> Status {
    let metadata: Vec<_> = error.metadata.clone().into_iter().collect();
    let info = ErrorInfo::new(
        error.kind.reason(),
        DOMAIN,
        metadata.into_iter().collect::<std::collections::HashMap<_, _>>(),
    );
    let mut details: Vec<ErrorDetail> = vec![info.into()];
    if !error.violations.is_empty() {
        let violations = error.violations.iter();
        let violations = violations.map(|invalid| FieldViolation::new(&invalid.field, &invalid.problem));
        details.push(BadRequest::new(violations.collect::<Vec<_>>()).into());
    }
    if let Some(wait) = error.retry_after {
        details.push(RetryInfo::new(Some(wait)).into());
    }
    Status::with_error_details_vec(code(error.kind.grpc_status()), &error.message, details)
}

/// The A2A error in a foreign agent's status: by its details if it has them, else by its code.
pub(crate) fn error_of(status: &Status) -> A2aError {
    let by_code = match status.code() {
        Code::NotFound => A2aErrorKind::TaskNotFound,
        Code::FailedPrecondition => A2aErrorKind::UnsupportedOperation,
        Code::InvalidArgument | Code::OutOfRange => A2aErrorKind::InvalidParams,
        Code::Unimplemented => A2aErrorKind::MethodNotFound,
        Code::Unauthenticated => A2aErrorKind::Unauthenticated,
        Code::PermissionDenied => A2aErrorKind::Forbidden,
        Code::ResourceExhausted => A2aErrorKind::RateLimited,
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => A2aErrorKind::Unavailable,
        Code::Ok | Code::Unknown | Code::AlreadyExists | Code::Aborted | Code::Internal | Code::DataLoss => {
            A2aErrorKind::Internal
        }
    };
    let info = status.get_details_error_info().filter(|info| info.domain == DOMAIN);
    let kind = info.as_ref().and_then(|info| A2aErrorKind::from_reason(&info.reason)).unwrap_or(by_code);
    let mut error = A2aError::new(kind, status.message().chars().take(1_000).collect::<String>());
    error.metadata = info.into_iter().flat_map(|info| info.metadata).take(32).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::a2a::json::InvalidField;

    #[test]
    fn every_error_survives_a_round_trip() {
        for kind in A2aErrorKind::ALL {
            let status = status(&A2aError::new(*kind, "why").with("k", "v"));
            let name = format!("{:?}", status.code()).to_uppercase();
            assert_eq!(name, kind.grpc_status().replace('_', ""), "{kind:?}");
            let details = status.get_error_details_vec();
            let Some(ErrorDetail::ErrorInfo(info)) = details.first() else { panic!("{details:?}") };
            assert_eq!((info.reason.as_str(), info.domain.as_str()), (kind.reason(), "a2a-protocol.org"));
            assert_eq!(error_of(&status), A2aError::new(*kind, "why").with("k", "v"));
        }
    }

    #[test]
    fn an_invalid_field_is_named() {
        let status = status(&A2aError::from(InvalidField::new("message.parts", "is required")));
        let bad = status.get_details_bad_request().unwrap();
        assert_eq!(bad.field_violations[0].field, "message.parts");
    }
}
