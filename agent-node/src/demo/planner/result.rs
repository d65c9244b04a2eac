//! What came back from the builders, and what there is to say about it.

use super::{BUILD, artifact, asked, done, failed, words};
use crate::brain::{Ask, lines::Said};
use protocol::{artifact::Artifact, coordination::thought::Reply};
use serde_json::Value;

/// Everything that was built, as this task's own, and the summary.
pub(super) fn gather(ask: &Ask) -> Vec<Said> {
    let replies: Vec<&Reply> = asked::replies(ask, BUILD).collect();
    let mut said = Vec::new();
    let (mut built, mut lost) = (Vec::new(), Vec::new());
    for reply in &replies {
        let number = reply.id.strip_prefix(BUILD).unwrap_or(&reply.id);
        let part = if replies.len() > 1 { format!("part {number}: ") } else { String::new() };
        if !reply.ok {
            lost.push(format!("{part}{}", reply.text));
            continue;
        }
        let artifacts = reply.artifacts.iter().cloned();
        said.extend(
            artifacts.map(|one| artifact(if replies.len() > 1 { numbered(one, number) } else { one })),
        );
        let text = if reply.text.is_empty() { by(reply) } else { reply.text.clone() };
        built.push(format!("{part}{text}"));
    }
    let planned = ask
        .prompt
        .produced
        .iter()
        .find(|artifact| asked::name(artifact) == "plan.json")
        .and_then(asked::data);
    let title = planned.as_ref().and_then(|plan| plan.get("title")?.as_str()).unwrap_or("planned");
    said.push(match (built.is_empty(), lost.is_empty()) {
        (false, true) => done(format!("The {title} API is built. {}.", built.join(". "))),
        (true, _) => failed(format!("the plan stands (plan.json), but nobody built it: {}", lost.join("; "))),
        (false, false) => failed(format!(
            "{} of {} not built: {}. The rest is attached: {}",
            lost.len(),
            words::counted(replies.len(), "part"),
            lost.join("; "),
            built.join(". ")
        )),
    });
    said
}

fn by(reply: &Reply) -> String {
    let noted =
        reply.artifacts.iter().find_map(|artifact| artifact.metadata.get("builtBy").and_then(Value::as_str));
    let from = reply.from.as_ref().map(ToString::to_string);
    format!("built by {}", noted.map(str::to_owned).or(from).unwrap_or_else(|| "somebody".into()))
}

/// `handler.rs` of the second part is `handler-2.rs`.
fn numbered(artifact: Artifact, number: &str) -> Artifact {
    let name = match asked::name(&artifact).rsplit_once('.') {
        Some((stem, ending)) => format!("{stem}-{number}.{ending}"),
        None => format!("{}-{number}", asked::name(&artifact)),
    };
    Artifact { artifact_id: name.clone(), name: Some(name), ..artifact }
}
