//! The border to A2A 0.3: a request of 0.3 is performed as one of 1.0, and what it is answered is written as 0.3 has it.

use super::{dispatch::OperationResult, stream::TaskEventStream};
use protocol::a2a::{
    error::{A2aError, A2aErrorKind},
    event::StreamResponse,
    request::A2aOperation,
    v03::{self, V03Form},
    version::{EXTENSIONS_PARAMETER, ProtocolVersion},
};
use serde::Serialize;
use serde_json::Value;

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum AnswerFormat {
    #[default]
    V1,
    V03 {
        form: V03Form,
        /// The operation, once it is known.
        operation: Option<A2aOperation>,
        /// Whether the first webhook of the list is asked for.
        is_first: bool,
    },
}

impl AnswerFormat {
    /// The format for requests of `version`, in this form if it is 0.3.
    pub(super) fn of(version: ProtocolVersion, form: V03Form) -> Self {
        match version {
            ProtocolVersion::V1 => Self::V1,
            ProtocolVersion::V03 => Self::V03 { form, operation: None, is_first: false },
        }
    }

    /// The operation and the parameters of 1.0 that a request stands for.
    pub(super) fn read(&mut self, named: A2aOperation, params: Value) -> (A2aOperation, Value) {
        let Self::V03 { operation, is_first, .. } = self else { return (named, params) };
        *is_first = v03::takes_first_config(named, &params);
        let performed = if *is_first { A2aOperation::ListTaskPushNotificationConfigs } else { named };
        *operation = Some(performed);
        (performed, v03::params_to_v1(performed, params))
    }

    /// A result, as JSON.
    ///
    /// # Errors
    /// It can't be written; or the first webhook is asked for, and there is none.
    pub(super) fn result(&self, result: &OperationResult) -> Result<String, A2aError> {
        match *self {
            Self::V03 { form, operation: Some(operation), is_first } => {
                let result = serde_json::to_value(result).map_err(|error| unwritable(&error))?;
                text(&v03::result_to_v03(operation, result, form, is_first)?)
            }
            Self::V1 | Self::V03 { .. } => text(result),
        }
    }

    /// An event of a stream, as JSON.
    pub(super) fn event(&self, event: &StreamResponse) -> String {
        match (self, serde_json::to_value(event)) {
            (Self::V03 { form, .. }, Ok(event)) => v03::event_to_v03(event, *form).to_string(),
            _ => event.to_json(),
        }
    }

    /// The stream as it ends in this version: in 0.3 at every interruption.
    pub(super) fn stream(&self, events: TaskEventStream) -> TaskEventStream {
        match self {
            Self::V1 => events,
            Self::V03 { .. } => events.closing_when_interrupted(),
        }
    }

    /// An error as this version has it.
    pub(super) fn error(&self, error: A2aError) -> A2aError {
        match self {
            Self::V1 => error,
            Self::V03 { operation, .. } => v03::error_to_v03(*operation, error),
        }
    }

    /// The status and the body of an error over HTTP+JSON. Who has named no version and asks for what only 1.0 has is answered as
    /// a client of 1.0.
    pub(super) fn rest_error(&self, error: &A2aError) -> (u16, String) {
        match self {
            Self::V03 { .. } if error.kind != A2aErrorKind::VersionNotSupported => {
                (v03::http_status(error.kind), error.to_rpc().to_string())
            }
            Self::V1 | Self::V03 { .. } => (error.kind.http_status(), error.to_rest().to_string()),
        }
    }

    /// The header that names the extensions in use.
    pub(super) fn extensions_header(&self) -> &'static str {
        match self {
            Self::V1 => EXTENSIONS_PARAMETER,
            Self::V03 { .. } => v03::EXTENSIONS_HEADER,
        }
    }
}

fn text(value: &impl Serialize) -> Result<String, A2aError> {
    serde_json::to_string(value).map_err(|error| unwritable(&error))
}

fn unwritable(error: &serde_json::Error) -> A2aError {
    A2aError::new(A2aErrorKind::Internal, format!("the answer can't be written as JSON: {error}"))
}
