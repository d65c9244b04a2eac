//! Why a tool server gives no answer: in words for people, with the server as the subject, and whether that may pass.

use crate::brain::llm::{http_model::cause_of, prompts};
use rmcp::{
    ServiceError,
    service::ClientInitializeError,
    transport::{DynamicTransportError, auth::AuthError, streamable_http_client::StreamableHttpError},
};

#[derive(Debug, PartialEq)]
pub(super) struct ServerFailure {
    pub(super) message: String,
    /// Whether the same request may succeed later: the server was not reached, or says that it can't answer at the moment.
    pub(super) is_transient: bool,
    /// Whether the credentials are missing or not enough.
    pub(super) is_unauthorized: bool,
}

/// How much is shown of what a server answers, bytes.
const MAX_SHOWN: usize = 300;

/// Why a connection could not be opened.
pub(super) fn of_start(error: &ClientInitializeError) -> ServerFailure {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_start(fallback),
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::ConnectionClosed(_) => transient("closes the connection".to_owned()),
        ClientInitializeError::JsonRpcError(error) => refusal(&error.message),
        _ => permanent("does not speak a version of MCP that is known here".to_owned()),
    }
}

/// Why a request on an open connection has no answer.
pub(super) fn of_request(error: &ServiceError) -> ServerFailure {
    match error {
        ServiceError::McpError(error) => refusal(&error.message),
        ServiceError::TransportSend(error) => of_transport(error),
        ServiceError::TransportClosed => transient("closes the connection".to_owned()),
        error => transient(format!("gives no answer: {error}")),
    }
}

/// Whether a call was refused before a tool could see it: the caller is not known, or the server takes nothing at the moment.
pub(super) fn is_before_call(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    let status = match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) if error.is_connect() => return true,
        Some(StreamableHttpError::Client(error)) => error.status().map(|status| status.as_u16()),
        Some(StreamableHttpError::HttpStatus(error)) => Some(error.status),
        Some(StreamableHttpError::UnexpectedServerResponse(text)) => {
            status_and_body(text).map(|(status, _)| status)
        }
        Some(
            StreamableHttpError::AuthRequired(_)
            | StreamableHttpError::Auth(_)
            | StreamableHttpError::InsufficientScope(_)
            | StreamableHttpError::SessionExpired
            | StreamableHttpError::ReinitializationFailed(_),
        ) => return true,
        _ => None,
    };
    status.is_some_and(|status| [401, 403, 404, 429, 503].contains(&status))
}

fn of_transport(error: &DynamicTransportError) -> ServerFailure {
    let Some(error) = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() else {
        return transient(format!("gives no answer: {}", error.error));
    };
    match error {
        StreamableHttpError::Client(error) => match error.status() {
            Some(status) => of_status(status.as_u16(), ""),
            None if error.is_builder() => permanent(format!("has no valid URL: {}", cause_of(error))),
            None => transient(format!("gives no answer: {}", cause_of(error))),
        },
        StreamableHttpError::HttpStatus(error) => of_status(error.status, ""),
        StreamableHttpError::AuthRequired(_) => of_status(401, ""),
        StreamableHttpError::InsufficientScope(_) => of_status(403, ""),
        StreamableHttpError::Auth(AuthError::AuthorizationRequired) => of_status(401, ""),
        StreamableHttpError::Auth(error) => {
            transient(format!("needs a token that can't be renewed: {error}"))
        }
        StreamableHttpError::UnexpectedServerResponse(text) => match status_and_body(text) {
            Some((status, body)) => of_status(status, body),
            None => no_mcp("JSON"),
        },
        StreamableHttpError::UnexpectedContentType(Some(media_type)) => no_mcp(media_type),
        StreamableHttpError::UnexpectedContentType(None) => no_mcp("content without a media type"),
        StreamableHttpError::ResponseBodyTooLarge { max_size } => {
            permanent(format!("answers with more than {} MiB", max_size >> 20))
        }
        StreamableHttpError::ReinitializationFailed(error) => refusal(&error.message),
        StreamableHttpError::ReservedHeaderConflict(name) => {
            permanent(format!("can't get the header {name:?}: MCP uses it"))
        }
        _ => transient("breaks the connection".to_owned()),
    }
}

/// The status and the body in the client's text about an unsuccessful response: `HTTP 403 Forbidden: BODY`.
fn status_and_body(text: &str) -> Option<(u16, &str)> {
    let (head, body) = text.strip_prefix("HTTP ")?.split_once(": ")?;
    Some((head.split(' ').next()?.parse().ok()?, body))
}

fn of_status(status: u16, body: &str) -> ServerFailure {
    let body = prompts::beginning(body.trim(), MAX_SHOWN);
    let said = if body.is_empty() { String::new() } else { format!(": {body}") };
    let answer = format!("answers with status {status}{said}");
    match status {
        408 | 429 | 500.. => transient(answer),
        401 | 403 => ServerFailure { is_unauthorized: true, ..permanent(answer) },
        _ => permanent(format!("{answer} (is its URL right?)")),
    }
}

fn no_mcp(what: &str) -> ServerFailure {
    permanent(format!("answers with {what} that is no MCP (is its URL right?)"))
}

fn refusal(message: &str) -> ServerFailure {
    permanent(format!("refuses: {}", prompts::beginning(message, MAX_SHOWN)))
}

pub(super) fn permanent(message: String) -> ServerFailure {
    ServerFailure { message, is_transient: false, is_unauthorized: false }
}

pub(super) fn transient(message: String) -> ServerFailure {
    ServerFailure { message, is_transient: true, is_unauthorized: false }
}
