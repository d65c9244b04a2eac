//! Looks for changes of the files of a team: of its configuration, with all that it includes, and of the programs of its brains.

use crate::config::{AgentDefinition, BrainConfig, ConfigErrors, Team};
use protocol::ids::AgentId;
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Reads the files of the team again.
#[derive(Clone)]
pub struct TeamSource(pub Arc<dyn Fn() -> Result<Team, ConfigErrors> + Send + Sync>);

impl fmt::Debug for TeamSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TeamSource")
    }
}

/// The time and the size of a file, by its path; `None` if it can't be read.
type FileStates = BTreeMap<PathBuf, Option<(SystemTime, u64)>>;

/// What has changed.
#[derive(Debug, PartialEq)]
pub(super) enum TeamChange {
    /// These agents, as they are to be now.
    Agents(Vec<AgentDefinition>),
    /// Something that a running process does not take: it has to be started again.
    NeedsRestart(String),
    /// The files have a fault.
    Fault(String),
}

/// The files of a team, as they were seen last.
pub(super) struct TeamWatch {
    source: TeamSource,
    team: Team,
    programs: BTreeMap<AgentId, FileStates>,
    /// The last fault that was told.
    fault: Option<String>,
}

impl TeamWatch {
    pub(super) fn new(source: TeamSource, team: Team) -> Self {
        let programs = programs(&team);
        Self { source, team, programs, fault: None }
    }

    /// Waits for the next changes.
    pub(super) async fn next(&mut self) -> Vec<TeamChange> {
        loop {
            tokio::time::sleep(LOOK).await;
            let source = self.source.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || (source.0)()).await else { continue };
            let changes = self.take(read);
            if !changes.is_empty() {
                return changes;
            }
        }
    }

    /// What has changed since the last look. A fault is told once, and leaves everything as it was.
    fn take(&mut self, read: Result<Team, ConfigErrors>) -> Vec<TeamChange> {
        let new = match read {
            Ok(new) => new,
            Err(faults) => {
                let fault = faults.to_string();
                let is_new = self.fault.as_ref() != Some(&fault);
                self.fault = Some(fault.clone());
                return is_new.then_some(TeamChange::Fault(fault)).into_iter().collect();
            }
        };
        self.fault = None;
        let new_programs = programs(&new);
        let mut changes = Vec::new();
        let ids = |team: &Team| team.agents.iter().map(|agent| agent.id.clone()).collect::<Vec<_>>();
        if ids(&self.team) != ids(&new) {
            changes.push(TeamChange::NeedsRestart("which agents there are, or their order".to_owned()));
        } else if self.team.mesh != new.mesh {
            changes.push(TeamChange::NeedsRestart("the settings of the mesh".to_owned()));
        }
        let mut agents = Vec::new();
        for agent in &new.agents {
            let Some(old) = self.team.agents.iter().find(|old| old.id == agent.id) else { continue };
            let is_elsewhere =
                |agent: &AgentDefinition| matches!(agent.brain, BrainConfig::Peer | BrainConfig::Foreign(_));
            let is_fixed = old.port != agent.port
                || old.workspaces != agent.workspaces
                || old.schedules != agent.schedules
                || old.triggers != agent.triggers
                || old != agent && (is_elsewhere(old) || is_elsewhere(agent));
            if is_fixed {
                let what = format!("the port, schedules, triggers, repositories or kind of {}", agent.id);
                changes.push(TeamChange::NeedsRestart(what));
            } else if old != agent || self.programs.get(&agent.id) != new_programs.get(&agent.id) {
                agents.push(agent.clone());
            }
        }
        (self.team, self.programs) = (new, new_programs);
        changes.extend((!agents.is_empty()).then_some(TeamChange::Agents(agents)));
        changes
    }
}

/// The files that the commands of the agents name.
fn programs(team: &Team) -> BTreeMap<AgentId, FileStates> {
    let of_agent = |agent: &AgentDefinition| {
        let BrainConfig::Exec { command, dir, .. } = &agent.brain else { return FileStates::new() };
        let at = |word: &String| dir.as_deref().unwrap_or(Path::new("")).join(word);
        let files = command.iter().map(at).filter(|path| path.is_file() || path.extension().is_some());
        let state = |path: &Path| {
            let about = std::fs::metadata(path).ok()?;
            Some((about.modified().ok()?, about.len()))
        };
        files.map(|path| (path.clone(), state(&path))).collect()
    };
    team.agents.iter().map(|agent| (agent.id.clone(), of_agent(agent))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(yaml: &str, dir: &Path) -> Result<Team, ConfigErrors> {
        Team::parse("team.yaml", yaml, Some(dir))
    }

    #[test]
    fn only_what_has_changed_is_told_and_a_fault_once() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("brain.sh");
        std::fs::write(&program, "one").unwrap();
        let exec = "{ agent: a, brain: { exec: [sh, brain.sh] } }";
        let of = |b: &str| team(&format!("agents: [{exec}, {b}]"), dir.path());
        let echo = "{ agent: b, brain: { echo: {} } }";
        let source = TeamSource(Arc::new(|| unreachable!("the test reads")));
        let mut watch = TeamWatch::new(source, of(echo).unwrap());
        let told = |changes: Vec<TeamChange>| {
            let word = |change: TeamChange| match change {
                TeamChange::Agents(agents) => agents.iter().map(|agent| agent.id.to_string()).collect(),
                TeamChange::NeedsRestart(what) => format!("restart: {what}"),
                TeamChange::Fault(_) => "fault".to_owned(),
            };
            changes.into_iter().map(word).collect::<Vec<_>>()
        };
        assert_eq!(told(watch.take(of(echo))), [""; 0]);
        std::fs::write(&program, "other").unwrap();
        assert_eq!(told(watch.take(of(echo))), ["a"], "its program");
        let described = "{ agent: b, description: new, brain: { echo: {} } }";
        assert_eq!(told(watch.take(of(described))), ["b"]);
        assert_eq!(told(watch.take(of("{ agent: b, brian: {} }"))), ["fault"]);
        assert_eq!(told(watch.take(of("{ agent: b, brian: {} }"))), [""; 0], "once");
        assert_eq!(told(watch.take(of(described))), [""; 0], "it is as it was");
        let fixed = "{ agent: b, port: 9001, description: new, brain: { echo: {} } }";
        assert!(told(watch.take(of(fixed)))[0].starts_with("restart: the port"));
        assert!(told(watch.take(of("{ agent: c, brain: { echo: {} } }")))[0].starts_with("restart: which"));
    }
}
