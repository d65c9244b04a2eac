//! The parts of a question that every brain of the team looks at.

use crate::brain::Ask;
use protocol::{
    artifact::{Artifact, Content},
    coordination::thought::{About, Reply},
    ids::Capability,
};
use serde_json::Value;

/// What to do, or what is asked.
pub(super) fn text(ask: &Ask) -> &str {
    match &ask.prompt.about {
        About::Task { description, .. } => description,
        About::Help { question, .. } => question,
        About::Signal(posted) => posted.signal.subject.as_deref().unwrap_or_default(),
    }
}

pub(super) fn input(ask: &Ask) -> Option<&Value> {
    match &ask.prompt.about {
        About::Task { input, .. } => input.as_ref(),
        About::Help { .. } | About::Signal(_) => None,
    }
}

pub(super) fn artifacts(ask: &Ask) -> &[Artifact] {
    match &ask.prompt.about {
        About::Task { artifacts, .. } | About::Help { artifacts, .. } => artifacts,
        About::Signal(_) => &[],
    }
}

pub(super) fn capability(ask: &Ask) -> Option<&Capability> {
    match &ask.prompt.about {
        About::Task { capability, .. } | About::Help { capability, .. } => capability.as_ref(),
        About::Signal(posted) => posted.signal.capability.as_ref(),
    }
}

pub(super) fn name(artifact: &Artifact) -> &str {
    artifact.name.as_deref().unwrap_or(&artifact.artifact_id)
}

/// The data an artifact holds: as data, or as text that is JSON.
pub(super) fn data(artifact: &Artifact) -> Option<Value> {
    let held = artifact.parts.iter().find_map(|part| match &part.content {
        Content::Data(data) => Some(data.clone()),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    });
    held.or_else(|| serde_json::from_str(&artifact.as_text()).ok())
}

/// The replies to what was asked under ids that begin with `prefix`.
pub(super) fn replies<'a>(ask: &'a Ask, prefix: &'a str) -> impl Iterator<Item = &'a Reply> {
    ask.prompt.answers.iter().filter(move |reply| reply.id.starts_with(prefix))
}
