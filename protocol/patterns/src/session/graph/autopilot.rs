//! Who answers for the person who gave the task.

use super::{
    Graph,
    faults::{self, GraphFault},
};
use protocol::ids::AgentId;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, json};

/// Who answers for the person, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Autopilot {
    /// The seat, or the name in the cast.
    seat: String,
    /// The stages whose gates it may confirm.
    pub(crate) gates: Vec<String>,
    pub(crate) agent: Option<AgentId>,
}

impl<'de> Deserialize<'de> for Autopilot {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct AutopilotMembers {
            seat: String,
            #[serde(default)]
            gates: Vec<String>,
        }
        let value = Value::deserialize(from)?;
        let members = match value.as_str() {
            Some(seat) => json!({ "seat": seat }),
            None => value,
        };
        let AutopilotMembers { seat, gates } = faults::read(members).map_err(D::Error::custom)?;
        Ok(Self { seat, gates, agent: None })
    }
}

impl Autopilot {
    /// With its agent, which has a seat in `graph` or is in its cast.
    pub(super) fn resolved(mut self, graph: &Graph) -> Result<Self, GraphFault> {
        let seat = &self.seat;
        let mut seats = graph.stages.iter().flat_map(|stage| &stage.seats);
        let of_seat =
            seats.find_map(|planned| planned.who.agent().filter(|_| planned.name == *seat)).cloned();
        let of_cast = || graph.cast.get(seat).and_then(|agent| AgentId::parse(agent).ok());
        let agent = of_seat.or_else(of_cast);
        if agent.is_none() {
            let what = format!("{seat:?} is neither the seat of an agent nor a name of the cast");
            return Err(GraphFault::new("", what));
        }
        for (at, gate) in self.gates.iter().enumerate() {
            let fault = |what| GraphFault::new(format!("gates[{at}]"), what);
            let stage = graph.place(gate).and_then(|place| graph.stages.get(place));
            let stage = stage.ok_or_else(|| fault(graph.unknown_stage(gate)))?;
            if stage.gate.is_empty() {
                return Err(fault(format!("stage {gate} has no gate")));
            }
        }
        self.agent = agent;
        Ok(self)
    }
}
