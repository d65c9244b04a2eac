//! `mesh ask --plan`: what it says to the coordinator, and what it shows of its answer.

use super::{
    super::{
        exit::{Exit, Failure},
        output,
    },
    Ask,
};
use protocol::patterns::joint::OUTPUT;
use serde_json::{Value, json};

/// The coordinator's terms: what `--input` says, with the cards and hosts of the command line.
pub(super) fn terms(ask: &Ask, input: Option<Value>) -> Result<Option<Value>, Failure> {
    let mut terms = input.unwrap_or_else(|| json!({}));
    let Some(members) = terms.as_object_mut() else {
        return Err(Failure::new(Exit::Usage, "--input must be a JSON object with --plan"));
    };
    for (name, places) in [("cards", &ask.card), ("hosts", &ask.host)] {
        if !places.is_empty() {
            members.insert(name.to_owned(), json!(places));
        }
    }
    Ok(Some(terms))
}

fn output_of(task: &Value) -> Option<&Value> {
    let artifacts = task["artifacts"].as_array()?;
    let found = artifacts.iter().find(|artifact| artifact["artifactId"] == OUTPUT)?;
    Some(&found["parts"][0]["data"])
}

/// Whether the answer of the task that has ended is all there is; else what it lacks.
pub(super) fn is_whole(id: &str, task: &Value) -> Result<(), Failure> {
    let Some(answer) = output_of(task).filter(|answer| answer["status"] == "partial") else { return Ok(()) };
    let lacks: Vec<_> =
        answer["missing"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    Err(Failure::new(Exit::Partial, format!("task {id} is answered in part: {}", lacks.join("; "))))
}

/// The answer, and who gave which part of it.
pub(super) fn show(task: &Value, is_json: bool) -> Result<(), Failure> {
    // A task that was ended from outside may have no answer.
    let Some(answer) = output_of(task) else {
        return match is_json {
            true => output::json(task),
            false => output::line(task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default()),
        };
    };
    if is_json {
        return output::json(answer);
    }
    output::line(answer["answer"].as_str().unwrap_or_default())?;
    for used in answer["agents_used"].as_array().into_iter().flatten() {
        let word = |name: &str| used[name].as_str().unwrap_or("-").to_owned();
        let (name, skill, mode, status) = (word("name"), word("skill"), word("mode"), word("status"));
        output::line(&format!("  {name}: {skill}, {mode}, {status} (task {})", word("task_id")))?;
    }
    Ok(())
}
