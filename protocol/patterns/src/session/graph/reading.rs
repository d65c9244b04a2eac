//! Reads a graph: each stage and each seat on its own, so that one fault hides no other; then what is wrong between them.

use super::{
    Graph, Seat, SeatHolder, SessionPreset, Stage, checks,
    faults::{self, GraphFault, GraphFaults},
};
use protocol::ids::{Address, AgentId};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

impl Graph {
    /// The graph in the input of a task, complete and checked; or everything that is wrong with it.
    pub fn read(input: Option<&Value>) -> Result<Self, GraphFaults> {
        let missing =
            || GraphFault::new("", "a session needs its graph: `seats`, `phases`, `stages`, or a `preset`");
        let (mut graph, keys) = parts(input.ok_or_else(missing)?.clone())?;
        let has_seats = !graph.seats.is_empty() && graph.preset != Some(SessionPreset::RoundTable);
        let kinds = [graph.preset.is_some(), has_seats, !graph.stages.is_empty()];
        if kinds.iter().filter(|is_there| **is_there).count() > 1 {
            let why = "a session has one of `seats` for one round table, `phases`, `stages`, and `preset`";
            return Err(GraphFault::new("", why).into());
        }
        // The keys of stages that a preset has, or a round table, are those of the graph.
        let key = |place: usize| keys.get(place).cloned().unwrap_or_default();
        graph.add_stages()?;
        let mut found = checks::check_built_in(&graph, &key);
        graph.stages.iter_mut().for_each(Stage::add_built_in_seat);
        graph.budget.scale(&graph.stages);
        found.extend(graph.resolve_cast());
        found.extend(checks::check(&graph, &key));
        match graph.autopilot.take().map(|autopilot| autopilot.resolved(&graph)).transpose() {
            Ok(autopilot) => graph.autopilot = autopilot,
            Err(fault) => found.push(fault.below("autopilot")),
        }
        if found.is_empty() { Ok(graph) } else { Err(GraphFaults(found)) }
    }

    /// Adds the stages of its preset, or the round table.
    fn add_stages(&mut self) -> Result<(), GraphFault> {
        let discovery = self.discovery.take();
        if discovery.is_some() && self.preset != Some(SessionPreset::Foreign) {
            return Err(GraphFault::new("discovery", "is of the preset foreign, or of a stage"));
        }
        let seats = std::mem::take(&mut self.seats);
        match self.preset {
            None if seats.is_empty() => {}
            None => self.stages.push(Stage::round_table(seats)),
            Some(SessionPreset::RoundTable) => {
                let seats = if seats.is_empty() { self.seats_of_cast()? } else { seats };
                self.stages.push(Stage::round_table(seats));
            }
            Some(SessionPreset::Workshop) => self.add_preset(include_str!("presets/workshop.json"))?,
            Some(SessionPreset::Brainstorm) => self.add_preset(include_str!("presets/brainstorm.json"))?,
            Some(SessionPreset::Foreign) => self.stages = Stage::foreign_team(discovery),
        }
        Ok(())
    }

    /// A seat for each name of the cast, in their order.
    fn seats_of_cast(&self) -> Result<Vec<Seat>, GraphFault> {
        let seats = self.cast.keys().map(|name| Seat::read(Value::from(name.as_str())));
        seats.collect::<Result<_, _>>().map_err(|fault| fault.below("cast"))
    }

    /// Adds the stages of a preset whose seats are names of the cast.
    fn add_preset(&mut self, text: &str) -> Result<(), GraphFault> {
        let preset: Self =
            serde_json::from_str(text).map_err(|error| GraphFault::new("preset", error.to_string()))?;
        let needed: BTreeSet<&str> = preset.agents().map(AgentId::as_str).collect();
        let missing: Vec<&str> =
            needed.iter().copied().filter(|name| !self.cast.contains_key(*name)).collect();
        if !missing.is_empty() {
            let needed: Vec<&str> = needed.iter().copied().collect();
            let what = format!(
                "the preset needs {} there, each with an agent; there is no {}",
                needed.join(", "),
                missing.join(", ")
            );
            return Err(GraphFault::new("cast", what));
        }
        self.routing = self.routing.or(preset.routing);
        self.stages = preset.stages;
        Ok(())
    }

    /// Replaces the names of its cast in seats by the agents.
    fn resolve_cast(&mut self) -> Vec<GraphFault> {
        let mut found = Vec::new();
        let mut agents = BTreeMap::new();
        for (name, agent) in &self.cast {
            match AgentId::parse(agent) {
                Ok(agent) => drop(agents.insert(name.as_str(), agent)),
                Err(error) => found.push(GraphFault::new(format!("cast.{name}"), error.to_string())),
            }
        }
        for seat in self.stages.iter_mut().flat_map(|stage| &mut stage.seats) {
            if let SeatHolder::Peer(Address::Agent(named)) = &seat.who
                && let Some(agent) = agents.get(named.as_str())
            {
                seat.who = SeatHolder::Peer(Address::Agent(agent.clone()));
            }
        }
        found
    }
}

/// The graph as it is written, and the keys of its stages.
fn parts(mut input: Value) -> Result<(Graph, Vec<String>), GraphFaults> {
    let mut found = Vec::new();
    let (seats, stages) = (taken(&mut input, "seats"), taken(&mut input, "stages"));
    let mut stages: Vec<_> =
        stages.into_iter().enumerate().map(|(at, stage)| (format!("stages[{at}]"), stage)).collect();
    if let Some(phases) = input.as_object_mut().and_then(|input| input.remove("phases")) {
        match stages_of_phases(phases) {
            Ok(phases) if stages.is_empty() => stages = phases,
            Ok(_) => found.push(GraphFault::new("phases", "a session has `phases` or `stages`, not both")),
            Err(fault) => found.push(fault.below("phases")),
        }
    }
    let graph = faults::read::<Graph>(input).map_err(|fault| found.push(fault));
    let seats = seats_of(seats, "", &mut found);
    let keys = stages.iter().map(|(key, _)| key.clone()).collect();
    let stages = stages.into_iter().filter_map(|(key, mut stage)| {
        let seats = taken(&mut stage, "seats");
        let stage = faults::read::<Stage>(stage).map_err(|fault| found.push(fault.below(&key)));
        let seats = seats_of(seats, &key, &mut found);
        stage.ok().map(|stage| Stage { seats, ..stage })
    });
    let stages: Vec<_> = stages.collect();
    match graph {
        Ok(graph) if found.is_empty() => Ok((Graph { seats, stages, ..graph }, keys)),
        Ok(_) | Err(()) => Err(GraphFaults(found)),
    }
}

/// The phases of a table, in their order.
const PHASES: [&str; 3] = ["start", "default", "complete"];

/// The stages of phases, with their keys: a round table for each that is there, one after the other. A phase is a list of seats, or has
/// the members of a stage.
fn stages_of_phases(phases: Value) -> Result<Vec<(String, Value)>, GraphFault> {
    let Value::Object(mut phases) = phases else {
        return Err(GraphFault::new("", format!("has the phases {}, each with seats", PHASES.join(", "))));
    };
    if let Some(unknown) = phases.keys().find(|name| !PHASES.contains(&name.as_str())) {
        let what = format!("unknown phase; there are {}", PHASES.join(", "));
        return Err(GraphFault::new(unknown, what));
    }
    let mut stages: Vec<(String, Value)> = Vec::new();
    for name in PHASES {
        let after = stages.last().map(|(_, before)| before["id"].clone());
        let mut stage = json!({ "id": name, "order": "turns", "after": Vec::from_iter(after) });
        let members = match phases.remove(name) {
            Some(Value::Array(seats)) => Map::from_iter([("seats".to_owned(), Value::Array(seats))]),
            Some(Value::Object(members)) => members,
            Some(_) => {
                return Err(GraphFault::new(name, "is a list of seats, or has the members of a stage"));
            }
            None => continue,
        };
        if let Some(key) = ["id", "after"].into_iter().find(|key| members.contains_key(*key)) {
            return Err(GraphFault::new(format!("{name}.{key}"), "follows from the phase"));
        }
        if let Some(stage) = stage.as_object_mut() {
            stage.extend(members);
            if stage["order"] == "turns" && stage.get("sealed") != Some(&Value::Bool(true)) {
                stage.entry("side").or_insert_with(|| json!({}));
            }
        }
        stages.push((format!("phases.{name}"), stage));
    }
    Ok(stages)
}

/// Takes the members out of a list; what is no list stays.
fn taken(from: &mut Value, name: &str) -> Vec<Value> {
    from.get_mut(name).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default()
}

fn seats_of(seats: Vec<Value>, key: &str, found: &mut Vec<GraphFault>) -> Vec<Seat> {
    let seats = seats
        .into_iter()
        .enumerate()
        .map(|(at, seat)| Seat::read(seat).map_err(|fault| fault.below(&format!("seats[{at}]")).below(key)));
    seats.filter_map(|seat| seat.map_err(|fault| found.push(fault)).ok()).collect()
}
