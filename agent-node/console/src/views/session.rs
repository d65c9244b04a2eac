//! One session: the plan as a graph, whose turn it is and why something waits, what was said to whom, what was used, and how a
//! person steers it.

use crate::{
    action_form::ActionForm,
    chart,
    content::SavedFrom,
    json_view,
    location::{ConsoleLocation, ViewName},
    plan_graph::{self, PlanNode},
    state_mark::{self, StateTone, mark},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::task::Task;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

mod conversation;
mod stages;

use super::task::asked as asked_of_viewer;
use conversation::{conversation, made};
use stages::{all, asked, holder, now, tone, word, words};

/// What the page knows.
#[derive(Debug, Clone)]
pub struct SessionData {
    /// The host.
    pub agent: String,
    /// The task that the session is, with what was said as its artifacts.
    pub task: Task,
    pub has_ended: bool,
    /// The session as `GET /a2a/tasks/{id}/session` shows it.
    pub session: Value,
}

/// The view.
pub fn view(viewer: &Viewer, data: &SessionData) -> Markup {
    let stages: Vec<_> = all(&data.session, "stages").collect();
    let title = brief(word(&data.session, "goal"), 60);
    viewer.view(
        ViewHead { view: ViewName::Session, title: &title, live: if data.has_ended { "" } else { "task" } },
        html! {
            (head(viewer, data))
            @if !data.has_ended { (asked_of_viewer(viewer, &data.agent, &data.task)) }
            section.card {
                header { h2 { "Plan" } span.small.muted { (times::counted(stages.len(), "stage")) } }
                div.body {
                    (plan_graph::graph("Plan of the session", &stages.iter().map(|stage| node(stage)).collect::<Vec<_>>()))
                    @for stage in stages.iter().filter(|stage| ["running", "gated"].contains(&word(stage, "state"))) {
                        p { strong { (brief(word(stage, "stage"), 60)) } ", round " (stage["round"]) ": " (brief(&now(stage), 300)) }
                    }
                }
            }
            div.columns {
                div.stack {
                    (conversation(&data.task.artifacts, &stages))
                    (made(SavedFrom { agent: &data.agent, task: data.task.spec.task_id.as_str() }, &data.task.artifacts, &stages))
                }
                div.stack {
                    @if viewer.is_signed_in && !data.has_ended { (steer(data, &stages)) }
                    (budgets(&data.session["budget"]))
                    (notes(&data.session))
                    @for stage in &stages { (stage_card(viewer, stage)) }
                }
            }
        },
    )
}

fn head(viewer: &Viewer, data: &SessionData) -> Markup {
    html! {
        div.head {
            div {
                h1 { (brief(word(&data.session, "goal"), 200)) }
                div.row {
                    (state_mark::of_task(data.task.status.state))
                    span.muted.small { (times::since(viewer.now, data.task.changed_at)) }
                    span.muted.small { "host " (data.agent) }
                    a.small href=(ConsoleLocation::task(&data.agent, data.task.spec.task_id.as_str()).href()) { "Task, trace and result" }
                    @if let Some(old) = data.session["restartedFrom"].as_str() { a.small href=(ConsoleLocation::session("", old).href()) { "Begun again from an earlier one" } }
                }
            }
        }
    }
}

fn node(stage: &Value) -> PlanNode {
    let id = word(stage, "stage");
    let again = stage["iteration"].as_u64().filter(|iteration| *iteration > 1);
    let state = word(stage, "state");
    let routes = stage["next"]["routes"].as_object().into_iter().flatten();
    PlanNode {
        id: id.to_owned(),
        note: format!("{}{}", now(stage), again.map(|time| format!(", time {time}")).unwrap_or_default()),
        tone: if state == "running" && !asked(stage).is_empty() { StateTone::Wait } else { tone(state) },
        state: state.to_owned(),
        is_sealed: stage["sealed"] == true,
        after: words(stage, "after").into_iter().map(str::to_owned).collect(),
        routes: routes.filter_map(|(label, to)| Some((label.clone(), to.as_str()?.to_owned()))).collect(),
        href: format!("#stage-{id}"),
    }
}

fn stage_card(viewer: &Viewer, stage: &Value) -> Markup {
    let id = word(stage, "stage");
    html! {
        section.card id={ "stage-" (id) } tabindex="-1" {
            header {
                h2 { (brief(id, 60)) }
                (mark(tone(word(stage, "state")), word(stage, "state")))
            }
            div.body {
                @if let Some(task) = stage["task"].as_str() { div.prose.small { (brief(task, 600)) } }
                p.small.muted {
                    (brief(&now(stage), 300))
                    ". " (brief(word(stage, "order"), 20)) ", round " (stage["round"]) @if let Some(rounds) = stage["rounds"].as_u64() { " of " (rounds) }
                    @if stage["sealed"] == true { ", sealed" }
                    @if let Some(at) = stage["openedAt"].as_str().and_then(|at| protocol::time::WallTime::parse(at).ok()) { ", began " (times::since(viewer.now, at)) }
                }
                @if let Some(reason) = stage["reason"].as_str() { p.small { (VisibleText(reason)) } }
                @if stage["side"].is_object() { p.notice.wait { "A side conversation between " (brief(&words(&stage["side"], "between").join(" and "), 120)) " goes on; the table waits." } }
                div.scroll tabindex="0" role="region" aria-label={ "Seats of " (brief(id, 60)) } {
                    table {
                        thead { tr { th { "Seat" } th { "Who" } th { "State" } th.num { "Turns" } } }
                        tbody { @for seat in all(stage, "seats") { (seat_row(seat)) } }
                    }
                }
                @for name in ["gate", "plan", "commits"] {
                    @if !stage[name].is_null() { details data-key={ (name) "-" (id) } { summary.small { (name) } (json_view::block(name, &stage[name])) } }
                }
            }
        }
    }
}

fn seat_row(seat: &Value) -> Markup {
    let state = word(seat, "state");
    html! {
        tr {
            td.nowrap { (brief(word(seat, "seat"), 60)) @if let Some(role) = seat["as"].as_str() { span.small.muted { " " (brief(role, 20)) } } }
            td.nowrap { (brief(&holder(seat), 60)) }
            td {
                (mark(tone(state), state))
                @if seat["reachable"] == false { " " (mark(StateTone::Bad, "not reachable")) }
                @if let Some(why) = seat["why"].as_str() { span.small.muted { " " (brief(why, 200)) } }
            }
            td.num { (seat["turns"]) }
        }
    }
}

fn budgets(budget: &Value) -> Markup {
    let shown = |name: &str, value: f64| match name {
        "timeMs" => times::duration(Duration::from_millis(value.max(0.0) as u64)),
        "cost" => format!("{value:.4}"),
        _ => times::count(value.max(0.0) as u64),
    };
    let names =
        BTreeMap::from([("turns", "Turns"), ("tokens", "Tokens"), ("timeMs", "Time"), ("cost", "Cost")]);
    html! {
        section.card {
            header { h2 { "Budget" } }
            div.body {
                dl.facts {
                    @for (name, label) in names {
                        @if let Some((used, limit)) = budget[name]["used"].as_f64().zip(budget[name]["limit"].as_f64()) {
                            @let share = used / limit.max(f64::MIN_POSITIVE);
                            dt { (label) }
                            dd { (chart::meter(share, if share >= 0.8 { StateTone::Wait } else { StateTone::Busy })) " " (shown(name, used)) " of " (shown(name, limit)) }
                        }
                    }
                }
            }
        }
    }
}

fn notes(session: &Value) -> Markup {
    let notes = words(session, "notes");
    html! {
        @if !notes.is_empty() {
            section.card {
                header { h2 { "Notes" } }
                ul.lines { @for note in notes { li { span.small { (VisibleText(note)) } } } }
            }
        }
        @for (name, heading) in [("spec", "Outcome spec"), ("verdicts", "Verdicts"), ("autopilot", "Autopilot"), ("workspace", "Workspace")] {
            @if !session[name].is_null() { section.card { header { h2 { (heading) } } div.body { (json_view::block(heading, &session[name])) } } }
        }
    }
}

/// What a person may do, each with its effect.
const VERBS: [(&str, &str); 5] = [
    ("say", "say: words for the next turns"),
    ("amend", "amend: a constraint from now on"),
    ("skip", "skip: end the stage without a result"),
    ("redirect", "redirect: begin the stage again"),
    ("stop", "stop: end the stage or the session"),
];

fn steer(data: &SessionData, stages: &[&Value]) -> Markup {
    let hidden = [("agent", data.agent.as_str()), ("task", data.task.spec.task_id.as_str())];
    let form = ActionForm { path: "steer", done: "The session is told.", hidden: &hidden };
    html! {
        section.card {
            header { h2 { "Steer" } span.small.muted { code { "mesh steer" } } }
            div.body {
                (form.with(html! {
                    label { "What to do" select name="verb" { @for (verb, words) in VERBS { option value=(verb) { (words) } } } }
                    label { "Stage" span.hint { "skip and redirect need one; say without one is for all that run" }
                        select name="stage" {
                            option value="" { "all that run, or the session" }
                            @for stage in stages { option value=(word(stage, "stage")) { (brief(word(stage, "stage"), 60)) " (" (word(stage, "state")) ")" } }
                        }
                    }
                    label { "Seat" span.hint { "of that stage; all if empty" } input type="text" name="seat" maxlength="128"; }
                    label { "Words" span.hint { "what is said, or why" } textarea name="text" {} }
                    div.actions { button.primary type="submit" { "Steer" } }
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patterns::session::names::{SESSION, TEAM};
    use serde_json::json;

    fn data() -> SessionData {
        let said = |id: &str, stage: &str, from: &str, to: Value| {
            json!({
                "artifactId": id, "parts": [{ "text": format!("<script>{id}\u{202e}") }],
                "metadata": { SESSION: { "stage": stage, "round": 1, "from": from, "to": to } },
            })
        };
        let task = json!({
            "spec": { "taskId": "t-1", "description": "goal", "root": "user:local" },
            "conversation": "c-1", "owner": "user:local", "status": { "state": "TASK_STATE_WORKING" }, "changedAt": "2026-11-29T20:00:00Z",
            "createdAt": "2026-11-29T20:00:00Z",
        });
        let mut task: Task = serde_json::from_value(task).unwrap_or_else(|error| panic!("{error}"));
        task.artifacts = [
            said("open.1", "table", "ann", json!([TEAM])),
            said("aside.1", "table", "ann", json!(["bob"])),
            said("aside.2", "table", "bob", json!(["ann"])),
            said("hidden.1", "ideas", "ann", json!([TEAM])),
        ]
        .into_iter()
        .map(|artifact| serde_json::from_value(artifact).unwrap_or_else(|error| panic!("{error}")))
        .collect();
        let seat = json!({ "seat": "ann", "who": "<b>", "state": "working", "turns": 1, "reachable": false });
        let session = json!({
            "session": "t-1", "goal": "<script>", "notes": ["<img src=x>"],
            "budget": { "turns": { "used": 3, "limit": 4 }, "tokens": { "used": 0, "limit": 10 } },
            "stages": [
                { "stage": "table", "state": "running", "after": [], "round": 2, "working": ["ann"], "seats": [seat], "order": "turns" },
                { "stage": "ideas", "state": "waiting", "after": ["table"], "waitsFor": ["table"], "sealed": true, "round": 0, "seats": [] },
            ],
        });
        SessionData { agent: "host-1".to_owned(), task, has_ended: false, session }
    }

    #[test]
    fn words_are_shown_by_audience_and_those_of_a_sealed_stage_are_not() {
        let data = data();
        let viewer = Viewer::of_test;
        let shown = view(&viewer(true), &data).into_string();
        for part in [
            "the whole table",
            "between ann and bob",
            "open.1",
            "aside.2",
            "is sealed",
            "not reachable",
            "waits for table",
            "ann at work",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        for code in ["<script", "<b>", "<img", "\u{202e}", "hidden.1"] {
            assert!(!shown.contains(code), "{code}: {shown}");
        }
        assert!(shown.contains("hx-post=\"console/steer\""), "{shown}");
        let shown = view(&viewer(false), &data).into_string();
        assert!(!shown.contains("hx-post"), "{shown}");
        let mut ended = data;
        ended.session["stages"][1]["state"] = json!("done");
        assert!(
            view(&viewer(true), &ended).into_string().contains("hidden.1"),
            "it is shown once the stage has ended"
        );
    }
}
