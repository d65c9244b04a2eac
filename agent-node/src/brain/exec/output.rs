//! Bytes as they come, cut into lines, each and all of them bounded.

use super::BrainError;
use crate::brain::lines::{self, Said};
use protocol::patterns::turn::TurnEnd;

/// What a brain has said so far of its present line.
pub(super) struct Output {
    line: Vec<u8>,
    number: u64,
    total: usize,
    max_line: usize,
    max_total: usize,
    /// What stood in the line that said `done` without a message, and says nothing to anybody.
    strangers: Vec<String>,
}

impl Output {
    pub(super) fn new(max_line: usize, max_total: usize) -> Self {
        Self { line: Vec::new(), number: 1, total: 0, max_line, max_total, strangers: Vec::new() }
    }

    /// The lines that `chunk` completes, with their numbers.
    pub(super) fn take(&mut self, chunk: &[u8]) -> Result<Vec<(u64, Said)>, BrainError> {
        self.total += chunk.len();
        if self.total > self.max_total {
            return Err(self.nonsense(format!("the output exceeds {} bytes", self.max_total)));
        }
        let mut said = Vec::new();
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            if self.line.len() + text.len() > self.max_line {
                return Err(self.nonsense(format!("the line exceeds {} bytes", self.max_line)));
            }
            self.line.extend_from_slice(text);
            if text.len() < piece.len() {
                said.extend(self.complete()?);
            }
        }
        Ok(said)
    }

    /// The last line, which need not have an end.
    pub(super) fn end(&mut self) -> Result<Vec<(u64, Said)>, BrainError> {
        Ok(self.complete()?.into_iter().collect())
    }

    fn complete(&mut self) -> Result<Option<(u64, Said)>, BrainError> {
        let line = std::mem::take(&mut self.line);
        let number = self.number;
        let said = match line.trim_ascii() {
            b"" => None,
            line => Some((number, lines::parse(line).map_err(|problem| self.nonsense(problem))?)),
        };
        if let Some((_, Said::End(TurnEnd::Done { message }))) = &said
            && is_blank(message.as_deref())
        {
            self.strangers = lines::strangers(&line);
        }
        self.number += 1;
        Ok(said)
    }

    /// `end`, or why it is no end of a turn in which nothing was made: it has no message, but something else in its place.
    pub(super) fn judged(&self, end: TurnEnd) -> TurnEnd {
        match &end {
            TurnEnd::Done { message } if is_blank(message.as_deref()) && !self.strangers.is_empty() => {
                let unknown = self.strangers.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
                let reason = format!(
                    "done without a result: no artifact and no message; unknown in its `done`: {} (it may have `message`)",
                    unknown.join(", ")
                );
                TurnEnd::Failed { reason }
            }
            TurnEnd::Done { .. }
            | TurnEnd::Failed { .. }
            | TurnEnd::Rejected { .. }
            | TurnEnd::Message { .. }
            | TurnEnd::Waiting => end,
        }
    }

    fn nonsense(&self, problem: String) -> BrainError {
        BrainError::Nonsense { line: self.number, problem }
    }
}

fn is_blank(message: Option<&str>) -> bool {
    message.is_none_or(|text| text.trim().is_empty())
}

const LAST_WORDS: usize = 2 * 1024;

/// The last of what a brain wrote to its standard error.
#[derive(Default)]
pub(super) struct Tail(Vec<u8>);

impl Tail {
    pub(super) fn take(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
        let surplus = self.0.len().saturating_sub(LAST_WORDS);
        self.0.drain(..surplus);
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).trim().to_owned()
    }
}
