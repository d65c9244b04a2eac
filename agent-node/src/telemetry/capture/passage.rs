//! Which passages of a text go with a name that stands in it. A paragraph that names a credential goes whole, and what may
//! belong to it: the paragraph before and the one after, one more beside each that is a single short line, what is indented
//! below the name, what stands in brackets that are open, and all that stands under a heading or a label.

use super::name;
use std::ops::Range;

/// A line that is longer is a paragraph of prose.
const SHORT: usize = 160;

/// A run of lines without a blank one between them; what is fenced is one line in this.
struct Paragraph {
    place: Range<usize>,
    indent: usize,
    is_short: bool,
    /// How many brackets it leaves open.
    opens: i64,
    /// The level of the heading that it begins with.
    level: Option<usize>,
}

/// What a name takes with it, as long as it lasts.
struct Reach {
    indent: usize,
    open: i64,
    /// The level of the heading, or of a label, which any heading ends.
    section: Option<usize>,
    takes_next: bool,
}

/// A label's level: any heading is above it.
const LABEL: usize = 7;

/// The passages of `text` that go with the names at `names`.
pub(super) fn withheld(text: &str, names: &[Range<usize>]) -> Vec<Range<usize>> {
    let paragraphs = paragraphs(text);
    let lines: Vec<_> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut indents: Vec<Option<usize>> = vec![None; paragraphs.len()];
    for at in names.iter().flat_map(|name| [name.start, name.end.max(name.start + 1) - 1]) {
        // What stands between two paragraphs belongs to the one before.
        let of = paragraphs.partition_point(|paragraph| paragraph.place.start <= at).saturating_sub(1);
        let line = lines[lines.partition_point(|line| *line <= at).saturating_sub(1)];
        let indent = indent(&text.as_bytes()[line..]);
        if let Some(least) = indents.get_mut(of) {
            *least = Some(least.map_or(indent, |least| least.min(indent)));
        }
    }
    let mut goes: Vec<_> = indents.iter().map(Option::is_some).collect();
    let mut reach: Option<Reach> = None;
    for (at, paragraph) in paragraphs.iter().enumerate() {
        if let Some(indent) = indents[at] {
            let last = reach.take();
            let section =
                label(&text[paragraph.place.clone()]).or(last.as_ref().and_then(|last| last.section));
            let indent = last.as_ref().map_or(indent, |last| last.indent.min(indent));
            let open = last.map_or(0, |last| last.open) + paragraph.opens;
            reach = Some(Reach { indent, open: open.max(0), section, takes_next: true });
            continue;
        }
        let Some(last) = &mut reach else { continue };
        let is_ended = matches!((last.section, paragraph.level), (Some(own), Some(level)) if level <= own);
        let is_within = last.section.is_some() && !is_ended;
        goes[at] = last.takes_next || is_within || last.open > 0 || paragraph.indent > last.indent;
        last.open = (last.open + paragraph.opens).max(0);
        last.takes_next = goes[at] && paragraph.is_short;
        last.section = last.section.filter(|_| !is_ended);
        if !goes[at] {
            reach = None;
        }
    }
    let mut takes_next = false;
    for (at, paragraph) in paragraphs.iter().enumerate().rev() {
        let is_taken = takes_next;
        takes_next = indents[at].is_some() || is_taken && paragraph.is_short;
        goes[at] |= is_taken;
    }
    paragraphs.into_iter().zip(goes).filter(|(_, goes)| *goes).map(|(paragraph, _)| paragraph.place).collect()
}

fn paragraphs(text: &str) -> Vec<Paragraph> {
    let (mut all, mut at, mut begun, mut is_fenced) = (Vec::new(), 0, None, false);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        let bare = line.trim_start_matches(|char: char| char.is_whitespace() || "> ".contains(char));
        is_fenced ^= bare.starts_with("```") || bare.starts_with("~~~");
        if line.trim().is_empty() && !is_fenced {
            all.extend(begun.take().map(|from| paragraph(text, from..at)));
        } else {
            begun.get_or_insert(at);
        }
        at = end;
    }
    all.extend(begun.map(|from| paragraph(text, from..at)));
    all
}

fn paragraph(text: &str, place: Range<usize>) -> Paragraph {
    let said = &text[place.clone()];
    let opens = said.bytes().fold(0, |open, byte| match byte {
        b'(' | b'[' | b'{' => open + 1,
        b')' | b']' | b'}' => open - 1,
        _ => open,
    });
    let is_short = said.len() <= SHORT && !said.trim().contains('\n');
    Paragraph { indent: indent(said.as_bytes()), is_short, opens, level: level(said), place }
}

fn indent(line: &[u8]) -> usize {
    line.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The level of a heading in Markdown, or of a section's in a file of settings.
fn level(line: &str) -> Option<usize> {
    let line = line.trim_start();
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    if marks > 0 { Some(marks.min(LABEL - 1)) } else { line.starts_with('[').then_some(1) }
}

/// The level of what a named paragraph is a heading or a label of, if it is one: `## Login`, `[login]`, `Credentials:`.
fn label(said: &str) -> Option<usize> {
    let mut lines = said.trim_end().lines().rev().map(str::trim).peekable();
    let is_underlined = lines.next_if(|line| line.chars().all(|char| "-=~_*#+".contains(char))).is_some();
    let last = lines.next()?;
    if let Some(level) = level(last) {
        return Some(level);
    }
    let end = last.trim_end_matches(['*', '_', '`', '"', '\'', ' ']).chars().last()?;
    // A last line with the name speaks of what follows, unless it is a line of code.
    let is_lead = name::names(last) && last.len() <= SHORT && !";,(){}".contains(end);
    let is_label = is_underlined || is_lead || matches!(end, ':' | '：' | '>' | '-' | '=' | '–' | '—');
    is_label.then_some(LABEL)
}
