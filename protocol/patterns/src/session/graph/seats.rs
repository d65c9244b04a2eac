//! Seats: who works in a stage, as its file names them.

use super::{
    BuiltInStage, ForeignSeat, PersonSeat, SeatReviews, SeatRole,
    faults::{self, GraphFault},
};
use protocol::{
    a2a::{interaction::InteractionMode, remote_task::RemoteTaskLimits},
    bid::Eta,
    compaction::Compaction,
    ids::{Address, AgentId},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

/// A seat: who works in a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Seat {
    /// Its name within the stage: the agent, the capability, or the host of a foreign agent.
    pub name: String,
    pub who: SeatHolder,
    /// What it does there.
    pub task: Option<String>,
    /// Whether others may address it alone.
    pub approachable: bool,
    /// Whether it works or watches.
    pub role: SeatRole,
    /// When it has a turn without being addressed, if it watches.
    pub reviews: Option<SeatReviews>,
    /// How much of its earlier turns it is given again; what it does not say, its agent does.
    pub compaction: Compaction,
}

/// Who takes a seat.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SeatHolder {
    /// An agent, or whoever wins the contract net for a capability.
    Peer(Address),
    /// An A2A agent that is not of the mesh.
    Foreign(Box<ForeignSeat>),
    /// A person, who is asked.
    Person(PersonSeat),
    /// The host, for a built-in stage.
    BuiltIn(BuiltInStage),
    /// The agent of this name, found when the request was matched.
    Matched(String),
}

impl SeatHolder {
    /// The agent of the mesh that is named.
    pub(crate) fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Peer(Address::Agent(agent)) => Some(agent),
            _ => None,
        }
    }
}

/// A seat that is written with members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SeatMembers {
    name: Option<String>,
    agent: Option<String>,
    capability: Option<String>,
    card: Option<String>,
    person: Option<String>,
    #[serde(default, deserialize_with = "faults::optional_time")]
    timeout: Option<Eta>,
    skill: Option<String>,
    mode: Option<InteractionMode>,
    bounds: Option<RemoteTaskLimits>,
    task: Option<String>,
    approachable: Option<bool>,
    #[serde(default, rename = "as")]
    role: SeatRole,
    reviews: Option<SeatReviews>,
    #[serde(default)]
    compaction: Compaction,
}

impl<'de> Deserialize<'de> for Seat {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::read(Value::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl Seat {
    /// A member's seat that nobody addresses alone.
    pub(crate) fn unapproachable(name: String, who: SeatHolder) -> Self {
        let (role, compaction) = (SeatRole::Member, Compaction::default());
        Self { name, who, task: None, approachable: false, role, reviews: None, compaction }
    }

    /// Reads a seat: who takes it, or its members.
    pub(super) fn read(value: Value) -> Result<Self, GraphFault> {
        let Some(who) = value.as_str() else { return faults::read::<SeatMembers>(value)?.seat() };
        let members = match who.split_once(':') {
            Some((kind @ ("capability" | "person"), name)) => serde_json::json!({ kind: name }),
            Some(_) | None => serde_json::json!({ "agent": who }),
        };
        let seat = faults::read::<SeatMembers>(members).and_then(SeatMembers::seat);
        // It is written without keys.
        seat.map_err(|fault| GraphFault::new("", fault.what))
    }
}

impl SeatMembers {
    fn seat(self) -> Result<Seat, GraphFault> {
        let Self {
            name,
            agent,
            capability,
            card,
            person,
            timeout,
            skill,
            mode,
            bounds,
            task,
            approachable,
            role,
            reviews,
            compaction,
        } = self;
        let fault = |key: &str, what: &str| Err(GraphFault::new(key, what));
        if card.is_none() && (skill.is_some() || mode.is_some() || bounds.is_some()) {
            return fault("", "`skill`, `mode` and `bounds` are of a seat with a `card`");
        }
        if (card.is_some() || person.is_some()) && !compaction.is_default() {
            return fault("compaction", "`compaction` is of the seat of an agent of the mesh");
        }
        if person.is_none() && timeout.is_some() {
            return fault("timeout", "`timeout` is of a seat with a `person`");
        }
        if person.is_some() && role.watches() {
            return fault("as", "a person's seat is one of a member, without `as`");
        }
        let (approachable, reviews) = match role {
            SeatRole::Member if reviews.is_some() => {
                return fault("reviews", "`reviews` is for a seat with `as: observer` or `as: supervisor`");
            }
            SeatRole::Supervisor if approachable == Some(true) => {
                return fault("approachable", "a supervisor is not approachable");
            }
            SeatRole::Member | SeatRole::Observer => (approachable.unwrap_or(true), reviews),
            SeatRole::Supervisor => (false, Some(SeatReviews::EachAction)),
        };
        let (key, who) = match (agent, capability, card, person) {
            (Some(agent), None, None, None) => ("agent", agent),
            (None, Some(capability), None, None) => ("capability", format!("capability:{capability}")),
            (None, None, None, Some(person)) => {
                let name = name.unwrap_or_else(|| person.clone());
                let who = PersonSeat::new(person, timeout)?;
                let who = SeatHolder::Person(who);
                return Ok(Seat { name, who, task, approachable, role, reviews, compaction });
            }
            (None, None, Some(card), None) => {
                let foreign = ForeignSeat { card, skill, mode, bounds };
                let name = name.unwrap_or_else(|| foreign.host_name());
                let who = SeatHolder::Foreign(Box::new(foreign));
                return Ok(Seat { name, who, task, approachable, role, reviews, compaction });
            }
            _ => return fault("", "a seat has exactly one of `agent`, `capability`, `card` and `person`"),
        };
        let who = Address::try_from(who).map_err(|error| GraphFault::new(key, error.to_string()))?;
        let own = match &who {
            Address::Agent(agent) => agent.to_string(),
            Address::Capability(capability) => capability.to_string(),
        };
        let who = SeatHolder::Peer(who);
        Ok(Seat { name: name.unwrap_or(own), who, task, approachable, role, reviews, compaction })
    }
}
