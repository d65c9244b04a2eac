//! Hands a request to whoever it is for: a skill that the request names, a review if it has code, else a plan if it is in
//! the notation. Whatever else is asked, it asks back.

use super::{artifact, artifacts, delegate, done, notation, pass_on, question, replies, request, status};
use crate::brain::{Ask, lines::Said};
use protocol::{
    artifact::Artifact,
    ids::{AgentId, Capability},
    patterns::turn::TurnSubject,
};
use std::{collections::BTreeSet, fmt::Write};

const DELEGATED: &str = "delegated";
/// Its own skills: requests for them are not handed to another orchestrator.
const OWN: [&str; 3] = ["orchestrate", "delegate", "monitor"];

pub(super) fn answer(ask: &Ask) -> Vec<Said> {
    if let Some(result) = replies(ask, DELEGATED).last() {
        return pass_on(result);
    }
    if let TurnSubject::Task { capability: Some(capability), .. } = &ask.prompt.about
        && capability.as_str() == "monitor"
    {
        return monitor(ask);
    }
    match (skill_for(ask), &ask.prompt.about) {
        (Some(skill), TurnSubject::Task { .. }) => vec![
            status(format!("handing it to whoever has {skill}")),
            delegate(ask, DELEGATED.to_owned(), skill, request(ask).into_owned()),
        ],
        (Some(skill), TurnSubject::Help { .. } | TurnSubject::Signal(_)) => {
            vec![done(format!("ask for {skill}"))]
        }
        (None, _) => {
            let skills: Vec<_> = skills(ask).iter().map(|skill| skill.as_str()).collect();
            let skills = skills.join(", ");
            let usage = notation::usage();
            vec![question(ask, format!("Who is it for? Name a skill ({skills}), or what to build. {usage}"))]
        }
    }
}

fn skills(ask: &Ask) -> BTreeSet<&Capability> {
    let skills = ask.peers.iter().flat_map(|peer| &peer.skills).map(|skill| &skill.id);
    skills.filter(|id| !OWN.contains(&id.as_str())).collect()
}

fn skill_for(ask: &Ask) -> Option<Capability> {
    let (text, skills) = (request(ask), skills(ask));
    let mut words = text.split(|c: char| !c.is_alphanumeric() && !"-_.".contains(c));
    let named = words.find_map(|word| skills.iter().find(|skill| skill.as_str() == word));
    let has_code = text.contains("```") || !artifacts(ask).is_empty();
    let known = |name: &str| skills.iter().find(|skill| skill.as_str() == name);
    let fits = match named {
        Some(skill) => Some(skill),
        None if has_code => known("code-review"),
        None => notation::read(&text).ok().and(known("plan")),
    };
    fits.map(|skill| (*skill).clone())
}

fn monitor(ask: &Ask) -> Vec<Said> {
    let mut table = "| agent | skills |\n|---|---|\n".to_owned();
    for peer in &ask.peers {
        let skills: Vec<_> = peer.skills.iter().map(|skill| skill.id.as_str()).collect();
        let _ = writeln!(table, "| {} | {} |", AgentId::as_str(&peer.agent_id), skills.join(", "));
    }
    vec![
        artifact(Artifact::text("mesh.md", "text/markdown", table)),
        done(format!("{} other agents are registered", ask.peers.len())),
    ]
}
