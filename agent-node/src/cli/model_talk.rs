//! `mesh tasks show --model`: what was said between the agent of a task and its model.

use super::{
    client::{MeshClient, encoded},
    exit::CliError,
    output::{self, Colour},
};
use crate::model_talk::ModelTalk;
use protocol::{
    model_line::{ModelLine, ModelReply, ModelWords},
    routes,
    time::WallTime,
    usage::ModelUsage,
    words::counted,
};
use serde_json::Value;

/// Prints what was said with the model in `task` of the agent at `endpoint`; with `json` the answer of the route.
pub(super) async fn show(
    client: &MeshClient,
    endpoint: &str,
    task: &str,
    json: bool,
) -> Result<(), CliError> {
    let path = format!("{}/{}/model", routes::TASKS, encoded(task));
    if json {
        return output::json(&client.get::<Value>(endpoint, &path).await?);
    }
    let ModelTalk { omitted, lines } = client.get(endpoint, &path).await?;
    if lines.is_empty() {
        output::note("nothing was said with a model of the agent, or its journal is not kept any more");
    }
    if omitted > 0 {
        output::note(&format!("the first {} are left out", counted(omitted, "line", "lines")));
    }
    lines.iter().flat_map(printed).try_for_each(|line| output::line(&line))
}

fn heading(at: WallTime, turn: u32, what: &str, note: &str) -> String {
    let when = output::paint(&format!("{at} turn {turn}"), Colour::Grey);
    format!("{when} {what} {}", output::paint(note, Colour::Grey)).trim_end().to_owned()
}

/// The lines of a terminal for one line of the conversation.
fn printed(line: &ModelLine) -> Vec<String> {
    let heading = |what: &str, note: &str| heading(line.at, line.turn, what, note);
    match &line.what {
        ModelWords::Told { text, files } => {
            let note = if files.is_empty() {
                String::new()
            } else {
                format!("with {}", output::plain(&files.join(", ")))
            };
            [heading("told", &note)].into_iter().chain(indented("", text)).collect()
        }
        ModelWords::Failed { code, usage } => {
            vec![heading(&format!("no answer: {}", output::plain(code)), &usage_note(usage))]
        }
        ModelWords::Dropped { what } => {
            vec![heading(&format!("dropped: {}", output::plain(&what.join("; "))), "")]
        }
        ModelWords::Answered(reply) => {
            let note = reply.usage.as_ref().map(usage_note).unwrap_or_default();
            [heading("answered", &note)].into_iter().chain(reply_lines(reply)).collect()
        }
    }
}

fn usage_note(usage: &ModelUsage) -> String {
    let cost = usage.cost.map(|cost| format!(", cost {:.4}", cost.get())).unwrap_or_default();
    let took = usage.duration_ms.map(|ms| format!(", {ms} ms")).unwrap_or_default();
    let model = output::plain(&usage.model);
    format!("{model}, {} tokens in, {} out{cost}{took}", usage.input_tokens, usage.output_tokens)
}

fn reply_lines(reply: &ModelReply) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(reasoning) = &reply.reasoning {
        lines.extend(indented("thinks: ", reasoning));
    }
    lines.extend(indented("", &reply.text));
    for call in &reply.calls {
        let starts = if call.starts > 1 { format!(", started {} times", call.starts) } else { String::new() };
        lines.extend(indented("calls ", &format!("{} {}{starts}", call.name, call.arguments)));
        if let Some(made) = &call.made_with {
            lines.extend(indented("  made with ", &made.to_string()));
        }
        match &call.result {
            Some(result) => {
                lines.extend(indented(if call.is_error { "  failed: " } else { "  gives: " }, result))
            }
            None => lines.push("    open".to_owned()),
        }
    }
    lines.extend(reply.notes.iter().flat_map(|note| indented("is told: ", note)));
    lines
}

/// The lines of `text`, the first after `label`.
fn indented(label: &str, text: &str) -> Vec<String> {
    let text = text.trim();
    if text.is_empty() {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    lines.map(|(at, line)| format!("  {}{}", if at == 0 { label } else { "" }, output::plain(line))).collect()
}
