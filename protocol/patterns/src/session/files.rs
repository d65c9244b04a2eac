//! The files that planned work makes. At the end they are artifacts of the session under their own names; two of one name, of which
//! neither was made after the other, are a question (DESIGN §14).

use super::{
    Session, SessionAction, SessionContext, SessionStep,
    graph::{GateChoice, Graph, Stage},
    state::{MadeFile, StageState},
};
use crate::{ChunkRange, turn::RequestResult};
use protocol::{artifact::Artifact, ids::Digest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The longest name of a file, bytes.
const MAX_NAME: usize = 200;

/// What is asked about a file that two parts have made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileQuestion {
    id: String,
    name: String,
    places: Vec<usize>,
}

impl Stage {
    /// Whether it judges what was made before it: its words are not the result.
    pub(super) fn judges(&self) -> bool {
        self.gate.contains(&GateChoice::Changes)
    }
}

impl MadeFile {
    /// The file in a result of a stage, which is recorded as `artifact`. Every result of planned work is one; of another stage those
    /// with a file name, or with one that the plan names.
    pub(super) fn of(stage: &Stage, planned: &BTreeSet<String>, made: &Artifact) -> Option<Self> {
        let filename = made.parts.first().and_then(|part| part.filename.as_deref());
        let name = made.name.as_deref();
        let name = match stage.plan() {
            Some(_) => filename.or(name),
            None => filename.or(name.filter(|name| planned.contains(*name))),
        }?;
        let parts = serde_json::to_vec(&made.parts).ok()?;
        (!name.is_empty() && name.len() <= MAX_NAME && !stage.judges()).then(|| Self {
            name: name.to_owned(),
            artifact: made.artifact_id.clone(),
            chunks: ChunkRange::default(),
            bytes: made.size(),
            digest: Digest::of(&parts),
        })
    }
}

impl Session {
    /// The names of files that the plans name.
    pub(super) fn planned_files(&self) -> BTreeSet<&str> {
        self.planned.iter().flat_map(|planned| planned.files()).collect()
    }

    /// The files that the stages of these places have made, and for each name the places of those that are not replaced by a later
    /// one.
    fn made(
        &self,
        graph: &Graph,
        is_meant: impl Fn(usize) -> bool,
    ) -> BTreeMap<&str, Vec<(usize, &MadeFile)>> {
        let mut made: BTreeMap<&str, Vec<(usize, &MadeFile)>> = BTreeMap::new();
        for (place, run) in self.stages.iter().enumerate().filter(|(place, _)| is_meant(*place)) {
            for file in run.files.iter().filter(|_| run.state == StageState::Done) {
                made.entry(&file.name).or_default().push((place, file));
            }
        }
        for makers in made.values_mut() {
            let places: Vec<usize> = makers.iter().map(|(place, _)| *place).collect();
            let before: BTreeSet<usize> = places.iter().flat_map(|place| graph.before(*place)).collect();
            makers.retain(|(place, _)| !before.contains(place));
        }
        made
    }

    /// The file of each name, and the place of its stage: the one that a person has chosen, else the first.
    fn files_of(&self, graph: &Graph, is_meant: impl Fn(usize) -> bool) -> Vec<(usize, &MadeFile)> {
        let made = self.made(graph, is_meant);
        let chosen = made.into_iter().filter_map(|(name, makers)| {
            let chosen = self.chosen_files.get(name);
            let first = makers.first().copied();
            makers.into_iter().find(|(place, _)| Some(place) == chosen).or(first)
        });
        chosen.collect()
    }

    /// The files of the session as it ends.
    pub(super) fn files(&self, graph: &Graph) -> Vec<(usize, &MadeFile)> {
        if self.planned.is_empty() { Vec::new() } else { self.files_of(graph, |_| true) }
    }

    /// The files that stages before `place` have made, and the artifact that holds each.
    pub(super) fn files_before(&self, graph: &Graph, place: usize) -> BTreeMap<&str, &str> {
        let before = graph.before(place);
        let files = self.files_of(graph, |made| !self.planned.is_empty() && before.contains(&made));
        files.into_iter().map(|(_, file)| (file.name.as_str(), file.artifact.as_str())).collect()
    }

    /// The files that the plans name and nobody has made.
    pub(super) fn missing_files(&self, graph: &Graph) -> Vec<String> {
        let changed = self.stages.iter().flat_map(|run| run.changed.iter().map(String::as_str));
        let made = self.files(graph).into_iter().map(|(_, file)| file.name.as_str());
        let made: BTreeSet<&str> = made.chain(changed).collect();
        let is_done = |stage: &str| {
            let run = graph.place(stage).and_then(|place| self.stages.get(place));
            run.is_some_and(|run| run.state == StageState::Done)
        };
        let planned = self.planned.iter().filter(|planned| is_done(planned.stage_id()));
        let named: BTreeSet<&str> = planned.flat_map(|planned| planned.files()).collect();
        named.difference(&made).map(|name| (*name).to_owned()).collect()
    }

    /// Whether a stage waits for a person to say which file is meant.
    pub(super) fn waits_for_file(&self, graph: &Graph, place: usize) -> bool {
        let before = graph.before(place);
        self.file_question
            .as_ref()
            .is_some_and(|asked| asked.places.iter().all(|place| before.contains(place)))
    }

    /// Asks which file is meant, if two parts have made one of the same name. A question about parts that are made again is taken
    /// back.
    pub(super) fn ask_about_files(&mut self, step: &mut SessionStep<'_>) {
        let graph = step.cx.graph;
        // In a repository they are merged.
        if graph.workspace.is_some() {
            return;
        }
        let is_part = |place: usize| graph.stages.get(place).is_some_and(|stage| stage.plan().is_some());
        let conflict = self.made(graph, is_part).into_iter().find_map(|(name, makers)| {
            let places: Vec<usize> = makers.iter().map(|(place, _)| *place).collect();
            let is_chosen = self.chosen_files.get(name).is_some_and(|chosen| places.contains(chosen));
            let differs =
                makers.windows(2).any(|pair| matches!(pair, [(_, a), (_, b)] if a.digest != b.digest));
            (differs && !is_chosen).then(|| (name.to_owned(), places))
        });
        let asked = self.file_question.as_ref().map(|asked| (asked.name.clone(), asked.places.clone()));
        if asked == conflict {
            return;
        }
        self.withdraw_file_question(step, "the files are made again");
        let Some((name, places)) = conflict else { return };
        self.file_questions += 1;
        let id = format!("file.{}", self.file_questions);
        let stages = places.iter().filter_map(|place| graph.stages.get(*place));
        let options: Vec<String> = stages.map(|stage| stage.id.clone()).collect();
        let text = format!(
            "{} have each made a file {name}, and they differ. Which one is it?",
            options.join(" and ")
        );
        let stage = options.first().cloned().unwrap_or_default();
        step.ask_choice(&id, &stage, text, options);
        self.file_question = Some(FileQuestion { id, name, places });
    }

    pub(super) fn withdraw_file_question(&mut self, step: &mut SessionStep<'_>, why: &str) {
        if let Some(FileQuestion { id: turn, .. }) = self.file_question.take() {
            step.actions.push(SessionAction::Withdraw { turn, why: why.to_owned() });
        }
    }

    /// A person has said which file is meant, or nobody has: then it is the first. False if the result is another one's.
    pub(super) fn take_file_answer(&mut self, cx: &SessionContext<'_>, result: &RequestResult) -> bool {
        let Some(FileQuestion { name, places, .. }) =
            self.file_question.take_if(|asked| asked.id == result.id)
        else {
            return false;
        };
        let id = |place: &usize| cx.graph.stages.get(*place).map(|stage| stage.id.as_str());
        let chosen = places.iter().find(|place| result.ok && id(place) == Some(result.text.trim()));
        if let Some(place) = chosen.or(places.first()) {
            let who = if chosen.is_some() { "a person has chosen" } else { "nobody has chosen: it is" };
            self.note(format!("file {name}: {who} that of {}", id(place).unwrap_or_default()));
            self.chosen_files.insert(name, *place);
        }
        true
    }
}
