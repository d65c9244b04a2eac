//! What is well in this process and what is not, with its limits and what it keeps.

use crate::{
    action_form::ActionForm,
    location::{ConsoleLocation, ViewName},
    state_mark::{StateTone, mark},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::VisibleText,
};
use maud::{Markup, html};
use protocol::time::WallTime;
use serde_json::{Map, Value};
use std::time::Duration;

/// Something that was looked at.
#[derive(Debug, Clone)]
pub struct HealthCheck {
    /// What was looked at.
    pub subject: String,
    /// Whether it is as it should be; `None` for a word of warning.
    pub is_well: Option<bool>,
    /// What was found, with the remedy; may be empty.
    pub what: String,
}

/// What the page knows.
#[derive(Debug, Clone)]
pub struct HealthData {
    pub is_ready: bool,
    pub version: &'static str,
    pub checks: Vec<HealthCheck>,
    /// The limits in force, by their names in the configuration.
    pub limits: Map<String, Value>,
    /// Parts of the process and their figures, for who may know: a heading, and names with values.
    pub parts: Vec<(String, Vec<(String, String)>)>,
    /// The newest dead letters, for the person of the mesh.
    pub dead_letters: Vec<DeadLetterLine>,
}

/// A message that was given up.
#[derive(Debug, Clone)]
pub struct DeadLetterLine {
    pub agent: String,
    pub message: String,
    pub to: String,
    pub kind: String,
    pub task: Option<String>,
    /// Why, as a code and in words.
    pub why: String,
    pub at: WallTime,
}

/// The view.
pub fn view(viewer: &Viewer, data: &HealthData) -> Markup {
    let (kept, limits): (Vec<_>, Vec<_>) =
        data.limits.iter().partition(|(name, _)| name.starts_with("keep") || *name == "dedupMs");
    viewer.view(
        ViewHead { view: ViewName::Health, title: "Health", live: "agents tasks" },
        html! {
            div.head {
                div {
                    h1 { "Health" }
                    div.row {
                        @if data.is_ready { (mark(StateTone::Ok, "ready")) } @else { (mark(StateTone::Bad, "not ready")) }
                        span.muted { "version " (data.version) }
                    }
                }
            }
            div.columns {
                div.stack { (checks(&data.checks)) (dead_letters(viewer, &data.dead_letters)) (values("Limits", &limits)) }
                div.stack {
                    @for (heading, figures) in &data.parts {
                        section.card {
                            header { h2 { (heading) } }
                            div.body { dl.facts { @for (name, value) in figures { dt { (VisibleText(name)) } dd { (VisibleText(value)) } } } }
                        }
                    }
                    (values("Retention", &kept))
                }
            }
        },
    )
}

fn checks(checks: &[HealthCheck]) -> Markup {
    html! {
        section.card {
            header { h2 { "Checks of this process" } span.small.muted { code { "mesh doctor" } " looks at keys, clocks and other processes, too" } }
            ul.lines {
                @for check in checks {
                    li {
                        div.row {
                            @match check.is_well {
                                Some(true) => (mark(StateTone::Ok, "well")),
                                Some(false) => (mark(StateTone::Bad, "wrong")),
                                None => (mark(StateTone::Wait, "mind")),
                            }
                            span { (VisibleText(&check.subject)) }
                        }
                        @if !check.what.is_empty() { span.small.muted { (VisibleText(&check.what)) } }
                    }
                }
            }
        }
    }
}

fn dead_letters(viewer: &Viewer, letters: &[DeadLetterLine]) -> Markup {
    html! {
        @if !letters.is_empty() {
            section.card {
                header { h2 { "Dead letters" } span.small.muted { "messages that were given up, the newest; " code { "mesh dlq" (viewer.flag) } " lists all" } }
                ul.lines {
                    @for letter in letters {
                        li data-key={ "letter-" (letter.message) } {
                            div.row {
                                span.chip { (VisibleText(&letter.kind)) }
                                span { (letter.agent) " \u{2192} " (VisibleText(&letter.to)) }
                                (times::since(viewer.now, letter.at))
                                @if let Some(task) = &letter.task { a.small href=(ConsoleLocation::task(&letter.agent, task).href()) { "task" } }
                            }
                            span.small.muted { (VisibleText(&letter.why)) }
                            @if viewer.is_signed_in {
                                (ActionForm { path: "redrive", done: "The message is on its way again.", hidden: &[("agent", &letter.agent), ("message", &letter.message)] }
                                    .with(html! { button type="submit" { "Send it again" } }))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn values(heading: &str, limits: &[(&String, &Value)]) -> Markup {
    html! {
        section.card {
            header { h2 { (heading) } span.small.muted { "keys of " code { "mesh.limits" } } }
            div.scroll tabindex="0" role="region" aria-label=(heading) {
                table {
                    thead { tr { th { "Name" } th.num { "Value" } } }
                    tbody { @for (name, value) in limits { tr { td.mono { (name) } td.num { (shown(name, value)) } } } }
                }
            }
        }
    }
}

/// A limit with the unit that its name says.
fn shown(name: &str, value: &Value) -> String {
    let Some(number) = value.as_u64() else { return value.to_string() };
    match name {
        name if name.ends_with("Ms") => times::duration(Duration::from_millis(number)),
        name if name.contains("Bytes") && number == 0 => "no limit".to_owned(),
        name if name.contains("Bytes") => bytes(number),
        _ => times::count(number),
    }
}

/// A size in the largest unit in which it is at least one.
pub fn bytes(number: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) if number.is_multiple_of(unit) => format!("{} {name}", number / unit),
        Some((unit, name)) => format!("{:.1} {name}", number as f64 / unit as f64),
        None => format!("{number} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_limit_has_the_unit_of_its_name() {
        for (name, value, text) in [
            ("ackMs", 5_000, "5.0 s"),
            ("keepSignalBytes", 256 << 20, "256 MiB"),
            ("maxArtifactBytesPerPrincipal", 0, "no limit"),
            ("maxHops", 16, "16"),
        ] {
            assert_eq!(shown(name, &json!(value)), text, "{name}");
        }
        assert_eq!([bytes(1_536), bytes(12)], ["1.5 KiB", "12 bytes"]);
    }
}
