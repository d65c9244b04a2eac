//! The head of a table in lines of text.

use super::{cells, inner, is_divider, is_secret};
use crate::telemetry::capture::{
    name::{self, Says},
    word,
};
use std::ops::Range;

/// What stands between two cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    Bar,
    Tab,
    Comma,
    Semicolon,
    /// Two blanks or more, as programs align.
    Blanks,
    Colon,
    Blank,
}

impl Separator {
    const ALL: [Self; 7] =
        [Self::Bar, Self::Tab, Self::Comma, Self::Semicolon, Self::Blanks, Self::Colon, Self::Blank];

    pub(super) fn has_quotes(self) -> bool {
        [Self::Comma, Self::Semicolon, Self::Tab].contains(&self)
    }

    /// How many bytes of it `text` begins with.
    pub(super) fn length(self, text: &[u8]) -> usize {
        let single = match self {
            Self::Bar => b'|',
            Self::Tab => b'\t',
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Colon => b':',
            Self::Blank => b' ',
            Self::Blanks => {
                let blanks = text.iter().take_while(|byte| b" \t".contains(byte)).count();
                return if blanks > 1 { blanks } else { 0 };
            }
        };
        if self == Self::Bar && (text.starts_with("│".as_bytes()) || text.starts_with("┃".as_bytes())) {
            return "│".len();
        }
        usize::from(text[0] == single)
    }

    /// Whether a line with this between its words is a table's only if it names nothing but users and their passwords.
    fn is_weak(self) -> bool {
        [Self::Colon, Self::Blank].contains(&self)
    }
}

/// A table's head, as far as it says of credentials.
pub(super) struct Head {
    separator: Separator,
    /// How many columns there are.
    count: usize,
    /// Which columns hold credentials.
    columns: Vec<(usize, Says)>,
    /// The columns with names and with what goes under them: `| key | value |`.
    pairs: Option<(usize, usize)>,
    is_prose: bool,
}

/// What else than passwords is listed for each user.
const USERS: &[&[u8]] = &[
    b"account",
    b"email",
    b"host",
    b"id",
    b"ip",
    b"login",
    b"mail",
    b"name",
    b"port",
    b"role",
    b"site",
    b"url",
    b"user",
    b"username",
];
/// Columns with names.
const KEYS: &[&[u8]] = &[
    b"key",
    b"name",
    b"field",
    b"setting",
    b"variable",
    b"parameter",
    b"param",
    b"option",
    b"property",
    b"item",
    b"env",
    b"envvar",
    b"environmentvariable",
    b"header",
];
/// Columns with what goes under those names.
const VALUES: &[&[u8]] = &[b"value", b"val", b"default", b"content", b"current", b"setting"];

impl Head {
    /// The head that `line` is if `next` follows it.
    pub(super) fn of(line: &[u8], next: &[u8], before: &[u8]) -> Option<Self> {
        if line.len() > 2_048 {
            return None;
        }
        // A text that is packed in another begins with its quote.
        let opens = |at: &usize| {
            line[*at] == b'"'
                && line[..*at].trim_ascii_end().last().is_some_and(|byte| b":[({=".contains(byte))
        };
        let line = (0..line.len()).rev().find(opens).map_or(line, |at| &line[at + 1..]);
        Separator::ALL.into_iter().find_map(|separator| {
            let is_there = (0..line.len()).any(|at| separator.length(&line[at..]) > 0);
            if is_there { Self::by(separator, line, next, before) } else { None }
        })
    }

    fn by(separator: Separator, line: &[u8], next: &[u8], before: &[u8]) -> Option<Self> {
        let all = cells(line, separator);
        if all.len() < 2 || all.len() > 128 {
            return None;
        }
        let is_certain = separator == Separator::Bar && is_divider(next);
        let is_row = separator == Separator::Bar && (is_divider(before) || before.contains(&b'|'));
        if is_row && !is_certain {
            return None;
        }
        let (mut columns, mut key, mut value) = (Vec::new(), None, None);
        let mut is_prose = separator == Separator::Comma;
        for (at, cell) in all.iter().enumerate() {
            let cell = if at == 0 { without_lead(line, cell) } else { cell.clone() };
            is_prose &= at == 0 || line.get(cell.start) == Some(&b' ');
            let name = &line[inner(line, &cell)];
            let is_edge = separator == Separator::Bar && (at == 0 || at + 1 == all.len());
            if !is_edge && !is_name(name, separator) || word::is_type(name) && !is_certain && name != b"email"
            {
                return None;
            }
            let (plain, length) = name::plain(name);
            let says = name::says(name);
            let is_word = cell.start + name.len() == cell.end
                || at + 1 == all.len() && name == &line[cell.start..][..name.len()];
            if separator.is_weak() && !is_word {
                return None;
            }
            if separator.is_weak() && says.is_none() && !USERS.contains(&&plain[..length]) {
                return None;
            }
            if KEYS.contains(&&plain[..length]) {
                key = key.or(Some(at));
            } else if VALUES.contains(&&plain[..length]) {
                value = Some(at);
            }
            let says =
                if [&b"pass"[..], b"pw"].contains(&&plain[..length]) { Some(Says::Credential) } else { says };
            columns.extend(says.map(|says| (at, says)));
        }
        let pairs = key.zip(value);
        let is_head = !columns.is_empty() || pairs.is_some();
        let is_followed = is_certain || cells(next, separator).len() >= all.len() && next.len() < 8_192;
        // The names of columns are not its rows'.
        let is_weak = separator.is_weak() && columns.first().is_none_or(|(at, _)| *at == 0);
        (is_head && is_followed && !is_weak).then_some(Self {
            separator,
            count: all.len(),
            columns,
            pairs,
            is_prose,
        })
    }

    /// Adds the credentials of `line`, if that is a row.
    pub(super) fn row(&self, text: &[u8], line: &Range<usize>, found: &mut Vec<Range<usize>>) -> bool {
        let said = &text[line.clone()];
        let all = cells(said, self.separator);
        let least = if self.separator == Separator::Bar { 2 } else { self.count };
        if all.len() < least {
            return false;
        }
        let mut add = |at: usize, says: Says| {
            let Some(cell) = all.get(at) else { return };
            // Where there are more cells than names, one of them had a separator in it.
            let is_more = self.separator != Separator::Bar && all.len() > self.count;
            let cell = if is_more { cell.start..said.len() } else { cell.clone() };
            let place = inner(said, &cell);
            if is_secret(says, &said[place.clone()], self.is_prose) {
                // A cell in quotes that goes on below.
                let is_open = said[cell.clone()]
                    .trim_ascii()
                    .strip_prefix(b"\"")
                    .is_some_and(|rest| !rest.contains(&b'"'));
                let rest = &text[line.end..text.len().min(line.end + 1_024)];
                let more = rest
                    .iter()
                    .position(|byte| *byte == b'"')
                    .filter(|_| is_open && self.separator.has_quotes());
                found.push(
                    line.start + place.start..more.map_or(line.start + place.end, |more| line.end + more),
                );
            }
        };
        for (at, says) in &self.columns {
            add(*at, *says);
        }
        if let Some((key, value)) = self.pairs {
            let says = all.get(key).and_then(|cell| name::says(&said[inner(said, cell)]));
            says.into_iter().for_each(|says| add(value, says));
        }
        true
    }
}

/// Where the first cell begins if something leads to the table: `{"text":"user,password`, `as CSV: user,password`.
fn without_lead(line: &[u8], cell: &Range<usize>) -> Range<usize> {
    let said = line[cell.clone()].trim_ascii_end();
    let said = said.strip_suffix(b"\"").unwrap_or(said);
    let lead = said.iter().rposition(|byte| b"\":>`".contains(byte)).map_or(0, |at| at + 1);
    cell.start + lead..cell.end
}

/// Whether a column could be called so.
fn is_name(name: &[u8], separator: Separator) -> bool {
    let words = name.split(|byte| *byte == b' ').count();
    let is_plain =
        name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-. /#()".contains(byte) || *byte >= 0x80);
    let most = if separator == Separator::Comma { 2 } else { 4 };
    !name.is_empty()
        && name.len() <= 40
        && is_plain
        && words <= most
        && (name == b"#" || name.iter().any(u8::is_ascii_alphabetic))
}
