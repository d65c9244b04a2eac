//! `mesh ask --plan`: a session of a team that is made for the request, and the display of its answer.

use super::{
    super::{
        exit::{CliError, Exit},
        output,
    },
    AskArgs,
};
use patterns::session::team::OUTPUT;
use serde_json::{Value, json};

/// The graph of the session: the preset `foreign`, with `--input` and the cards and hosts of the command line as discovery.
pub(super) fn input(ask: &AskArgs, input: Option<Value>) -> Result<Option<Value>, CliError> {
    let mut input = input.unwrap_or_else(|| json!({}));
    let Some(members) = input.as_object_mut() else {
        return Err(CliError::new(Exit::Usage, "--input must be a JSON object with --plan"));
    };
    for (name, urls) in [("cards", &ask.card), ("hosts", &ask.host)] {
        if !urls.is_empty() {
            members.insert(name.to_owned(), json!(urls));
        }
    }
    Ok(Some(json!({ "preset": "foreign", "discovery": input })))
}

fn output_of(task: &Value) -> Option<&Value> {
    let artifacts = task["artifacts"].as_array()?;
    let found = artifacts.iter().find(|artifact| artifact["artifactId"] == OUTPUT)?;
    Some(&found["parts"][0]["data"])
}

/// Fails with [`Exit::Partial`] and the missing parts if the answer of the ended task is partial.
pub(super) fn check_complete(id: &str, task: &Value) -> Result<(), CliError> {
    let Some(answer) = output_of(task).filter(|answer| answer["status"] == "partial") else { return Ok(()) };
    let missing: Vec<_> =
        answer["missing"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    Err(CliError::new(Exit::Partial, format!("task {id} is answered in part: {}", missing.join("; "))))
}

/// Prints the answer and the agents that contributed to it, and what went wrong to standard error.
pub(super) fn show(task: &Value, is_json: bool) -> Result<(), CliError> {
    // A canceled task may have no answer.
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
    for error in answer["errors"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output::note(&format!("  {error}"));
    }
    Ok(())
}
