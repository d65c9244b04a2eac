//! The agents of the mesh: who is there, how busy, and what each can do.

use super::task_line::TaskLine;
use crate::{
    chart,
    location::{ConsoleLocation, ViewName},
    state_mark::{StateTone, mark},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::time::WallTime;
use std::collections::BTreeMap;

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
    /// How many tasks wait for a free place, if this process hosts it and the viewer may know.
    pub queued: Option<u32>,
    /// Whether this process hosts it.
    pub is_here: bool,
    /// What it waits for before it takes work, or why it is down.
    pub trouble: Option<String>,
    /// The task of the last day that failed last, if this process hosts it and the viewer may see one.
    pub last_failure: Option<TaskLine>,
    /// How many messages it has sent to other agents in the last minute, if the viewer may know.
    pub sent: BTreeMap<String, u32>,
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

impl AgentLine {
    /// The state, as it is coloured, and in words.
    pub fn state(&self) -> (StateTone, &'static str) {
        match self.presence {
            AgentPresence::Ready if self.running > 0 => (StateTone::Busy, "at work"),
            AgentPresence::Ready => (StateTone::Ok, "ready"),
            AgentPresence::Waiting => (StateTone::Wait, "takes no work"),
            AgentPresence::Down => (StateTone::Bad, "down"),
            AgentPresence::Away => (StateTone::Wait, "away"),
            AgentPresence::Left => (StateTone::Idle, "left"),
        }
    }

    /// Why its last task failed, with a link to the task.
    pub(super) fn failure(&self, now: WallTime) -> Markup {
        html! {
            @if let Some(task) = &self.last_failure {
                @let what = if task.message.is_empty() { &task.description } else { &task.message };
                span.small { (mark(StateTone::Bad, "last failure")) " " (times::since(now, task.changed)) ": " a href=(task.href()) { (brief(what, 200)) } }
            }
        }
    }

    /// Whether it is there.
    pub fn is_present(&self) -> bool {
        matches!(self.presence, AgentPresence::Ready | AgentPresence::Waiting)
    }

    /// The link to its own console, if its address is one of HTTP.
    pub fn console(&self) -> Option<String> {
        let is_linked = ["http://", "https://"].iter().any(|scheme| self.endpoint.starts_with(scheme));
        is_linked.then(|| format!("{}/", self.endpoint))
    }
}

/// The view.
pub fn view(viewer: &Viewer, agents: &[AgentLine]) -> Markup {
    let here = agents.iter().filter(|agent| agent.is_present()).count();
    viewer.view(
        ViewHead { view: ViewName::Agents, title: "Agents", live: "agents tasks" },
        html! {
            div.head { div { h1 { "Agents" } p.muted { (here) " of " (agents.len()) " are there. The " a href=(ConsoleLocation::of(ViewName::Mesh).href()) { "map" } " shows them by node." } } }
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
            },
    )
}

fn row(agent: &AgentLine) -> Markup {
    let (tone, word) = agent.state();
    let tasks = ConsoleLocation { agent: agent.id.clone(), ..ConsoleLocation::of(ViewName::Tasks) };
    html! {
        tr data-key={ "agent-" (agent.id) } {
            td { (mark(tone, word)) }
            td.what {
                a href=(ConsoleLocation::agent(&agent.id).href()) { (agent.id) }
                span.small.muted { (brief(&agent.description, 160)) }
                @if let Some(why) = &agent.trouble { span.small.is-wait { (VisibleText(why)) } }
                div.row.small {
                    @if agent.is_here { a href=(tasks.href()) { "its tasks" } }
                    @if let Some(console) = agent.console() { a href=(console) rel="noreferrer" { "its console" } }
                }
            }
            td.nowrap { (load(agent)) @if let Some(queued) = agent.queued.filter(|queued| *queued > 0) { span.small.muted { ", " (queued) " wait" } } }
            td { div.row { @for skill in agent.skills.iter().take(8) { span.chip { (skill) } } @if agent.skills.len() > 8 { span.small.muted { "and " (agent.skills.len() - 8) " more" } } } }
            td.hide-narrow { code { (brief(&agent.endpoint, 80)) } }
            td.hide-narrow.muted { (brief(&agent.version, 20)) }
        }
    }
}

/// How many of its places are taken.
pub(super) fn load(agent: &AgentLine) -> Markup {
    let share = f64::from(agent.running) / f64::from(agent.places.max(1));
    html! { (chart::meter(share, StateTone::Busy)) " " (agent.running) " of " (agent.places) }
}
