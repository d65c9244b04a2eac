//! What a parser says of a value that does not fit, in the words of whoever writes YAML.

/// Serde's names of types, and what is to be written there.
const WANTED: &[(&str, &str)] = &[
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0"),
    ("u64", "a whole number from 0"),
    ("usize", "a whole number from 0"),
    ("i64", "a whole number"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a string", "text"),
    ("a sequence", "a list"),
    ("a map", "a map of settings"),
    ("map with a single key", ONE),
    ("string or map", ONE),
    ("newtype variant", ONE),
    ("struct variant", ONE),
];

const ONE: &str = "one kind with its settings, such as `echo: {}`";

/// What a value was, by serde's names.
const GOT: &[(&str, &str)] = &[("unit variant", "a kind alone"), ("sequence", "a list"), ("null", "nothing")];

/// `message`, a parser's, as `must be …, got …`; one of another form as it is.
pub(super) fn plain(message: &str) -> String {
    let said = ["invalid type: ", "invalid value: ", "invalid length "].iter();
    let Some((got, wanted)) =
        said.filter_map(|start| message.strip_prefix(start)).find_map(|rest| rest.split_once(", expected "))
    else {
        return message.to_owned();
    };
    let wanted = match WANTED.iter().find(|(name, _)| *name == wanted) {
        Some((_, words)) => words,
        None if wanted.starts_with("struct ") => "a map of settings",
        None => wanted,
    };
    let got = GOT.iter().find(|(name, _)| *name == got).map_or(got, |(_, words)| words);
    if got == "map" || got.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("must be {wanted}");
    }
    format!("must be {wanted}, got {}", got.replace('`', ""))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn types_have_names_that_people_use() {
        for (said, told) in [
            (
                "invalid value: integer `99999`, expected u16",
                "must be a whole number from 0 to 65535, got integer 99999",
            ),
            ("invalid type: string \"cheap\", expected f64", "must be a number, got string \"cheap\""),
            ("invalid length 0, expected struct AgentFile with 12 elements", "must be a map of settings"),
            ("invalid type: map, expected a sequence", "must be a list"),
            ("must be 1 or more", "must be 1 or more"),
        ] {
            assert_eq!(plain(said), told);
        }
    }
}
