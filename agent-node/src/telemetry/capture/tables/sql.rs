//! Columns of SQL's `INSERT INTO … (…) VALUES (…)` and of `COPY … FROM stdin`.

use super::{Separator, cells, inner, is_secret};
use crate::telemetry::capture::{
    name::{self, Says},
    word,
};
use std::ops::Range;

/// The longest list of columns, and the longest row, bytes.
const LONGEST: usize = 2_048;

/// Tables whose rows have a password, whether or not the columns are named.
const TABLES: &[&[u8]] =
    &[b"user", b"users", b"account", b"accounts", b"login", b"logins", b"member", b"members"];

/// Adds the credentials among the values of rows.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while at + 5 < text.len() {
        let is_begun = at == 0 || !text[at - 1].is_ascii_alphanumeric();
        let word = &text[at..at + 5];
        let is_into =
            is_begun && (word.eq_ignore_ascii_case(b"into ") || word.eq_ignore_ascii_case(b"copy "));
        at = if is_into { rows(text, at + 5, found).unwrap_or(at + 1) } else { at + 1 };
    }
}

/// The rows of the table that is named at `at`; where they end.
fn rows(text: &[u8], at: usize, found: &mut Vec<Range<usize>>) -> Option<usize> {
    let near = text.len().min(at + LONGEST);
    let name_end = at + text[at..near].iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'(')?;
    let (plain, length) = name::plain(&text[at..name_end]);
    let is_of_users = TABLES.iter().any(|table| plain[..length].ends_with(table));
    let table = name::says(&text[at..name_end]).or(is_of_users.then_some(Says::Credential));
    let mut from = blank(text, name_end);
    let mut columns = None;
    if text.get(from) == Some(&b'(') {
        let end = from + text[from..near].iter().position(|byte| *byte == b')')?;
        let list = &text[from + 1..end];
        let says = |cell: &Range<usize>| name::says(list[cell.clone()].trim_ascii());
        columns = Some(cells(list, Separator::Comma).iter().map(says).collect::<Vec<_>>());
        from = end + 1;
    }
    let rest = &text[from..text.len().min(from + 120)];
    let word_at = |word: &[u8]| rest.windows(word.len()).position(|part| part.eq_ignore_ascii_case(word));
    if let Some(more) = word_at(b"from stdin") {
        return Some(copied(text, from + more, &columns?, found));
    }
    let mut at = from + word_at(b"values")? + 6;
    while let Some(row) = row(text, at) {
        for (column, cell) in row.cells.iter().enumerate() {
            let says = match &columns {
                Some(columns) if columns.len() >= row.cells.len() => columns.get(column).copied().flatten(),
                // Columns that are not named, or fewer of them: any of its texts may be one.
                _ => table
                    .filter(|_| text[cell.clone()].contains(&b'\'') || text[cell.clone()].contains(&b'"')),
            };
            found.extend(says.and_then(|says| secret(text, cell, says, row.is_code)));
        }
        at = row.end;
    }
    Some(at)
}

fn blank(text: &[u8], at: usize) -> usize {
    at + text[at..].iter().take(40).take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// What of a value is a credential: all of it but what stands for one.
fn secret(text: &[u8], cell: &Range<usize>, says: Says, is_code: bool) -> Option<Range<usize>> {
    let said = &text[cell.clone()];
    let is_text = said.iter().any(|byte| b"'\"".contains(byte));
    let place = inner(said, &(0..said.len()));
    let inner = &said[place.clone()];
    let is_told = word::is_reference(inner)
        || is_code && !is_text
        || !is_text && (word::is_common(inner) || inner.ends_with(b"()") || word::is_known_name(inner));
    (!is_told && is_secret(says, inner, false)).then_some(cell.start + place.start..cell.start + place.end)
}

/// One row.
struct Row {
    cells: Vec<Range<usize>>,
    end: usize,
    /// Whether it is of the language around SQL, which hands it the values.
    is_code: bool,
}

/// The row that begins at `at`, but for what may stand between two.
fn row(text: &[u8], at: usize) -> Option<Row> {
    let between = text[at..]
        .iter()
        .take(40)
        .take_while(|byte| byte.is_ascii_whitespace() || b",\"'`)+".contains(byte))
        .count();
    let open = at + between;
    let is_code = text[at..open].iter().any(|byte| b"\"'`".contains(byte));
    let close = match text.get(open)? {
        b'(' => b')',
        b'[' if is_code => b']',
        _ => return None,
    };
    let (mut cells, mut from, mut depth, mut place) = (Vec::new(), open + 1, 0_usize, open + 1);
    let end = text.len().min(open + LONGEST);
    while place < end {
        match text[place] {
            b'\'' | b'"' => place = closing(&text[..end], place),
            b',' if depth == 0 => {
                cells.push(from..place);
                from = place + 1;
            }
            b'(' => depth += 1,
            byte if byte == close && depth == 0 => {
                cells.push(from..place);
                return Some(Row { cells, end: place + 1, is_code });
            }
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        place += 1;
    }
    // It goes on beyond what is looked at: so does what was begun.
    cells.push(from..end);
    (end > open + 1).then_some(Row { cells, end, is_code })
}

/// Where the text closes that is opened at `at`; a quote twice is one within.
fn closing(text: &[u8], at: usize) -> usize {
    let mut place = at + 1;
    while place < text.len() {
        match text[place] {
            b'\\' => place += 1,
            byte if byte == text[at] && text.get(place + 1) == Some(&byte) && byte == b'\'' => place += 1,
            byte if byte == text[at] => return place,
            _ => {}
        }
        place += 1;
    }
    text.len()
}

/// The lines that are copied in; where they end.
fn copied(text: &[u8], at: usize, columns: &[Option<Says>], found: &mut Vec<Range<usize>>) -> usize {
    let line_end =
        |at: usize| text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |more| at + more);
    let mut at = (line_end(at) + 1).min(text.len());
    while at < text.len() && !text[at..].starts_with(b"\\.") {
        let end = line_end(at);
        let line = &text[at..end];
        let separator = if line.contains(&b'\t') { Separator::Tab } else { Separator::Comma };
        let all = cells(line, separator);
        if all.len() < columns.len() {
            break;
        }
        for (cell, says) in all.iter().zip(columns) {
            let place = inner(line, cell);
            if says.is_some_and(|says| is_secret(says, &line[place.clone()], false)) {
                found.push(at + place.start..at + place.end);
            }
        }
        at = (end + 1).min(text.len());
    }
    at
}
