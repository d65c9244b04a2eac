//! What a session is asked to do: its stages, their seats, and its budget. It is the `input` of the task, read strictly.

mod autopilot;
mod checks;
mod faults;
mod holders;
mod limits;
mod reading;
mod roles;
mod seats;
mod team_terms;

pub use autopilot::Autopilot;
pub use faults::{GraphFault, GraphFaults};
pub use holders::{ForeignSeat, PersonSeat};
pub use limits::{SessionBudget, SideLimits, StageLimit};
pub use roles::{SeatReviews, SeatRole, SessionFindings, SessionRouting};
pub use seats::{Seat, SeatHolder};
pub use team_terms::{TeamTerms, WantedPart};

use protocol::{
    bid::Eta,
    ids::{AgentId, TaskId},
    spaces::brief::BriefLayer,
    words::nearest,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The most stages of a session.
pub const MAX_STAGES: usize = 64;
/// The most seats of a stage.
pub const MAX_SEATS: usize = 16;
/// The most findings that a stage may wait for, and the most of a sealed one.
pub const MAX_FINDINGS: u32 = 256;
/// The most rounds that a stage may ask for.
pub const MAX_ROUNDS: u32 = 1_000;

/// What stands behind the name of a stage for the work that it has planned.
pub(super) const PLANNED: &str = "/*";

/// The graph of a session.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Graph {
    /// The graph from which it has its stages.
    pub preset: Option<SessionPreset>,
    /// Short names for agents.
    pub cast: BTreeMap<String, String>,
    /// The session that it begins again.
    pub restarted_from: Option<TaskId>,
    /// Who may speak to whom; within a stage if absent.
    pub routing: Option<SessionRouting>,
    /// Whose the findings of its seats are.
    pub findings: SessionFindings,
    /// Who answers for the person; nobody if absent.
    pub autopilot: Option<Autopilot>,
    /// The repository of the host's file that it works in.
    pub workspace: Option<String>,
    /// What it may use.
    pub budget: SessionBudget,
    /// The seats of a round table, instead of stages.
    pub seats: Vec<Seat>,
    /// With the preset `foreign`: who is looked for.
    pub discovery: Option<TeamTerms>,
    /// The stages, in the order in which ready ones are begun.
    pub stages: Vec<Stage>,
}

/// Graphs that are ready for use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionPreset {
    /// An outcome spec that a person confirms, a work plan, its work, assembly and review (seed 000). Its cast is `lead` and
    /// `curator`.
    Workshop,
    /// A table at which the seats, or the names of the cast, speak in turn and may talk alone (seed 001).
    RoundTable,
    /// Nine stages from the problem to one answer that a person has chosen (seed 003). Its cast is `lead`, `dreamer`, `researcher`
    /// and `critic`.
    Brainstorm,
    /// Stages that match the request to the skills of agents, ask them at the same time, and make one answer (seed 004).
    Foreign,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stage {
    /// Its name within the session.
    pub id: String,
    /// Its goal, beside that of the session.
    pub task: Option<String>,
    /// The stages that come before it. `plan/*` stands for the stage `plan` and the work that it has planned.
    #[serde(default)]
    pub after: Vec<String>,
    /// Who works in it.
    #[serde(default)]
    pub seats: Vec<Seat>,
    /// What it makes, if the session reads that.
    pub makes: Option<StageProduct>,
    /// How the work that it plans is done.
    #[serde(default)]
    pub children: ChildTerms,
    /// What its turns are told of the space; all, if empty.
    #[serde(default)]
    pub brief: Vec<BriefLayer>,
    /// A turn that reports nothing for so long is ended, and counts as failed.
    #[serde(default, deserialize_with = "faults::optional_time")]
    pub stall: Option<Eta>,
    /// Whether its seats see nothing of each other before it ends.
    #[serde(default)]
    pub sealed: bool,
    /// What it does without seats of its own.
    pub does: Option<BuiltInStage>,
    /// Who is looked for, if it matches.
    pub discovery: Option<TeamTerms>,
    /// Whether its seats work at once or one after the other.
    #[serde(default)]
    pub order: SeatOrder,
    /// The most rounds. In a round every seat that is not done has one turn.
    #[serde(default = "thirty")]
    pub rounds: u32,
    /// After how many rounds in a row it ends in which nobody says or does anything, or all say the same again.
    #[serde(default = "three")]
    pub quiet: u32,
    /// Whether a message to one seat opens a side conversation, and how long it may be.
    pub side: Option<SideLimits>,
    /// When it ends before all its seats are done.
    #[serde(default)]
    pub until: StageLimit,
    /// The least number of findings. With fewer its label is `too-few`.
    #[serde(default)]
    pub at_least: u32,
    /// What it needs of the stages before it, and of its seats.
    #[serde(default)]
    pub needs: StageNeeds,
    /// Which stage follows on which label.
    #[serde(default)]
    pub next: BTreeMap<String, String>,
    /// How often it may go back.
    #[serde(default)]
    pub loops: u32,
    /// How often a turn that failed is tried again.
    #[serde(default = "once")]
    pub retries: u32,
    /// What a person may decide about its result, before the session goes on; nobody is asked, if empty.
    #[serde(default)]
    pub gate: Vec<GateChoice>,
}

/// What a stage does without seats of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BuiltInStage {
    /// It finds agents, and matches what the request asks for to their skills.
    Match,
    /// Each agent that was matched does its part.
    Dispatch,
    /// It makes one answer of what they have done, also if some or all have failed.
    Aggregate,
}

/// What a person may decide at a gate. It is the label of the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GateChoice {
    /// The session goes on.
    Approve,
    /// The stage begins again with what the person says; or the stage that `next` names for it.
    Revise,
    /// The work that the person names, and what depends on it, is done again with what the person says; all of it, if nothing
    /// is named.
    Changes,
    /// Candidates that the person names are not given to later stages, and the gate asks again.
    Kill,
    Decline,
}

impl GateChoice {
    /// Its label.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Revise => "revise",
            Self::Changes => "changes",
            Self::Kill => "kill",
            Self::Decline => "decline",
        }
    }
}

fn thirty() -> u32 {
    30
}

fn three() -> u32 {
    3
}

fn once() -> u32 {
    1
}

/// What a stage makes that the session reads. The turns of the stage are told which form it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageProduct {
    /// Items of work, each of which becomes a stage of its own.
    WorkPlan,
    /// What is to be true at the end, in fields. Later stages are given it.
    OutcomeSpec,
    /// Whether each expected outcome of the spec is met, and by what.
    OutcomeReview,
}

/// How the work that a stage has planned is done.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ChildTerms {
    /// What its turns are told of the space; all, if empty.
    pub brief: Vec<BriefLayer>,
    /// Work that reports nothing for so long is ended, and counts as failed.
    #[serde(deserialize_with = "faults::time")]
    pub stall: Eta,
    /// How often work that failed is tried again.
    pub retries: u32,
}

impl Default for ChildTerms {
    fn default() -> Self {
        Self { brief: Vec::new(), stall: Eta(300_000), retries: 3 }
    }
}

/// In which order the seats of a stage work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SeatOrder {
    #[default]
    Parallel,
    /// One after the other, in the order of the file.
    Turns,
}

/// What a stage needs of the stages before it, and of its seats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StageNeeds {
    #[default]
    All,
    /// All have ended, and one has succeeded. What is made of some is marked as partial.
    Settled,
}

impl Graph {
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

    /// The places of the work that the stage `place` has planned.
    pub(super) fn children(&self, place: usize) -> Vec<usize> {
        let Some(plan) = self.stages.get(place) else { return Vec::new() };
        let is_child = |stage: &Stage| stage.plan() == Some(plan.id.as_str());
        (0..self.stages.len()).filter(|at| self.stages.get(*at).is_some_and(is_child)).collect()
    }

    /// The places of the stages that `stage` comes after, directly.
    pub(super) fn places_before(&self, stage: &Stage) -> Vec<usize> {
        let places = stage.after.iter().flat_map(|id| match id.strip_suffix(PLANNED) {
            Some(plan) => {
                let plan = self.place(plan);
                plan.into_iter().chain(plan.map(|plan| self.children(plan)).unwrap_or_default()).collect()
            }
            None => Vec::from_iter(self.place(id)),
        });
        places.collect()
    }

    /// The places of the stages that stage `place` comes after, directly or not. Planned work comes after its plan.
    pub fn before(&self, place: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = vec![place];
        while let Some(stage) = open.pop().and_then(|at| self.stages.get(at)) {
            let plan = stage.plan().and_then(|plan| self.place(plan));
            for before in self.places_before(stage).into_iter().chain(plan) {
                if found.insert(before) {
                    open.push(before);
                }
            }
        }
        found
    }

    /// The place of the stage that has matched what the stage `place` dispatches.
    pub(super) fn matched_by(&self, place: usize) -> Option<usize> {
        let stage = self.stages.get(place).filter(|stage| stage.does == Some(BuiltInStage::Dispatch))?;
        let mut before = stage.after.iter().filter_map(|id| self.place(id));
        before.find(|place| self.does(*place) == Some(BuiltInStage::Match))
    }

    /// The terms of what the stage `place` dispatches or makes an answer of.
    pub(super) fn terms(&self, place: usize) -> TeamTerms {
        let before = self.before(place);
        let mut stages = before.iter().filter_map(|before| self.stages.get(*before)).rev();
        let matched = stages.find(|stage| stage.does == Some(BuiltInStage::Match));
        matched.and_then(|stage| stage.discovery.clone()).unwrap_or_default()
    }

    /// What the stage `place` does, if it is built in.
    pub(super) fn does(&self, place: usize) -> Option<BuiltInStage> {
        self.stages.get(place).and_then(|stage| stage.does)
    }

    /// The stage to which the stage `place` goes back with `label`: itself, or one before it. `None` if it goes on.
    pub(super) fn goes_back(&self, place: usize, label: &str) -> Option<usize> {
        let target = self.place(self.stages.get(place)?.next.get(label)?)?;
        (target == place || self.before(place).contains(&target)).then_some(target)
    }

    /// The agents that are named as seats.
    pub fn agents(&self) -> impl Iterator<Item = &AgentId> {
        self.stages.iter().flat_map(|stage| &stage.seats).filter_map(|seat| seat.who.agent())
    }
}

impl Stage {
    /// A round table of `seats`.
    pub(super) fn round_table(seats: Vec<Seat>) -> Self {
        let side = Some(SideLimits::default());
        Self { order: SeatOrder::Turns, side, ..Self::of_seats("table", seats) }
    }

    /// A team that is made for one request.
    pub(super) fn foreign_team(discovery: Option<TeamTerms>) -> Vec<Self> {
        let built_in = |id: &str, does, after: &[&str]| Self {
            does: Some(does),
            after: after.iter().map(|id| (*id).to_owned()).collect(),
            needs: StageNeeds::Settled,
            ..Self::of_seats(id, Vec::new())
        };
        vec![
            Self { discovery, ..built_in("match", BuiltInStage::Match, &[]) },
            built_in("ask", BuiltInStage::Dispatch, &["match"]),
            built_in("answer", BuiltInStage::Aggregate, &["ask"]),
        ]
    }

    /// A built-in stage is done by the host; who does what was matched is known later.
    pub(super) fn add_built_in_seat(&mut self) {
        let name = match self.does {
            Some(BuiltInStage::Match) => "match",
            Some(BuiltInStage::Aggregate) => "aggregate",
            Some(BuiltInStage::Dispatch) | None => return,
        };
        let seat = |does| Seat::unapproachable(name.to_owned(), SeatHolder::BuiltIn(does));
        self.seats = self.does.map(seat).into_iter().collect();
    }

    /// A stage in which `seats` work at once.
    pub(super) fn of_seats(id: &str, seats: Vec<Seat>) -> Self {
        Self {
            id: id.to_owned(),
            task: None,
            after: Vec::new(),
            seats,
            makes: None,
            children: ChildTerms::default(),
            brief: Vec::new(),
            stall: None,
            sealed: false,
            does: None,
            discovery: None,
            order: SeatOrder::Parallel,
            rounds: thirty(),
            quiet: three(),
            side: None,
            until: StageLimit::default(),
            at_least: 0,
            needs: StageNeeds::All,
            next: BTreeMap::new(),
            loops: 0,
            retries: once(),
            gate: Vec::new(),
        }
    }

    /// Whether all that its seats say to all is its result, not their last words alone.
    pub(super) fn gathers(&self) -> bool {
        self.sealed || self.until.findings.is_some()
    }

    /// The stage that has planned it.
    pub(super) fn plan(&self) -> Option<&str> {
        self.id.split_once('/').map(|(plan, _)| plan)
    }

    /// The time after which it ends.
    pub(super) fn time(&self) -> Option<Duration> {
        self.until.time.map(Eta::duration)
    }
}
