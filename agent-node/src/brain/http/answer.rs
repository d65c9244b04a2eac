//! Splits the answer of a service into lines.

use crate::{
    brain::{
        BrainError,
        json_lines::{self, TurnLine, line_parser::LineParser},
    },
    outbox::sse_parser::SseParser,
};

pub(super) enum AnswerParser {
    /// Server-sent events, a line in each.
    Events { parser: SseParser, key: String, number: u64, max_line: usize, has_ended: bool },
    /// A line of JSON after the other.
    Lines { parser: LineParser, has_ended: bool },
}

impl AnswerParser {
    /// A parser of the output of the turn `key`.
    pub(super) fn new(is_event_stream: bool, key: &str, max_line: usize, max_total: usize) -> Self {
        let (parser, key) = (SseParser::new(max_line), key.to_owned());
        match is_event_stream {
            true => Self::Events { parser, number: 0, max_line, has_ended: false, key },
            false => Self::Lines { parser: LineParser::new(&key, max_line, max_total), has_ended: false },
        }
    }

    /// Adds received bytes. Returns the lines that they complete, with their numbers.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<(u64, TurnLine)>, BrainError> {
        let (parser, key, number, max_line) = match self {
            Self::Lines { parser, .. } => {
                parser.push(bytes)?;
                return all_lines(parser);
            }
            Self::Events { parser, key, number, max_line, .. } => (parser, key, number, max_line),
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
            let line = json_lines::parse_in_turn(&data, key)
                .map_err(|problem| BrainError::InvalidLine { line: *number, problem })?;
            lines.push((*number, line));
        }
    }

    /// The answer is complete. Returns its last line, if that has no line feed.
    pub(super) fn end(&mut self) -> Result<Vec<(u64, TurnLine)>, BrainError> {
        match self {
            Self::Events { has_ended, .. } => {
                *has_ended = true;
                Ok(Vec::new())
            }
            Self::Lines { parser, has_ended } => {
                *has_ended = true;
                parser.finish();
                all_lines(parser)
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

fn all_lines(parser: &mut LineParser) -> Result<Vec<(u64, TurnLine)>, BrainError> {
    std::iter::from_fn(|| parser.next_line().transpose()).collect()
}
