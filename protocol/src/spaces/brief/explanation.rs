//! Why each part of a brief is in it, for people who look at it. Turns are not given it.

use super::{
    AREAS, BriefBudget, BriefEntry, ExplainedLine, Layer, SHORT_TITLE, layer, line_of, one_line, reference,
};
use crate::{
    ids::AgentId,
    spaces::{Entry, MemoryScope, task_history},
};
use serde::{Deserialize, Serialize};

/// Why a brief has what it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BriefExplanation {
    /// The parts of the text, in its order.
    pub items: Vec<BriefItem>,
    /// What it may hold beside the decisions.
    pub budget: BriefBudget,
    /// The tokens of the budget that nothing has used.
    pub left: usize,
}

/// A part of a brief, and why it is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BriefItem {
    /// The entry; absent for what the agent and its teammates know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<BriefEntry>,
    /// Its title, or how its content begins.
    pub title: String,
    /// What it is, in words: `decision`, `core context`, `learning`, `finding`, `task`, `own knowledge`, `teammate`.
    pub layer: String,
    /// A sentence for people.
    pub why: String,
    /// The tokens of its text.
    pub tokens: usize,
}

/// What its turn is told of an entry.
fn item(entry: &Entry, layer: &str, why: String) -> BriefItem {
    let title = match one_line(&entry.title) {
        title if title.is_empty() => one_line(&entry.content),
        title => title,
    };
    let title = title.chars().take(SHORT_TITLE).collect();
    BriefItem { entry: Some(reference(entry)), title, layer: layer.to_owned(), why, tokens: 0 }
}

pub(super) fn decision(entry: &Entry) -> BriefItem {
    let kind = entry.entry_type.map(|kind| format!(" of type {kind}")).unwrap_or_default();
    item(entry, "decision", format!("in force{kind}: every brief has all of these, beside the budget"))
}

/// A memory at this place of so many.
pub(super) fn memory(entry: &Entry, (place, of): (usize, usize)) -> BriefItem {
    let whose = if entry.scope == Some(MemoryScope::Own) { "of its own vault, " } else { "" };
    let importance = entry.importance.map(|grade| format!("importance {grade}, ")).unwrap_or_default();
    let (name, order) = match layer(entry) {
        _ if task_history::is_remembered(entry) => {
            let why =
                format!("one of its last {} tasks here; memory {place} of {of}", task_history::IN_BRIEF);
            return item(entry, "task", why);
        }
        Some(Layer::CoreContext) => ("core context", "comes before other memories"),
        Some(_) if entry.is_cross_team() => ("learning", "the tag cross-team counts as importance high"),
        _ => ("learning", "the more important come first, then the newer"),
    };
    item(entry, name, format!("{whose}{importance}of {}: {order}; memory {place} of {of}", entry.at))
}

/// The findings with these lines, which may be cut.
pub(super) fn findings(lines: Vec<(String, &Entry)>, budget: BriefBudget) -> Vec<ExplainedLine> {
    let explained = lines.into_iter().map(|(line, entry)| {
        let of = entry.session.as_ref().map(|session| format!(" of the session {session}"));
        let is_cut = line != line_of(entry, &entry.content);
        let cut = is_cut.then(|| format!("; cut to its part of {} tokens", budget.finding_tokens));
        let (latest, of, cut) = (budget.findings, of.unwrap_or_default(), cut.unwrap_or_default());
        let item = item(entry, "finding", format!("one of the latest {latest} findings{of}{cut}"));
        (line, item)
    });
    explained.collect()
}

/// The same, of which others are the cause than whom the work is for.
pub(super) fn of_others(lines: Vec<ExplainedLine>) -> Vec<ExplainedLine> {
    let marked = lines.into_iter().map(|(line, item)| {
        let why =
            format!("{}; others have caused it than whom the work is for, so it is between marks", item.why);
        (line, BriefItem { why, ..item })
    });
    marked.collect()
}

fn knowledge(layer: &str, title: String, why: String) -> BriefItem {
    BriefItem { entry: None, title, layer: layer.to_owned(), why, tokens: 0 }
}

pub(super) fn own_knowledge() -> BriefItem {
    let why = "its areas, by what it has learnt in each, and how many files it has analysed";
    knowledge("own knowledge", "What it knows best".to_owned(), why.to_owned())
}

pub(super) fn teammate(agent: &AgentId) -> BriefItem {
    knowledge("teammate", agent.to_string(), format!("it has expertise here: its {AREAS} best areas"))
}
