//! What a graph must be, before a session is accepted. Everything that is wrong is named.

use super::{
    super::names::TEAM, BuiltInStage, ChildTerms, Graph, GraphFault, MAX_FINDINGS, MAX_ROUNDS, MAX_SEATS,
    MAX_STAGES, PLANNED, SeatOrder, Stage, StageProduct, limits::MAX_SIDE,
};
use std::collections::BTreeSet;

/// The longest name of a stage, a seat or a label, bytes.
const MAX_NAME: usize = 64;

/// What is wrong with `graph`, whose stages have the keys that `key` says.
pub(super) fn check(graph: &Graph, key: &dyn Fn(usize) -> String) -> Vec<GraphFault> {
    let mut found = Vec::new();
    let Graph { stages, budget, .. } = graph;
    if stages.is_empty() {
        found.push(GraphFault::new("", "a session needs `seats`, `phases`, `stages`, or a `preset`"));
    }
    let used =
        [("turns", budget.turns() == 0), ("tokens", budget.tokens() == 0), ("time", budget.time().0 == 0)];
    for (name, _) in used.iter().filter(|(_, is_zero)| *is_zero) {
        found.push(GraphFault::new(format!("budget.{name}"), "must be more than 0"));
    }
    if stages.len() > MAX_STAGES {
        found.push(GraphFault::new("stages", format!("{} stages, the limit is {MAX_STAGES}", stages.len())));
        return found;
    }
    let before = found.len();
    for (place, stage) in stages.iter().enumerate() {
        let lists = [("after", stage.after.len()), ("next", stage.next.len())];
        for (name, length) in lists.into_iter().filter(|(_, length)| *length > MAX_STAGES) {
            let what = format!("{length} stages, the limit is {MAX_STAGES}");
            found.push(GraphFault::new(name, what).below(&key(place)));
        }
    }
    // Each is compared with each below.
    if found.len() > before {
        return found;
    }
    let mut ids = BTreeSet::new();
    for (place, stage) in stages.iter().enumerate() {
        let mut wrong = Vec::new();
        wrong.extend(name_fault("id", "a stage", &stage.id));
        if !ids.insert(stage.id.as_str()) {
            wrong.push(GraphFault::new("id", format!("two stages have the id {:?}", stage.id)));
        }
        check_stage(graph, place, stage, &mut wrong);
        found.extend(wrong.into_iter().map(|fault| fault.below(&key(place))));
    }
    if let Some((place, way)) = cycle(graph) {
        let what = format!("the stages {} wait for each other", way.join(" → "));
        found.push(GraphFault::new("after", what).below(&key(place)));
    }
    found
}

/// What is wrong with the built-in stages of `graph`.
pub(super) fn check_built_in(graph: &Graph, key: &dyn Fn(usize) -> String) -> Vec<GraphFault> {
    let does_before = |stage: &Stage, what: BuiltInStage| {
        let before = stage.after.iter().filter_map(|id| graph.place(id));
        before.filter(|place| graph.does(*place) == Some(what)).count()
    };
    let mut found = Vec::new();
    for (place, stage) in graph.stages.iter().enumerate() {
        let wrong = match stage.does {
            Some(_) if !stage.seats.is_empty() => Some(("does", "a stage has `does` or `seats`, not both")),
            Some(BuiltInStage::Dispatch) if does_before(stage, BuiltInStage::Match) != 1 => {
                Some(("does", "`does: dispatch` comes `after` one stage that does match"))
            }
            Some(BuiltInStage::Aggregate) if does_before(stage, BuiltInStage::Dispatch) != 1 => {
                Some(("does", "`does: aggregate` comes `after` one stage that does dispatch"))
            }
            Some(BuiltInStage::Dispatch | BuiltInStage::Aggregate) | None if stage.discovery.is_some() => {
                Some(("discovery", "`discovery` is of a stage that does match"))
            }
            Some(_) | None => None,
        };
        let terms = stage.discovery.as_ref().and_then(|terms| terms.check().err());
        let wrong = wrong.map(|(name, what)| GraphFault::new(name, what));
        let wrong = wrong.or_else(|| terms.map(|what| GraphFault::new("discovery", what)));
        found.extend(wrong.map(|fault| fault.below(&key(place))));
    }
    found
}

fn check_stage(graph: &Graph, place: usize, stage: &Stage, found: &mut Vec<GraphFault>) {
    let mut wrong = |key: &str, what: String| found.push(GraphFault::new(key, what));
    if stage.seats.is_empty() && stage.does != Some(BuiltInStage::Dispatch) {
        wrong("seats", "a stage needs a seat".to_owned());
    }
    if !stage.seats.is_empty() && stage.seats.iter().all(|seat| seat.role.watches()) {
        wrong("seats", "all its seats watch, and none works".to_owned());
    }
    if stage.seats.len() > MAX_SEATS {
        wrong("seats", format!("{} seats, the limit is {MAX_SEATS}", stage.seats.len()));
    }
    for (name, rounds) in [("rounds", stage.rounds), ("quiet", stage.quiet)] {
        if !(1..=MAX_ROUNDS).contains(&rounds) {
            wrong(name, format!("1 to {MAX_ROUNDS}, not {rounds}"));
        }
    }
    if let Some(side) = stage.side {
        if stage.order != SeatOrder::Turns {
            wrong("side", "needs `order: turns`".to_owned());
        }
        if stage.sealed {
            wrong("side", "the seats of a sealed stage can't address each other".to_owned());
        }
        if !(2..=MAX_SIDE).contains(&side.max) {
            wrong("side.max", format!("2 to {MAX_SIDE}, not {}", side.max));
        }
        if side.time.0 == 0 {
            wrong("side.time", "must be more than 0".to_owned());
        }
    }
    if stage.until.findings.is_some_and(|findings| findings > MAX_FINDINGS) {
        wrong("until.findings", format!("at most {MAX_FINDINGS} findings"));
    }
    if stage.children != ChildTerms::default() && stage.makes != Some(StageProduct::WorkPlan) {
        wrong("children", "it plans no work; say `makes: work-plan`".to_owned());
    }
    check_seats(stage, found);
    check_ways(graph, place, stage, found);
}

fn check_seats(stage: &Stage, found: &mut Vec<GraphFault>) {
    let mut names = BTreeSet::new();
    for (at, seat) in stage.seats.iter().enumerate() {
        let key = format!("seats[{at}]");
        found.extend(name_fault(&key, "a seat", &seat.name));
        if seat.name == TEAM {
            let what = format!("no seat may be called {:?}: that is all seats", seat.name);
            found.push(GraphFault::new(&key, what));
        }
        if !names.insert(seat.name.as_str()) {
            let what = format!("two seats are called {:?}; say `name` to tell them apart", seat.name);
            found.push(GraphFault::new(&key, what));
        }
    }
}

/// What is wrong with the stages that come before it, and with those that follow on labels.
fn check_ways(graph: &Graph, place: usize, stage: &Stage, found: &mut Vec<GraphFault>) {
    for (at, id) in stage.after.iter().enumerate() {
        let named = id.strip_suffix(PLANNED).unwrap_or(id);
        let before = graph.place(named).and_then(|place| graph.stages.get(place));
        let wrong = match before {
            None => Some(graph.unknown_stage(named)),
            Some(before) if named != id && before.makes != Some(StageProduct::WorkPlan) => {
                Some(format!("{id}: {named} plans no work; say `makes: work-plan` there"))
            }
            Some(_) => None,
        };
        found.extend(wrong.map(|what| GraphFault::new(format!("after[{at}]"), what)));
    }
    let before = graph.before(place);
    for (label, target) in &stage.next {
        let key = format!("next.{label}");
        found.extend(name_fault("next", "a label", label));
        let Some(target_place) = graph.place(target) else {
            found.push(GraphFault::new(key, graph.unknown_stage(target)));
            continue;
        };
        let goes_back = target_place == place || before.contains(&target_place);
        let follows =
            || graph.stages.get(target_place).is_some_and(|to| graph.places_before(to).contains(&place));
        let wrong = match goes_back {
            true if stage.loops == 0 => Some(format!("goes back to {target}; `loops` says how often it may")),
            false if !follows() => Some(format!("{target} does not come after {}", stage.id)),
            true | false => None,
        };
        found.extend(wrong.map(|what| GraphFault::new(key, what)));
    }
}

fn name_fault(key: &str, what: &str, name: &str) -> Option<GraphFault> {
    let is_accepted = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_name = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_accepted);
    (!is_name).then(|| {
        let shown: String = name.chars().take(80).collect();
        let what = format!("{what} is called {shown:?}: a name has 1 to {MAX_NAME} letters, digits, - and _");
        GraphFault::new(key, what)
    })
}

/// Stages that wait for each other, in order, if there are any, and the place of the first one.
fn cycle(graph: &Graph) -> Option<(usize, Vec<String>)> {
    let first = (0..graph.stages.len()).find(|place| graph.before(*place).contains(place))?;
    let mut way = vec![first];
    loop {
        let at = *way.last()?;
        let waits = graph.places_before(graph.stages.get(at)?);
        let next = waits.into_iter().find(|next| *next == first || graph.before(*next).contains(&first))?;
        if let Some(start) = way.iter().position(|seen| *seen == next) {
            way.drain(..start);
            way.push(next);
            let ids = way.iter().filter_map(|place| Some(graph.stages.get(*place)?.id.clone()));
            return Some((*way.first()?, ids.collect()));
        }
        way.push(next);
    }
}
