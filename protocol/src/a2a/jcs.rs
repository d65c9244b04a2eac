//! The one way to write a JSON value (RFC 8785), so that a signature over its bytes is a signature over what it says.

use serde_json::{Number, Value};

/// `value` in canonical form: members in the order of their names as UTF-16, numbers as ECMAScript writes them, nothing
/// escaped that need not be. Numbers are doubles, as everywhere in ProtoJSON.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&ecmascript(number)),
        Value::String(text) => quote(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quote(name, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}

/// `Number.prototype.toString` of ECMAScript: the shortest digits that read back as the same double, laid out by size.
fn ecmascript(number: &Number) -> String {
    let double = number.as_f64().unwrap_or_default();
    if double == 0.0 {
        return "0".to_owned();
    }
    let shortest = format!("{:e}", double.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits = even(mantissa.chars().filter(char::is_ascii_digit).collect(), double.abs());
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or_default());
    let split = |at: i32| digits.split_at(usize::try_from(at).unwrap_or_default());
    let sign = if double < 0.0 { "-" } else { "" };
    let written = match point {
        22.. | ..=-6 => {
            let (first, rest) = split(1);
            let dot = if rest.is_empty() { "" } else { "." };
            let plus = if point > 0 { "+" } else { "" };
            format!("{first}{dot}{rest}e{plus}{}", point - 1)
        }
        1..=21 if point >= count => format!("{digits}{}", zeros(point - count)),
        1..=21 => {
            let (whole, part) = split(point);
            format!("{whole}.{part}")
        }
        -5..=0 => format!("0.{}{digits}", zeros(-point)),
    };
    format!("{sign}{written}")
}

/// Of two shortest forms that are equally near, ECMAScript takes the even one; Rust takes the upper.
fn even(mut digits: String, double: f64) -> String {
    let is_odd = digits.bytes().last().is_some_and(|last| last % 2 == 1);
    if digits.len() < 16 || !is_odd {
        return digits;
    }
    // No double has more significant digits than this.
    let exact = format!("{double:.780e}");
    let exact: String = exact.chars().take_while(|c| *c != 'e').filter(char::is_ascii_digit).collect();
    let (head, tail) = exact.split_at(digits.len());
    let is_tie = tail.strip_prefix('5').is_some_and(|rest| rest.bytes().all(|digit| digit == b'0'));
    if is_tie && head.as_bytes().last().is_some_and(|last| last % 2 == 0) {
        digits = head.to_owned();
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn of(text: &str) -> String {
        canonical(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_examples_of_the_rfc_come_out_as_printed_there() {
        let value = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        assert_eq!(
            of(value),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
        let names = r#"{
            "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
            "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
        }"#;
        let order = ["Carriage Return", "One", "Control", "Latin Small", "Euro Sign", "Emoji", "Hebrew"];
        let written = of(names);
        let places: Vec<_> = order.iter().map(|name| written.find(name).unwrap()).collect();
        assert!(places.is_sorted(), "{written}");
    }

    #[test]
    fn numbers_come_out_as_in_appendix_b_of_the_rfc() {
        for (bits, expected) in [
            (0x0000000000000000u64, "0"),
            (0x8000000000000000, "0"),
            (0x0000000000000001, "5e-324"),
            (0x8000000000000001, "-5e-324"),
            (0x7fefffffffffffff, "1.7976931348623157e+308"),
            (0xffefffffffffffff, "-1.7976931348623157e+308"),
            (0x4340000000000000, "9007199254740992"),
            (0xc340000000000000, "-9007199254740992"),
            (0x4430000000000000, "295147905179352830000"),
            (0x44b52d02c7e14af5, "9.999999999999997e+22"),
            (0x44b52d02c7e14af6, "1e+23"),
            (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
            (0x444b1ae4d6e2ef4e, "999999999999999700000"),
            (0x444b1ae4d6e2ef4f, "999999999999999900000"),
            (0x444b1ae4d6e2ef50, "1e+21"),
            (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
            (0x3eb0c6f7a0b5ed8d, "0.000001"),
            (0x41b3de4355555553, "333333333.3333332"),
            (0x41b3de4355555554, "333333333.33333325"),
            (0x41b3de4355555555, "333333333.3333333"),
            (0x41b3de4355555556, "333333333.3333334"),
            (0x41b3de4355555557, "333333333.33333343"),
            (0xbecbf647612f3696, "-0.0000033333333333333333"),
            (0x43143ff3c1cb0959, "1424953923781206.2"),
        ] {
            assert_eq!(canonical(&json!(f64::from_bits(bits))), expected, "{bits:x}");
        }
    }

    proptest! {
        #[test]
        fn a_number_reads_back_as_itself(number in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL) {
            let written = canonical(&json!(number));
            prop_assert_eq!(written.parse::<f64>().unwrap(), number);
        }

        #[test]
        fn writing_what_was_written_changes_nothing(text in ".{0,20}", name in ".{0,8}", n: i32) {
            let value = json!({ name: [text, n, { "b": null, "a": true }] });
            let once = canonical(&value);
            prop_assert_eq!(of(&once), once.clone());
            prop_assert_eq!(serde_json::from_str::<Value>(&once).unwrap(), value);
        }
    }
}
