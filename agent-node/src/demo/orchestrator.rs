//! Finds who can do what is asked, by the words that the request and the peers' skills share, and hands it on.

mod matching;

pub(super) use matching::best;

use super::{artifact, asked, done, failed, spec, status, words};
use crate::brain::{Ask, PeerSkill, lines::Said};
use matching::{Match, rank};
use protocol::{
    artifact::Artifact,
    coordination::thought::{About, Progress, Reply},
    ids::{Address, Capability},
};
use std::{collections::BTreeMap, fmt::Write};

const HANDED_ON: &str = "handed-on:";

/// First turn: whom to give it to, and why. Second turn: what came of it.
pub(super) fn answer(ask: &Ask) -> Vec<Said> {
    if let Some(reply) = asked::replies(ask, HANDED_ON).next() {
        return pass_on(reply);
    }
    if asked::capability(ask).is_some_and(|capability| capability.as_str() == "monitor") {
        return monitor(ask);
    }
    let matches = rank(asked::text(ask), &ask.peers);
    let Some(first) = matches.first().filter(|best| best.is_clear()) else {
        return match plannable(ask) {
            Some(plan) => vec![
                status(format!("it says which things to keep, so it is for {plan}; handing it on")),
                hand_on(ask, &plan),
            ],
            None => vec![failed(nobody(&matches, &ask.peers))],
        };
    };
    if let About::Help { .. } = ask.prompt.about {
        return vec![done(format!("Ask for {}: {}.", first.capability, first.because()))];
    }
    vec![status(explanation(&matches)), hand_on(ask, &first.capability)]
}

/// Whoever plans, if the request describes things and their fields without saying what is to be done with them.
fn plannable(ask: &Ask) -> Option<Capability> {
    let plan = Capability::parse("plan").ok()?;
    let is_there = ask.peers.iter().flat_map(|peer| &peer.skills).any(|skill| skill.id == plan);
    let spec = spec::from_text(asked::text(ask));
    let is_list = asked::text(ask).contains(['(', ':']);
    let says_fields = is_list && spec.resources.iter().any(|resource| resource.fields.len() > 1);
    let is_task = matches!(ask.prompt.about, About::Task { .. });
    (is_there && is_task && says_fields).then_some(plan)
}

/// The request, addressed to whoever has `capability`.
pub(super) fn hand_on(ask: &Ask, capability: &Capability) -> Said {
    let artifacts = asked::artifacts(ask).iter().map(|artifact| artifact.artifact_id.clone()).collect();
    Said::Progress(Progress::Delegate {
        id: format!("{HANDED_ON}{capability}"),
        to: Address::Capability(capability.clone()),
        capability: None,
        description: asked::text(ask).to_owned(),
        input: asked::input(ask).cloned(),
        artifacts,
    })
}

/// The result of what was handed on, if this turn brings one.
pub(super) fn handed_on(ask: &Ask) -> Option<Vec<Said>> {
    asked::replies(ask, HANDED_ON).next().map(pass_on)
}

fn pass_on(reply: &Reply) -> Vec<Said> {
    let capability = reply.id.strip_prefix(HANDED_ON).unwrap_or(&reply.id);
    let mut said: Vec<Said> = reply.artifacts.iter().cloned().map(artifact).collect();
    said.push(match reply.ok {
        true => done(format!("Handed on for {capability}. {}", reply.text)),
        false => failed(format!("handed on for {capability}, and that came to nothing: {}", reply.text)),
    });
    said
}

fn explanation(matches: &[Match]) -> String {
    let mut text = String::new();
    for (at, one) in matches.iter().take(3).enumerate() {
        let lead = if at == 0 { "handing it on for " } else { "; rather than " };
        let _ = write!(text, "{lead}{} ({})", one.capability, one.because());
    }
    text
}

fn nobody(matches: &[Match], peers: &[PeerSkill]) -> String {
    let near = matches
        .first()
        .map(|near| format!(" The nearest is {}, which is not enough: {}.", near.capability, near.because()));
    let skills = peers.iter().flat_map(|peer| &peer.skills).filter(|skill| !matching::is_ours(&skill.id));
    let skills: BTreeMap<_, _> =
        skills.map(|skill| (&skill.id, words::shortened(&skill.description, 80))).collect();
    let skills: Vec<_> = skills
        .into_iter()
        .take(30)
        .map(
            |(id, description)| {
                if description.is_empty() { id.to_string() } else { format!("{id} ({description})") }
            },
        )
        .collect();
    let can = match skills.as_slice() {
        [] => "Nobody else is here at the moment".to_owned(),
        skills => format!("The mesh can do: {}", skills.join("; ")),
    };
    format!("nobody fits this request.{} {can}.", near.unwrap_or_default())
}

fn monitor(ask: &Ask) -> Vec<Said> {
    let mut table = "| agent | skills | |\n|---|---|---|\n".to_owned();
    for peer in &ask.peers {
        let skills: Vec<_> = peer.skills.iter().map(|skill| skill.id.as_str()).collect();
        let _ = writeln!(
            table,
            "| {} | {} | {} |",
            peer.agent_id,
            skills.join(", "),
            words::shortened(&peer.description, 80)
        );
    }
    let count = words::counted(ask.peers.len(), "peer");
    vec![
        artifact(Artifact::text("mesh.md", "text/markdown", table)),
        done(format!("{count} by the directory.")),
    ]
}

#[cfg(test)]
mod tests;
