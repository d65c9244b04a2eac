//! `mesh init`: writes a directory with a running agent, and a test of it.

use super::{
    CommonArgs,
    exit::{CliError, Exit},
    output,
    shell_quote::shell_quoted,
};
use clap::Args;
use protocol::ids::AgentId;
use serde_json::json;
use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The directory; its last part is the agent's id.
    #[arg(value_name = "NAME")]
    dir: PathBuf,
    #[command(flatten)]
    brain: BrainKindArgs,
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
}

/// What the brain is written in.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct BrainKindArgs {
    /// A brain in Python, 3.9 or later; the standard library is enough.
    #[arg(long)]
    python: bool,
    /// A brain in JavaScript for Node, 18 or later; without dependencies.
    #[arg(long)]
    node: bool,
    /// A brain in Rust, as a Cargo project.
    #[arg(long)]
    rust: bool,
    /// A brain as a POSIX shell script.
    #[arg(long)]
    shell: bool,
    /// A language model; no program.
    #[arg(long)]
    llm: bool,
    /// The smallest file that works, and nothing else: its brain is a line of shell.
    #[arg(long)]
    minimal: bool,
}

/// What a directory gets. `{{name}}`, `{{brain}}` and `{{test}}` stand in the agent file and in the README.
struct AgentTemplate {
    yaml: &'static str,
    /// Empty if there is none.
    readme: &'static str,
    /// Further files: name and content.
    files: &'static [(&'static str, &'static str)],
    /// Crates that lie beside each other.
    library: &'static [(&'static str, &'static str)],
    brain: &'static str,
    /// The command that builds it, in its directory; empty if there is nothing to build.
    build: &'static str,
    /// The command that tests the agent, in its directory.
    test: &'static str,
    /// The words of `mesh ask` for an example task.
    ask: &'static str,
}

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../templates/", $path))
    };
}

/// Files of the library and of the crate of its types, with their paths in the project.
macro_rules! library {
    ($($path:literal),*; $($wire:literal),*) => {
        &[
            $((concat!("mesh-agent/", $path), include_str!(concat!("../../mesh-agent/", $path))),)*
            $((concat!("wire/", $wire), include_str!(concat!("../../../protocol/wire/", $wire))),)*
        ]
    };
}

const COUNT: &str = "\"Count: the quick brown fox\" --capability {{name}}";

const PYTHON: AgentTemplate = AgentTemplate {
    yaml: template!("python/agent.yaml"),
    readme: template!("README.md"),
    files: &[
        ("brain.py", template!("python/brain.py")),
        ("mesh_agent.py", template!("python/mesh_agent.py")),
        ("test_brain.py", template!("python/test_brain.py")),
    ],
    library: &[],
    brain: "brain.py",
    build: "",
    test: "python3 -m unittest",
    ask: COUNT,
};

const NODE: AgentTemplate = AgentTemplate {
    yaml: template!("node/agent.yaml"),
    readme: template!("README.md"),
    files: &[
        ("brain.mjs", template!("node/brain.mjs")),
        ("mesh-agent.mjs", template!("node/mesh-agent.mjs")),
        ("brain.test.mjs", template!("node/brain.test.mjs")),
    ],
    library: &[],
    brain: "brain.mjs",
    build: "",
    test: "node --test",
    ask: COUNT,
};

/// With the library itself, so that a project needs neither a registry nor a checkout of the mesh for it.
const RUST: AgentTemplate = AgentTemplate {
    yaml: template!("rust/agent.yaml"),
    readme: template!("rust/README.md"),
    files: &[
        ("Cargo.toml", template!("rust/Cargo.toml.txt")),
        (".gitignore", template!("rust/gitignore.txt")),
        ("src/main.rs", template!("rust/main.rs")),
        ("src/tests.rs", template!("rust/tests.rs")),
    ],
    library: library!(
        "Cargo.toml", "src/agent.rs", "src/brain.rs", "src/content.rs", "src/end.rs", "src/lib.rs", "src/process.rs", "src/process/tests.rs",
        "src/testing.rs", "src/turn.rs";
        "Cargo.toml", "src/amount.rs", "src/answer.rs", "src/artifact.rs", "src/context.rs", "src/entry.rs", "src/ids.rs", "src/lib.rs",
        "src/line.rs", "src/prompt.rs", "src/question.rs", "src/task.rs", "src/time.rs", "src/usage.rs"
    ),
    brain: "src/main.rs",
    build: "cargo build",
    test: "cargo test",
    ask: COUNT,
};

const SHELL: AgentTemplate = AgentTemplate {
    yaml: template!("shell/agent.yaml"),
    readme: template!("README.md"),
    files: &[("brain.sh", template!("shell/brain.sh")), ("test.sh", template!("shell/test.sh"))],
    library: &[],
    brain: "brain.sh",
    build: "",
    test: "sh test.sh",
    ask: COUNT,
};

const LLM: AgentTemplate = AgentTemplate {
    yaml: template!("llm/agent.yaml"),
    readme: template!("llm/README.md"),
    files: &[("instructions.md", template!("llm/instructions.md"))],
    library: &[],
    brain: "instructions.md",
    build: "",
    test: "mesh validate {{name}}.yaml",
    ask: "\"What can you do?\" --capability {{name}}",
};

const MINIMAL: AgentTemplate = AgentTemplate {
    yaml: template!("minimal/agent.yaml"),
    readme: "",
    files: &[],
    library: &[],
    brain: "",
    build: "",
    test: "mesh validate {{name}}.yaml",
    ask: "\"Say hello\" --capability {{name}}",
};

impl BrainKindArgs {
    fn template(&self) -> &'static AgentTemplate {
        match self {
            Self { python: true, .. } => &PYTHON,
            Self { node: true, .. } => &NODE,
            Self { rust: true, .. } => &RUST,
            Self { shell: true, .. } => &SHELL,
            Self { minimal: true, .. } => &MINIMAL,
            Self { .. } => &LLM,
        }
    }
}

impl AgentTemplate {
    fn files(&self, id: &str) -> Vec<(String, String)> {
        let filled = |text: &str| {
            text.replace("{{test}}", self.test).replace("{{brain}}", self.brain).replace("{{name}}", id)
        };
        let named =
            [(format!("{id}.yaml"), filled(self.yaml)), ("README.md".to_owned(), filled(self.readme))];
        let further = self.files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let library = self
            .library
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.replace("\"../../protocol/wire\"", "\"../wire\"")));
        let named = named.into_iter().filter(|(_, text)| !text.is_empty());
        named.chain(further).chain(library).collect()
    }
}

pub(super) fn init(common: &CommonArgs, args: &InitArgs) -> Result<(), CliError> {
    let id = agent_id(&args.dir)?;
    let template = args.brain.template();
    let files = template.files(&id);
    let files: Vec<_> = files.iter().map(|(name, text)| (args.dir.join(name), text.as_str())).collect();
    write(&args.dir, &files, args.force)?;
    let dir = args.dir.to_string_lossy();
    let inside = |command: &str| format!("cd {} && {command}", shell_quoted(&dir));
    let file = args.dir.join(format!("{id}.yaml"));
    let file = shell_quoted(&file.to_string_lossy()).into_owned();
    let up = format!("mesh up {file}");
    let build = (!template.build.is_empty()).then(|| format!("({})", inside(template.build)));
    let run: Vec<_> = build.into_iter().chain([up]).collect();
    let ask = format!("mesh ask {}", template.ask.replace("{{name}}", &id));
    let test = inside(&template.test.replace("{{name}}", &id));
    let paths: Vec<_> = files.iter().map(|(path, _)| path.to_string_lossy()).collect();
    if common.json {
        let next: Vec<_> = run.iter().chain([&ask, &test]).collect();
        return output::json(&json!({ "agent": id, "files": paths, "next": next }));
    }
    let (written, run) = (paths.join(", "), run.join("\n  "));
    output::line(&format!(
        "wrote {written}\n\nRun it, then give it a task from another terminal:\n  {run}\n  {ask}\nIf a mesh runs already, add it to that:\n  \
         mesh node {file}\nTest it:\n  {test}"
    ))
}

/// The id of the agent in `dir`: its last part. It names a second agent, too, so it is shorter than other ids.
fn agent_id(dir: &Path) -> Result<String, CliError> {
    let wrong = |why: String| {
        let dir = dir.display();
        CliError::new(
            Exit::Usage,
            format!("{dir}: its last part becomes the agent's id: {why}; choose another name"),
        )
    };
    let absolute = std::path::absolute(dir).map_err(|error| wrong(error.to_string()))?;
    let name = absolute.file_name().unwrap_or_default().to_string_lossy();
    let id = AgentId::parse(&name).map_err(|error| wrong(error.to_string()))?;
    AgentId::parse(&format!("{name}-proofreader")).map_err(|error| wrong(error.to_string()))?;
    if id.is_reserved() {
        return Err(wrong(format!("{id} is a service's name")));
    }
    Ok(id.to_string())
}

/// Writes all files, or none if one of them exists and `force` is false.
fn write(dir: &Path, files: &[(PathBuf, &str)], force: bool) -> Result<(), CliError> {
    let existing = files.iter().filter(|(path, _)| path.symlink_metadata().is_ok());
    let existing: Vec<_> = existing.map(|(path, _)| path.display().to_string()).collect();
    if !force && !existing.is_empty() {
        let message =
            format!("nothing is written: {} exists; --force replaces such files", existing.join(", "));
        return Err(CliError::new(Exit::Failed, message));
    }
    let failed = |path: &Path, error: std::io::Error| {
        CliError::new(Exit::Failed, format!("{} cannot be written: {error}", path.display()))
    };
    for (path, text) in files {
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        let mut options = OpenOptions::new();
        options.write(true).truncate(true);
        let file = if force { options.create(true).open(path) } else { options.create_new(true).open(path) };
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| failed(path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_the_path_is_the_id_if_it_can_be_one() {
        assert_eq!(agent_id(Path::new("a/words-1")).unwrap(), "words-1");
        assert_eq!(agent_id(Path::new("/tmp/words/.")).unwrap(), "words");
        let long = "x".repeat(64);
        for wrong in ["two words", "/", "..", "Mesh", long.as_str()] {
            let error = agent_id(Path::new(wrong)).unwrap_err();
            assert!(error.exit == Exit::Usage && error.message.contains("choose another name"), "{wrong}");
        }
    }

    #[test]
    fn files_are_written_once_and_replaced_only_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("new/words");
        let (old, other) = (at.join("a"), at.join("b"));
        write(&at, &[(old.clone(), "1")], false).unwrap();
        let files = [(other.clone(), "2"), (old.clone(), "2")];
        let refused = write(&at, &files, false).unwrap_err();
        assert!(refused.message.contains("/a exists; --force"), "{}", refused.message);
        assert!(std::fs::read_to_string(&old).unwrap() == "1" && !other.exists());
        write(&at, &files, true).unwrap();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "2");
    }

    #[test]
    fn no_placeholder_is_left_in_a_file() {
        for template in [&PYTHON, &NODE, &RUST, &SHELL, &LLM, &MINIMAL] {
            for (name, text) in template.files("words") {
                let is_left = ["{{name}}", "{{brain}}", "{{test}}"].iter().any(|it| text.contains(it));
                assert!(!text.is_empty() && !is_left, "{name}: {text}");
            }
        }
    }

    #[test]
    fn a_project_in_rust_has_the_whole_library() {
        let written: Vec<_> = RUST.files("words").into_iter().map(|(name, _)| name).collect();
        for (folder, copy) in [("mesh-agent", "mesh-agent"), ("../protocol/wire", "wire")] {
            let library = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            let (mut folders, mut sources) = (vec![library.join("src")], vec![library.join("Cargo.toml")]);
            while let Some(folder) = folders.pop() {
                for entry in std::fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() { folders.push(path) } else { sources.push(path) }
                }
            }
            for source in &sources {
                let name = Path::new(copy).join(source.strip_prefix(&library).unwrap());
                assert!(
                    written.iter().any(|path| Path::new(path) == name),
                    "{} is not written",
                    name.display()
                );
            }
        }
    }
}
