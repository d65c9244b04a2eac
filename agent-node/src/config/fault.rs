//! Faults of a configuration, with file, line, key and remedy.

use std::{fmt, path::Path};

/// One fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    pub file: String,
    /// The line, from 1; `None` for a fault of the whole file.
    pub line: Option<u64>,
    /// The key as a path (`agents[0].bid.cost`); empty for the whole document.
    pub key: String,
    pub what: String,
}

impl ConfigFault {
    /// A fault of the file as a whole.
    pub fn of_file(path: &Path, what: impl Into<String>) -> Self {
        Self { file: path.display().to_string(), line: None, key: String::new(), what: what.into() }
    }
}

impl fmt::Display for ConfigFault {
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

/// All faults, in the order of files and lines; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigFault>);

impl fmt::Display for ConfigErrors {
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

impl std::error::Error for ConfigErrors {}
