//! Faults of a configuration, with file, line, key and remedy.

use super::variables::Unset;
use std::{collections::BTreeSet, fmt, path::Path};

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

/// The faults found so far.
#[derive(Default)]
pub(super) struct FaultLog {
    faults: Vec<ConfigFault>,
    /// Lines that lack a value. Other faults on them follow from that.
    unset_lines: BTreeSet<(String, u64)>,
    of_unset: Vec<ConfigFault>,
}

impl FaultLog {
    pub(super) fn push(&mut self, fault: ConfigFault) {
        self.faults.push(fault);
    }

    pub(super) fn extend(&mut self, faults: impl IntoIterator<Item = ConfigFault>) {
        self.faults.extend(faults);
    }

    pub(super) fn append(&mut self, other: Self) {
        self.faults.extend(other.faults);
        self.unset_lines.extend(other.unset_lines);
        self.of_unset.extend(other.of_unset);
    }

    /// Adds what of `file` lacks a value.
    pub(super) fn unset(&mut self, file: &str, unset: Vec<Unset>) {
        for Unset { line, what } in unset {
            let file = file.to_owned();
            self.unset_lines.insert((file.clone(), line));
            let fault = what.map(|what| ConfigFault { file, line: Some(line), key: String::new(), what });
            self.of_unset.extend(fault);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.faults.len()
    }

    /// Every fault that does not follow from another, in the order of `files` and lines.
    pub(super) fn finish(mut self, files: &[String]) -> Vec<ConfigFault> {
        self.faults.retain(|fault| {
            let line = fault.line.map(|line| (fault.file.clone(), line));
            !line.is_some_and(|line| self.unset_lines.contains(&line))
        });
        self.faults.append(&mut self.of_unset);
        let position = |fault: &ConfigFault| files.iter().position(|file| *file == fault.file);
        self.faults.sort_by_key(|fault| (position(fault), fault.line));
        self.faults
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
