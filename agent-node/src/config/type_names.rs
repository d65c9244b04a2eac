//! Rewords serde's type errors for people who write YAML.

/// Serde's names of expected types and their descriptions.
const EXPECTED: &[(&str, &str)] = &[
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
];

/// Serde's names of a brain, which is one of several kinds.
const KINDS: [&str; 5] =
    ["enum", "map with a single key", "string or map", "newtype variant", "struct variant"];

const ONE_KIND: &str =
    "one kind with its settings: exec, http, scripted, echo, llm, a2a or peer, such as `echo: {}`";

/// Serde's names of found types and their descriptions.
const FOUND: &[(&str, &str)] =
    &[("unit variant", "a kind alone"), ("sequence", "a list"), ("null", "nothing")];

/// Serde's `message` about a file of agents in the form `must be …, got …`; unchanged if it is of another form.
pub(super) fn explain(message: &str) -> String {
    explain_with(message, |wanted| KINDS.contains(&wanted).then_some(ONE_KIND))
}

/// The same for a file whose kinds are words alone.
pub(super) fn explain_words(message: &str) -> String {
    explain_with(message, |wanted| KINDS.contains(&wanted).then_some("text"))
}

fn explain_with(message: &str, kind: impl Fn(&str) -> Option<&'static str>) -> String {
    let prefixes = ["invalid type: ", "invalid value: ", "invalid length "].iter();
    let Some((got, wanted)) = prefixes
        .filter_map(|start| message.strip_prefix(start))
        .find_map(|rest| rest.split_once(", expected "))
    else {
        return message.to_owned();
    };
    let known = EXPECTED.iter().find(|(name, _)| *name == wanted).map(|(_, words)| *words);
    let wanted = match known.or_else(|| kind(wanted)) {
        Some(words) => words,
        None if wanted.starts_with("struct ") => "a map of settings",
        None => wanted,
    };
    let got = FOUND.iter().find(|(name, _)| *name == got).map_or(got, |(_, words)| words);
    if got == "map" || got.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("must be {wanted}");
    }
    format!("must be {wanted}, got {}", got.replace('`', ""))
}

#[cfg(test)]
mod tests {
    use super::explain;

    #[test]
    fn type_errors_are_reworded() {
        for (message, expected) in [
            (
                "invalid value: integer `99999`, expected u16",
                "must be a whole number from 0 to 65535, got integer 99999",
            ),
            ("invalid type: string \"cheap\", expected f64", "must be a number, got string \"cheap\""),
            ("invalid length 0, expected struct AgentFile with 12 elements", "must be a map of settings"),
            ("invalid type: map, expected a sequence", "must be a list"),
            ("must be 1 or more", "must be 1 or more"),
        ] {
            assert_eq!(explain(message), expected);
        }
    }
}
