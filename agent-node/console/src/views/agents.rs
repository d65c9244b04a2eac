//! The agents of the mesh: who is there, how busy, and what each can do.

use crate::{
    location::{ConsoleLocation, ViewName},
    state_mark::{StateTone, mark},
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};

/// An agent of the mesh.
#[derive(Debug, Clone)]
pub struct AgentLine {
    pub id: String,
    pub description: String,
    pub skills: Vec<String>,
    pub version: String,
    /// Its registered address, if that is a URL of HTTP.
    pub endpoint: String,
    pub presence: AgentPresence,
    pub running: u32,
    pub places: u32,
    /// Whether this process hosts it.
    pub is_here: bool,
    /// What it waits for before it takes work, or why it is down.
    pub trouble: Option<String>,
}

/// Whether an agent is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPresence {
    Ready,
    /// It is there and takes no work.
    Waiting,
    /// It is down until the next start of its node.
    Down,
    /// It may come back.
    Away,
    Left,
}

/// The view. `checks` are those of the readiness of this process: name, and why it fails if it does.
pub fn view(viewer: &Viewer, agents: &[AgentLine], checks: &[(String, Option<String>)]) -> Markup {
    let here = agents
        .iter()
        .filter(|agent| matches!(agent.presence, AgentPresence::Ready | AgentPresence::Waiting))
        .count();
    viewer.view(
        ViewHead { view: ViewName::Agents, title: "Agents", live: "agents tasks" },
        html! {
            div.head { div { h1 { "Agents" } p.muted { (here) " of " (agents.len()) " are there. A name leads to the agent's own console." } } }
            section.card aria-label="Agents" {
                @if agents.is_empty() {
                    div.empty { strong { "No agent is registered." } p { code { "mesh node FILE" } " lets agents join this mesh." } }
                } @else {
                    div.scroll tabindex="0" role="region" aria-label="Table of agents" {
                        table.list {
                            thead { tr { th { "State" } th { "Agent" } th { "Load" } th { "Skills" } th.hide-narrow { "Address" } th.hide-narrow { "Version" } } }
                            tbody { @for agent in agents { (row(agent)) } }
                        }
                    }
                }
            }
            (health(checks))
        },
    )
}

fn row(agent: &AgentLine) -> Markup {
    let (tone, word) = match agent.presence {
        AgentPresence::Ready if agent.running > 0 => (StateTone::Busy, "at work"),
        AgentPresence::Ready => (StateTone::Ok, "ready"),
        AgentPresence::Waiting => (StateTone::Wait, "takes no work"),
        AgentPresence::Down => (StateTone::Bad, "down"),
        AgentPresence::Away => (StateTone::Wait, "away"),
        AgentPresence::Left => (StateTone::Idle, "left"),
    };
    let is_linked = ["http://", "https://"].iter().any(|scheme| agent.endpoint.starts_with(scheme));
    let tasks = ConsoleLocation { agent: agent.id.clone(), ..ConsoleLocation::of(ViewName::Tasks) };
    html! {
        tr data-key={ "agent-" (agent.id) } {
            td { (mark(tone, word)) }
            td.what {
                @if is_linked { a href={ (agent.endpoint) "/" } rel="noreferrer" { (agent.id) } } @else { strong { (agent.id) } }
                span.small.muted { (brief(&agent.description, 160)) }
                @if let Some(why) = &agent.trouble { span.small.is-wait { (VisibleText(why)) } }
                @if agent.is_here { a.small href=(tasks.href()) { "its tasks" } }
            }
            td.nowrap { (load(agent)) }
            td { div.row { @for skill in agent.skills.iter().take(8) { span.chip { (skill) } } @if agent.skills.len() > 8 { span.small.muted { "and " (agent.skills.len() - 8) " more" } } } }
            td.hide-narrow { code { (brief(&agent.endpoint, 80)) } }
            td.hide-narrow.muted { (brief(&agent.version, 20)) }
        }
    }
}

fn load(agent: &AgentLine) -> Markup {
    let places = agent.places.max(1);
    let share = f64::from(agent.running.min(places)) / f64::from(places) * 100.0;
    html! {
        svg.meter viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
            rect width="100" height="6" rx="3" {}
            rect width=(format!("{share:.0}")) height="6" rx="3" {}
        }
        " " (agent.running) " of " (agent.places)
    }
}

fn health(checks: &[(String, Option<String>)]) -> Markup {
    html! {
        section.card {
            header { h2 { "This process" } span.small.muted { code { "mesh doctor" } " looks further" } }
            ul.lines {
                @for (name, why) in checks {
                    li {
                        div.row {
                            @match why { None => (mark(StateTone::Ok, "well")), Some(_) => (mark(StateTone::Bad, "broken")) }
                            span { (VisibleText(name)) }
                        }
                        @if let Some(why) = why { span.small.muted { (VisibleText(why)) } }
                    }
                }
            }
        }
    }
}
