//! Splits the answer of a service into lines.

use crate::{
    brain::{
        BrainError,
        json_lines::{self, TurnLine, line_parser::LineParser},
    },
    outbox::sse_parser::SseParser,
};

/// How the lines of an answer are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerForm {
    Events,
    Lines,
    /// One line, which may have line feeds.
    Json,
}

impl AnswerForm {
    /// That of an answer of this media type.
    pub(super) fn of(media_type: &str) -> Self {
        match media_type {
            "text/event-stream" => Self::Events,
            "application/json" => Self::Json,
            _ => Self::Lines,
        }
    }
}

pub(super) enum AnswerParser {
    /// Server-sent events, a line in each.
    Events { parser: SseParser, key: String, number: u64, max_line: usize, has_ended: bool },
    /// A line of JSON after the other.
    Lines { parser: LineParser, has_ended: bool },
    /// One line.
    Json { text: Vec<u8>, key: String, max_line: usize, has_ended: bool },
}

impl AnswerParser {
    /// A parser of the output of the turn `key`.
    pub(super) fn new(form: AnswerForm, key: &str, max_line: usize, max_total: usize) -> Self {
        let (parser, key) = (SseParser::new(max_line), key.to_owned());
        match form {
            AnswerForm::Events => Self::Events { parser, number: 0, max_line, has_ended: false, key },
            AnswerForm::Lines => {
                Self::Lines { parser: LineParser::new(&key, max_line, max_total), has_ended: false }
            }
            AnswerForm::Json => Self::Json { text: Vec::new(), key, max_line, has_ended: false },
        }
    }

    /// Adds received bytes. Returns the lines that they complete, with their numbers.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<(u64, TurnLine)>, BrainError> {
        let (parser, key, number, max_line) = match self {
            Self::Lines { parser, .. } => {
                parser.push(bytes)?;
                return all_lines(parser);
            }
            Self::Json { text, max_line, .. } if text.len() + bytes.len() > *max_line => {
                return Err(too_long(1, *max_line));
            }
            Self::Json { text, .. } => {
                text.extend_from_slice(bytes);
                return Ok(Vec::new());
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
                Err(_) => return Err(too_long(*number + 1, *max_line)),
            };
            *number += 1;
            lines.push(parsed(*number, &data, key)?);
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
            Self::Json { text, key, has_ended, .. } => {
                *has_ended = true;
                if text.trim_ascii().is_empty() { Ok(Vec::new()) } else { Ok(vec![parsed(1, text, key)?]) }
            }
        }
    }

    /// Whether [`Self::end`] was called.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Events { has_ended, .. } | Self::Lines { has_ended, .. } | Self::Json { has_ended, .. } => {
                *has_ended
            }
        }
    }
}

fn all_lines(parser: &mut LineParser) -> Result<Vec<(u64, TurnLine)>, BrainError> {
    std::iter::from_fn(|| parser.next_line().transpose()).collect()
}

fn parsed(line: u64, text: &[u8], key: &str) -> Result<(u64, TurnLine), BrainError> {
    let parsed = json_lines::parse_in_turn(text, key);
    Ok((line, parsed.map_err(|problem| BrainError::InvalidLine { line, problem })?))
}

fn too_long(line: u64, max_line: usize) -> BrainError {
    BrainError::InvalidLine { line, problem: format!("the line exceeds {max_line} bytes") }
}
