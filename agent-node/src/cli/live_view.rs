//! A view that is kept up to date until it is interrupted: redrawn on a terminal, and in a pipe a line for each change.

use super::{
    exit::{CliError, Exit},
    interrupt::InterruptSignals,
    output,
};
use rustix::termios::tcgetwinsize;
use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    time::Duration,
};

/// How often it is looked again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The lines and columns of a terminal that does not tell its own.
const SIZE: (usize, usize) = (24, 80);

/// What there is at one time.
#[derive(Default)]
pub(super) struct LiveView {
    /// All of it, for a terminal.
    pub(super) screen: String,
    /// A line for each thing, by its id.
    pub(super) lines: BTreeMap<String, LiveLine>,
    /// Whether a new line rings the bell of a terminal.
    pub(super) rings: bool,
}

/// A line about a thing.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct LiveLine {
    pub(super) text: String,
    /// What is said when the thing is there no more; nothing if absent.
    pub(super) at_end: Option<String>,
}

/// Shows what `look` returns, again and again. Fails if the first look fails; a later failure is shown.
pub(super) async fn follow(
    mut look: impl AsyncFnMut() -> Result<LiveView, CliError>,
) -> Result<(), CliError> {
    let mut signals = InterruptSignals::listen()?;
    let mut screen = None;
    let mut known: Option<BTreeMap<String, LiveLine>> = None;
    let mut failed = String::new();
    loop {
        let view = tokio::select! {
            view = look() => view,
            exit = signals.next() => return Err(CliError::new(exit, "")),
        };
        match (view, &mut known) {
            (Err(failure), None) => return Err(failure),
            (Err(failure), Some(_)) if failure.exit == Exit::Done => return Err(failure),
            (Err(failure), Some(_)) => {
                if std::mem::replace(&mut failed, failure.message.clone()) != failure.message {
                    output::note(&format!("mesh: {}", failure.message));
                }
            }
            (Ok(view), known) => {
                failed.clear();
                let is_new = |id: &String| known.as_ref().is_some_and(|known| !known.contains_key(id));
                if std::io::stdout().is_terminal() {
                    let rings = view.rings && view.lines.keys().any(is_new);
                    screen.get_or_insert_with(RedrawnScreen::open).show(&view.screen, rings)?;
                } else {
                    for line in changes(known.as_ref(), &view.lines) {
                        output::line(&line)?;
                    }
                }
                *known = Some(view.lines);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            exit = signals.next() => return Err(CliError::new(exit, "")),
        }
    }
}

/// A line for each thing that is new, has changed, or is there no more.
fn changes(before: Option<&BTreeMap<String, LiveLine>>, now: &BTreeMap<String, LiveLine>) -> Vec<String> {
    let ended = before.into_iter().flatten().filter(|(id, _)| !now.contains_key(*id));
    let ended = ended.filter_map(|(_, line)| line.at_end.clone());
    let old = |id: &String| before.and_then(|before| before.get(id)).map(|line| &line.text);
    let changed = now.iter().filter(|(id, line)| old(id) != Some(&line.text));
    ended.chain(changed.map(|(_, line)| line.text.clone())).collect()
}

/// `line` in pieces of this width. One with colours is a row of a table, which fits already.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = line.chars().collect();
    match characters.len() <= width || line.contains('\u{1b}') {
        true => vec![line.to_owned()],
        false => characters.chunks(width).map(|piece| piece.iter().collect()).collect(),
    }
}

/// The alternate screen of a terminal; what was on the terminal is back when it is dropped.
struct RedrawnScreen;

impl RedrawnScreen {
    fn open() -> Self {
        // A line that wraps at a wide character would push others out.
        write_sequence("\x1b[?1049h\x1b[?7l");
        Self
    }

    fn show(&mut self, text: &str, rings: bool) -> Result<(), CliError> {
        let mut out = std::io::stdout().lock();
        let size = tcgetwinsize(&out).map(|size| (usize::from(size.ws_row), usize::from(size.ws_col)));
        let (height, width) = size.ok().filter(|size| size.0 > 0 && size.1 > 0).unwrap_or(SIZE);
        write!(out, "\x1b[H\x1b[2J{}", if rings { "\x07" } else { "" })?;
        let lines: Vec<_> = text.lines().flat_map(|line| wrapped(line, width)).take(height - 1).collect();
        output::print(&mut out, &lines.join("\n"))?;
        Ok(out.flush()?)
    }
}

impl Drop for RedrawnScreen {
    fn drop(&mut self) {
        write_sequence("\x1b[?7h\x1b[?1049l");
    }
}

/// Writes a sequence that the terminal takes as a command.
fn write_sequence(sequence: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(sequence.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[(&str, &str)]) -> BTreeMap<String, LiveLine> {
        let line = |text: &str| LiveLine { text: text.to_owned(), at_end: Some(format!("no more {text}")) };
        lines.iter().map(|(id, text)| ((*id).to_owned(), line(text))).collect()
    }

    #[test]
    fn only_what_has_changed_is_a_line() {
        let before = lines(&[("a", "one"), ("b", "two"), ("c", "three")]);
        let now = lines(&[("a", "one"), ("b", "2"), ("d", "four")]);
        assert_eq!(changes(Some(&before), &now), ["no more three", "2", "four"]);
        assert_eq!(changes(None, &before), ["one", "two", "three"]);
    }

    #[test]
    fn a_long_line_is_shown_whole() {
        assert_eq!(wrapped("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(
            (wrapped("", 3), wrapped("\u{1b}[31mabc", 3)),
            (vec![String::new()], vec!["\u{1b}[31mabc".to_owned()])
        );
    }
}
