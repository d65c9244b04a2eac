//! Text helpers for messages to people.

use std::fmt::Display;

/// How many there are: with the word for `one` of them, or for `more` and none.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str, more: &str) -> String {
    let word = if count == N::from(1) { one } else { more };
    format!("{count} {word}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_none_are_several() {
        let agents = |count: usize| counted(count, "agent", "agents");
        assert_eq!(
            [agents(0), agents(1), agents(2), agents(11)],
            ["0 agents", "1 agent", "2 agents", "11 agents"]
        );
    }
}
