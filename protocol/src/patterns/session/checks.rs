//! What a graph must be, before a session is accepted. Everything that is wrong is named.

use super::graph::{Graph, MAX_ROUNDS, MAX_SEATS, MAX_STAGES, Stage};
use std::collections::BTreeSet;

/// The longest name of a stage, a seat or a label, bytes.
const MAX_NAME: usize = 64;

/// The first thing that is wrong with `graph`.
pub(super) fn check(graph: &Graph) -> Result<(), String> {
    if graph.stages.is_empty() {
        return Err("a session needs `seats`, or `stages`".to_owned());
    }
    if graph.stages.len() > MAX_STAGES {
        return Err(format!("{} stages, the limit is {MAX_STAGES}", graph.stages.len()));
    }
    if graph.budget.turns == 0 || graph.budget.tokens == 0 || graph.budget.time.0 == 0 {
        return Err("budget: turns, tokens and time are more than 0".to_owned());
    }
    let mut ids = BTreeSet::new();
    for stage in &graph.stages {
        check_name("a stage", &stage.id)?;
        if !ids.insert(stage.id.as_str()) {
            return Err(format!("two stages have the id {:?}", stage.id));
        }
    }
    for (place, stage) in graph.stages.iter().enumerate() {
        check_stage(graph, place, stage).map_err(|why| format!("stage {}: {why}", stage.id))?;
    }
    match cycle(graph) {
        Some(way) => Err(format!("the stages {} wait for each other", way.join(" → "))),
        None => Ok(()),
    }
}

fn check_stage(graph: &Graph, place: usize, stage: &Stage) -> Result<(), String> {
    if stage.seats.is_empty() {
        return Err("it has no seats".to_owned());
    }
    if stage.seats.len() > MAX_SEATS {
        return Err(format!("{} seats, the limit is {MAX_SEATS}", stage.seats.len()));
    }
    let mut names = BTreeSet::new();
    for seat in &stage.seats {
        check_name("a seat", &seat.name)?;
        if seat.name == super::seat::TEAM {
            return Err(format!("no seat may be called {:?}: that is all seats", seat.name));
        }
        if !names.insert(seat.name.as_str()) {
            return Err(format!("two seats are called {:?}; say `name` to tell them apart", seat.name));
        }
    }
    if !(1..=MAX_ROUNDS).contains(&stage.rounds) {
        return Err(format!("rounds: 1 to {MAX_ROUNDS}, not {}", stage.rounds));
    }
    if let Some(unknown) = stage.after.iter().find(|id| graph.place(id).is_none()) {
        return Err(format!("after: {}", graph.unknown_stage(unknown)));
    }
    let before = graph.before(place);
    for (label, target) in &stage.next {
        check_name("a label", label)?;
        let Some(target_place) = graph.place(target) else {
            return Err(format!("next: {}", graph.unknown_stage(target)));
        };
        let goes_back = target_place == place || before.contains(&target_place);
        if goes_back && stage.loops == 0 {
            return Err(format!("next: {label} goes back to {target}; `loops` says how often it may"));
        }
        if !goes_back
            && !graph.stages.iter().any(|later| later.id == *target && later.after.contains(&stage.id))
        {
            return Err(format!("next: {target} does not come after {}", stage.id));
        }
    }
    Ok(())
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    let is_accepted = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_accepted) {
        true => Ok(()),
        false => {
            let shown: String = name.chars().take(80).collect();
            Err(format!("{what} is called {shown:?}: a name has 1 to {MAX_NAME} letters, digits, - and _"))
        }
    }
}

/// Stages that wait for each other, in order, if there are any.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    let first = (0..graph.stages.len()).find(|place| graph.before(*place).contains(place))?;
    let mut way = vec![first];
    loop {
        let at = *way.last()?;
        let waits = graph.stages.get(at)?.after.iter().filter_map(|id| graph.place(id));
        let next = waits.into_iter().find(|next| *next == first || graph.before(*next).contains(&first))?;
        if let Some(start) = way.iter().position(|seen| *seen == next) {
            way.drain(..start);
            way.push(next);
            return Some(way.iter().filter_map(|place| Some(graph.stages.get(*place)?.id.clone())).collect());
        }
        way.push(next);
    }
}
