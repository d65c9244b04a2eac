//! Reads the standard error of a command: lines for the log, and its end.

use crate::brain::excerpt;

const MAX_TAIL_BYTES: usize = 2 * 1024;

/// The longest line of standard error in the log, bytes; a longer one becomes several.
const MAX_LOGGED_BYTES: usize = 4 * 1024;
/// The most lines of one turn in the log.
const MAX_LOGGED_LINES: usize = 1_000;

/// Splits a brain's standard error into the lines that are logged.
#[derive(Default)]
pub(super) struct StderrLines {
    line: Vec<u8>,
    count: usize,
}

impl StderrLines {
    /// Adds output. Returns the lines that `chunk` completes, up to the limit of a turn; the last one then says so.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() >= MAX_LOGGED_BYTES {
                // A word is not split if it can be avoided: it may be a secret.
                let is_open = !piece.ends_with(b"\n");
                let word = self.line.iter().rposition(u8::is_ascii_whitespace).filter(|_| is_open);
                let rest = word.map(|at| self.line.split_off(at + 1)).unwrap_or_default();
                lines.extend(self.complete());
                self.line = rest;
            }
        }
        lines
    }

    /// The last line, which may have no line feed.
    pub(super) fn complete(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if text.is_empty() || self.count > MAX_LOGGED_LINES {
            return None;
        }
        self.count += 1;
        let is_last = self.count > MAX_LOGGED_LINES;
        Some(if is_last { format!("more than {MAX_LOGGED_LINES} lines; the rest is left out") } else { text })
    }
}

/// The end of a brain's standard error.
#[derive(Default)]
pub(super) struct StderrTail(Vec<u8>);

impl StderrTail {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
        // One byte more than is shown tells that there was more.
        let surplus = self.0.len().saturating_sub(MAX_TAIL_BYTES + 1);
        self.0.drain(..surplus);
    }

    pub(super) fn text(&self) -> String {
        excerpt::ending(&String::from_utf8_lossy(&self.0), MAX_TAIL_BYTES).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_error_is_logged_by_lines_and_has_an_end() {
        let mut lines = StderrLines::default();
        assert_eq!(lines.push(b"one\n\ntw"), ["one"]);
        assert_eq!(lines.push(b"o\r\nthree"), ["two"]);
        assert_eq!(lines.complete().as_deref(), Some("three"));
        assert_eq!(lines.push(&vec![b'x'; MAX_LOGGED_BYTES]).len(), 1, "a long line is split");
        let many = lines.push(&b"x\n".repeat(2_000));
        assert_eq!(many.len(), MAX_LOGGED_LINES + 1 - 4);
        assert!(many.last().is_some_and(|last| last.contains("left out")));
        let mut words = StderrLines::default();
        let long = format!("{} secret", "x".repeat(MAX_LOGGED_BYTES - 3));
        assert_eq!(words.push(long.as_bytes()).len(), 1);
        assert_eq!(words.complete().as_deref(), Some("secret"));
        let mut tail = StderrTail::default();
        tail.push(format!("KEY=secret{} end", "x".repeat(MAX_TAIL_BYTES - 7)).as_bytes());
        assert_eq!(tail.text(), "end", "what is cut is left out as a whole");
    }
}
