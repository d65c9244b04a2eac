//! A map of the agents by node: who is busy, who waits, who is away, and which agents send messages to which.

use super::agents::AgentLine;
use crate::{
    location::{ConsoleLocation, ViewName},
    state_mark::{StateTone, mark},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::brief,
};
use maud::{Markup, html};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// More agents than these are drawn as small squares.
const MAX_NAMED: usize = 80;
/// The most edges that are drawn, and those that are listed below.
const MAX_DRAWN: usize = 100;
const MAX_LISTED: usize = 10;
/// The most agents whose trouble is listed.
const MAX_TROUBLED: usize = 20;

/// How a map draws its agents.
struct TileSize {
    width: usize,
    height: usize,
    /// Between tiles: edges show here.
    gap: usize,
    columns: usize,
    has_text: bool,
}

const NAMED: TileSize = TileSize { width: 172, height: 56, gap: 34, columns: 4, has_text: true };
const SMALL: TileSize = TileSize { width: 18, height: 18, gap: 10, columns: 36, has_text: false };

/// The room between a frame and its tiles, of its label, and between frames.
const PADDING: usize = 16;
const LABEL: usize = 46;
const FRAME_GAP: usize = 28;
/// The least width of a frame: its label fits.
const MIN_FRAME: usize = 204;
/// The width of the thinnest and of the thickest edge.
const EDGE_WIDTHS: (f64, f64) = (1.5, 7.0);

impl TileSize {
    fn step(&self) -> (usize, usize) {
        (self.width + self.gap, self.height + self.gap)
    }

    /// The width and the height of a frame of so many agents.
    fn frame(&self, agents: usize) -> (usize, usize) {
        let columns = agents.clamp(1, self.columns);
        let (across, down) = self.step();
        let width = columns * across - self.gap + 2 * PADDING;
        (width.max(MIN_FRAME), agents.div_ceil(columns) * down - self.gap + LABEL + PADDING)
    }
}

/// The agents of a node, in a frame.
struct NodeFrame<'a> {
    name: String,
    agents: Vec<&'a AgentLine>,
    /// Its left upper corner, width and height.
    at: (usize, usize),
    extent: (usize, usize),
}

impl<'a> NodeFrame<'a> {
    fn tiles(&self, size: &TileSize) -> impl Iterator<Item = (&'a AgentLine, (usize, usize))> {
        let ((x, y), (across, down)) = (self.at, size.step());
        let columns = size.columns;
        self.agents.clone().into_iter().enumerate().map(move |(place, agent)| {
            let (column, row) = (place % columns, place / columns);
            (agent, (x + PADDING + column * across, y + LABEL + row * down))
        })
    }
}

/// Where everything is.
struct MapLayout<'a> {
    frames: Vec<NodeFrame<'a>>,
    width: usize,
    height: usize,
}

impl<'a> MapLayout<'a> {
    /// The nodes side by side, those of this process first.
    fn new(agents: &'a [AgentLine], size: &TileSize) -> Self {
        let mut nodes: BTreeMap<(bool, String), Vec<&AgentLine>> = BTreeMap::new();
        for agent in agents {
            nodes.entry((!agent.is_here, node(agent))).or_default().push(agent);
        }
        let (widest, _) = size.frame(size.columns);
        let mut layout = Self { frames: Vec::new(), width: 0, height: 0 };
        let (mut x, mut y) = (0, 0);
        for ((_, name), agents) in nodes {
            let extent = size.frame(agents.len());
            if x > 0 && x + extent.0 > widest {
                (x, y) = (0, layout.height + FRAME_GAP);
            }
            layout.frames.push(NodeFrame { name, agents, at: (x, y), extent });
            x += extent.0 + FRAME_GAP;
            (layout.width, layout.height) =
                (layout.width.max(x - FRAME_GAP), layout.height.max(y + extent.1));
        }
        layout
    }
}

/// An edge of the map: messages from one agent to another in the last minute.
struct MessageEdge<'a> {
    from: &'a str,
    to: &'a str,
    messages: u32,
}

impl MessageEdge<'_> {
    fn title(&self) -> String {
        let messages = times::counted(self.messages as usize, "message");
        format!("{} \u{2192} {}: {messages} in the last minute", self.from, self.to)
    }
}

/// The edges between `agents`, the busiest first.
fn edges(agents: &[AgentLine]) -> Vec<MessageEdge<'_>> {
    let shown: BTreeSet<&str> = agents.iter().map(|agent| agent.id.as_str()).collect();
    let all = agents.iter().flat_map(|from| {
        let sent = from.sent.iter().filter(|(to, _)| shown.contains(to.as_str()));
        sent.map(|(to, messages)| MessageEdge { from: &from.id, to, messages: *messages })
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|edge| (Reverse(edge.messages), edge.from, edge.to));
    all
}

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
    let size = if agents.len() > MAX_NAMED { SMALL } else { NAMED };
    let (layout, edges) = (MapLayout::new(agents, &size), edges(agents));
    let count = |wanted: StateTone| agents.iter().filter(|agent| agent.state().0 == wanted).count();
    viewer.view(
        ViewHead { view: ViewName::Mesh, title: "Mesh", live: "agents tasks" },
        html! {
            div.head {
                div {
                    h1 { "Mesh" }
                    p.muted { (times::counted(agents.len(), "agent")) " on " (times::counted(layout.frames.len(), "node")) ". " a href=(ConsoleLocation::of(ViewName::Agents).href()) { "As a table" } }
                }
            }
            div.row {
                @for (tone, word) in [(StateTone::Busy, "at work"), (StateTone::Ok, "ready"), (StateTone::Wait, "takes no work, or away"), (StateTone::Bad, "down"), (StateTone::Idle, "left")] {
                    span { (mark(tone, word)) " " span.muted { (count(tone)) } }
                }
            }
            section.card {
                @if agents.is_empty() { div.empty { strong { "No agent is registered." } } } @else {
                    header { h2 { "Agents by node" } @if !edges.is_empty() { span.small.muted { "lines: messages of the last minute" } } }
                    div.body { (map(&layout, &edges, &size)) }
                }
            }
            div.columns {
                @if !edges.is_empty() { (busiest(&edges)) }
                (troubles(viewer, agents))
            }
        },
    )
}

fn map(layout: &MapLayout<'_>, edges: &[MessageEdge<'_>], size: &TileSize) -> Markup {
    let (width, height) = (layout.width + 4, layout.height + 4);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Map of the agents" {
            svg.map viewBox={ "-2 -2 " (width) " " (height) } width=(width) height=(height) role="group" aria-label="Map of the agents" {
                @for frame in &layout.frames {
                    rect.node data-key={ "frame-" (frame.name) } x=(frame.at.0) y=(frame.at.1) width=(frame.extent.0) height=(frame.extent.1) rx="8" {}
                }
                (drawn_edges(layout, edges, size))
                @for frame in &layout.frames { (node_tiles(frame, size)) }
            }
        }
    }
}

/// The busiest edges, which lie below the tiles. The table has them as text.
fn drawn_edges(layout: &MapLayout<'_>, edges: &[MessageEdge<'_>], size: &TileSize) -> Markup {
    let tiles = layout.frames.iter().flat_map(|frame| frame.tiles(size));
    let places: BTreeMap<&str, (usize, usize)> =
        tiles.map(|(agent, place)| (agent.id.as_str(), place)).collect();
    let most = edges.first().map_or(1, |edge| edge.messages.max(1));
    let drawn = edges.iter().take(MAX_DRAWN);
    let drawn = drawn.filter_map(|edge| Some((edge, *places.get(edge.from)?, *places.get(edge.to)?)));
    let (thin, thick) = EDGE_WIDTHS;
    let stroke =
        |edge: &MessageEdge<'_>| thin + (thick - thin) * (f64::from(edge.messages) / f64::from(most)).sqrt();
    html! {
        @if !edges.is_empty() {
            g aria-hidden="true" {
                defs { marker #edge-head viewBox="0 0 8 8" refX="7" refY="4" markerWidth="10" markerHeight="10" markerUnits="userSpaceOnUse" orient="auto" { path.head-of d="M0 0 L8 4 L0 8 z" {} } }
                @for (edge, from, to) in drawn {
                    path.edge data-key={ "edge-" (edge.from) "-" (edge.to) } d=(curve(from, to, size, (layout.width, layout.height))) stroke-width=(format!("{:.1}", stroke(edge))) marker-end="url(#edge-head)" {
                        title { (edge.title()) }
                    }
                }
            }
        }
    }
}

/// A curve from the middle of one tile to the border of another. It bends to its right, so that the way back is another one, and far
/// enough to be seen beside tiles between the two.
fn curve(from: (usize, usize), to: (usize, usize), size: &TileSize, within: (usize, usize)) -> String {
    let half = (size.width as f64 / 2.0, size.height as f64 / 2.0);
    let middle = |(x, y): (usize, usize)| (x as f64 + half.0, y as f64 + half.1);
    let ((x1, y1), (x2, y2)) = (middle(from), middle(to));
    let (dx, dy) = (x2 - x1, y2 - y1);
    let length = dx.hypot(dy).max(1.0);
    let bend = (size.gap as f64 * 0.6 + length * 0.13).min(150.0);
    let x = (f64::midpoint(x1, x2) - dy / length * bend).clamp(0.0, within.0 as f64);
    let y = (f64::midpoint(y1, y2) + dx / length * bend).clamp(0.0, within.1 as f64);
    // Where the end crosses the border of its tile.
    let (back_x, back_y) = (x - x2, y - y2);
    let reach = (half.0 / back_x.abs().max(0.1)).min(half.1 / back_y.abs().max(0.1)).min(1.0);
    let (x2, y2) = (x2 + back_x * reach, y2 + back_y * reach);
    format!("M{x1:.0} {y1:.0} Q{x:.0} {y:.0} {x2:.0} {y2:.0}")
}

fn node_tiles(frame: &NodeFrame<'_>, size: &TileSize) -> Markup {
    let running: u32 = frame.agents.iter().map(|agent| agent.running).sum();
    let places: u32 = frame.agents.iter().map(|agent| agent.places).sum();
    let queued: u32 = frame.agents.iter().filter_map(|agent| agent.queued).sum();
    let waits = if queued > 0 { format!(", {queued} wait") } else { String::new() };
    let (x, y) = frame.at;
    html! {
        g data-key={ "node-" (frame.name) } role="group" aria-label={ "Agents of " (brief(&frame.name, 80)) ": " (running) " of " (places) " places taken" (waits) } {
            text.name x=(x + PADDING) y=(y + 19) { (brief(&frame.name, 24)) }
            text.note x=(x + PADDING) y=(y + 35) { (running) " of " (places) " places" (waits) }
            @for (agent, place) in frame.tiles(size) { (tile(agent, place, size)) }
        }
    }
}

fn tile(agent: &AgentLine, (x, y): (usize, usize), size: &TileSize) -> Markup {
    let (tone, word) = agent.state();
    let whole = size.width.saturating_sub(20);
    let share = agent.running.min(agent.places) as usize * whole / agent.places.max(1) as usize;
    let why = agent.trouble.as_deref().map(|why| format!(": {}", brief(why, 120))).unwrap_or_default();
    html! {
        a href=(ConsoleLocation::agent(&agent.id).href()) data-key={ "tile-" (agent.id) } aria-label={ (agent.id) ": " (word) ", " (agent.running) " of " (agent.places) } {
            title { (agent.id) ": " (word) ", " (agent.running) " of " (agent.places) (why) }
            rect class={ "tile " (tone.class()) @if agent.running > 0 { " full" } } x=(x) y=(y) width=(size.width) height=(size.height) rx=(if size.has_text { 8 } else { 4 }) {}
            @if size.has_text {
                circle class=(tone.class()) cx=(x + 13) cy=(y + 17) r="4.5" {}
                text.name x=(x + 24) y=(y + 21) { (brief(&agent.id, 19)) }
                text.note x=(x + 10) y=(y + 39) { (word) ", " (agent.running) " of " (agent.places) @if let Some(queued) = agent.queued.filter(|queued| *queued > 0) { ", " (queued) " wait" } }
                rect.track x=(x + 10) y=(y + 45) width=(whole) height="4" rx="2" {}
                rect.load x=(x + 10) y=(y + 45) width=(share) height="4" rx="2" {}
            }
        }
    }
}

/// What the lines of the map say.
fn busiest(edges: &[MessageEdge<'_>]) -> Markup {
    let agent = |id: &str| html! { a href=(ConsoleLocation::agent(id).href()) { (id) } };
    html! {
        section.card {
            header { h2 { "Messages in the last minute" } @if edges.len() > MAX_LISTED { span.small.muted { "the busiest of " (times::count(edges.len() as u64)) " lines" @if edges.len() > MAX_DRAWN { ", of which " (MAX_DRAWN) " are drawn" } } } }
            div.scroll tabindex="0" role="region" aria-label="Messages in the last minute" {
                table.list {
                    thead { tr { th { "From" } th { "To" } th.num { "Messages" } } }
                    tbody { @for edge in edges.iter().take(MAX_LISTED) { tr data-key={ "sent-" (edge.from) "-" (edge.to) } { td { (agent(edge.from)) } td { (agent(edge.to)) } td.num { (times::count(edge.messages.into())) } } } }
                }
            }
        }
    }
}

/// Why agents are down or take no work, and what has failed last at each.
fn troubles(viewer: &Viewer, agents: &[AgentLine]) -> Markup {
    let is_troubled = |agent: &&AgentLine| agent.trouble.is_some() || agent.last_failure.is_some();
    let mut troubled: Vec<_> = agents.iter().filter(is_troubled).collect();
    troubled.sort_by_key(|agent| agent.trouble.is_none());
    html! {
        @if !troubled.is_empty() {
            section.card {
                header { h2 { "Trouble" } @if troubled.len() > MAX_TROUBLED { span.small.muted { (MAX_TROUBLED) " of " (troubled.len()) " agents" } } }
                ul.lines {
                    @for agent in troubled.into_iter().take(MAX_TROUBLED) {
                        li data-key={ "trouble-" (agent.id) } {
                            div.row { a href=(ConsoleLocation::agent(&agent.id).href()) { (agent.id) } (mark(agent.state().0, agent.state().1)) }
                            @if let Some(why) = &agent.trouble { span.small { (brief(why, 200)) } }
                            (agent.failure(viewer.now))
                        }
                    }
                }
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
        let sent =
            (1..=32).map(|next| (format!("agent-{}", (at + next) % 1_000), u32::try_from(next).unwrap()));
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
            last_failure: None,
            sent: sent.collect(),
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
        assert_eq!(shown.matches("<path class=\"edge\"").count(), MAX_DRAWN, "the busiest");
        assert!(!shown.contains("<script>") && shown.contains("1\u{202f}000 agents on 21 nodes"), "{shown}");
        let few = view(&viewer, &agents[..3]).into_string();
        assert!(few.contains("this process") && few.contains("agent-2</text>"), "{few}");
    }

    #[test]
    fn ways_go_between_agents_that_are_shown_and_are_wide_by_their_messages() {
        let mut agents: Vec<_> = (0..3).map(agent).collect();
        let viewer = Viewer::of_test(true);
        let shown = view(&viewer, &agents).into_string();
        assert_eq!(shown.matches("<path class=\"edge\"").count(), 3, "0 to 1 and 2, 1 to 2: {shown}");
        assert!(shown.contains("agent-0 \u{2192} agent-2: 2 messages in the last minute"), "{shown}");
        assert!(shown.contains("stroke-width=\"7.0\"") && shown.contains("stroke-width=\"5.4\""), "{shown}");
        assert!(shown.contains("<td class=\"num\">2</td>"), "as text: {shown}");
        let (edges, tiles) = (shown.find("class=\"edge\"").unwrap(), shown.find("class=\"tile ").unwrap());
        assert!(edges < tiles, "tiles lie above");
        agents.iter_mut().for_each(|agent| agent.sent.clear());
        let shown = view(&viewer, &agents).into_string();
        assert!(
            !shown.contains("class=\"edge\"") && !shown.contains("Messages in the last minute"),
            "{shown}"
        );
    }

    #[test]
    fn an_edge_ends_at_the_border_of_a_tile_within_the_map_and_the_way_back_is_another_one() {
        let within = NAMED.frame(10);
        let tiles = [(16, 46), (222, 46), (840, 46), (16, 136)];
        for (from, to) in tiles.iter().flat_map(|from| tiles.iter().map(move |to| (*from, *to))) {
            if from == to {
                continue;
            }
            let edge = curve(from, to, &NAMED, within);
            assert_ne!(edge, curve(to, from, &NAMED, within));
            let numbers: Vec<f64> =
                edge.split(['M', 'Q', ' ']).filter_map(|number| number.parse().ok()).collect();
            let [_, _, x, y, end_x, end_y] = numbers[..] else { panic!("{edge}") };
            assert!((0.0..=within.0 as f64).contains(&x) && (0.0..=within.1 as f64).contains(&y), "{edge}");
            let (dx, dy) = (end_x - to.0 as f64 - 86.0, end_y - to.1 as f64 - 28.0);
            let is_at_border = (dx.abs() - 86.0).abs() < 1.0 || (dy.abs() - 28.0).abs() < 1.0;
            assert!(is_at_border && dx.abs() < 87.0 && dy.abs() < 29.0, "{edge} to {to:?}");
        }
    }
}
