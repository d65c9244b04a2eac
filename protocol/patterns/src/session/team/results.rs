//! What agents hand back: whether it can be used, and what it says in short.

use protocol::{
    a2a::{
        card_validation::fits,
        limits::{MAX_COORDINATED_ARTIFACTS, MAX_PART_CHARS},
    },
    artifact::{Artifact, Part, PartContent},
};
use serde_json::{Value, json};

/// The longest summary, characters.
const MAX_SUMMARY: usize = 600;

/// Why `artifacts` can't be used, if they can't: one that is malformed spoils its task, for half a result is none.
pub fn why_not(artifacts: &[Artifact], accepted: &[String]) -> Option<String> {
    if artifacts.is_empty() || artifacts.iter().all(Artifact::is_empty) {
        return Some("it is done, and there is nothing in it".to_owned());
    }
    if artifacts.len() > MAX_COORDINATED_ARTIFACTS {
        return Some(format!("{} artifacts, the limit is {MAX_COORDINATED_ARTIFACTS}", artifacts.len()));
    }
    artifacts.iter().find_map(|artifact| {
        let named = |why: String| format!("artifact {:?}: {why}", artifact.artifact_id);
        if artifact.parts.is_empty() || artifact.is_empty() {
            return Some(named("is empty".to_owned()));
        }
        if artifact.parts.len() > MAX_COORDINATED_ARTIFACTS {
            return Some(named(format!(
                "{} parts, the limit is {MAX_COORDINATED_ARTIFACTS}",
                artifact.parts.len()
            )));
        }
        artifact.parts.iter().find_map(|part| of_part(part, accepted)).map(named)
    })
}

fn of_part(part: &Part, accepted: &[String]) -> Option<String> {
    let (kind, size) = match &part.content {
        PartContent::Text(text) => ("text/plain", text.chars().count()),
        PartContent::Data(data) => ("application/json", data.to_string().chars().count()),
        PartContent::Raw(_) => return Some("bytes are not taken, text and JSON are".to_owned()),
        PartContent::Url(_) => {
            return Some("content elsewhere is not fetched, text and JSON are taken".to_owned());
        }
    };
    if size > MAX_PART_CHARS {
        return Some(format!("a part of {size} characters, the limit is {MAX_PART_CHARS}"));
    }
    let kind = part.media_type.as_deref().unwrap_or(kind);
    (!accepted.is_empty() && !fits(kind, accepted))
        .then(|| format!("{kind} is none of {}", accepted.join(", ")))
}

/// The artifacts in one shape, however they came: texts that came piece by piece are joined.
pub fn normalised(artifacts: &[Artifact]) -> Value {
    let one = |artifact: &Artifact| {
        let mut parts: Vec<Value> = Vec::new();
        for part in &artifact.parts {
            match (&part.content, parts.last_mut()) {
                (PartContent::Text(more), Some(last)) if last["kind"] == "text" => {
                    let text = format!("{}{more}", last["text"].as_str().unwrap_or_default());
                    last["text"] = json!(text);
                }
                (PartContent::Text(text), _) => parts.push(json!({ "kind": "text", "text": text })),
                (PartContent::Data(data), _) => parts.push(json!({ "kind": "json", "data": data })),
                (PartContent::Raw(_) | PartContent::Url(_), _) => {}
            }
        }
        json!({ "artifactId": artifact.artifact_id, "name": artifact.name, "parts": parts })
    };
    artifacts.iter().map(one).collect()
}

/// What they say, in a line or two.
pub fn summary(artifacts: &[Artifact]) -> String {
    let mut said = Vec::new();
    for artifact in artifacts {
        let text = artifact.as_text();
        if !text.trim().is_empty() {
            said.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        said.extend(artifact.parts.iter().filter_map(|part| match &part.content {
            PartContent::Data(data) => Some(data.to_string()),
            PartContent::Text(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
        }));
    }
    let said = said.join("; ");
    match said.char_indices().nth(MAX_SUMMARY) {
        Some((at, _)) => format!("{}\u{2026}", &said[..at]),
        None => said,
    }
}
