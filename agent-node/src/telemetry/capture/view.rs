//! A text as whoever reads it will see it: with percent-encoding, backslash escapes and character references undone, one
//! layer a view, each byte knowing where in the text it stands. So a credential is found however it was packed.

use std::{borrow::Cow, ops::Range};

/// How many layers are undone: JSON in JSON in a URL is three.
const DEEPEST: usize = 6;

/// One layer.
pub(super) struct View<'a> {
    /// What is read.
    pub(super) text: Cow<'a, [u8]>,
    /// Where each byte stands in the text as it came, and where that ends; nothing for the text itself.
    places: Vec<usize>,
}

/// `text` as it came, and every layer below, as long as there is one.
pub(super) fn layers(text: &str) -> Vec<View<'_>> {
    let mut layers = vec![View { text: text.as_bytes().into(), places: Vec::new() }];
    while layers.len() <= DEEPEST {
        let Some(next) = layers.last().and_then(View::unpacked) else { break };
        layers.push(next);
    }
    layers
}

impl<'a> View<'a> {
    /// Where `range` stands in the text as it came.
    pub(super) fn place(&self, range: &Range<usize>) -> Range<usize> {
        match self.places.is_empty() {
            true => range.clone(),
            false => self.places[range.start]..self.places[range.end],
        }
    }

    fn unpacked(&self) -> Option<View<'a>> {
        let from = self.text.as_ref();
        if !from.iter().any(|byte| b"%\\&=".contains(byte)) {
            return None;
        }
        let (mut text, mut places) = (Vec::with_capacity(from.len()), Vec::with_capacity(from.len() + 1));
        let (mut at, mut has_changed) = (0, false);
        while at < from.len() {
            let (char, taken) = unpack(&from[at..]).unwrap_or((Unpacked::Byte(from[at]), 1));
            has_changed |= taken > 1;
            let before = text.len();
            match char {
                Unpacked::Byte(byte) => text.push(byte),
                Unpacked::Char(char) => text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            places.extend((before..text.len()).map(|_| self.place(&(at..at)).start));
            at += taken;
        }
        places.push(self.place(&(at..at)).end);
        has_changed.then(|| View { text: text.into(), places })
    }
}

enum Unpacked {
    Byte(u8),
    Char(char),
}

/// What the bytes begin with if that is packed, and how many of them it takes.
fn unpack(text: &[u8]) -> Option<(Unpacked, usize)> {
    let hex = |from: usize, to: usize| {
        let digits = std::str::from_utf8(text.get(from..to)?).ok()?;
        u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
    };
    let byte = |number: u32| u8::try_from(number).ok().map(Unpacked::Byte);
    match text.first()? {
        b'%' => Some((byte(hex(1, 3)?)?, 3)),
        // Quoted-printable.
        b'=' => Some((byte(hex(1, 3).filter(|number| (0x20..0x7f).contains(number))?)?, 3)),
        b'\\' => match *text.get(1)? {
            plain @ (b'"' | b'\'' | b'\\' | b'/') => Some((Unpacked::Byte(plain), 2)),
            b'n' => Some((Unpacked::Byte(b'\n'), 2)),
            b'r' => Some((Unpacked::Byte(b'\r'), 2)),
            b't' => Some((Unpacked::Byte(b'\t'), 2)),
            b'x' => Some((byte(hex(2, 4)?)?, 4)),
            b'u' if text.get(2) == Some(&b'{') => {
                let end = text.iter().take(10).position(|byte| *byte == b'}')?;
                Some((Unpacked::Char(char::from_u32(hex(3, end)?)?), end + 1))
            }
            b'u' => Some((Unpacked::Char(char::from_u32(hex(2, 6)?)?), 6)),
            _ => None,
        },
        b'&' => {
            let end = text.iter().take(10).position(|byte| *byte == b';')?;
            let char = match text.get(1..end)? {
                b"quot" => '"',
                b"apos" => '\'',
                b"amp" => '&',
                b"lt" => '<',
                b"gt" => '>',
                [b'#', b'x' | b'X', ..] => char::from_u32(hex(3, end)?)?,
                [b'#', ..] => char::from_u32(std::str::from_utf8(text.get(2..end)?).ok()?.parse().ok()?)?,
                _ => return None,
            };
            Some((Unpacked::Char(char), end + 1))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_packed_is_read_as_it_will_be() {
        let read = |text| String::from_utf8(layers(text).last().unwrap().text.to_vec()).unwrap();
        assert_eq!(read(r#"{\"a\":\"b\\n\"}"#), "{\"a\":\"b\n\"}");
        assert_eq!(read("a%3Db%26c %zz %"), "a=b&c %zz %");
        assert_eq!(read("&quot;a&quot;&#58;&#x62; &x; \\u0041\\x42\\q"), "\"a\":b &x; AB\\q");
        assert_eq!(layers("nothing packed").len(), 1);
    }

    proptest! {
        #[test]
        fn every_byte_knows_its_place(text in "([a-z%\\\\&\"u0;#x]|quot;|%41|ä){0,60}") {
            for layer in layers(&text) {
                let whole = layer.place(&(0..layer.text.len()));
                prop_assert_eq!(whole, 0..text.len());
                for at in 0..layer.text.len() {
                    let place = layer.place(&(at..at + 1));
                    prop_assert!(place.start <= place.end && place.end <= text.len());
                }
            }
        }
    }
}
