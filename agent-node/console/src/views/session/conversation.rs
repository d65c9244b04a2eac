//! What was said in a session, by who was meant to hear it, and what was made beside it.

use super::stages::{is_open, word, words};
use crate::{
    content::{self, SavedFrom},
    visible_text::brief,
};
use maud::{Markup, html};
use patterns::session::names::{SESSION, TEAM};
use protocol::artifact::Artifact;
use serde_json::Value;

/// What was said, by who was meant to hear it.
struct SpeechAudience<'a> {
    /// The stage, and its iteration if it is not the first.
    stage: String,
    /// Who talked alone; empty for all.
    members: Vec<&'a str>,
    said: Vec<(&'a Artifact, &'a Value)>,
}

/// The artifacts that are words of a session, by audience, in the order in which each began.
fn audiences<'a>(artifacts: &'a [Artifact], stages: &[&'a Value]) -> Vec<SpeechAudience<'a>> {
    let closed: Vec<&str> =
        stages.iter().filter(|stage| !is_open(stage)).map(|stage| word(stage, "stage")).collect();
    let mut all: Vec<SpeechAudience<'a>> = Vec::new();
    for artifact in artifacts {
        let Some(about) = artifact.metadata.get(SESSION).filter(|about| about["from"].is_string()) else {
            continue;
        };
        if about["does"].is_string() || closed.contains(&word(about, "stage")) {
            continue;
        }
        let iteration = about["iteration"].as_u64().filter(|iteration| *iteration > 1);
        let stage = format!(
            "{}{}",
            word(about, "stage"),
            iteration.map(|time| format!("#{time}")).unwrap_or_default()
        );
        let to = words(about, "to");
        let mut members = if to == [TEAM] { Vec::new() } else { [vec![word(about, "from")], to].concat() };
        members.sort_unstable();
        members.dedup();
        match all.iter_mut().find(|known| known.stage == stage && known.members == members) {
            Some(known) => known.said.push((artifact, about)),
            None => all.push(SpeechAudience { stage, members, said: vec![(artifact, about)] }),
        }
    }
    all
}

/// What was said, by audience; of a sealed stage only that it is sealed.
pub(super) fn conversation(artifacts: &[Artifact], stages: &[&Value]) -> Markup {
    let sealed: Vec<_> = stages.iter().filter(|stage| !is_open(stage)).collect();
    let audiences = audiences(artifacts, stages);
    html! {
        section.card {
            header { h2 { "Conversation" } span.small.muted { "by who was meant to hear it" } }
            @if audiences.is_empty() && sealed.is_empty() { div.empty { p { "Nothing was said yet." } } }
            @for stage in &sealed {
                div.body { p.notice.wait { strong { (brief(word(stage, "stage"), 60)) } " is sealed: what is said in it is shown when it ends." } }
            }
            @for audience in &audiences {
                div.body data-key={ "audience-" (audience.stage) (audience.members.join("+")) } {
                    h3 {
                        (brief(&audience.stage, 60)) ": "
                        @if audience.members.is_empty() { "the whole table" } @else { "between " (brief(&audience.members.join(" and "), 160)) }
                    }
                    div.chat role="log" aria-label={ "Said in " (brief(&audience.stage, 60)) } {
                        @for (artifact, about) in &audience.said { (said(artifact, about)) }
                    }
                }
            }
        }
    }
}

fn said(artifact: &Artifact, about: &Value) -> Markup {
    html! {
        div.said data-key={ "said-" (artifact.artifact_id) } {
            div.row.small {
                strong { (brief(word(about, "from"), 60)) }
                @if let Some(round) = about["round"].as_u64() { span.muted { "round " (round) } }
                @let to = words(about, "to");
                @if to != [TEAM] { span.muted { "to " (brief(&to.join(", "), 120)) } }
            }
            @for part in &artifact.parts { (content::part(&format!("said by {} as {}", word(about, "from"), artifact.artifact_id), part)) }
        }
    }
}

/// What was made beside the words.
pub(super) fn made(from: SavedFrom<'_>, artifacts: &[Artifact], stages: &[&Value]) -> Markup {
    let closed: Vec<&str> =
        stages.iter().filter(|stage| !is_open(stage)).map(|stage| word(stage, "stage")).collect();
    let made = artifacts.iter().filter(|artifact| match artifact.metadata.get(SESSION) {
        None => artifact.artifact_id != patterns::session::RECORD,
        Some(about) => {
            about["from"].is_null() && !closed.contains(&word(about, "stage")) && about["say"].is_null()
        }
    });
    html! { @for artifact in made { (content::artifact(artifact, from)) } }
}
