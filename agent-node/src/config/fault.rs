//! What is wrong with a configuration: the file, the line, the key, and what is wanted there.

use std::{fmt, path::Path};

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// The line, from 1, where there is one.
    pub line: Option<u64>,
    /// The key, as a path (`agents[0].bid.cost`); empty where it is about the whole.
    pub key: String,
    /// What is wrong, and what is right.
    pub what: String,
}

impl Fault {
    /// A fault of the file as a whole.
    pub fn of_file(path: &Path, what: impl Into<String>) -> Self {
        Self { file: path.display().to_string(), line: None, key: String::new(), what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Everything that is wrong, in the order of the files and lines; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadConfig(pub Vec<Fault>);

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for BadConfig {}
