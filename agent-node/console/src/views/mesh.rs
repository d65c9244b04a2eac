//! A map of the agents by node: who is busy, who waits, who is away.

use super::agents::AgentLine;
use crate::{
    location::{ConsoleLocation, ViewName},
    state_mark::{StateTone, mark},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::brief,
};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// More agents than these are drawn as small squares.
const MAX_NAMED: usize = 80;

/// How a map draws its agents.
struct TileSize {
    width: usize,
    height: usize,
    columns: usize,
    has_text: bool,
}

const NAMED: TileSize = TileSize { width: 178, height: 62, columns: 6, has_text: true };
const SMALL: TileSize = TileSize { width: 24, height: 24, columns: 40, has_text: false };

/// The node of an agent, as far as its address tells: the process that answers, or a host.
fn node(agent: &AgentLine) -> String {
    if agent.is_here {
        return "this process".to_owned();
    }
    let authority = agent.endpoint.split_once("://").map_or(agent.endpoint.as_str(), |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    if host.is_empty() { "without an address".to_owned() } else { host.to_owned() }
}

/// The view.
pub fn view(viewer: &Viewer, agents: &[AgentLine]) -> Markup {
    let mut nodes: BTreeMap<(bool, String), Vec<&AgentLine>> = BTreeMap::new();
    for agent in agents {
        nodes.entry((!agent.is_here, node(agent))).or_default().push(agent);
    }
    let size = if agents.len() > MAX_NAMED { SMALL } else { NAMED };
    let count = |wanted: StateTone| agents.iter().filter(|agent| agent.state().0 == wanted).count();
    viewer.view(
        ViewHead { view: ViewName::Mesh, title: "Mesh", live: "agents tasks" },
        html! {
            div.head {
                div {
                    h1 { "Mesh" }
                    p.muted { (times::counted(agents.len(), "agent")) " on " (times::counted(nodes.len(), "node")) ". " a href=(ConsoleLocation::of(ViewName::Agents).href()) { "As a table" } }
                }
            }
            div.row {
                @for (tone, word) in [(StateTone::Busy, "at work"), (StateTone::Ok, "ready"), (StateTone::Wait, "takes no work, or away"), (StateTone::Bad, "down"), (StateTone::Idle, "left")] {
                    span { (mark(tone, word)) " " span.muted { (count(tone)) } }
                }
            }
            @if agents.is_empty() { section.card { div.empty { strong { "No agent is registered." } } } }
            @for ((_, name), agents) in &nodes { (group(name, agents, &size)) }
        },
    )
}

fn group(name: &str, agents: &[&AgentLine], size: &TileSize) -> Markup {
    let running: u32 = agents.iter().map(|agent| agent.running).sum();
    let places: u32 = agents.iter().map(|agent| agent.places).sum();
    let queued: u32 = agents.iter().filter_map(|agent| agent.queued).sum();
    let columns = agents.len().clamp(1, size.columns);
    let (width, height) = (columns * size.width, agents.len().div_ceil(columns) * size.height);
    html! {
        section.card data-key={ "node-" (name) } {
            header {
                h2 { (brief(name, 80)) }
                span.small.muted { (times::counted(agents.len(), "agent")) ", " (running) " of " (places) " places taken" @if queued > 0 { ", " (queued) " tasks wait" } }
            }
            div.body {
                div.scroll tabindex="0" role="region" aria-label={ "Agents of " (brief(name, 80)) } {
                    svg.map viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) role="group" aria-label={ "Agents of " (brief(name, 80)) } {
                        @for (at, agent) in agents.iter().enumerate() {
                            (tile(agent, at % columns * size.width, at / columns * size.height, size))
                        }
                    }
                }
                @for agent in agents.iter().filter(|agent| agent.trouble.is_some()).take(20) {
                    p.small { a href=(ConsoleLocation::agent(&agent.id).href()) { (agent.id) } " " span.is-wait { (brief(agent.trouble.as_deref().unwrap_or_default(), 200)) } }
                }
            }
        }
    }
}

fn tile(agent: &AgentLine, x: usize, y: usize, size: &TileSize) -> Markup {
    let (tone, word) = agent.state();
    let (width, height) = (size.width - 6, size.height - 6);
    let whole = width.saturating_sub(20);
    let share = agent.running.min(agent.places) as usize * whole / agent.places.max(1) as usize;
    html! {
        a href=(ConsoleLocation::agent(&agent.id).href()) data-key={ "tile-" (agent.id) } aria-label={ (agent.id) ": " (word) ", " (agent.running) " of " (agent.places) } {
            title { (agent.id) ": " (word) ", " (agent.running) " of " (agent.places) }
            rect class={ "tile " (tone.class()) @if agent.running > 0 { " full" } } x=(x + 2) y=(y + 2) width=(width) height=(height) rx=(if size.has_text { 8 } else { 4 }) {}
            @if size.has_text {
                circle class=(tone.class()) cx=(x + 15) cy=(y + 19) r="4.5" {}
                text.name x=(x + 26) y=(y + 23) { (brief(&agent.id, 19)) }
                text.note x=(x + 12) y=(y + 41) { (word) ", " (agent.running) " of " (agent.places) @if let Some(queued) = agent.queued.filter(|queued| *queued > 0) { ", " (queued) " wait" } }
                rect.track x=(x + 12) y=(y + 47) width=(whole) height="4" rx="2" {}
                rect.load x=(x + 12) y=(y + 47) width=(share) height="4" rx="2" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::agents::AgentPresence;
    use std::time::Instant;

    fn agent(at: usize) -> AgentLine {
        AgentLine {
            id: format!("agent-{at}"),
            description: "<b>".to_owned(),
            skills: Vec::new(),
            version: String::new(),
            endpoint: format!("http://host-{}:80{at}/", at % 20),
            presence: AgentPresence::Ready,
            running: 1,
            places: 4,
            queued: None,
            is_here: at == 0,
            trouble: (at == 1).then(|| "<script>".to_owned()),
        }
    }

    #[test]
    fn a_thousand_agents_are_drawn_in_less_than_a_second() {
        let agents: Vec<_> = (0..1_000).map(agent).collect();
        let viewer = Viewer::of_test(true);
        let begun = Instant::now();
        let shown = view(&viewer, &agents).into_string();
        assert!(begun.elapsed().as_secs_f64() < 1.0, "{:?}", begun.elapsed());
        assert_eq!(shown.matches("class=\"tile ").count(), 1_000);
        assert!(!shown.contains("<script>") && shown.contains("1\u{202f}000 agents on 21 nodes"), "{shown}");
        let few = view(&viewer, &agents[..3]).into_string();
        assert!(few.contains("this process") && few.contains("agent-2</text>"), "{few}");
    }
}
