//! Output: tables, JSON, and colours on a terminal. Control characters of foreign texts are replaced.

use super::exit::CliError;
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use protocol::task::TaskState;
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// The narrowest terminal to which tables are fitted, in columns.
const MIN_FIT_WIDTH: u16 = 40;

/// A colour, for a terminal.
#[derive(Debug, Clone, Copy)]
pub(super) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
    Grey = 90,
}

/// Whether standard output shows colours.
fn has_colours() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    std::io::stdout().is_terminal()
        && unset("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// `text` in `colour`, if standard output shows colours.
pub(super) fn paint(text: &str, colour: Colour) -> String {
    if has_colours() { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_owned() }
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
    if has_colours() { Cell::new(text).fg(colour) } else { Cell::new(text) }
}

/// The colour of a task's state.
pub(super) fn colour_of(state: TaskState) -> Colour {
    match state {
        TaskState::Completed => Colour::Green,
        TaskState::Failed | TaskState::Rejected => Colour::Red,
        TaskState::Canceled => Colour::Grey,
        TaskState::InputRequired | TaskState::AuthRequired => Colour::Yellow,
        TaskState::Submitted | TaskState::Working => Colour::Cyan,
    }
}

/// `text` on one line, with control characters replaced.
pub(super) fn plain(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines.join(" ").chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Prints one line to standard output.
pub(super) fn line(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Writes bytes to standard output unchanged; on a terminal, control characters are replaced.
pub(super) fn bytes(content: &[u8]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    if out.is_terminal() {
        let text: String = String::from_utf8_lossy(content)
            .chars()
            .map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c })
            .collect();
        out.write_all(text.as_bytes())?;
    } else {
        out.write_all(content)?;
    }
    if !content.ends_with(b"\n") {
        out.write_all(b"\n")?;
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
