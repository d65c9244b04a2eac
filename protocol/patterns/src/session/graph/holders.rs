//! Who takes a seat that no agent of the mesh takes: a person, or an A2A agent.

use super::GraphFault;
use protocol::{
    a2a::{interaction::InteractionMode, remote_task::RemoteTaskLimits},
    bid::Eta,
};
use serde::{Deserialize, Serialize};

/// How long a person is waited for.
const TIMEOUT: Eta = Eta(1_800_000);

/// The longest time that a person may be given.
const MAX_TIMEOUT: Eta = Eta(7 * 86_400_000);

/// The longest name of a person, bytes.
const MAX_NAME: usize = 64;

/// A seat that a person takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonSeat {
    /// Who is asked, in words: whoever may answer for the session answers.
    pub person: String,
    #[serde(rename = "timeoutMs")]
    pub timeout: Eta,
}

impl PersonSeat {
    /// The seat of `person`; `timeout` is half an hour if absent.
    pub(super) fn new(person: String, timeout: Option<Eta>) -> Result<Self, GraphFault> {
        let timeout = timeout.unwrap_or(TIMEOUT);
        if person.trim().is_empty() || person.len() > MAX_NAME {
            return Err(GraphFault::new("person", format!("a name has 1 to {MAX_NAME} bytes")));
        }
        match timeout.0 == 0 || timeout > MAX_TIMEOUT {
            true => {
                let what = format!("more than 0 and at most {MAX_TIMEOUT}, not {timeout}");
                Err(GraphFault::new("timeout", what))
            }
            false => Ok(Self { person, timeout }),
        }
    }
}

/// A seat of an A2A agent that is not of the mesh. It is done after its first answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignSeat {
    /// The URL of its card, or of its host.
    pub card: String,
    /// The skill that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// How its work is followed; the best mode of its card, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<InteractionMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<RemoteTaskLimits>,
}

impl ForeignSeat {
    /// A name made of the host in its URL.
    pub(super) fn host_name(&self) -> String {
        let after = self.card.split_once("://").map_or(self.card.as_str(), |(_, after)| after);
        let host = after.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(64).collect()
    }
}
