//! The answer to one of several messages or signals that came in one request.

use super::refusal_body;
use protocol::problem::Problem;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// The status and body that the message would have got in a request of its own.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageAnswer {
    status: u16,
    /// The `Retry-After` of a refusal, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    body: Value,
}

impl MessageAnswer {
    /// An acknowledgement.
    pub fn acknowledged(status: u16, body: Value) -> Self {
        Self { status, retry_after: None, body }
    }

    /// A refusal.
    pub fn refused(problem: &Problem) -> Self {
        let retry_after = problem.retry_after.map(|wait| wait.as_secs().max(1));
        let body = serde_json::to_value(problem.body()).unwrap_or_default();
        Self { status: problem.reason.status(), retry_after, body }
    }

    /// The body of an acknowledgement, or the problem of a refusal.
    pub fn into_result(self) -> Result<Value, Problem> {
        if self.status < 400 {
            return Ok(self.body);
        }
        let body = serde_json::to_vec(&self.body).unwrap_or_default();
        Err(refusal_body::parse(self.status, self.retry_after.map(Duration::from_secs), &body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::problem::Reason;
    use serde_json::json;

    #[test]
    fn answers_round_trip() {
        let refused = Problem::new(Reason::Overloaded, "full").retry_after(Duration::from_secs(3));
        for (answer, result) in [
            (MessageAnswer::acknowledged(202, json!({ "accepted": true })), Ok(json!({ "accepted": true }))),
            (MessageAnswer::refused(&refused), Err(refused)),
        ] {
            let sent: MessageAnswer = serde_json::from_value(serde_json::to_value(&answer).unwrap()).unwrap();
            assert_eq!(sent.into_result(), result);
        }
    }
}
