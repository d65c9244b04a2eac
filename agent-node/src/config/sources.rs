//! The YAML files of a team: those that are named, and those that they include.

use super::{
    ConfigFault, SESSION_KEYS, TEAM_KEYS,
    fault::FaultLog,
    variables::Substitution,
    yaml::{self, YamlNode},
};
use crate::text_file;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// The most files of a team.
const MAX_FILES: usize = 256;

/// A node of a file's YAML and its path.
pub(super) struct SourceLocation<'a> {
    pub(super) file: &'a str,
    pub(super) base: Option<&'a Path>,
    pub(super) node: &'a YamlNode,
    /// For example `agents[0]`; empty for the document.
    pub(super) path: String,
}

impl SourceLocation<'_> {
    pub(super) fn fault(&self, key: &str, what: impl Into<String>) -> ConfigFault {
        let line = self.node.line_at(key);
        ConfigFault { file: self.file.to_owned(), line, key: joined(&self.path, key), what: what.into() }
    }

    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, ConfigFault> {
        self.read_at("")
    }

    /// Reads what is at `key`.
    pub(super) fn read_at<T: DeserializeOwned>(&self, key: &str) -> Result<T, ConfigFault> {
        self.read_as(key, self.node.at(key).map_or(Value::Null, YamlNode::to_json))
    }

    /// Reads `value` in place of what is at `key`.
    pub(super) fn read_as<T: DeserializeOwned>(&self, key: &str, value: Value) -> Result<T, ConfigFault> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let (path, what) = (error.path().to_string(), error.into_inner().to_string());
            let path = if path == "." { "" } else { path.as_str() };
            self.fault(&joined(key, path), what)
        })
    }
}

/// The key `below` that at `path`.
fn joined(path: &str, below: &str) -> String {
    match (path, below) {
        ("", key) | (key, "") => key.to_owned(),
        (path, key) if key.starts_with('[') => format!("{path}{key}"),
        (path, key) => format!("{path}.{key}"),
    }
}

/// A document of a file, without `include` and `parameters`.
pub(super) struct SourceDocument {
    pub(super) node: YamlNode,
    /// Whether it describes a team, not one agent.
    pub(super) is_team: bool,
}

pub(super) struct SourceFile {
    pub(super) name: String,
    /// Where its relative paths start.
    pub(super) base: Option<PathBuf>,
    /// The position of the named file that it belongs to.
    pub(super) root: usize,
    pub(super) documents: Vec<SourceDocument>,
    /// The declarations of its documents.
    pub(super) parameters: Vec<YamlNode>,
}

impl SourceFile {
    pub(super) fn location<'a>(&'a self, node: &'a YamlNode, path: &str) -> SourceLocation<'a> {
        SourceLocation { file: &self.name, base: self.base.as_deref(), node, path: path.to_owned() }
    }
}

/// The files read so far.
#[derive(Default)]
pub(super) struct SourceFiles {
    /// A file is before those that it includes.
    pub(super) files: Vec<SourceFile>,
    /// Positions in `files`. A file is after those that it includes: its settings take precedence.
    pub(super) precedence: Vec<usize>,
    pub(super) faults: FaultLog,
    named: usize,
    included: BTreeSet<PathBuf>,
}

/// The names of the files that include each other, the innermost last, and their canonical paths where they have one.
struct IncludeChain(Vec<(String, Option<PathBuf>)>);

impl IncludeChain {
    fn with(&self, name: &str, path: Option<PathBuf>) -> Self {
        Self(self.0.iter().cloned().chain([(name.to_owned(), path)]).collect())
    }

    fn shown(&self) -> String {
        self.0.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" includes ")
    }
}

impl SourceFiles {
    /// Adds the named file `name` with its `text`, and what it includes. Relative paths start at `base`.
    pub(super) fn add(&mut self, name: &str, text: &str, base: Option<&Path>) {
        let file = Path::new(name).file_name().unwrap_or_default();
        let path = base.and_then(|base| base.join(file).canonicalize().ok());
        self.read(name, text, base, &IncludeChain(Vec::new()).with(name, path));
        self.named += 1;
    }

    fn read(&mut self, name: &str, text: &str, base: Option<&Path>, chain: &IncludeChain) {
        let fault = |line, what| ConfigFault { file: name.to_owned(), line, key: String::new(), what };
        let documents = match yaml::documents(text) {
            Ok(documents) => documents,
            Err(error) => return self.faults.push(fault(error.line, error.what)),
        };
        if documents.is_empty() {
            self.faults.push(fault(None, "describes no agent".into()));
        }
        let at = self.files.len();
        self.files.push(SourceFile {
            name: name.to_owned(),
            base: base.map(Path::to_owned),
            root: self.named,
            documents: Vec::new(),
            parameters: Vec::new(),
        });
        for node in documents {
            self.add_document(at, node, chain);
        }
        self.precedence.push(at);
    }

    fn add_document(&mut self, at: usize, mut node: YamlNode, chain: &IncludeChain) {
        let file = &mut self.files[at];
        let of_team = TEAM_KEYS.into_iter().find(|key| node.get(key).is_some());
        let has_agent = node.get("agent").is_some();
        if let (Some(beside), true) = (of_team, has_agent) {
            let what = format!(
                "one agent and `{beside}` can't be said in one document; put the agent into the list `agents`, or a line `---` between them"
            );
            return self.faults.push(file.location(&node, "").fault("agent", what));
        }
        let is_team = of_team.is_some();
        if !is_team && !has_agent && SESSION_KEYS.iter().any(|key| node.get(key).is_some()) {
            let what = "describes a session, not agents; `mesh convene` begins it".to_owned();
            let file = file.name.clone();
            return self.faults.push(ConfigFault { file, line: None, key: String::new(), what });
        }
        file.parameters.extend(node.remove("parameters"));
        let include = node.remove("include");
        file.documents.push(SourceDocument { node, is_team });
        if let Some(mut include) = include {
            self.include(at, &mut include, chain);
        }
    }

    fn include(&mut self, at: usize, include: &mut YamlNode, chain: &IncludeChain) {
        let file = &self.files[at];
        let unset = Substitution::of_variables().apply(include);
        if !unset.is_empty() {
            return self.faults.unset(&file.name, unset);
        }
        let paths: Vec<String> = match file.location(include, "include").read() {
            Ok(paths) => paths,
            Err(fault) => return self.faults.push(fault),
        };
        for (position, path) in paths.iter().enumerate() {
            if let Err(what) = self.include_file(at, path, chain) {
                let location = self.files[at].location(include, "include");
                self.faults.push(location.fault(&format!("[{position}]"), what));
            }
        }
    }

    /// Reads the file at `path`, as the file at position `at` names it. A file that several include is read once.
    fn include_file(&mut self, at: usize, path: &str, chain: &IncludeChain) -> Result<(), String> {
        let file = &self.files[at];
        let name = Path::new(&file.name).parent().unwrap_or(Path::new("")).join(path).display().to_string();
        let path = file.base.as_ref().map_or_else(|| path.into(), |base| base.join(path));
        let unreadable = |error| {
            let chain = chain.with(&name, None);
            format!("{name} cannot be read: {error}; {}", chain.shown())
        };
        let canonical = path.canonicalize().map_err(unreadable)?;
        if chain.0.iter().any(|(_, path)| path.as_ref() == Some(&canonical)) {
            let chain = chain.with(&name, None);
            return Err(format!("is a circle: {}", chain.shown()));
        }
        if self.included.contains(&canonical) {
            return Ok(());
        }
        if self.files.len() >= MAX_FILES {
            return Err(format!("is one too many: a team has at most {MAX_FILES} files"));
        }
        let text = text_file::read(&path).map_err(unreadable)?;
        let chain = chain.with(&name, Some(canonical.clone()));
        self.included.insert(canonical);
        self.read(&name, &text, path.parent(), &chain);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Team, TimingPreset};

    fn load(files: &[(&str, &str)]) -> Result<Team, String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let shown = format!("{}/", dir.path().display());
        let team = Team::load(&[dir.path().join(files[0].0)], TimingPreset::Default);
        team.map_err(|errors| errors.to_string().replace(&shown, ""))
    }

    const A: &str = "agents: [{ agent: a, brain: { echo: {} } }]\n";
    const B: &str = "agents: [{ agent: b, brain: { echo: {} } }]\n";

    #[test]
    fn agents_are_added_and_the_including_file_takes_precedence() {
        let team = load(&[
            (
                "team.yaml",
                &format!(
                    "include: [parts/b.yaml, parts/mesh.yaml]\n{A}mesh: {{ limits: {{ maxHops: 3 }} }}\n"
                ),
            ),
            ("parts/b.yaml", &format!("include: [mesh.yaml]\n{B}")),
            ("parts/mesh.yaml", "mesh: { limits: { maxHops: 5, maxDepth: 20 }, auction: { fanout: 4 } }\n"),
        ])
        .unwrap();
        let ids: Vec<_> = team.agents.iter().map(|agent| agent.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"], "its own agents have the first ports");
        let limits = &team.mesh.limits;
        assert_eq!((limits.max_hops, limits.max_depth, team.mesh.auction.fanout), (3, 20, 4));
    }

    #[test]
    fn providers_and_paths_of_an_included_file_are_its_own() {
        let provider = |url: &str| format!("providers: {{ own: {{ url: '{url}', dialect: chat }} }}\n");
        let agent = "agents: [{ agent: m, brain: { llm: { model: own/x, instructions: m.md } } }]\n";
        let team = load(&[
            ("team.yaml", &format!("include: [parts/m.yaml]\n{}", provider("https://over.example"))),
            ("parts/m.yaml", &format!("{}{agent}", provider("https://under.example"))),
            ("parts/m.md", "Be brief."),
        ])
        .unwrap();
        let crate::config::BrainConfig::Llm(llm) = &team.agents[0].brain else { panic!("llm") };
        assert_eq!(
            (llm.models[0].url.as_str(), llm.instructions.as_str()),
            ("https://over.example", "Be brief.")
        );
    }

    #[test]
    fn a_fault_names_the_file_and_the_chain() {
        for (files, expected) in [
            (
                &[
                    ("team.yaml", "include: [b.yaml]\nagents: [{ agent: b, brain: { echo: {} } }]\n"),
                    ("b.yaml", B),
                ][..],
                "b.yaml:1: agents[0].agent: b is taken, see team.yaml:2",
            ),
            (
                &[("team.yaml", "include: [b.yaml]\n"), ("b.yaml", "agents:\n- agent: b\n  brian: {}\n")],
                "b.yaml:3: agents[0].brian: unknown key; did you mean `brain`?",
            ),
            (
                &[("team.yaml", "include: [b.yaml]\n"), ("b.yaml", "include:\n- gone.yaml\n")],
                "b.yaml:2: include[0]: gone.yaml cannot be read: No such file or directory (os error 2); team.yaml includes b.yaml includes gone.yaml",
            ),
            (
                &[("team.yaml", "include: [b.yaml]\n"), ("b.yaml", "include: [team.yaml]\n")],
                "b.yaml:1: include[0]: is a circle: team.yaml includes b.yaml includes team.yaml",
            ),
            (
                &[("team.yaml", "include: b.yaml\n"), ("b.yaml", B)],
                "team.yaml:1: include: invalid type: string \"b.yaml\", expected a sequence",
            ),
            (
                &[("team.yaml", "include: ['${param.x}']\nparameters: { x: {} }\n")],
                "team.yaml:1: `include` and `parameters` take variables of the environment, and no parameters",
            ),
            (
                &[("team.yaml", "agent: a\nbrain: { echo: {} }\ninclude: [b.yaml]\n"), ("b.yaml", B)],
                "team.yaml:1: agent: one agent and `include` can't be said in one document",
            ),
            (
                &[
                    ("team.yaml", "include: [b.yaml]\nmesh: { registry: { leaseMs: 9000 } }\n"),
                    ("b.yaml", "mesh: { registry: { heartbeatMs: 4900, leaseMs: 99000 } }\n"),
                ],
                "team.yaml:2: mesh.registry.leaseMs: must be more than twice",
            ),
        ] {
            let fault = load(files).unwrap_err();
            assert!(fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn a_team_of_too_many_files_is_refused() {
        let names: Vec<_> = (0..300).map(|at| format!("f{at}.yaml")).collect();
        let texts: Vec<_> = (1..=300).map(|at| format!("include: [f{at}.yaml]\n")).collect();
        let files: Vec<_> =
            names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let fault = load(&files).unwrap_err();
        assert!(
            fault.contains("f255.yaml:1: include[0]: is one too many: a team has at most 256 files"),
            "{fault}"
        );
    }
}
