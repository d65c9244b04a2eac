//! Whom a text addresses: `@NAME` at its beginning or after a space, outside code.

/// Whether a character may be in the name of an agent.
fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.".contains(character)
}

/// The text without code, which stands between backticks. A backtick without another one is none.
fn outside_code(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find('`') {
        let fence = if rest[at..].starts_with("```") { "```" } else { "`" };
        let inside = &rest[at + fence.len()..];
        let Some(end) = inside.find(fence) else { break };
        parts.push(&rest[..at]);
        rest = &inside[end + fence.len()..];
    }
    parts.push(rest);
    parts
}

/// The names that are addressed, each once, in their order.
pub(super) fn mentions(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for (place, part) in outside_code(text).into_iter().enumerate() {
        for (at, _) in part.match_indices('@') {
            // What follows code does not follow a space.
            let is_after_space = part[..at].chars().next_back().map_or(place == 0, char::is_whitespace);
            let after = &part[at + 1..];
            let end = after.find(|character| !is_of_name(character)).unwrap_or(after.len());
            let name = after[..end].trim_end_matches('.');
            if is_after_space && !name.is_empty() && !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

/// The first of `names` that is in the text as a word of its own, outside code and without `@`.
pub(super) fn bare_name<'a>(text: &str, mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let parts = outside_code(text);
    let is_in = |name: &str| {
        let mut words = parts
            .iter()
            .flat_map(|part| part.split(|character: char| !is_of_name(character) && character != '@'));
        words.any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(name))
    };
    names.find(|name| is_in(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_after_a_space_is_a_mention_outside_code() {
        for (text, names) in [
            ("@oracle check", vec!["oracle"]),
            ("please @oracle check this", vec!["oracle"]),
            ("ask @oracle, @test-guardian-01 and @oracle.", vec!["oracle", "test-guardian-01"]),
            ("mail me@example.org", vec![]),
            ("run `git push @oracle` and ```\n@scout\n``` @sage", vec!["sage"]),
            ("an open ` and @oracle", vec!["oracle"]),
            ("@ nobody", vec![]),
        ] {
            assert_eq!(mentions(text), names, "{text}");
        }
    }

    #[test]
    fn a_bare_name_is_a_word_of_its_own() {
        let of = |text| bare_name(text, ["oracle", "scout"].into_iter());
        assert_eq!(of("oracle, check"), Some("oracle"));
        assert_eq!(of("is Scout there?"), Some("scout"));
        assert_eq!(of("the oracles of @oracle"), None);
        assert_eq!(of("`oracle`"), None);
    }
}
