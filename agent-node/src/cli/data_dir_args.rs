//! The flags that say where a mesh's data lies.

use anyhow::Context as _;
use clap::Args;
use protocol::ids::AgentId;
use std::path::PathBuf;

/// Where a mesh's data lies.
#[derive(Debug, Clone, Args)]
pub(super) struct DataDirArgs {
    /// The name of the mesh: its data lies in ~/.mesh/<name>, each separate process's in a directory of its own there.
    #[arg(long, default_value = "default", value_parser = mesh_name)]
    name: AgentId,
    /// The data directory, instead of the one by name.
    #[arg(long, env = "MESH_DATA")]
    data: Option<PathBuf>,
}

/// The name of a mesh, which is written like an agent's id.
fn mesh_name(text: &str) -> Result<AgentId, String> {
    AgentId::parse(text).map_err(|_| {
        "the name of a mesh has 1 to 64 letters, digits, `.`, `_` and `-`, and begins with a letter or digit".to_owned()
    })
}

/// The role of a process in a mesh, which determines its data directory.
pub(super) enum ProcessRole {
    /// The whole mesh; uses the mesh's directory itself.
    Whole,
    /// A separate process; uses the subdirectory of that name.
    Separate(String),
    /// A replica; shares the subdirectory of that name.
    Replica(String),
}

impl DataDirArgs {
    /// The data directory of a process, and the directory it shares with the mesh's other processes.
    pub(super) fn dirs(&self, role: ProcessRole) -> anyhow::Result<(PathBuf, PathBuf)> {
        let dir = self.dir()?;
        Ok(match role {
            ProcessRole::Separate(name) | ProcessRole::Replica(name) if self.data.is_none() => {
                (dir.join(name), dir)
            }
            ProcessRole::Separate(_) | ProcessRole::Replica(_) | ProcessRole::Whole => (dir.clone(), dir),
        })
    }

    /// Whether a directory other than the usual one is named.
    pub(super) fn is_named(&self) -> bool {
        self.data.is_some() || self.name.as_str() != "default"
    }

    /// The mesh's data directory: `--data`, or `~/.mesh/<name>`.
    pub(super) fn dir(&self) -> anyhow::Result<PathBuf> {
        if let Some(data) = &self.data {
            return Ok(data.clone());
        }
        let home = std::env::var_os("HOME")
            .filter(|home| !home.is_empty())
            .context("HOME is not set; say --data")?;
        Ok(PathBuf::from(home).join(".mesh").join(self.name.as_str()))
    }
}
