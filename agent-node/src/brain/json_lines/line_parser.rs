//! Reads lines of a brain's output, with limits.

use super::BrainLine;
use crate::brain::BrainError;

/// Splits output into lines and parses them.
pub(in crate::brain) struct LineParser {
    line: Vec<u8>,
    number: u64,
    total: usize,
    max_line: usize,
    max_total: usize,
}

impl LineParser {
    pub(in crate::brain) fn new(max_line: usize, max_total: usize) -> Self {
        Self { line: Vec::new(), number: 1, total: 0, max_line, max_total }
    }

    /// Adds output. Returns the lines that `chunk` completes, with their numbers.
    pub(in crate::brain) fn push(&mut self, chunk: &[u8]) -> Result<Vec<(u64, BrainLine)>, BrainError> {
        self.total += chunk.len();
        if self.total > self.max_total {
            return Err(self.invalid_line(format!("the output exceeds {} bytes", self.max_total)));
        }
        let mut lines = Vec::new();
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            if self.line.len() + text.len() > self.max_line {
                return Err(self.invalid_line(format!("the line exceeds {} bytes", self.max_line)));
            }
            self.line.extend_from_slice(text);
            if text.len() < piece.len() {
                lines.extend(self.complete()?);
            }
        }
        Ok(lines)
    }

    /// The last line, which may have no line feed.
    pub(in crate::brain) fn end(&mut self) -> Result<Vec<(u64, BrainLine)>, BrainError> {
        Ok(self.complete()?.into_iter().collect())
    }

    fn complete(&mut self) -> Result<Option<(u64, BrainLine)>, BrainError> {
        let bytes = std::mem::take(&mut self.line);
        let number = self.number;
        let line = match bytes.trim_ascii() {
            b"" => None,
            bytes => Some((number, super::parse(bytes).map_err(|problem| self.invalid_line(problem))?)),
        };
        self.number += 1;
        Ok(line)
    }

    fn invalid_line(&self, problem: String) -> BrainError {
        BrainError::InvalidLine { line: self.number, problem }
    }
}
