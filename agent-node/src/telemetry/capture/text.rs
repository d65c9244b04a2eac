//! A text without its credentials, however they are packed.

use super::{look, own::Own, pairs, tables, view};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::ops::Range;

/// What stands in a credential's place.
pub(super) const MASK: &str = "***";

/// Runs of base64 shorter than this hold nothing that is worth a look.
const SHORTEST: usize = 24;

/// `text` with every credential in it masked.
pub(super) fn masked(text: &str, own: &Own) -> String {
    let mut places = found(text, own);
    places.extend(packed(text, own));
    covered(text, places)
}

/// `text` without our own secrets, as they are.
pub(super) fn without(text: &str, own: &Own) -> String {
    let mut places = Vec::new();
    own.find(text.as_bytes(), &mut places);
    covered(text, places)
}

/// `text` with a mask in these places.
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

/// Where credentials stand in `text`.
fn found(text: &str, own: &Own) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    for layer in view::layers(text) {
        let mut found = Vec::new();
        pairs::find(&layer.text, &mut found);
        tables::find(&layer.text, &mut found);
        look::find(&layer.text, &mut found);
        own.find(&layer.text, &mut found);
        let is_something =
            |range: &Range<usize>| !range.is_empty() && &layer.text[range.clone()] != MASK.as_bytes();
        places.extend(found.iter().filter(|range| is_something(range)).map(|range| layer.place(range)));
    }
    places
}

/// Where base64 stands that packs a text with a credential in it.
fn packed(text: &str, own: &Own) -> Vec<Range<usize>> {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let (bytes, mut places, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte);
        let end = at + bytes[at..].iter().take_while(|byte| is_digit(byte)).count();
        let digits = text.get(at..end).unwrap_or_default();
        if digits.len() >= SHORTEST {
            let is_url = digits.contains(['-', '_']);
            let alphabet = if is_url { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
            let said = GeneralPurpose::new(alphabet, lenient).decode(digits).ok();
            let said = said.and_then(|bytes| String::from_utf8(bytes).ok());
            if said.is_some_and(|said| !found(&said, own).is_empty()) {
                places.push(at..end);
            }
        }
        at = end + 1;
    }
    places
}
