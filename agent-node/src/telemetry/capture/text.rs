//! A text without the words that look like a credential, and whether it names one, however it is packed.

use super::{look, name, own::Own, view};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::ops::Range;

/// What stands in a word's place.
pub(super) const MASK: &str = "***";

/// What stands in the place of what names a credential.
pub(super) const WITHHELD: &str = "[withheld: names a credential]";

/// Runs of base64 shorter than this name nothing.
const SHORTEST: usize = 8;

/// `text` without words that look like credentials.
pub(super) fn masked(text: &str, own: &Own) -> String {
    let words = view::layers(text).into_iter().flat_map(|layer| strange(&layer, own));
    covered(text, words.collect())
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
    covered(text, places)
}

/// `text` with a mark in these places.
fn covered(text: &str, mut places: Vec<Range<usize>>) -> String {
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let (mut out, mut told) = (String::with_capacity(text.len()), 0);
    for place in places {
        let start = (0..=place.start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let end = (place.end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        if start >= told {
            out.push_str(&text[told..start]);
            out.push_str(MASK);
        }
        told = told.max(end);
    }
    out.push_str(&text[told..]);
    out
}

/// Whether `text` names a credential, however it is packed.
pub(super) fn names(text: &str) -> bool {
    view::layers(text)
        .iter()
        .any(|layer| name::names(&layer.text) || packs(&layer.text) || name::names(&joined(&layer.text)))
}

/// `text` without what may stand within a word: a hyphen and a line's end, markup.
fn joined(text: &[u8]) -> Vec<u8> {
    const LONGEST: usize = 16;
    let (mut joined, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let rest = &text[at..];
        let tag = rest.iter().take(LONGEST).position(|byte| *byte == b'>');
        at += match rest[0] {
            b'-' if rest[1..].starts_with(b"\n") => {
                2 + rest[2..].iter().take_while(|byte| **byte == b' ').count()
            }
            b'*' => 1,
            b'<' if tag.is_some()
                && rest.get(1).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'/') =>
            {
                tag.unwrap_or_default() + 1
            }
            byte => {
                joined.push(byte);
                1
            }
        };
    }
    if joined.len() == text.len() { Vec::new() } else { joined }
}

/// Whether base64 stands in `text` that packs a text which names a credential.
fn packs(text: &[u8]) -> bool {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let (standard, url) = (
        GeneralPurpose::new(&alphabet::STANDARD, lenient),
        GeneralPurpose::new(&alphabet::URL_SAFE, lenient),
    );
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte);
    text.split(|byte| !is_digit(byte)).filter(|digits| digits.len() >= SHORTEST).any(|digits| {
        let is_url = digits.iter().any(|digit| b"-_".contains(digit));
        let said = if is_url { &url } else { &standard }.decode(digits).ok();
        said.and_then(|bytes| String::from_utf8(bytes).ok())
            .is_some_and(|said| view::layers(&said).iter().any(|layer| name::names(&layer.text)))
    })
}
