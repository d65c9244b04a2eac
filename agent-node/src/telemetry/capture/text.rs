//! A text without the passages that name a credential and the words that look like one, however they are packed.

use super::{look, name, own::Own, passage, view};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::ops::Range;

/// What stands in a word's place.
pub(super) const MASK: &str = "***";

/// What stands in a passage's place.
pub(super) const WITHHELD: &str = "[withheld: names a credential]";

/// Runs of base64 shorter than this name nothing.
const SHORTEST: usize = 8;

/// What is told of a text, and whether it names a credential.
pub(super) struct Told {
    pub(super) text: String,
    pub(super) is_named: bool,
}

/// `text` without its credentials. Where it was cut a name may follow, so its last paragraph goes as if it had one.
pub(super) fn told(text: &str, own: &Own, is_cut: bool) -> Told {
    let (mut names, mut words) = (Vec::new(), Vec::new());
    if is_cut {
        names.push(text.len()..text.len());
    }
    for layer in view::layers(text) {
        let mut named = Vec::new();
        name::find(&layer.text, &mut named);
        packed(&layer.text, &mut named);
        names.extend(named.iter().map(|range| layer.place(range)));
        words.extend(strange(&layer, own));
    }
    let passages = passage::withheld(text, &names);
    let places = passages
        .into_iter()
        .map(|place| (place, WITHHELD))
        .chain(words.into_iter().map(|place| (place, MASK)));
    Told { text: covered(text, places.collect()), is_named: !names.is_empty() }
}

/// `text` without words that look like credentials, whatever it names.
pub(super) fn masked(text: &str, own: &Own) -> String {
    let words = view::layers(text).into_iter().flat_map(|layer| strange(&layer, own));
    covered(text, words.map(|place| (place, MASK)).collect())
}

/// Where words stand in the text as it came that look like credentials in this view of it, or are ours.
fn strange(layer: &view::View<'_>, own: &Own) -> Vec<Range<usize>> {
    let mut seen = Vec::new();
    look::find(&layer.text, &mut seen);
    own.find(&layer.text, &mut seen);
    seen.retain(|range| !range.is_empty() && &layer.text[range.clone()] != MASK.as_bytes());
    seen.iter().map(|range| layer.place(range)).collect()
}

/// `text` without our own secrets, as they are.
pub(super) fn without(text: &str, own: &Own) -> String {
    let mut places = Vec::new();
    own.find(text.as_bytes(), &mut places);
    covered(text, places.into_iter().map(|place| (place, MASK)).collect())
}

/// `text` with a mark in these places; one for passages that follow each other.
fn covered(text: &str, mut places: Vec<(Range<usize>, &str)>) -> String {
    places.sort_unstable_by_key(|(place, mark)| (place.start, place.end, mark.len()));
    let (mut out, mut told, mut is_withheld) = (String::with_capacity(text.len()), 0, false);
    for (place, mark) in places {
        let start = (0..=place.start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let end = (place.end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        if start >= told {
            let between = &text[told..start];
            if !is_withheld || mark != WITHHELD || !between.trim().is_empty() {
                out.push_str(between);
                out.push_str(mark);
            }
            is_withheld = mark == WITHHELD;
        }
        if mark == WITHHELD && start < told && !is_withheld {
            out.push_str(WITHHELD);
            is_withheld = true;
        }
        told = told.max(end);
    }
    if is_withheld && !text[told..].trim().is_empty() {
        out.push('\n');
    }
    out.push_str(&text[told..]);
    out
}

/// Adds where base64 stands that packs a text which names a credential.
fn packed(text: &[u8], named: &mut Vec<Range<usize>>) {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let (standard, url) = (
        GeneralPurpose::new(&alphabet::STANDARD, lenient),
        GeneralPurpose::new(&alphabet::URL_SAFE, lenient),
    );
    let mut at = 0;
    while at < text.len() {
        let end = at
            + text[at..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte))
                .count();
        let digits = &text[at..end];
        if digits.len() >= SHORTEST {
            let is_url = digits.iter().any(|digit| b"-_".contains(digit));
            let said = if is_url { &url } else { &standard }.decode(digits).ok();
            if said.and_then(|bytes| String::from_utf8(bytes).ok()).is_some_and(|said| names(&said)) {
                named.push(at..end);
            }
        }
        at = end + 1;
    }
}

/// Whether `text` names a credential, however it is packed.
pub(super) fn names(text: &str) -> bool {
    view::layers(text).iter().any(|layer| {
        let mut found = Vec::new();
        name::find(&layer.text, &mut found);
        !found.is_empty()
    })
}

/// Whether it is a short text that names a credential: a label, a question.
pub(super) fn is_label(text: &str) -> bool {
    const LONGEST: usize = 400;
    text.len() <= LONGEST && names(text)
}
