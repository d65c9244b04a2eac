//! The outcome spec: what is to be true at the end, in fields, so that children are told what concerns them and a review says of
//! each expected outcome whether it is met, and by what (SEEDS §1.7).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Write as _};

/// The most expected outcomes, and the most lines of every other field.
const MAX_LINES: usize = 32;
/// The most bytes of a spec.
const MAX_SPEC: usize = 16 * 1024;
/// How many brackets of a text are tried.
pub(super) const MAX_TRIED: usize = 256;

/// What the turns of a stage are told that makes an outcome spec, or reviews by one.
pub(super) const OUTCOME_SPEC: &str = include_str!("prompts/outcome-spec.txt");
pub(super) const OUTCOME_REVIEW: &str = include_str!("prompts/outcome-review.txt");

/// What a session is to reach.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OutcomeSpec {
    pub(super) goal: String,
    /// What must be true at the end. They are numbered from 1.
    #[serde(alias = "outcomes", deserialize_with = "lines")]
    pub(super) outcome: Vec<String>,
    #[serde(deserialize_with = "lines", skip_serializing_if = "Vec::is_empty")]
    scope: Vec<String>,
    #[serde(deserialize_with = "lines", skip_serializing_if = "Vec::is_empty")]
    assumptions: Vec<String>,
    #[serde(deserialize_with = "lines", skip_serializing_if = "Vec::is_empty")]
    open_questions: Vec<String>,
}

/// Whether an expected outcome is met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutcomeVerdict {
    /// The number of the outcome.
    outcome: usize,
    met: bool,
    /// What meets it, or why it is not met.
    by: String,
}

/// A text, a list of texts, or an object of them, as lines.
fn lines<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    fn add(value: Value, label: &str, to: &mut Vec<String>) {
        match value {
            Value::Null => {}
            Value::String(text) if text.trim().is_empty() => {}
            Value::String(text) => to.push(format!("{label}{}", text.trim())),
            Value::Array(all) => all.into_iter().for_each(|one| add(one, label, to)),
            Value::Object(members) => {
                members.into_iter().for_each(|(name, value)| add(value, &format!("{label}{name}: "), to));
            }
            other @ (Value::Bool(_) | Value::Number(_)) => to.push(format!("{label}{other}")),
        }
    }
    let mut found = Vec::new();
    add(Value::deserialize(from)?, "", &mut found);
    Ok(found)
}

impl OutcomeSpec {
    /// The spec in the answer of a turn; `None` if that is prose. The error says what it lacks.
    pub(super) fn read(text: &str) -> Result<Option<Self>, String> {
        if !text.contains('{') {
            return Ok(None);
        }
        let is_spec =
            |value: &Value| ["goal", "outcome", "outcomes"].iter().any(|name| value.get(name).is_some());
        let found = first_json(text, '{', is_spec)
            .ok_or("the answer has no JSON object with `goal` and `outcome`")?;
        let spec: Self =
            serde_json::from_value(found).map_err(|error| format!("the outcome spec: {error}"))?;
        let counts = [
            ("outcome", spec.outcome.len()),
            ("scope", spec.scope.len()),
            ("assumptions", spec.assumptions.len()),
            ("openQuestions", spec.open_questions.len()),
        ];
        if let Some((field, count)) = counts.iter().find(|(_, count)| *count > MAX_LINES) {
            return Err(format!("{field}: {count} lines, the limit is {MAX_LINES}"));
        }
        match spec.text().len() {
            _ if spec.goal.trim().is_empty() => Err("goal: is needed".to_owned()),
            _ if spec.outcome.is_empty() => {
                Err("outcome: at least one expected outcome is needed".to_owned())
            }
            bytes if bytes > MAX_SPEC => {
                Err(format!("the outcome spec has {bytes} bytes, the limit is {MAX_SPEC}"))
            }
            _ => Ok(Some(spec)),
        }
    }

    /// What nobody has said yet.
    pub(super) fn open_questions(&self) -> &[String] {
        &self.open_questions
    }

    /// The spec for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!("Goal: {}\n\nOutcome:\n", self.goal.trim());
        for (number, outcome) in (1..).zip(&self.outcome) {
            let _ = writeln!(text, "{number}. {outcome}");
        }
        let more = [
            ("Scope", &self.scope),
            ("Assumptions", &self.assumptions),
            ("Open questions", &self.open_questions),
        ];
        for (heading, lines) in more.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            let _ = writeln!(text, "\n{heading}:");
            lines.iter().for_each(|line| {
                let _ = writeln!(text, "- {line}");
            });
        }
        text.trim_end().to_owned()
    }

    /// The spec as a turn is given it: with the outcomes of these numbers, or all if there are none.
    pub(super) fn part(&self, numbers: &[usize]) -> Value {
        let outcomes = (1usize..).zip(&self.outcome);
        let outcomes = outcomes.filter(|(number, _)| numbers.is_empty() || numbers.contains(number));
        let outcomes = outcomes.map(|(number, text)| serde_json::json!({ "number": number, "text": text }));
        let mut part = serde_json::to_value(self).unwrap_or_default();
        part["outcome"] = outcomes.collect();
        part
    }

    /// The verdicts in the answer of a review, and what else that says. Every expected outcome has one.
    pub(super) fn read_review(&self, text: &str) -> Result<(Vec<OutcomeVerdict>, String), String> {
        let is_review = |value: &Value| {
            value.as_array().is_some_and(|all| all.iter().any(|one| one.get("outcome").is_some()))
        };
        let found = first_json(text, '[', is_review);
        let found = found.ok_or("the answer has no JSON array with a verdict for each expected outcome")?;
        let verdicts: Vec<OutcomeVerdict> = serde_json::from_value(found)
            .map_err(|error| format!("a verdict has `outcome` (its number), `met` and `by`: {error}"))?;
        let given: BTreeSet<usize> = verdicts.iter().map(|verdict| verdict.outcome).collect();
        if let Some(unknown) = given.iter().find(|number| !(1..=self.outcome.len()).contains(*number)) {
            return Err(format!("there is no outcome {unknown}: they are 1 to {}", self.outcome.len()));
        }
        let missing: Vec<String> = (1..=self.outcome.len())
            .filter(|number| !given.contains(number))
            .map(|number| number.to_string())
            .collect();
        if !missing.is_empty() {
            return Err(format!("no verdict for outcome {}", missing.join(", ")));
        }
        if let Some(empty) = verdicts.iter().find(|verdict| verdict.by.trim().is_empty()) {
            return Err(format!("outcome {}: `by` says what meets it, or what is missing", empty.outcome));
        }
        let rest = text.split_once('[').map(|(before, _)| before).unwrap_or_default();
        let after = text.rsplit_once(']').map(|(_, after)| after).unwrap_or_default();
        let rest = [rest, after].map(|part| part.trim().trim_end_matches("json").trim_matches('`').trim());
        let rest: Vec<&str> = rest.into_iter().filter(|part| !part.is_empty()).collect();
        Ok((verdicts, rest.join("\n\n")))
    }

    /// The verdicts for people, a line each.
    pub(super) fn verdicts_text(&self, verdicts: &[OutcomeVerdict]) -> String {
        let line = |verdict: &OutcomeVerdict| {
            let outcome = verdict.outcome.checked_sub(1).and_then(|at| self.outcome.get(at));
            let outcome = outcome.map(String::as_str).unwrap_or_default();
            let met = if verdict.met { "met" } else { "not met" };
            format!("{}. {outcome}: {met}, {}", verdict.outcome, verdict.by.trim())
        };
        verdicts.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// The first JSON value in a text that begins with `opens` and is meant.
fn first_json(text: &str, opens: char, is_meant: impl Fn(&Value) -> bool) -> Option<Value> {
    let begins = text.match_indices(opens).map(|(at, _)| at).take(MAX_TRIED);
    begins
        .filter_map(|at| serde_json::Deserializer::from_str(text.get(at..)?).into_iter().next()?.ok())
        .find(is_meant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_spec_is_read_from_its_json_and_prose_is_none() {
        let spec = OutcomeSpec::read(
            r#"Here it is: {"goal": "a login page", "outcome": ["one logs in", "one is told what was wrong"],
               "scope": {"in": "the page", "out": ["mail"]}, "assumptions": "SQLite", "openQuestions": []}"#,
        );
        let spec = spec.unwrap().unwrap();
        assert_eq!(
            spec.text(),
            "Goal: a login page\n\nOutcome:\n1. one logs in\n2. one is told what was wrong\n\nScope:\n- in: the page\n- out: mail\n\nAssumptions:\n- SQLite"
        );
        assert_eq!(
            spec.part(&[2])["outcome"],
            json!([{ "number": 2, "text": "one is told what was wrong" }])
        );
        assert_eq!(OutcomeSpec::read("a login page, no mail"), Ok(None));
        for (bad, why) in [
            (r#"{"outcome": "x"}"#, "goal: is needed"),
            (r#"{"goal": "x"}"#, "outcome: at least one"),
            ("{ no json", "no JSON object"),
        ] {
            assert!(OutcomeSpec::read(bad).unwrap_err().contains(why), "{bad}");
        }
    }

    #[test]
    fn a_review_answers_every_expected_outcome() {
        let outcome = vec!["one logs in".to_owned(), "no mail".to_owned()];
        let spec = OutcomeSpec { goal: "g".into(), outcome, ..OutcomeSpec::default() };
        let read = |text: &str| spec.read_review(text);
        let (verdicts, rest) = read(
            "Fine.\n```json\n[{\"outcome\": 1, \"met\": true, \"by\": \"page.html\"}, {\"outcome\": 2, \"met\": false, \"by\": \"api.py sends one\"}]\n```\nAsk for changes.",
        )
        .unwrap();
        assert_eq!(
            spec.verdicts_text(&verdicts),
            "1. one logs in: met, page.html\n2. no mail: not met, api.py sends one"
        );
        assert_eq!(rest, "Fine.\n\nAsk for changes.");
        for (bad, why) in [
            ("all fine", "no JSON array"),
            (r#"[{"outcome": 1, "met": true, "by": "x"}]"#, "no verdict for outcome 2"),
            (r#"[{"outcome": 3, "met": true, "by": "x"}]"#, "there is no outcome 3"),
            (r#"[{"outcome": 1, "met": "yes", "by": "x"}]"#, "`met`"),
            (
                r#"[{"outcome": 1, "met": true, "by": " "}, {"outcome": 2, "met": true, "by": "x"}]"#,
                "outcome 1: `by`",
            ),
        ] {
            assert!(read(bad).unwrap_err().contains(why), "{bad}: {:?}", read(bad));
        }
    }
}
