//! Reads lines of a brain's output, with limits.

use super::TurnLine;
use crate::brain::BrainError;
use bytes::BytesMut;

/// Splits the output of a turn into lines and parses them.
pub(in crate::brain) struct LineParser {
    /// The turn; empty between two turns.
    key: String,
    buffer: BytesMut,
    /// The length of the beginning of `buffer` that has no line feed.
    scanned: usize,
    number: u64,
    total: usize,
    max_line: usize,
    max_total: usize,
}

impl LineParser {
    pub(in crate::brain) fn new(key: &str, max_line: usize, max_total: usize) -> Self {
        let (key, buffer) = (key.to_owned(), BytesMut::new());
        Self { key, buffer, scanned: 0, number: 1, total: 0, max_line, max_total }
    }

    /// What is not read yet, and all that follows, is output of the turn `key`.
    pub(in crate::brain) fn begin(&mut self, key: &str) {
        self.key = key.to_owned();
        self.number = 1;
        self.total = 0;
    }

    /// Adds output.
    pub(in crate::brain) fn push(&mut self, chunk: &[u8]) -> Result<(), BrainError> {
        self.total += chunk.len();
        if self.total > self.max_total {
            return Err(self.invalid_line(format!("the output exceeds {} bytes", self.max_total)));
        }
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    /// The output is complete: its last line may have no line feed.
    pub(in crate::brain) fn finish(&mut self) {
        self.buffer.extend_from_slice(b"\n");
    }

    /// The next complete line, with its number.
    pub(in crate::brain) fn next_line(&mut self) -> Result<Option<(u64, TurnLine)>, BrainError> {
        loop {
            let end = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n');
            let length = end.map_or(self.buffer.len(), |end| self.scanned + end);
            if length > self.max_line {
                return Err(self.invalid_line(format!("the line exceeds {} bytes", self.max_line)));
            }
            if end.is_none() {
                self.scanned = length;
                return Ok(None);
            }
            self.scanned = 0;
            let line = self.buffer.split_to(length + 1);
            let text = line.trim_ascii();
            if !text.is_empty() {
                let line = super::parse_in_turn(text, &self.key);
                let line = line.map_err(|problem| self.invalid_line(problem))?;
                self.number += 1;
                return Ok(Some((self.number - 1, line)));
            }
            self.number += 1;
        }
    }

    /// Whether it has the beginning of a line.
    pub(in crate::brain) fn has_rest(&self) -> bool {
        !self.buffer.trim_ascii().is_empty()
    }

    fn invalid_line(&self, problem: String) -> BrainError {
        BrainError::InvalidLine { line: self.number, problem }
    }
}
