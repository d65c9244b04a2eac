//! Reads what is wanted, writes the plan, gives it to whoever builds, and brings back what was built.

mod plan;
mod result;

use super::{artifact, asked, data_artifact, done, failed, orchestrator, spec, status, words};
use crate::brain::{Ask, PeerSkill, lines::Said};
use protocol::{
    artifact::Artifact,
    coordination::thought::{About, Progress},
    ids::{Address, Capability},
};
use serde_json::json;
use spec::Spec;

const BUILD: &str = "build-";
/// More resources than this are given away in parts.
const WHOLE: usize = 4;
const PARTS: usize = 4;

/// First turn: the plan, given away. Second turn: what came back.
pub(super) fn answer(ask: &Ask) -> Vec<Said> {
    if let Some(passed_on) = orchestrator::handed_on(ask) {
        return passed_on;
    }
    if asked::replies(ask, BUILD).next().is_some() {
        return result::gather(ask);
    }
    let others = better_placed(ask);
    let spec =
        asked::input(ask).and_then(spec::from_value).unwrap_or_else(|| spec::from_text(asked::text(ask)));
    match others {
        Some(capability) if spec.resources.is_empty() || is_for_another(ask) => {
            vec![
                status(format!("this is for {capability}, not for planning; handing it on")),
                orchestrator::hand_on(ask, &capability),
            ]
        }
        Some(_) | None if spec.resources.is_empty() => vec![failed(nothing_found())],
        Some(_) | None => planned(ask, &spec),
    }
}

fn nothing_found() -> &'static str {
    "I found no resource to plan an API around. Say which things it keeps and what is known of each, for example: \
     \"a library: books (title, isbn, year:int) and members with name and email; members borrow books\""
}

/// Who would be better placed, as far as the words tell.
fn better_placed(ask: &Ask) -> Option<Capability> {
    let is_task = matches!(ask.prompt.about, About::Task { .. });
    let named = asked::capability(ask).is_some();
    let others: Vec<PeerSkill> = ask
        .peers
        .iter()
        .filter(|peer| peer.skills.iter().all(|skill| skill.id.as_str() != "plan"))
        .cloned()
        .collect();
    let best = orchestrator::best(asked::text(ask), &others)?;
    let is_building = best.capability.as_str() == "implement-api";
    (is_task && !named && !is_building).then_some(best.capability)
}

/// Whether the request itself says that it wants no plan.
fn is_for_another(ask: &Ask) -> bool {
    let first = words::words(asked::text(ask)).into_iter().find(|word| !words::is_stop(word));
    first.is_some_and(|word| matches!(word.as_str(), "review" | "check" | "audit" | "inspect"))
        || asked::text(ask).contains("```")
}

fn planned(ask: &Ask, spec: &Spec) -> Vec<Said> {
    let fields: usize = spec.resources.iter().map(|resource| resource.fields.len()).sum();
    let mut said = vec![
        status(format!(
            "planned {} with {} for the {} API",
            spec.names(),
            words::counted(fields, "field"),
            spec.title
        )),
        artifact(data_artifact("plan.json", json!(spec))),
        artifact(Artifact::text("plan.md", "text/markdown", plan::written(spec))),
    ];
    if let About::Help { .. } = ask.prompt.about {
        said.push(done(format!("I would build {}; see plan.md.", spec.names())));
        return said;
    }
    let Ok(capability) = Capability::parse("implement-api") else { return said };
    for (at, part) in plan::parts(spec).iter().enumerate() {
        said.push(Said::Progress(Progress::Delegate {
            id: format!("{BUILD}{}", at + 1),
            to: Address::Capability(capability.clone()),
            capability: None,
            description: format!(
                "Implement the REST API of the {} from the plan: {}",
                spec.title,
                part.names()
            ),
            input: Some(json!(part)),
            artifacts: Vec::new(),
        }));
    }
    said
}

#[cfg(test)]
mod tests;
