//! Text helpers for messages to people.

use std::fmt::Display;

/// How many there are: with the word for `one` of them, or for `more` and none.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str, more: &str) -> String {
    let word = if count == N::from(1) { one } else { more };
    format!("{count} {word}")
}

/// The text, or its first `most` characters and an ellipsis.
pub fn cut(text: &str, most: usize) -> String {
    let mut shown: String = text.chars().take(most).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// How alike two names must be (Jaro-Winkler, from 0 to 1) for one to be suggested for the other.
const LIKENESS: f64 = 0.8;

/// The longest name for which one is suggested, or that is, bytes.
const MAX_LIKE: usize = 64;

/// The one of `known` that `name` is most like, if it is like one; case does not count.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_LIKE {
        return None;
    }
    let name = name.to_lowercase();
    let known = known
        .into_iter()
        .filter(|known| known.len() <= MAX_LIKE)
        .map(|known| (strsim::jaro_winkler(&known.to_lowercase(), &name), known));
    let alike = known.filter(|(likeness, _)| *likeness >= LIKENESS);
    alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_like_the_given_one() {
        let members = ["taskId", "subject", "capability", "from"];
        for (name, expected) in [
            ("taskID", Some("taskId")),
            ("subjct", Some("subject")),
            ("capabilty", Some("capability")),
            ("x", None),
        ] {
            assert_eq!(nearest(name, members), expected, "{name}");
        }
    }

    #[test]
    fn one_is_one_and_none_are_several() {
        let agents = |count: usize| counted(count, "agent", "agents");
        assert_eq!(
            [agents(0), agents(1), agents(2), agents(11)],
            ["0 agents", "1 agent", "2 agents", "11 agents"]
        );
    }
}
