//! Credentials in columns: a head names them once, and they stand in the rows below. Of Markdown, of databases' tools, of
//! CSV and its like, aligned by blanks; of HTML ([`html`]); of SQL ([`sql`]).

mod head;
mod html;
mod sql;

use super::{name::Says, word};
use head::{Head, Separator};
use std::ops::Range;

/// Adds where credentials stand in `text`.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    sql::find(text, found);
    html::find(text, found);
    let (mut at, mut head, mut before): (usize, Option<Head>, &[u8]) = (0, None, b"");
    while at < text.len() {
        let end = at + text[at..].iter().position(|byte| *byte == b'\n').unwrap_or(text.len() - at);
        let line = at..end - usize::from(text[at..end].ends_with(b"\r"));
        let said = &text[line.clone()];
        if said.trim_ascii().is_empty() {
            head = None;
        } else if !is_divider(said) {
            let next = &text[(end + 1).min(text.len())..];
            let next = &next[..next.iter().position(|byte| *byte == b'\n').unwrap_or(next.len())];
            // A line over a divider is a head, whatever stands above it.
            let is_head = is_divider(next) && !next.starts_with(b"+") && said.contains(&b'|');
            let goes_on = !is_head && head.as_ref().is_some_and(|head| head.row(text, &line, found));
            if !goes_on {
                head = Head::of(said, next, before);
            }
        }
        (at, before) = (end + 1, said);
    }
}

/// A line between a head and its rows, or around them.
fn is_divider(line: &[u8]) -> bool {
    let is_drawn = line.windows(3).any(|sign| sign == "─".as_bytes() || sign == "═".as_bytes());
    if is_drawn {
        return line.iter().all(|byte| *byte >= 0x80 || *byte == b' ');
    }
    line.len() > 2
        && line.iter().filter(|byte| b"-=".contains(byte)).take(3).count() > 1
        && line.iter().all(|byte| b"-+|=: \t\"{}".contains(byte))
}

/// The cells of a line, with what is in quotes in one piece.
fn cells(line: &[u8], separator: Separator) -> Vec<Range<usize>> {
    let (mut cells, mut from, mut at) = (Vec::new(), 0, 0);
    while at < line.len() {
        let begins = line[from..at].iter().all(|byte| *byte == b' ');
        let closing = || line[at + 1..].iter().position(|byte| *byte == b'"').map(|more| at + 1 + more);
        match line[at] {
            b'"' if begins && separator.has_quotes() => at = closing().unwrap_or(at) + 1,
            b'\\' if separator == Separator::Bar => at += 2,
            _ => match separator.length(&line[at..]) {
                0 => at += 1,
                length => {
                    cells.push(from..at);
                    at += length;
                    from = at;
                }
            },
        }
    }
    cells.push(from..line.len());
    cells
}

/// What a cell says, without blanks, quotes and Markdown's signs around it.
fn inner(line: &[u8], cell: &Range<usize>) -> Range<usize> {
    let said = &line[cell.clone()];
    let is_around = |byte: &u8| b" \t\"'`*".contains(byte);
    let from = said.iter().position(|byte| !is_around(byte)).unwrap_or(said.len());
    let to = said.iter().rposition(|byte| !is_around(byte)).map_or(from, |last| last + 1);
    cell.start + from..cell.start + to
}

/// Whether `cell` is a credential if its column's name says so.
fn is_secret(says: Says, cell: &[u8], is_prose: bool) -> bool {
    let is_number = cell.iter().all(u8::is_ascii_digit);
    let is_ordinary = match says {
        Says::Credential | Says::Header => false,
        Says::Several => is_number || word::is_remark(cell),
        Says::Perhaps => is_number && cell.len() < 4 || word::is_plain(cell) || word::is_remark(cell),
    };
    !(cell.is_empty()
        || is_ordinary
        || word::is_harmless(cell)
        || matches!(cell, b"NULL" | b"-" | b"n/a" | b"N/A")
        || is_prose && (word::is_common(cell) || word::is_known_name(cell) || word::is_remark(cell)))
}
