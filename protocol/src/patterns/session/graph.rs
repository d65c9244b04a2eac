//! What a session is asked to do: its stages, their seats, and its budget. It is the `input` of the task, read strictly.

use crate::{
    bid::{Cost, Eta},
    budget::Budget,
    ids::{Address, AgentId},
    words::nearest,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The most stages of a session.
pub const MAX_STAGES: usize = 64;
/// The most seats of a stage.
pub const MAX_SEATS: usize = 16;
/// The most rounds that a stage may ask for.
pub const MAX_ROUNDS: u32 = 1_000;

/// The graph of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Graph {
    /// Short names for agents.
    #[serde(default)]
    pub cast: BTreeMap<String, String>,
    /// What it may use.
    #[serde(default)]
    pub budget: SessionBudget,
    /// The seats of a round table, instead of stages.
    #[serde(default)]
    pub seats: Vec<Seat>,
    /// The stages, in the order in which ready ones are begun.
    #[serde(default)]
    pub stages: Vec<Stage>,
}

/// What a session may use. It ends as incomplete when something is used up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionBudget {
    /// Seat turns.
    pub turns: u32,
    /// Tokens of models, in and out: a number, or one such as `500k`.
    #[serde(deserialize_with = "tokens")]
    pub tokens: u64,
    /// Time from its start.
    pub time: Eta,
    /// Cost, in the mesh's own unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Default for SessionBudget {
    fn default() -> Self {
        Self { turns: 200, tokens: 500_000, time: Eta(3_600_000), cost: None }
    }
}

impl SessionBudget {
    /// The session may use no more than `given`.
    pub fn bound(&mut self, given: Budget) {
        let Budget { tokens, cost } = self.of_models().within(given);
        (self.tokens, self.cost) = (tokens.unwrap_or(self.tokens), cost);
    }

    /// What its models may use.
    pub fn of_models(&self) -> Budget {
        Budget { tokens: Some(self.tokens), cost: self.cost }
    }
}

/// A number, or one with `k` or `M`.
fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(from)?;
    let read = match value.as_str() {
        Some(text) => {
            let scaled = |number: &str, by: u64| number.parse::<u64>().ok()?.checked_mul(by);
            match (text.strip_suffix('k'), text.strip_suffix('M')) {
                (Some(thousands), _) => scaled(thousands, 1_000),
                (None, Some(millions)) => scaled(millions, 1_000_000),
                (None, None) => scaled(text, 1),
            }
        }
        None => value.as_u64(),
    };
    read.ok_or_else(|| D::Error::custom(format!("tokens: {value} is no number, and none such as \"500k\"")))
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stage {
    /// Its name within the session.
    pub id: String,
    /// Its goal, beside that of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The stages that come before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Who works in it.
    #[serde(default)]
    pub seats: Vec<Seat>,
    /// Whether its seats work at once or one after the other.
    #[serde(default)]
    pub order: SeatOrder,
    /// The most rounds. In a round every seat that is not done has one turn.
    #[serde(default = "thirty")]
    pub rounds: u32,
    /// When it ends before all its seats are done.
    #[serde(default, skip_serializing_if = "StageLimit::is_none")]
    pub until: StageLimit,
    /// The least number of findings. With fewer its label is `too-few`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub at_least: u32,
    /// What it needs of the stages before it, and of its seats.
    #[serde(default)]
    pub needs: StageNeeds,
    /// Which stage follows on which label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub next: BTreeMap<String, String>,
    /// How often it may go back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub loops: u32,
    /// How often a turn that failed is tried again.
    #[serde(default = "once")]
    pub retries: u32,
    /// What a person may decide about its result, before the session goes on; nobody is asked, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate: Vec<GateChoice>,
}

/// What a person may decide at a gate. It is the label of the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GateChoice {
    /// The session goes on.
    Approve,
    /// The stage begins again with what the person says; or the stage that `next` names for it.
    Revise,
    /// The session ends.
    Decline,
}

impl GateChoice {
    /// Its label.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Revise => "revise",
            Self::Decline => "decline",
        }
    }
}

fn thirty() -> u32 {
    30
}

fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// In which order the seats of a stage work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SeatOrder {
    /// All at once.
    #[default]
    Parallel,
    /// One after the other, in the order of the file.
    Turns,
}

/// When a stage ends before all its seats are done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StageLimit {
    /// With this number of findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<u32>,
    /// After this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Eta>,
}

impl StageLimit {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What a stage needs of the stages before it, and of its seats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StageNeeds {
    /// All have succeeded.
    #[default]
    All,
    /// All have ended, and one has succeeded. What is made of some is marked as partial.
    Settled,
}

/// A seat: who works in a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seat {
    /// Its name within the stage: the agent, or the capability.
    pub name: String,
    /// Who takes it: an agent, or whoever wins the contract net for a capability.
    pub who: Address,
    /// What it does there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Whether others may address it alone.
    pub approachable: bool,
}

/// A seat that is written with members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SeatMembers {
    name: Option<String>,
    agent: Option<String>,
    capability: Option<String>,
    task: Option<String>,
    #[serde(default = "yes")]
    approachable: bool,
}

fn yes() -> bool {
    true
}

impl<'de> Deserialize<'de> for Seat {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let members = match value.as_str() {
            Some(who) => SeatMembers {
                name: None,
                agent: Some(who.to_owned()),
                capability: None,
                task: None,
                approachable: true,
            },
            None => serde_json::from_value(value).map_err(D::Error::custom)?,
        };
        let SeatMembers { name, agent, capability, task, approachable } = members;
        let who = match (agent, capability) {
            (Some(agent), None) => agent,
            (None, Some(capability)) => format!("capability:{capability}"),
            _ => return Err(D::Error::custom("a seat has exactly one of `agent` and `capability`")),
        };
        let who = Address::try_from(who).map_err(D::Error::custom)?;
        let own = match &who {
            Address::Agent(agent) => agent.to_string(),
            Address::Capability(capability) => capability.to_string(),
        };
        Ok(Self { name: name.unwrap_or(own), who, task, approachable })
    }
}

impl Graph {
    /// The graph in the input of a task, complete and checked; or what is wrong with it, for people.
    pub fn read(input: Option<&Value>) -> Result<Self, String> {
        let input = input.ok_or("a session needs its graph: `seats`, or `stages`")?;
        let mut graph: Self = serde_json::from_value(input.clone()).map_err(|error| error.to_string())?;
        if !graph.seats.is_empty() && !graph.stages.is_empty() {
            return Err("a session has `seats` for one round table, or `stages`, not both".to_owned());
        }
        if !graph.seats.is_empty() {
            let seats = std::mem::take(&mut graph.seats);
            graph.stages.push(Stage::round_table(seats));
        }
        for seat in graph.stages.iter_mut().flat_map(|stage| &mut stage.seats) {
            if let Address::Agent(named) = &seat.who
                && let Some(agent) = graph.cast.get(named.as_str())
            {
                let agent = AgentId::parse(agent).map_err(|error| format!("cast {named}: {error}"))?;
                seat.who = Address::Agent(agent);
            }
        }
        super::checks::check(&graph)?;
        Ok(graph)
    }

    /// The place of the stage `id`.
    pub fn place(&self, id: &str) -> Option<usize> {
        self.stages.iter().position(|stage| stage.id == id)
    }

    /// What the error about an unknown stage suggests.
    pub(super) fn unknown_stage(&self, id: &str) -> String {
        let known = self.stages.iter().map(|stage| stage.id.as_str());
        let hint = nearest(id, known).map(|like| format!("; is it {like}?")).unwrap_or_default();
        format!("there is no stage {id:?}{hint}")
    }

    /// The places of the stages that stage `place` comes after, directly or not.
    pub fn before(&self, place: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = vec![place];
        while let Some(at) = open.pop() {
            let after = self.stages.get(at).map(|stage| stage.after.as_slice()).unwrap_or_default();
            for before in after.iter().filter_map(|id| self.place(id)) {
                if found.insert(before) {
                    open.push(before);
                }
            }
        }
        found
    }

    /// The stage to which the stage `place` goes back with `label`: itself, or one before it. `None` if it goes on.
    pub(super) fn goes_back(&self, place: usize, label: &str) -> Option<usize> {
        let target = self.place(self.stages.get(place)?.next.get(label)?)?;
        (target == place || self.before(place).contains(&target)).then_some(target)
    }

    /// The agents that are named as seats.
    pub fn agents(&self) -> impl Iterator<Item = &AgentId> {
        self.stages.iter().flat_map(|stage| &stage.seats).filter_map(|seat| match &seat.who {
            Address::Agent(agent) => Some(agent),
            Address::Capability(_) => None,
        })
    }
}

impl Stage {
    /// A round table of `seats`.
    fn round_table(seats: Vec<Seat>) -> Self {
        Self {
            id: "table".to_owned(),
            task: None,
            after: Vec::new(),
            seats,
            order: SeatOrder::Turns,
            rounds: thirty(),
            until: StageLimit::default(),
            at_least: 0,
            needs: StageNeeds::All,
            next: BTreeMap::new(),
            loops: 0,
            retries: once(),
            gate: Vec::new(),
        }
    }

    /// The time after which it ends.
    pub(super) fn time(&self) -> Option<Duration> {
        self.until.time.map(Eta::duration)
    }
}
