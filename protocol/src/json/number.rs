//! A number as it was written. Read as a value, one that is no 64-bit integer loses digits.

/// The text of the number that is the member `name` of the object in `json`, which must be JSON; `None` if that is
/// no number.
pub fn written<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = json.trim_start().strip_prefix('{')?;
    loop {
        rest = rest.trim_start();
        let (key, after) = rest.split_at(closing_quote(rest)?);
        rest = after.trim_start().strip_prefix(':')?.trim_start();
        let value = &rest[..value_len(rest)?];
        if serde_json::from_str::<String>(key).is_ok_and(|key| key == name) {
            let value = value.trim_end();
            return value.starts_with(|c: char| c == '-' || c.is_ascii_digit()).then_some(value);
        }
        rest = rest[value.len()..].strip_prefix(',')?;
    }
}

/// How far the text reaches that `json` begins with, its quotes included.
fn closing_quote(json: &str) -> Option<usize> {
    let mut bytes = json.bytes().enumerate();
    bytes.next().filter(|(_, first)| *first == b'"')?;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// How far the value reaches that `json` begins with: to the comma or bracket behind it.
fn value_len(json: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = json.as_bytes().get(at) {
        match byte {
            b'"' => {
                at += closing_quote(&json[at..])?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return Some(at),
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn a_number_is_found_as_it_was_written_and_nothing_else_is() {
        for (json, expected) in [
            (r#"{"id":123456789012345678901234567890}"#, Some("123456789012345678901234567890")),
            (r#" { "a" : [1,{"id":2}] , "id" : 1.50e+3 , "b":2}"#, Some("1.50e+3")),
            (r#"{"x":"\",\"id\":7","id":-0}"#, Some("-0")),
            (r#"{"\u0069d":8}"#, Some("8")),
            (r#"{"id":"9"}"#, None),
            (r#"{"id":null}"#, None),
            (r#"{"params":{"id":1}}"#, None),
            ("{}", None),
            ("[1]", None),
        ] {
            assert_eq!(written(json, "id"), expected, "{json}");
        }
    }

    proptest! {
        #[test]
        fn it_is_what_serde_reads(before in "\\PC{0,20}", key in "\\PC{1,8}", number in any::<i64>()) {
            let name = format!("{key}#");
            let object = json!({ before.clone(): { name.clone(): before }, "z": [number, "}"], name.clone(): number });
            let (text, number) = (object.to_string(), number.to_string());
            prop_assert_eq!(written(&text, &name), Some(number.as_str()));
        }

        #[test]
        fn anything_is_read_to_an_end(text in "\\PC{0,60}") {
            let read = written(&text, "id");
            if serde_json::from_str::<Value>(&text).is_ok() {
                prop_assert!(read.is_none_or(|read| serde_json::from_str::<Value>(read).is_ok()));
            }
        }
    }
}
