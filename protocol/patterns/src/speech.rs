//! What a turn, or a person, says to a session beside its results.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::line::SupervisorVerb;

pub use wire::line::SideMode;

/// How a person, or a supervisor in its turn, steers a session that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Directive {
    pub verb: DirectiveVerb,
    /// The stage; without one, all that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The only seat of that stage that `say`, `amend` or `stop` is for; without one, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<String>,
    /// What is said, or why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Directive {
    /// The directive in a request.
    pub fn read(request: Value) -> Result<Self, String> {
        if request.get("verb").and_then(Value::as_str) == Some("pause") {
            return Err(
                "verb: a session can't be paused; a stage with a `gate` waits for a person, `skip` ends a stage, `stop` a stage or the session"
                    .to_owned(),
            );
        }
        serde_json::from_value(request).map_err(|error| error.to_string())
    }
}

/// The kinds of directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DirectiveVerb {
    /// Words for the next turns of a stage, or of a seat. A stage that has not begun keeps them for its first turns.
    Say,
    /// A constraint for all stages, or for one or a seat of it, from now on.
    Amend,
    /// A stage ends with what it has, and those after it begin.
    Skip,
    /// A stage that has begun, and everything after it, begins again.
    Redirect,
    /// The session, a stage or a seat has no further turns.
    Stop,
}

/// When a directive takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DirectiveOutcome {
    /// At once, or at the next turn.
    Delivered,
    /// When its stage begins.
    Queued,
}

impl From<SupervisorVerb> for DirectiveVerb {
    fn from(verb: SupervisorVerb) -> Self {
        match verb {
            SupervisorVerb::Say => Self::Say,
            SupervisorVerb::Redirect => Self::Redirect,
            SupervisorVerb::Amend => Self::Amend,
        }
    }
}
