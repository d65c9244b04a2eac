//! Work plans: a stage answers with items of work, and each becomes a stage of its own (SEEDS §1.7).

use super::{
    Session, SessionAction, SessionStep,
    graph::{Graph, Seat, SeatHolder, Stage, StageProduct},
    outcome::{MAX_TRIED, OUTCOME_REVIEW, OUTCOME_SPEC, OutcomeSpec},
    state::{StageRun, StageState, WorkItem},
};
use crate::turn::RequestResult;
use protocol::{artifact::Artifact, ids::Address};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The most items of a plan.
const MAX_ITEMS: usize = 32;
/// The most items of all plans of a session, those that were replaced included.
const MAX_PLANNED: usize = 128;
/// The longest text of an item, bytes.
const MAX_TEXT: usize = 4 * 1024;
/// The most bytes of the texts of a plan.
const MAX_TEXTS: usize = 32 * 1024;

/// What the turns of a stage are told that makes a work plan.
const WORK_PLAN: &str = include_str!("prompts/work-plan.txt");

impl StageProduct {
    /// What the turns of the stage are told about the form of their answer.
    pub(super) fn instructions(self) -> &'static str {
        match self {
            Self::WorkPlan => WORK_PLAN.trim_ascii(),
            Self::OutcomeSpec => OUTCOME_SPEC.trim_ascii(),
            Self::OutcomeReview => OUTCOME_REVIEW.trim_ascii(),
        }
    }
}

/// An item that has become a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlannedStage {
    /// The name of the stage: that of its plan, and its own.
    stage: String,
    /// Its dependencies are names of stages.
    #[serde(flatten)]
    item: WorkItem,
}

/// A plan as it was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WorkPlan {
    items: Vec<WorkItem>,
    /// What was left out or changed, and why.
    pub(super) notes: Vec<String>,
}

impl WorkPlan {
    /// The plan in the answer of a turn: the first JSON array of objects in its text, or in its artifacts. Items that can't be
    /// used are left out and noted. Fails if none is left.
    pub(super) fn read(
        text: &str,
        artifacts: &[Artifact],
        cast: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let of_artifacts = artifacts.iter().map(Artifact::as_text);
        let found =
            first_array(text).or_else(|| of_artifacts.into_iter().find_map(|text| first_array(&text)));
        let found = found.ok_or("the answer has no JSON array of items of work")?;
        let mut plan = Self::default();
        let (mut wanted, mut bytes) = (Vec::new(), 0);
        for (place, item) in found.iter().enumerate() {
            let read = WorkItem::read(item, place, cast).and_then(|(item, after)| {
                bytes += item.task.len();
                match plan.items.len() < MAX_ITEMS && bytes <= MAX_TEXTS {
                    true => Ok((item, after)),
                    false => {
                        Err(format!("a plan has at most {MAX_ITEMS} items and {MAX_TEXTS} bytes of text"))
                    }
                }
            });
            match read {
                Ok((item, after)) => {
                    plan.add(item);
                    wanted.push((place, after));
                }
                Err(why) => {
                    let id = item
                        .get("id")
                        .and_then(Value::as_str)
                        .map(|id| format!(" ({id})"))
                        .unwrap_or_default();
                    plan.notes.push(format!("item {}{id} is left out: {why}", place + 1));
                }
            }
        }
        if plan.items.is_empty() {
            return Err(format!("the plan has no item that can be used: {}", plan.notes.join("; ")));
        }
        plan.connect(&wanted);
        plan.serialise_files();
        Ok(plan)
    }

    /// Adds an item under a name that no other has.
    fn add(&mut self, mut item: WorkItem) {
        item.id = free_name(&item.id, |name| self.items.iter().any(|known| known.id == name));
        self.items.push(item);
    }

    /// Adds the dependencies, in the order of the plan. One that closes a cycle is dropped.
    fn connect(&mut self, wanted: &[(usize, Vec<Value>)]) {
        for (at, (_, after)) in wanted.iter().enumerate() {
            for named in after {
                let found = match (named.as_str(), named.as_u64()) {
                    (Some(id), _) => self.items.iter().position(|item| item.id == slug(id)),
                    (None, Some(number)) => wanted
                        .iter()
                        .position(|(place, _)| u64::try_from(*place).is_ok_and(|at| at == number)),
                    (None, None) => None,
                };
                let why = match found {
                    None => "there is no such item",
                    Some(before) if before == at => "an item can't wait for itself",
                    Some(before) if self.comes_before(at, before) => "the two would wait for each other",
                    Some(before) => {
                        self.edge(at, before);
                        continue;
                    }
                };
                let Some(item) = self.items.get(at) else { continue };
                self.notes.push(format!("item {}: `after` {named} is dropped: {why}", item.id));
            }
        }
    }

    /// Items that write the same file are done one after the other.
    fn serialise_files(&mut self) {
        for later in 0..self.items.len() {
            for earlier in 0..later {
                let (Some(a), Some(b)) = (self.items.get(earlier), self.items.get(later)) else { continue };
                let Some(file) = a.files.iter().find(|file| b.files.contains(file)) else { continue };
                if self.comes_before(earlier, later) || self.comes_before(later, earlier) {
                    continue;
                }
                self.notes.push(format!("item {} waits for {}: both write {file}", b.id, a.id));
                self.edge(later, earlier);
            }
        }
    }

    fn edge(&mut self, at: usize, before: usize) {
        let Some(id) = self.items.get(before).map(|item| item.id.clone()) else { return };
        if let Some(item) = self.items.get_mut(at)
            && !item.after.contains(&id)
        {
            item.after.push(id);
        }
    }

    /// Whether item `before` is done before item `later`.
    fn comes_before(&self, before: usize, later: usize) -> bool {
        let (mut open, mut seen) = (vec![later], BTreeSet::new());
        while let Some(at) = open.pop() {
            for id in self.items.get(at).map(|item| item.after.as_slice()).unwrap_or_default() {
                let Some(found) = self.items.iter().position(|item| item.id == *id) else { continue };
                if found == before {
                    return true;
                }
                if seen.insert(found) {
                    open.push(found);
                }
            }
        }
        false
    }
}

impl WorkItem {
    /// The item, and what it comes after as the plan names it.
    fn read(
        item: &Value,
        place: usize,
        cast: &BTreeMap<String, String>,
    ) -> Result<(Self, Vec<Value>), String> {
        if !item.is_object() {
            return Err("it is no object".to_owned());
        }
        let text = |name: &str| {
            item.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
        };
        let list = |name: &str| match item.get(name) {
            Some(Value::Array(list)) => list.clone(),
            Some(Value::Null) | None => Vec::new(),
            Some(one) => vec![one.clone()],
        };
        let who = match (text("agent"), text("capability")) {
            (Some(agent), None) => cast.get(agent).map_or(agent, String::as_str).to_owned(),
            (None, Some(capability)) => format!("capability:{capability}"),
            (None, None) => return Err("it names neither `agent` nor `capability`".to_owned()),
            (Some(_), Some(_)) => return Err("it names `agent` and `capability`".to_owned()),
        };
        let who = Address::try_from(who).map_err(|error| error.to_string())?;
        let files = list("files").iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
        let labelled = |name: &str, label: &str| text(name).map(|text| format!("{label}: {text}"));
        let named = (!files.is_empty()).then(|| format!("Files: {}", files.join(", ")));
        let parts = [
            text("title").map(str::to_owned),
            text("task").map(str::to_owned),
            labelled("charter", "Charter"),
            named,
            labelled("accept", "Accepted when"),
        ];
        if text("title").is_none() && text("task").is_none() {
            return Err("it has neither `title` nor `task`".to_owned());
        }
        let task = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        if task.len() > MAX_TEXT {
            return Err(format!("its text has {} bytes, the limit is {MAX_TEXT}", task.len()));
        }
        let id = match slug(text("id").or(text("title")).unwrap_or_default()) {
            id if id.is_empty() => format!("item-{}", place + 1),
            id => id,
        };
        let numbers = list("outcomes");
        let numbers = numbers.iter().filter_map(Value::as_u64).map(usize::try_from);
        let outcomes = numbers.filter_map(Result::ok).collect();
        Ok((Self { id, task, who, after: Vec::new(), files, outcomes }, list("after")))
    }
}

impl PlannedStage {
    /// The name of the stage.
    pub(super) fn stage_id(&self) -> &str {
        &self.stage
    }

    /// The files that it writes.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.item.files.iter().map(String::as_str)
    }

    /// The stage, as the plan wants its work done.
    fn stage(&self, plan: &Stage) -> Stage {
        let WorkItem { task, who, after, .. } = &self.item;
        let name = match who {
            Address::Agent(agent) => agent.to_string(),
            Address::Capability(capability) => capability.to_string(),
        };
        let seat = Seat { approachable: true, ..Seat::unapproachable(name, SeatHolder::Peer(who.clone())) };
        Stage {
            task: Some(task.clone()),
            after: after.clone(),
            brief: plan.children.brief.clone(),
            stall: Some(plan.children.stall),
            retries: plan.children.retries,
            ..Stage::of_seats(&self.stage, vec![seat])
        }
    }
}

/// The first JSON array in a text that holds an object.
fn first_array(text: &str) -> Option<Vec<Value>> {
    let begins = text.match_indices('[').map(|(at, _)| at).take(MAX_TRIED);
    begins
        .filter_map(|at| {
            let mut values = serde_json::Deserializer::from_str(text.get(at..)?).into_iter::<Vec<Value>>();
            values.next()?.ok()
        })
        .find(|array| array.iter().any(Value::is_object))
}

/// A name of a stage or seat: small letters, digits and `-`, at most 40.
fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-");
    joined.chars().take(40).collect::<String>().trim_end_matches('-').to_owned()
}

/// `name`, or the first of `name-2`, `name-3`, … that is not taken.
fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let later = (2u32..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(later).find(|name| !is_taken(name)).unwrap_or_default()
}

impl Session {
    /// The stages that plans have made, in the order of their places after those of the graph.
    pub fn planned_stages(&self, graph: &Graph) -> Vec<Stage> {
        let stage = |planned: &PlannedStage| {
            let plan = planned.stage.split_once('/')?.0;
            Some(planned.stage(graph.stages.get(graph.place(plan)?)?))
        };
        self.planned.iter().filter_map(stage).collect()
    }

    /// Reads what the stage makes from the result of a turn; a result from which it can't be read is a failure.
    pub(super) fn read_product(
        &mut self,
        step: &SessionStep<'_>,
        (place, stage): (usize, &Stage),
        mut result: RequestResult,
    ) -> RequestResult {
        let has_passed = result.seat.as_ref().is_some_and(|end| end.passed);
        let Some(makes) = stage.makes.filter(|_| result.ok && !has_passed) else { return result };
        let made = match makes {
            StageProduct::WorkPlan => self.read_plan(step, (place, stage), &result).map(|()| None),
            StageProduct::OutcomeSpec => self.read_spec(stage, &result),
            StageProduct::OutcomeReview => self.read_review(&result),
        };
        match made {
            Ok(Some(text)) => result.text = text,
            Ok(None) => {}
            Err(why) => (result.ok, result.text) = (false, why),
        }
        result
    }

    fn read_plan(
        &mut self,
        step: &SessionStep<'_>,
        (place, stage): (usize, &Stage),
        result: &RequestResult,
    ) -> Result<(), String> {
        let WorkPlan { items, notes } = WorkPlan::read(&result.text, &result.artifacts, &step.cx.graph.cast)?;
        notes.into_iter().for_each(|note| self.note(format!("stage {}: {note}", stage.id)));
        if let Some(spec) = &self.spec {
            let is_served = |number: &usize| {
                items.iter().any(|item| item.outcomes.is_empty() || item.outcomes.contains(number))
            };
            let unserved: Vec<String> = (1..=spec.outcome.len())
                .filter(|number| !is_served(number))
                .map(|number| number.to_string())
                .collect();
            if !unserved.is_empty() {
                self.note(format!("stage {}: no item serves outcome {}", stage.id, unserved.join(", ")));
            }
        }
        if let Some(run) = self.stages.get_mut(place) {
            run.plan = items;
        }
        Ok(())
    }

    /// Reads the outcome spec; returns it as people read it.
    fn read_spec(&mut self, stage: &Stage, result: &RequestResult) -> Result<Option<String>, String> {
        self.verdicts.clear();
        let of_artifacts = result.artifacts.iter().map(Artifact::as_text);
        let texts = std::iter::once(result.text.clone()).chain(of_artifacts);
        let text = texts.into_iter().find(|text| text.contains('{')).unwrap_or_default();
        self.spec = OutcomeSpec::read(&text)?;
        if self.spec.is_none() {
            self.note(format!("stage {}: its outcome spec is prose, without fields", stage.id));
        }
        Ok(self.spec.as_ref().map(OutcomeSpec::text))
    }

    /// Reads the verdicts of a review, if there is something to judge by; returns them as people read them.
    fn read_review(&mut self, result: &RequestResult) -> Result<Option<String>, String> {
        let Some(spec) = &self.spec else { return Ok(None) };
        let (verdicts, rest) = spec.read_review(&result.text)?;
        let text = [spec.verdicts_text(&verdicts), rest].join("\n\n");
        self.verdicts = verdicts;
        Ok(Some(text.trim_end().to_owned()))
    }

    /// What a turn of the stage is told of the outcome spec: all, or for planned work the part that it serves.
    pub(super) fn spec_for(&self, stage: &Stage) -> Option<Value> {
        let planned = self.planned.iter().find(|planned| planned.stage == stage.id);
        let numbers = planned.map(|planned| planned.item.outcomes.as_slice()).unwrap_or_default();
        let is_own = matches!(stage.makes, Some(StageProduct::OutcomeSpec));
        self.spec.as_ref().filter(|_| !is_own && stage.does.is_none()).map(|spec| spec.part(numbers))
    }

    /// The plan of a stage that is done becomes stages.
    pub(super) fn expand(&mut self, step: &mut SessionStep<'_>, place: usize) {
        let Some(plan) = step.cx.graph.stages.get(place) else { return };
        let items = self.stages.get_mut(place).map(|run| std::mem::take(&mut run.plan)).unwrap_or_default();
        if items.is_empty() {
            return;
        }
        if self.planned.len() + items.len() > MAX_PLANNED {
            let why = format!("the plans of a session have at most {MAX_PLANNED} items in all");
            if let Some(run) = self.stages.get_mut(place) {
                (run.state, run.label, run.reason) = (StageState::Failed, None, Some(why));
            }
            return;
        }
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for item in &items {
            let name = free_name(&format!("{}/{}", plan.id, item.id), |name| {
                let is_used = |used: &String| used == name;
                self.planned.iter().any(|planned| planned.stage == name) || names.values().any(is_used)
            });
            names.insert(item.id.clone(), name);
        }
        let count = items.len();
        for mut item in items {
            let Some(stage) = names.get(&item.id).cloned() else { continue };
            item.after = item.after.iter().filter_map(|id| names.get(id)).cloned().collect();
            self.planned.push(PlannedStage { stage, item });
            self.stages.push(StageRun::default());
        }
        self.has_grown = true;
        let shown = format!("stage {}: {count} items of work", plan.id);
        step.actions.push(SessionAction::Show(shown));
    }

    /// The work of an earlier plan is not done any more.
    pub(super) fn drop_plan(&mut self, step: &mut SessionStep<'_>, place: usize) {
        let graph = step.cx.graph;
        for child in graph.children(place) {
            self.stop_turns(step, child, "its plan is made again");
            self.reset(graph, child);
            if let Some(run) = self.stages.get_mut(child) {
                *run =
                    StageRun { iteration: run.iteration, state: StageState::Skipped, ..StageRun::default() };
                run.reason = Some("its plan was made again".to_owned());
            }
        }
    }

    /// The planned stages whose files or names a text mentions; all that were not replaced, if it mentions none.
    pub(super) fn mentioned_work(&self, step: &SessionStep<'_>, text: &str) -> Vec<usize> {
        let graph = step.cx.graph;
        let first = graph.stages.len().saturating_sub(self.planned.len());
        let is_open =
            |place: usize| self.stages.get(place).is_some_and(|run| run.state != StageState::Skipped);
        let current = self.planned.iter().enumerate().map(|(at, planned)| (first + at, planned));
        let current: Vec<_> = current.filter(|(place, _)| is_open(*place)).collect();
        let words: BTreeSet<&str> = text
            .split(|letter: char| letter.is_whitespace() || "\"'`,;:()".contains(letter))
            .map(|word| word.trim_end_matches('.'))
            .collect();
        let is_named = |planned: &PlannedStage| {
            let id = planned.stage.as_str();
            let short = id.split_once('/').map_or(id, |(_, short)| short);
            // An item of a plan that was made again may have another name in the graph than in the plan.
            [id, short, planned.item.id.as_str()].iter().any(|name| words.contains(name))
                || planned.item.files.iter().any(|file| words.contains(file.as_str()))
        };
        let named: Vec<usize> =
            current.iter().filter(|(_, planned)| is_named(planned)).map(|(place, _)| *place).collect();
        match named.is_empty() {
            true => current.into_iter().map(|(place, _)| place).collect(),
            false => named,
        }
    }
}

#[cfg(test)]
impl WorkPlan {
    /// The items by name, and what each waits for.
    pub(super) fn edges(&self) -> Vec<(String, Vec<String>)> {
        self.items.iter().map(|item| (item.id.clone(), item.after.clone())).collect()
    }
}
