//! Splits the answer of a service into lines.

use crate::{
    brain::{
        BrainError,
        json_lines::{self, BrainLine, line_parser::LineParser},
    },
    outbox::sse_parser::SseParser,
};

/// The parser of one answer.
pub(super) enum AnswerParser {
    /// Server-sent events, a line in each.
    Events { parser: SseParser, number: u64, max_line: usize, has_ended: bool },
    /// A line of JSON after the other.
    Lines { parser: LineParser, has_ended: bool },
}

impl AnswerParser {
    pub(super) fn new(is_event_stream: bool, max_line: usize, max_total: usize) -> Self {
        match is_event_stream {
            true => Self::Events { parser: SseParser::new(max_line), number: 0, max_line, has_ended: false },
            false => Self::Lines { parser: LineParser::new(max_line, max_total), has_ended: false },
        }
    }

    /// Adds received bytes. Returns the lines that they complete, with their numbers.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<(u64, BrainLine)>, BrainError> {
        let (parser, number, max_line) = match self {
            Self::Lines { parser, .. } => return parser.push(bytes),
            Self::Events { parser, number, max_line, .. } => (parser, number, max_line),
        };
        parser.push(bytes);
        let mut lines = Vec::new();
        loop {
            let data = match parser.next_event() {
                Ok(None) => return Ok(lines),
                Ok(Some(data)) if data.trim_ascii().is_empty() => continue,
                Ok(Some(data)) => data,
                Err(_) => {
                    let problem = format!("the line exceeds {max_line} bytes");
                    return Err(BrainError::InvalidLine { line: *number + 1, problem });
                }
            };
            *number += 1;
            let line = json_lines::parse(&data)
                .map_err(|problem| BrainError::InvalidLine { line: *number, problem })?;
            lines.push((*number, line));
        }
    }

    /// The answer is complete. Returns its last line, if that has no line feed.
    pub(super) fn end(&mut self) -> Result<Vec<(u64, BrainLine)>, BrainError> {
        match self {
            Self::Events { has_ended, .. } => {
                *has_ended = true;
                Ok(Vec::new())
            }
            Self::Lines { parser, has_ended } => {
                *has_ended = true;
                parser.end()
            }
        }
    }

    /// Whether [`Self::end`] was called.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Events { has_ended, .. } | Self::Lines { has_ended, .. } => *has_ended,
        }
    }
}
