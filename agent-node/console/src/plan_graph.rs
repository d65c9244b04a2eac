//! A plan as a graph: its steps in layers by depth, from left to right.

use crate::{state_mark::StateTone, visible_text::brief};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// A step of a plan.
#[derive(Debug, Clone)]
pub struct PlanNode {
    pub id: String,
    /// What stands below its name.
    pub note: String,
    pub tone: StateTone,
    /// The state, in words.
    pub state: String,
    /// Whether nobody sees what happens in it before it ends.
    pub is_sealed: bool,
    /// The steps before it.
    pub after: Vec<String>,
    /// Steps that may follow on a label, also earlier ones: the label and the step.
    pub routes: Vec<(String, String)>,
    /// The link to what is known of it.
    pub href: String,
}

const WIDTH: f64 = 168.0;
const HEIGHT: f64 = 60.0;
const GAP_X: f64 = 56.0;
const GAP_Y: f64 = 22.0;
const MARGIN: f64 = 14.0;

/// The layer of each node: one more than the deepest of those before it. Steps in a circle end at a bound.
fn depths(nodes: &[PlanNode]) -> Vec<usize> {
    let places: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
    let mut depths = vec![0; nodes.len()];
    for _ in 0..nodes.len() {
        let before = depths.clone();
        for (at, node) in nodes.iter().enumerate() {
            let deepest =
                node.after.iter().filter_map(|id| places.get(id.as_str()).map(|at| before[*at] + 1));
            depths[at] = deepest.max().unwrap_or(0).min(nodes.len());
        }
        if depths == before {
            break;
        }
    }
    depths
}

/// A box with its place.
struct PlacedNode<'a> {
    node: &'a PlanNode,
    x: f64,
    y: f64,
}

/// The graph of `nodes`. `label` names it.
pub fn graph(label: &str, nodes: &[PlanNode]) -> Markup {
    let depths = depths(nodes);
    let layers = depths.iter().max().map_or(0, |deepest| deepest + 1);
    let mut filled = vec![0_usize; layers];
    let mut placed = BTreeMap::new();
    for (node, depth) in nodes.iter().zip(&depths) {
        let row = filled[*depth];
        filled[*depth] += 1;
        let (x, y) = (MARGIN + *depth as f64 * (WIDTH + GAP_X), MARGIN + row as f64 * (HEIGHT + GAP_Y));
        placed.insert(node.id.as_str(), PlacedNode { node, x, y });
    }
    let rows = filled.iter().max().copied().unwrap_or(0).max(1);
    let width = MARGIN * 2.0 + layers as f64 * (WIDTH + GAP_X) - GAP_X;
    let loops = nodes.iter().any(|node| !node.routes.is_empty());
    let height =
        MARGIN * 2.0 + rows as f64 * (HEIGHT + GAP_Y) - GAP_Y + if loops { GAP_Y * 2.0 } else { 0.0 };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            svg.plan viewBox=(format!("0 0 {width:.0} {height:.0}")) width=(format!("{width:.0}")) height=(format!("{height:.0}")) role="group" aria-label=(label) {
                defs { marker #arrow viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" { path.head-of d="M0 0 L8 4 L0 8 z" {} } }
                @for to in placed.values() {
                    @for from in to.node.after.iter().filter_map(|id| placed.get(id.as_str())) { (edge(from, to)) }
                    @for (label, next) in to.node.routes.iter().filter_map(|(label, id)| Some((label, placed.get(id.as_str())?))) {
                        (route(to, next, label, height))
                    }
                }
                @for placed in placed.values() { (step(placed)) }
            }
        }
    }
}

fn edge(from: &PlacedNode<'_>, to: &PlacedNode<'_>) -> Markup {
    let (x1, y1, x2, y2) = (from.x + WIDTH, from.y + HEIGHT / 2.0, to.x - 2.0, to.y + HEIGHT / 2.0);
    let half = (x2 - x1) / 2.0;
    html! { path.edge d=(format!("M{x1:.0} {y1:.0} C{:.0} {y1:.0} {:.0} {y2:.0} {x2:.0} {y2:.0}", x1 + half, x2 - half)) marker-end="url(#arrow)" {} }
}

/// A way on a label, below all boxes.
fn route(from: &PlacedNode<'_>, to: &PlacedNode<'_>, label: &str, height: f64) -> Markup {
    let (x1, x2) = (from.x + WIDTH * 0.6, to.x + WIDTH * 0.4);
    let (y1, y2, low) = (from.y + HEIGHT, to.y + HEIGHT + 2.0, height - 6.0);
    html! {
        path.edge.route d=(format!("M{x1:.0} {y1:.0} C{x1:.0} {low:.0} {x2:.0} {low:.0} {x2:.0} {y2:.0}")) marker-end="url(#arrow)" {}
        text.note x=(format!("{:.0}", f64::midpoint(x1, x2))) y=(format!("{:.0}", height - 4.0)) text-anchor="middle" { (brief(label, 24)) }
    }
}

fn step(placed: &PlacedNode<'_>) -> Markup {
    let PlacedNode { node, x, y } = placed;
    let sealed = if node.is_sealed { ", sealed" } else { "" };
    html! {
        a href=(node.href) aria-label={ (brief(&node.id, 60)) ": " (node.state) (sealed) ". " (brief(&node.note, 120)) } data-key={ "plan-" (node.id) } {
            title { (brief(&node.id, 60)) ": " (node.state) (sealed) }
            rect class={ "step " (node.tone.class()) @if node.is_sealed { " sealed" } } x=(format!("{x:.0}")) y=(format!("{y:.0}")) width=(WIDTH) height=(HEIGHT) rx="8" {}
            circle class=(node.tone.class()) cx=(format!("{:.0}", x + 14.0)) cy=(format!("{:.0}", y + 18.0)) r="4.5" {}
            text.name x=(format!("{:.0}", x + 25.0)) y=(format!("{:.0}", y + 22.5)) { (brief(&node.id, 18)) }
            text.note x=(format!("{:.0}", x + 12.0)) y=(format!("{:.0}", y + 44.0)) { (brief(&node.note, 26)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, after: &[&str]) -> PlanNode {
        PlanNode {
            id: id.to_owned(),
            note: "</text><script>".to_owned(),
            tone: StateTone::Idle,
            state: "waiting".to_owned(),
            is_sealed: false,
            after: after.iter().map(|id| (*id).to_owned()).collect(),
            routes: vec![("again".to_owned(), "a".to_owned())],
            href: "#a".to_owned(),
        }
    }

    #[test]
    fn a_step_lies_behind_all_before_it_and_a_circle_ends() {
        let nodes = [node("d", &["b", "c"]), node("a", &[]), node("b", &["a"]), node("c", &["b", "nowhere"])];
        assert_eq!(depths(&nodes), [3, 0, 1, 2]);
        let shown = graph("The plan", &nodes).into_string();
        assert!(!shown.contains("<script>") && shown.matches("<rect").count() == 4, "{shown}");
        let circle = [node("a", &["b"]), node("b", &["a"])];
        assert!(depths(&circle).into_iter().all(|depth| depth <= 2));
        graph("The plan", &circle);
        assert!(graph("The plan", &[]).into_string().contains("<svg"));
    }
}
