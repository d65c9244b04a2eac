//! What models have used: tokens and money, by what the viewer chooses, and how near quotas are.

use super::task_line::TaskLine;
use crate::{
    chart::{self, ChartColumn},
    location::{ConsoleLocation, ViewName},
    state_mark::{StateTone, mark},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::{quota::Amount, time::WallTime};

/// What was used for one key: an agent, a capability, a requester, a task or a day.
#[derive(Debug, Clone)]
pub struct CostLine {
    pub key: String,
    pub amount: Amount,
}

/// A quota, and how much of it is used.
#[derive(Debug, Clone)]
pub struct QuotaUse {
    /// The agent whose quota it is; `None` if agents share it.
    pub agent: Option<String>,
    pub name: String,
    /// `open`, `near` or `reached`.
    pub state: &'static str,
    /// How much of each limited amount is used.
    pub figures: String,
    /// The largest share that is used, from 0 on.
    pub share: f64,
    pub opens: WallTime,
}

/// What the page knows.
#[derive(Debug, Clone)]
pub struct CostData {
    pub since: WallTime,
    /// By what the address asks for.
    pub lines: Vec<CostLine>,
    pub days: Vec<CostLine>,
    pub quotas: Vec<QuotaUse>,
    /// The tasks that wait for a quota.
    pub held: Vec<TaskLine>,
    /// Whether the viewer sees what was used for others, too.
    pub sees_all: bool,
}

/// What costs are summed up by.
const KEYS: [(&str, &str); 5] = [
    ("agent", "Agent"),
    ("capability", "Capability"),
    ("requester", "Requester"),
    ("task", "Task"),
    ("day", "Day"),
];
/// Since when.
const TIMES: [(&str, &str); 4] =
    [("", "this month"), ("7d", "7 days"), ("30d", "30 days"), ("90d", "90 days")];

/// The view.
pub fn view(viewer: &Viewer, at: &ConsoleLocation, data: &CostData) -> Markup {
    let since = data.since.to_string();
    let since = since.get(..10).unwrap_or(&since);
    let (key, label) = KEYS.iter().find(|(key, _)| *key == at.kind).copied().unwrap_or(KEYS[0]);
    viewer.view(
        ViewHead { view: ViewName::Cost, title: "Cost", live: "tasks" },
        html! {
            div.head {
                div {
                    h1 { "Cost" }
                    p.muted { "What brains have used since " (since) @if !data.sees_all { ", for work of yours" } ". Models are counted, and what other brains report." }
                }
            }
            nav.actions aria-label="Sum up by" {
                @for (name, words) in KEYS { (choice(ConsoleLocation { kind: name.to_owned(), ..at.clone() }, words, name == key)) }
                span.muted.small { "since" }
                @for (name, words) in TIMES { (choice(ConsoleLocation { since: name.to_owned(), ..at.clone() }, words, name == at.since)) }
            }
            div.columns {
                div.stack {
                    (by_key(label, key, &data.lines))
                    (by_day(&data.days))
                }
                div.stack { (quotas(viewer, &data.quotas)) (held(viewer, &data.held)) }
            }
        },
    )
}

fn choice(to: ConsoleLocation, words: &str, is_chosen: bool) -> Markup {
    html! { a.button href=(to.href()) aria-current=[is_chosen.then_some("true")] { (words) } }
}

fn money(amount: &Amount) -> String {
    format!("{:.4}", amount.cost.get())
}

/// The tokens of the largest first; days in their order.
fn by_key(label: &str, key: &str, lines: &[CostLine]) -> Markup {
    let mut lines: Vec<_> = lines.iter().collect();
    if key != "day" {
        lines.sort_by(|a, b| {
            (b.amount.cost.micros(), b.amount.tokens).cmp(&(a.amount.cost.micros(), a.amount.tokens))
        });
    }
    let most = lines.iter().map(|line| line.amount.tokens).max().unwrap_or_default().max(1) as f64;
    let all = lines.iter().fold(Amount::default(), |sum, line| sum.plus(line.amount));
    html! {
        section.card {
            header { h2 { "By " (label.to_lowercase()) } span.small.muted { (times::count(all.tokens)) " tokens, cost " (money(&all)) } }
            @if lines.is_empty() {
                div.empty { strong { "Nothing was used." } p { "Brains of models are counted, and what `exec` and `http` brains report." } }
            } @else {
                div.scroll tabindex="0" role="region" aria-label={ "Costs by " (label.to_lowercase()) } {
                    table {
                        thead { tr { th { (label) } th.num { "Tasks" } th.num { "Tokens" } th.hide-narrow { span.sr-only { "Share" } } th.num { "Cost" } } }
                        tbody {
                            @for line in lines.iter().take(200) {
                                tr data-key={ "cost-" (line.key) } {
                                    td.nowrap { @if key == "task" && line.key != "-" { a.mono href=(ConsoleLocation::task("", &line.key).href()) { (brief(&line.key, 60)) } } @else { (brief(&line.key, 80)) } }
                                    td.num { (times::count(line.amount.tasks)) }
                                    td.num { (times::count(line.amount.tokens)) }
                                    td.hide-narrow { (chart::meter(line.amount.tokens as f64 / most, StateTone::Busy)) }
                                    td.num { (money(&line.amount)) @if line.amount.unpriced_tokens > 0 { span.small.muted { " + " (times::count(line.amount.unpriced_tokens)) " tokens without a price" } } }
                                }
                            }
                        }
                    }
                }
                @if lines.len() > 200 { div.body { p.small.muted { "and " (lines.len() - 200) " more: " code { "mesh cost --by " (key) } } } }
            }
        }
    }
}

fn by_day(days: &[CostLine]) -> Markup {
    let of = |value: fn(&Amount) -> f64, text: fn(&Amount) -> String| {
        let column = |line: &CostLine| ChartColumn {
            label: line.key.clone(),
            value: value(&line.amount),
            text: text(&line.amount),
        };
        days.iter().map(column).collect::<Vec<_>>()
    };
    html! {
        @if days.iter().any(|day| !day.amount.is_none()) {
            section.card {
                header { h2 { "By day" } span.small.muted { "UTC" } }
                div.body {
                    h3 { "Tokens" }
                    (chart::columns("Tokens by day", &of(|amount| amount.tokens as f64, |amount| format!("{} tokens", times::count(amount.tokens)))))
                    @if days.iter().any(|day| day.amount.cost.micros() > 0) {
                        h3 { "Cost" }
                        (chart::columns("Cost by day", &of(|amount| amount.cost.get(), |amount| format!("cost {}", money(amount)))))
                    }
                }
            }
        }
    }
}

fn quotas(viewer: &Viewer, quotas: &[QuotaUse]) -> Markup {
    html! {
        section.card {
            header { h2 { "Quotas" } }
            @if quotas.is_empty() { div.empty { p { "None: " code { "quotas:" } " in the file of an agent or of the mesh sets them." } } } @else {
                ul.lines {
                    @for quota in quotas {
                        @let tone = match quota.state { "reached" => StateTone::Bad, "near" => StateTone::Wait, _ => StateTone::Ok };
                        li data-key={ "quota-" (quota.agent.as_deref().unwrap_or_default()) (quota.name) } {
                            div.row { (mark(tone, quota.state)) strong { (VisibleText(&quota.name)) } span.small.muted { (quota.agent.as_deref().unwrap_or("all agents")) } }
                            div.row { (chart::meter(quota.share, tone)) span { (VisibleText(&quota.figures)) } }
                            span.small.muted { "opens again " (times::until(viewer.now, quota.opens)) }
                        }
                    }
                }
            }
        }
    }
}

fn held(viewer: &Viewer, held: &[TaskLine]) -> Markup {
    html! {
        @if !held.is_empty() {
            section.card {
                header { h2 { "Held back by quotas" } span.small.muted { (times::counted(held.len(), "task")) } }
                ul.lines { @for line in held { (line.item(viewer.now)) } }
            }
        }
    }
}
