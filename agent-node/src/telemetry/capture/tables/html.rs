//! Columns of HTML's tables.

use super::is_secret;
use crate::telemetry::capture::name::{self, Says};
use std::ops::Range;

/// The most columns that are told apart.
const MOST: usize = 64;

/// Adds what stands in columns that a head names as credentials.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    let (mut head, mut column, mut has_rows): (Vec<Option<Says>>, usize, bool) = (Vec::new(), 0, false);
    let mut at = 0;
    while let Some(more) = text[at..].iter().position(|byte| *byte == b'<') {
        at += more + 1;
        let rest = &text[at..];
        let is = |tag: &[u8]| {
            let is_whole = rest.get(tag.len()).is_some_and(|byte| !byte.is_ascii_alphanumeric());
            is_whole && rest[..tag.len()].eq_ignore_ascii_case(tag)
        };
        if is(b"table") {
            (head, has_rows) = (Vec::new(), false);
        } else if is(b"tr") {
            (column, has_rows) = (0, true);
        } else if (is(b"th") || is(b"td")) && column < MOST {
            let Some(from) = rest.iter().take(256).position(|byte| *byte == b'>') else { continue };
            let end = rest[from..].windows(4).take(4_096).position(|part| {
                part.eq_ignore_ascii_case(b"</th")
                    || part.eq_ignore_ascii_case(b"</td")
                    || part.eq_ignore_ascii_case(b"</tr")
            });
            let cell = from + 1..end.map_or(rest.len().min(from + 1), |more| from + more);
            let said = rest.get(cell.clone()).unwrap_or_default();
            if is(b"th") {
                head.resize(column + 1, None);
                head[column] = name::says(said.trim_ascii());
            } else if let Some(Some(says)) = head.get(column).filter(|_| has_rows) {
                let is_told = !is_secret(*says, said.trim_ascii(), false);
                found.extend((!is_told).then_some(at + cell.start..at + cell.end));
            }
            column += 1;
        }
    }
}
