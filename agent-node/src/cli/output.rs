//! Output: tables, JSON, and colours on a terminal. Everything passes [`print`], which escapes control characters.

use super::exit::CliError;
pub(super) use crate::terminal::plain;

use crate::terminal::escaped;
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use protocol::task::TaskState;
use serde::Serialize;
use std::io::{IsTerminal, Write};

const RESET: &str = "\x1b[0m";
/// The sequences that this module and its tables write.
const SEQUENCES: [&str; 12] = [
    "\x1b[31m",
    "\x1b[32m",
    "\x1b[33m",
    "\x1b[36m",
    "\x1b[90m",
    RESET,
    "\x1b[38;5;1m",
    "\x1b[38;5;2m",
    "\x1b[38;5;3m",
    "\x1b[38;5;6m",
    "\x1b[38;5;8m",
    "\x1b[39m",
];

/// The narrowest terminal to which tables are fitted, in columns.
const MIN_FIT_WIDTH: u16 = 40;

#[derive(Debug, Clone, Copy)]
pub(super) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
    Grey = 90,
}

/// Whether standard output shows colours.
pub(super) fn has_colours() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    std::io::stdout().is_terminal()
        && unset("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// `text` in `colour`, if standard output shows colours.
pub(super) fn paint(text: &str, colour: Colour) -> String {
    if has_colours() { format!("\x1b[{}m{}{RESET}", colour as u8, escaped(text)) } else { text.to_owned() }
}

/// A table's cell with `text` in `colour`, if standard output shows colours.
pub(super) fn cell(text: &str, colour: Colour) -> Cell {
    let colour = match colour {
        Colour::Red => Color::DarkRed,
        Colour::Green => Color::DarkGreen,
        Colour::Yellow => Color::DarkYellow,
        Colour::Cyan => Color::DarkCyan,
        Colour::Grey => Color::DarkGrey,
    };
    if has_colours() { Cell::new(escaped(text)).fg(colour) } else { Cell::new(text) }
}

pub(super) fn colour_of(state: TaskState) -> Colour {
    match state {
        TaskState::Completed => Colour::Green,
        TaskState::Failed | TaskState::Rejected => Colour::Red,
        TaskState::Canceled => Colour::Grey,
        TaskState::InputRequired | TaskState::AuthRequired => Colour::Yellow,
        TaskState::Submitted | TaskState::Working => Colour::Cyan,
    }
}

/// Writes `text` to standard output, escaped but for the colours of this module.
pub(super) fn print(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    if !has_colours() {
        return out.write_all(escaped(text).as_bytes());
    }
    let mut pieces = text.split('\u{1b}');
    out.write_all(escaped(pieces.next().unwrap_or_default()).as_bytes())?;
    for piece in pieces {
        match SEQUENCES.iter().find_map(|sequence| Some((sequence, piece.strip_prefix(&sequence[1..])?))) {
            Some((sequence, text)) => write!(out, "{sequence}{}", escaped(text))?,
            None => write!(out, "{}{}", escaped("\u{1b}"), escaped(piece))?,
        }
    }
    Ok(())
}

/// Prints one line to standard output.
pub(super) fn line(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    print(&mut out, text)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Writes bytes to standard output unchanged; on a terminal, control characters are escaped.
pub(super) fn bytes(content: &[u8]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    if out.is_terminal() {
        out.write_all(escaped(&String::from_utf8_lossy(content)).as_bytes())?;
    } else {
        out.write_all(content)?;
    }
    if !content.ends_with(b"\n") {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Writes a piece of text to standard output at once, escaped on a terminal.
pub(super) fn piece(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.is_terminal() {
        true => out.write_all(escaped(text).as_bytes())?,
        false => out.write_all(text.as_bytes())?,
    }
    Ok(out.flush()?)
}

/// Prints one line to standard error; ignores write errors.
pub(super) fn note(text: &str) {
    crate::telemetry::print_line(tracing::Level::INFO, &text);
}

/// Prints `value` as indented JSON.
pub(super) fn json(value: &impl Serialize) -> Result<(), CliError> {
    line(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// Prints `value` as JSON on one line.
pub(super) fn json_line(value: &impl Serialize) -> Result<(), CliError> {
    line(&serde_json::to_string(value).unwrap_or_default())
}

/// A table of aligned rows under a header.
pub(super) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().map(|name| name.to_uppercase()));
    // A terminal of unknown width reports 0.
    if std::io::stdout().is_terminal() && table.width().is_some_and(|width| width >= MIN_FIT_WIDTH) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    for row in rows {
        table.add_row(row);
    }
    let lines: Vec<_> =
        table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    lines.join("\n")
}
