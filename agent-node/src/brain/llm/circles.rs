//! Calls that turn in circles: equal calls with equal results in a row, or two that alternate, while nothing new comes into the task.

use super::transcript::Round;
use protocol::ids::Digest;
use serde_json::Value;
use std::collections::BTreeSet;

/// How often a call, or a pair of calls, is made before the model is told.
pub(super) const TOLD: usize = 3;
/// How often before the task fails.
pub(super) const FAILS: usize = 5;

/// The newest calls, as they repeat each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Circle {
    /// The names of the one or two tools that are called.
    pub(super) tools: Vec<String>,
    pub(super) times: usize,
}

/// How the newest of these rounds repeat; `None` if they do so less than [`TOLD`] times.
pub(super) fn circle(rounds: &[Round]) -> Option<Circle> {
    let mut calls: Vec<(&str, String, &str, Vec<Digest>)> = Vec::new();
    // The newest first, back to what came into the task last.
    'rounds: for round in rounds.iter().rev() {
        if !round.said.is_empty() || !round.next.is_empty() || round.calls.is_empty() {
            break;
        }
        for call in round.calls.iter().rev() {
            let Some(result) = &call.result else { break 'rounds };
            if result.is_from_person {
                break 'rounds;
            }
            let arguments = Value::Object(call.call.arguments.clone()).to_string();
            // Two screenshots differ in nothing else.
            let media = result.media.iter().map(|medium| medium.digest).collect();
            calls.push((&call.call.name, arguments, &result.text, media));
        }
        if calls.len() > 2 * FAILS {
            break;
        }
    }
    let longest = [1, 2].map(|period| {
        let equal = calls.iter().zip(calls.iter().skip(period)).take_while(|(one, other)| one == other);
        (period, if calls.is_empty() { 0 } else { equal.count() / period + 1 })
    });
    // One call is a pair of equal ones, too.
    let (period, times) = longest.into_iter().rev().max_by_key(|(_, times)| *times)?;
    let tools: BTreeSet<&str> = calls.iter().take(period).map(|(name, ..)| *name).collect();
    let tools = tools.into_iter().map(str::to_owned).collect();
    (times >= TOLD).then_some(Circle { tools, times })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::{
        media::tests::medium,
        transcript::{ToolResult, UserWords, tests::round},
    };

    /// Rounds with a call each: its name and its result.
    fn rounds(calls: &[(&str, &str)]) -> Vec<Round> {
        let of = |(name, result): &(&str, &str)| {
            let mut round = round(1, &[result]);
            (*name).clone_into(&mut round.calls[0].call.name);
            round
        };
        calls.iter().map(of).collect()
    }

    fn times(rounds: &[Round]) -> usize {
        circle(rounds).map_or(0, |circle| circle.times)
    }

    #[test]
    fn equal_calls_and_pairs_are_counted_and_other_results_are_none() {
        let a = ("a", "1");
        assert_eq!(times(&rounds(&[a, a])), 0);
        assert_eq!(circle(&rounds(&[a, a, a])), Some(Circle { tools: vec!["a".into()], times: 3 }));
        assert_eq!(times(&rounds(&[a, a, a, a, a])), 5);
        assert_eq!(times(&rounds(&[a, a, ("a", "2"), a])), 0, "another result");
        let pairs = [a, ("b", "2"), a, ("b", "2"), a, ("b", "2")];
        assert_eq!(circle(&rounds(&pairs)), Some(Circle { tools: vec!["a".into(), "b".into()], times: 3 }));
        assert_eq!(times(&rounds(&pairs[..5])), 0);
        assert_eq!(times(&[]), 0);
        let mut screenshots = rounds(&[a, a, a]);
        for (at, round) in screenshots.iter_mut().enumerate() {
            let medium = medium(&format!("{at}.png"), "image/png", 1);
            round.calls[0].result.as_mut().unwrap().media.push(medium);
        }
        assert_eq!(times(&screenshots), 0, "they show something else");
        let mut parallel = round(1, &["1", "1", "1"]);
        parallel.text.clear();
        assert_eq!(times(&[parallel]), 3);
    }

    #[test]
    fn what_comes_into_the_task_begins_the_count_anew() {
        let a = ("a", "1");
        let mut said = rounds(&[a, a, a, a]);
        said[1].said.push(UserWords { text: "go on".into(), ..UserWords::default() });
        assert_eq!(times(&said), 0, "two since then");
        let mut asked = rounds(&[a, a, a, a]);
        asked[1].calls[0].result = Some(ToolResult::text("1").of_person());
        assert_eq!(times(&asked), 0);
        let mut next = rounds(&[a, a, a]);
        next[2].next.push(UserWords { text: "the next turn".into(), ..UserWords::default() });
        assert_eq!(times(&next), 0);
    }
}
