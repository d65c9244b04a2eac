//! Delegates a request to the skill that it names, to a review if it has code, or to a planner if it is in the notation. Asks
//! the owner about other requests.

use super::{
    artifact, artifacts, delegate, done, forward_result, notation, question, replies, request_text, status,
};
use crate::brain::TurnRequest;
use patterns::turn::TurnSubject;
use protocol::{
    artifact::Artifact,
    ids::{AgentId, Capability},
};
use std::{collections::BTreeSet, fmt::Write};
use wire::line::OutputLine;

const DELEGATED: &str = "delegated";
/// Its own skills, which it does not delegate.
const OWN: [&str; 3] = ["orchestrate", "delegate", "monitor"];

pub(super) fn answer(request: &TurnRequest) -> Vec<OutputLine> {
    if let Some(result) = replies(request, DELEGATED).last() {
        return forward_result(result);
    }
    let capability = request.prompt.about.task().and_then(|task| task.capability.as_ref());
    if capability.is_some_and(|capability| capability.as_str() == "monitor") {
        return monitor(request);
    }
    match (skill_for(request), &request.prompt.about) {
        (Some(skill), TurnSubject::Task { .. }) => vec![
            status(format!("handing it to whoever has {skill}")),
            delegate(request, DELEGATED.to_owned(), skill, request_text(request).into_owned()),
        ],
        (Some(skill), TurnSubject::Help { .. } | TurnSubject::Signal(_) | TurnSubject::Check { .. }) => {
            vec![done(format!("ask for {skill}"))]
        }
        (None, _) => {
            let skills: Vec<_> = skills(request).iter().map(|skill| skill.as_str()).collect();
            let skills = skills.join(", ");
            let usage = notation::usage();
            let text = format!("Who is it for? Name a skill ({skills}), or what to build. {usage}");
            vec![question(request, text)]
        }
    }
}

fn skills(request: &TurnRequest) -> BTreeSet<&Capability> {
    let skills = request.peers.iter().flat_map(|peer| &peer.skills).map(|skill| &skill.id);
    skills.filter(|id| !OWN.contains(&id.as_str())).collect()
}

fn skill_for(request: &TurnRequest) -> Option<Capability> {
    let (text, skills) = (request_text(request), skills(request));
    let mut words = text.split(|c: char| !c.is_alphanumeric() && !"-_.".contains(c));
    let named = words.find_map(|word| skills.iter().find(|skill| skill.as_str() == word));
    let has_code = text.contains("```") || !artifacts(request).is_empty();
    let known = |name: &str| skills.iter().find(|skill| skill.as_str() == name);
    let fits = match named {
        Some(skill) => Some(skill),
        None if has_code => known("code-review"),
        None => notation::read(&text).ok().and(known("plan")),
    };
    fits.map(|skill| (*skill).clone())
}

fn monitor(request: &TurnRequest) -> Vec<OutputLine> {
    let mut table = "| agent | skills |\n|---|---|\n".to_owned();
    for peer in &request.peers {
        let skills: Vec<_> = peer.skills.iter().map(|skill| skill.id.as_str()).collect();
        let _ = writeln!(table, "| {} | {} |", AgentId::as_str(&peer.agent_id), skills.join(", "));
    }
    vec![
        artifact(Artifact::text("mesh.md", "text/markdown", table)),
        done(format!("{} other agents are registered", request.peers.len())),
    ]
}
