//! A session that works in a repository (DESIGN §14): which commit a turn begins with, and what becomes of what turns have committed.
//! The host merges parts in the order of the plan. A part that does not fit goes back to its stage with both sides, then to a person.

use super::{
    SeatTurn, Session, SessionAction, SessionContext, SessionStep, TurnDoer,
    graph::{Graph, Stage},
    host_work::HostWork,
    names::HOST,
    seat::SeatWorkspace,
    state::{StageState, number_keys},
};
use crate::{ChunkRange, turn::RequestResult};
use protocol::{artifact::PartContent, task::TaskState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The stage is done again with both sides.
const RETRY: &str = "retry";
/// The other parts win.
const OTHERS: &str = "others";

/// What the host does with the repository of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "do")]
pub enum WorkspaceWork {
    /// Make the repository of the session from that of the host's file, as it is now.
    Open { name: String },
    /// Merge parts, in this order.
    Integrate { base: String, parts: Vec<WorkspacePart> },
    /// Give the repository of the host's file the branch of the session. If it is approved, the branch that was checked out follows.
    Publish {
        name: String,
        base: String,
        branch: Option<String>,
        parts: Vec<WorkspacePart>,
        is_approved: bool,
    },
}

/// A commit of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspacePart {
    pub stage: String,
    pub commit: String,
    /// Whose side wins where it does not fit: `ours` are the parts before it, `theirs` is it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub favor: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "is")]
pub enum WorkspaceOutcome {
    Opened {
        source: String,
        key: String,
        base: String,
        branch: Option<String>,
    },
    Integrated {
        commit: String,
        diff: String,
    },
    /// The part of a stage does not fit to `head`, which has the parts before it.
    Conflict {
        stage: String,
        head: String,
        files: Vec<String>,
        ours: String,
        theirs: String,
    },
    Published {
        text: String,
    },
}

/// The repository of a session as it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WorkspaceRun {
    /// Where it is, with its key, what it began with, and the branch that was checked out; empty until it is opened.
    source: String,
    key: String,
    base: String,
    branch: Option<String>,
    /// How often the host was given work on it.
    turns: u32,
    /// How often each stage did not fit, and whose side wins since a person has said so.
    #[serde(deserialize_with = "number_keys")]
    conflicts: BTreeMap<usize, u32>,
    #[serde(deserialize_with = "number_keys")]
    favor: BTreeMap<usize, String>,
    question: Option<ConflictQuestion>,
    ending: Option<(TaskState, String)>,
    pub(super) published: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConflictQuestion {
    id: String,
    /// The stage that waits, and the one that does not fit.
    place: usize,
    at: usize,
    head: String,
    both: String,
}

impl WorkspaceOutcome {
    fn read(result: &RequestResult) -> Result<Self, String> {
        if !result.ok {
            return Err(result.text.clone());
        }
        let part = result.artifacts.first().and_then(|artifact| artifact.parts.first());
        match part.map(|part| &part.content) {
            Some(PartContent::Data(data)) => {
                serde_json::from_value(data.clone()).map_err(|error| error.to_string())
            }
            _ => Err("the host has no outcome".to_owned()),
        }
    }
}

impl Session {
    /// Has the repository opened that the session works in, if it names one.
    pub(super) fn open_workspace(&mut self, step: &mut SessionStep<'_>) {
        if let Some(name) = &step.cx.graph.workspace {
            self.workspace = Some(WorkspaceRun::default());
            self.work_on_workspace(step, WorkspaceWork::Open { name: name.clone() });
        }
    }

    /// Gives the host work on the repository; returns the name of the turn.
    fn work_on_workspace(&mut self, step: &mut SessionStep<'_>, work: WorkspaceWork) -> String {
        let number = self.workspace.as_mut().map_or(0, |workspace| {
            workspace.turns += 1;
            workspace.turns
        });
        let id = format!("workspace.{number}");
        let seat = json!({ "session": step.cx.id, "stage": "workspace", "round": 1, "seat": HOST });
        step.actions.push(SessionAction::Turn(Box::new(SeatTurn {
            id: id.clone(),
            to: TurnDoer::Host(HostWork::Workspace(work)),
            description: step.cx.goal.to_owned(),
            input: json!({ "seat": seat }),
            artifacts: Vec::new(),
            chunks: ChunkRange::default(),
        })));
        id
    }

    /// Whether a stage waits for the repository.
    pub(super) fn waits_for_workspace(&self, place: usize) -> bool {
        let is_opening = self.workspace.as_ref().is_some_and(|workspace| workspace.source.is_empty());
        is_opening || self.stages.get(place).is_some_and(|run| run.integrating.is_some())
    }

    /// The commits of the stages before `place`, or of all: each after those that it builds on, else in the order of the plan.
    fn parts(&self, graph: &Graph, place: Option<usize>) -> Vec<WorkspacePart> {
        let before = place.map(|place| graph.before(place));
        let is_meant = |at: &usize| before.as_ref().is_none_or(|before| before.contains(at));
        let has_commits = |at: &usize| {
            self.stages.get(*at).is_some_and(|run| run.state == StageState::Done && !run.commits.is_empty())
        };
        let mut open: Vec<usize> = (0..self.stages.len()).filter(is_meant).filter(has_commits).collect();
        let mut parts = Vec::new();
        while !open.is_empty() {
            let next = open.iter().position(|at| !open.iter().any(|other| graph.before(*at).contains(other)));
            let at = open.remove(next.unwrap_or_default());
            let favor = self.workspace.as_ref().and_then(|workspace| workspace.favor.get(&at).cloned());
            let (Some(stage), Some(run)) = (graph.stages.get(at), self.stages.get(at)) else { continue };
            parts.extend(run.commits.values().map(|commit| WorkspacePart {
                stage: stage.id.clone(),
                commit: commit.clone(),
                favor: favor.clone(),
            }));
        }
        parts
    }

    /// Has the parts before a stage merged before it begins; false if it may begin.
    pub(super) fn integrates_first(&mut self, step: &mut SessionStep<'_>, place: usize) -> bool {
        let Some(workspace) = &self.workspace else { return false };
        let base = workspace.base.clone();
        if self.stages.get(place).is_none_or(|run| run.base.is_some()) {
            return false;
        }
        let parts = self.parts(step.cx.graph, Some(place));
        let integrating = match parts.is_empty() {
            true => None,
            false => {
                let work = WorkspaceWork::Integrate { base: base.clone(), parts };
                Some(self.work_on_workspace(step, work))
            }
        };
        let Some(run) = self.stages.get_mut(place) else { return false };
        run.base = integrating.is_none().then_some(base);
        run.integrating = integrating;
        run.integrating.is_some()
    }

    /// The repository as a turn of the seat finds it.
    pub(super) fn workspace_of(
        &self,
        cx: &SessionContext<'_>,
        (place, stage): (usize, &Stage),
        seat: usize,
    ) -> Option<SeatWorkspace> {
        let (workspace, run) = (self.workspace.as_ref()?, self.stages.get(place)?);
        let base = run.commits.get(&seat).or(run.base.as_ref())?.clone();
        Some(SeatWorkspace {
            source: workspace.source.clone(),
            key: workspace.key.clone(),
            session: cx.id.clone(),
            base,
            commits: stage.makes.is_none() && !stage.judges(),
        })
    }

    /// Takes the outcome of work on the repository, or what a person says about it; false if the result is another one's.
    pub(super) fn take_workspace(&mut self, step: &mut SessionStep<'_>, result: &RequestResult) -> bool {
        let Some(workspace) = &mut self.workspace else { return false };
        if workspace.ending.is_some() && result.id == format!("workspace.{}", workspace.turns) {
            return self.published(step, result);
        }
        if self.is_over {
            return false;
        }
        if workspace.question.as_ref().is_some_and(|asked| asked.id == result.id) {
            self.take_conflict_answer(step, result);
            return true;
        }
        if workspace.source.is_empty() && result.id == "workspace.1" {
            self.opened(step, result);
            return true;
        }
        let place = self.stages.iter().position(|run| run.integrating.as_ref() == Some(&result.id));
        // A stage that was begun again waits for no earlier merge.
        let Some(place) = place else { return result.id.starts_with("workspace.") };
        match WorkspaceOutcome::read(result) {
            Ok(WorkspaceOutcome::Integrated { commit, diff }) => self.integrated(step, place, commit, diff),
            Ok(WorkspaceOutcome::Conflict { stage, head, files, ours, theirs }) => {
                let both = format!(
                    "What stage {stage} has committed does not fit to the parts before it, in {}. Do it again on top of them.\n\nThe other parts:\n{ours}\n\nYours:\n{theirs}",
                    files.join(", ")
                );
                match step.cx.graph.place(&stage) {
                    Some(at) => self.conflict(step, (place, at), head, both),
                    None => self.fail_merge(place, both),
                }
            }
            Ok(_) => {}
            Err(why) => self.fail_merge(place, format!("its parts can't be merged: {why}")),
        }
        true
    }

    fn opened(&mut self, step: &mut SessionStep<'_>, result: &RequestResult) {
        let Some(workspace) = &mut self.workspace else { return };
        match WorkspaceOutcome::read(result) {
            Ok(WorkspaceOutcome::Opened { source, key, base, branch }) => {
                (workspace.source, workspace.key, workspace.base, workspace.branch) =
                    (source, key, base, branch);
            }
            Ok(_) => {}
            Err(why) => {
                self.workspace = None;
                let name = step.cx.graph.workspace.as_deref().unwrap_or_default();
                self.finish(step, TaskState::Failed, format!("workspace {name}: {why}"));
            }
        }
    }

    fn fail_merge(&mut self, place: usize, why: String) {
        if let Some(run) = self.stages.get_mut(place) {
            (run.state, run.label, run.reason, run.integrating) = (StageState::Failed, None, Some(why), None);
        }
    }

    fn integrated(&mut self, step: &mut SessionStep<'_>, place: usize, commit: String, diff: String) {
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        let said = self.words_beside_turns(step, (place, stage), (HOST, "diff"), Vec::new(), diff);
        if let Some(run) = self.stages.get_mut(place) {
            (run.base, run.integrating) = (Some(commit), None);
            run.feedback.push(said);
        }
    }

    /// The stage `at` does not fit: it is done again with both sides, once; then a person says what becomes of it.
    fn conflict(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, at): (usize, usize),
        head: String,
        both: String,
    ) {
        let Some(workspace) = &mut self.workspace else { return };
        let times = workspace.conflicts.entry(at).or_default();
        *times += 1;
        if *times == 1 {
            return self.redo(step, at, head, both);
        }
        let id = format!("conflict.{}", workspace.turns);
        let stage = step.cx.graph.stages.get(at).map(|stage| stage.id.clone()).unwrap_or_default();
        let options = vec![RETRY.to_owned(), stage.clone(), OTHERS.to_owned()];
        let text = format!(
            "{both}\n\n`{RETRY}`: stage {stage} is done again. `{stage}`: where they differ, its version counts. `{OTHERS}`: that of the other parts counts."
        );
        step.ask_choice(&id, &stage, text, options);
        if let Some(run) = self.stages.get_mut(place) {
            run.integrating = Some(id.clone());
        }
        workspace.question = Some(ConflictQuestion { id, place, at, head, both });
    }

    /// Begins a stage again on top of the parts that it does not fit to.
    fn redo(&mut self, step: &mut SessionStep<'_>, at: usize, head: String, both: String) {
        let Some(stage) = step.cx.graph.stages.get(at) else { return };
        self.note(format!("stage {} begins again: its work does not fit to that of others", stage.id));
        self.begin_again(step, at, at);
        let said = self.words_beside_turns(step, (at, stage), (HOST, "conflict"), Vec::new(), both);
        if let Some(run) = self.stages.get_mut(at) {
            run.base = Some(head);
            run.feedback.push(said);
        }
    }

    fn take_conflict_answer(&mut self, step: &mut SessionStep<'_>, result: &RequestResult) {
        let Some(workspace) = &mut self.workspace else { return };
        let Some(ConflictQuestion { place, at, head, both, .. }) = workspace.question.take() else { return };
        // It was begun again meanwhile.
        if self.stages.get(place).is_none_or(|run| run.integrating.as_ref() != Some(&result.id)) {
            return;
        }
        let stage = step.cx.graph.stages.get(at).map(|stage| stage.id.as_str()).unwrap_or_default();
        let favor = match result.text.trim() {
            RETRY if result.ok => return self.redo(step, at, head, both),
            OTHERS if result.ok => "ours",
            named if result.ok && named == stage => "theirs",
            _ => return self.fail_merge(place, format!("nobody has said what becomes of it: {both}")),
        };
        workspace.favor.insert(at, favor.to_owned());
        // It is merged again.
        if let Some(run) = self.stages.get_mut(place) {
            run.integrating = None;
        }
    }

    /// Whether a person is asked about a conflict.
    pub(super) fn asks_about_conflict(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| workspace.question.is_some())
    }

    /// Has the branch of the session made before it ends; false if there is none to make.
    pub(super) fn publishes_first(
        &mut self,
        step: &mut SessionStep<'_>,
        state: TaskState,
        message: &str,
    ) -> bool {
        let parts = self.parts(step.cx.graph, None);
        let Some(name) = step.cx.graph.workspace.clone() else { return false };
        let Some(workspace) = self.workspace.as_mut().filter(|workspace| !workspace.source.is_empty()) else {
            return false;
        };
        if let Some(ConflictQuestion { id: turn, .. }) = workspace.question.take() {
            step.actions.push(SessionAction::Withdraw { turn, why: message.to_owned() });
        }
        if parts.is_empty() || workspace.published.is_some() {
            return false;
        }
        workspace.ending = Some((state, message.to_owned()));
        let (base, branch) = (workspace.base.clone(), workspace.branch.clone());
        let is_approved = state == TaskState::Completed && self.is_approved;
        self.work_on_workspace(step, WorkspaceWork::Publish { name, base, branch, parts, is_approved });
        true
    }

    fn published(&mut self, step: &mut SessionStep<'_>, result: &RequestResult) -> bool {
        let Some(workspace) = &mut self.workspace else { return false };
        let Some((state, message)) = workspace.ending.take() else { return false };
        let text = match WorkspaceOutcome::read(result) {
            Ok(WorkspaceOutcome::Published { text }) => text,
            Ok(_) => String::new(),
            Err(why) => format!("There is no branch of the session: {why}"),
        };
        workspace.published = Some(text.clone());
        self.end_with_summary(step, state, format!("{message}\n\n{text}").trim_end().to_owned());
        true
    }

    /// The repository as people see it.
    pub(super) fn workspace_view(&self, graph: &Graph) -> Option<Value> {
        let workspace = self.workspace.as_ref()?;
        Some(json!({
            "name": graph.workspace, "base": workspace.base, "branch": workspace.branch,
            "result": workspace.published,
        }))
    }
}
