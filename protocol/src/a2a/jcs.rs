//! The canonical form of a JSON value (RFC 8785), for signatures.

use serde_json::Value;

/// `value` in canonical form. Numbers are doubles, as everywhere in ProtoJSON.
pub fn canonical(value: &Value) -> String {
    serde_json_canonicalizer::to_string(value)
        .unwrap_or_else(|_| unreachable!("a JSON value has a canonical form"))
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
