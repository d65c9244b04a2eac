//! One agent: who it is, what it can do, how it has done, and what it has used.

pub mod tools;

use super::{
    agents::{self, AgentLine},
    cost::CostLine,
    task_line::TaskLine,
};
use crate::{
    chart::{self, ChartColumn},
    location::{ConsoleLocation, ViewName},
    state_mark::{StateTone, mark},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::{card::Card, spaces::space::DEFAULT_SPACE};
use std::time::Duration;
use tools::AgentTools;

/// How the newest tasks of an agent have ended, of those that the viewer may see.
#[derive(Debug, Clone, Default)]
pub struct TaskRecord {
    /// How many tasks were looked at.
    pub looked_at: usize,
    pub completed: usize,
    pub failed: usize,
    pub open: usize,
    /// How long a completed one took, in the middle.
    pub median: Option<Duration>,
    /// The newest.
    pub newest: Vec<TaskLine>,
}

/// What is known of an agent that this process hosts.
#[derive(Debug, Clone, Default)]
pub struct HostedAgentData {
    pub record: TaskRecord,
    pub tools: AgentTools,
    /// What its brain has used in the last 30 days.
    pub days: Vec<CostLine>,
    /// What it is at, for who may know: a name and a number or a word.
    pub state: Vec<(String, String)>,
    /// The conversations that are parked, and why.
    pub parked: Vec<(String, String)>,
}

/// What the page knows.
#[derive(Debug, Clone)]
pub struct AgentData {
    pub line: AgentLine,
    pub card: Card,
    pub hosted: Option<HostedAgentData>,
}

/// The view.
pub fn view(viewer: &Viewer, data: &AgentData) -> Markup {
    let AgentData { line, card, hosted } = data;
    let (tone, word) = line.state();
    let tasks = ConsoleLocation { agent: line.id.clone(), ..ConsoleLocation::of(ViewName::Tasks) };
    viewer.view(
        ViewHead { view: ViewName::Agent, title: &line.id, live: "agents tasks" },
        html! {
            div.head {
                div {
                    h1 { (line.id) }
                    @if !card.description.is_empty() { p { (VisibleText(&card.description)) } }
                    div.row {
                        (mark(tone, word)) span.nowrap { (agents::load(line)) }
                        @if let Some(queued) = line.queued.filter(|queued| *queued > 0) { span { (queued) " tasks wait" } }
                        @if line.is_here { a href=(tasks.href()) { "Tasks" } a href=(ConsoleLocation::chat(&line.id, "").href()) { "Chat" } }
                        a href=(ConsoleLocation::brief(DEFAULT_SPACE, &line.id).href()) { "Brief" }
                        @if let Some(console) = line.console() { a href=(console) rel="noreferrer" { "Its console" } }
                    }
                }
            }
            @if let Some(why) = &line.trouble { div.notice.wait { p { (VisibleText(why)) } } }
            @if line.last_failure.is_some() { div.notice.bad { (line.failure(viewer.now)) } }
            div.columns {
                div.stack {
                    (skills(card))
                    @if let Some(hosted) = hosted { (record(viewer, hosted)) (used(&hosted.days)) }
                }
                div.stack {
                    (bounds(card))
                    @match hosted {
                        Some(hosted) => { (state(hosted)) (tools::section(viewer, &hosted.tools)) },
                        None => div.notice { p { "Another process hosts it: its own console shows its tasks, tools and costs." } },
                    }
                }
            }
        },
    )
}

fn skills(card: &Card) -> Markup {
    html! {
        section.card {
            header { h2 { "Skills" } span.small.muted { @if card.open { "takes also work without a capability" } @else { "takes work of its capabilities only" } } }
            @if card.skills.is_empty() { div.empty { p { "None." } } } @else {
                ul.lines {
                    @for skill in &card.skills {
                        li data-key={ "skill-" (skill.id) } {
                            div.row { strong { (skill.id) } @if !skill.name.is_empty() { span.muted { (VisibleText(&skill.name)) } } @for tag in skill.tags.iter().take(12) { span.chip { (tag) } } }
                            @if !skill.description.is_empty() { span.small.muted { (brief(&skill.description, 400)) } }
                            @if !skill.output_modes.is_empty() { span.small.muted { "answers in " (brief(&skill.output_modes.join(", "), 120)) } }
                        }
                    }
                }
            }
        }
    }
}

fn bounds(card: &Card) -> Markup {
    html! {
        section.card {
            header { h2 { "Card" } }
            div.body {
                dl.facts {
                    @if let Some(role) = &card.role { dt { "Role" } dd { (VisibleText(role)) } }
                    @if card.entrance { dt { "Entrance" } dd { "is asked if nobody is named" } }
                    dt { "Address" } dd.mono { (brief(&card.endpoint, 120)) }
                    dt { "Version" } dd { (brief(&card.version, 40)) }
                    dt { "At a time" } dd { (times::counted(card.terms.max_parallel as usize, "task")) }
                    dt { "Bids" } dd { "cost " (card.terms.cost.get()) ", " (times::duration(card.terms.eta.duration())) }
                    dt { "May be away" } dd { (times::duration(card.may_be_away())) }
                    @if !card.subscribe.is_empty() { dt { "Follows" } dd { @for kind in &card.subscribe { span.chip { (brief(kind, 64)) } " " } } }
                    dt { "Hops" } dd { (card.limits.max_hops) " agents a task may pass" }
                    dt { "Open work" } dd { (times::count(card.limits.max_open_conversations as u64)) " conversations at once" }
                    dt { "Message" } dd { "at most " (times::count(card.limits.max_body_bytes as u64)) " bytes" }
                }
            }
        }
    }
}

fn record(viewer: &Viewer, hosted: &HostedAgentData) -> Markup {
    let record = &hosted.record;
    html! {
        section.card {
            header { h2 { "Track record" } span.small.muted { "of its last " (times::counted(record.looked_at, "task")) " that you may see" } }
            div.body {
                dl.facts {
                    dt { "Completed" } dd { (record.completed) }
                    dt { "Failed" } dd { (record.failed) }
                    dt { "Open" } dd { (record.open) }
                    @if let Some(median) = record.median { dt { "Takes" } dd { (times::duration(median)) " in the middle" } }
                }
            }
            @if !record.newest.is_empty() { ul.lines { @for line in &record.newest { (line.item(viewer.now)) } } }
        }
    }
}

fn used(days: &[CostLine]) -> Markup {
    let column = |line: &CostLine| ChartColumn {
        label: line.key.clone(),
        value: line.amount.tokens as f64,
        text: format!("{} tokens, cost {:.4}", times::count(line.amount.tokens), line.amount.cost.get()),
    };
    html! {
        section.card {
            header { h2 { "Tokens and cost by day" } a.small href=(ConsoleLocation::of(ViewName::Cost).href()) { "Cost" } }
            @if days.iter().all(|day| day.amount.is_none()) { div.empty { p { "Its brain has used nothing in 30 days." } } } @else {
                div.body {
                    (chart::columns("Tokens by day", &days.iter().map(column).collect::<Vec<_>>()))
                    div.scroll tabindex="0" role="region" aria-label="Tokens and cost by day" {
                        table {
                            thead { tr { th { "Day" } th.num { "Tasks" } th.num { "Tokens" } th.num { "Cost" } } }
                            tbody { @for day in days.iter().rev().filter(|day| !day.amount.is_none()) { tr { td.nowrap { (day.key) } td.num { (day.amount.tasks) } td.num { (times::count(day.amount.tokens)) } td.num { (format!("{:.4}", day.amount.cost.get())) } } } }
                        }
                    }
                }
            }
        }
    }
}

fn state(hosted: &HostedAgentData) -> Markup {
    html! {
        @if !hosted.state.is_empty() {
            section.card {
                header { h2 { "At the moment" } }
                div.body { dl.facts { @for (name, value) in &hosted.state { dt { (name) } dd { (VisibleText(value)) } } } }
            }
        }
        @if !hosted.parked.is_empty() {
            section.card {
                header { h2 { "Parked until the next start" } }
                ul.lines { @for (conversation, why) in &hosted.parked { li { span.mono.small { (VisibleText(conversation)) } (mark(StateTone::Bad, "parked")) span.small { (VisibleText(why)) } } } }
            }
        }
    }
}
