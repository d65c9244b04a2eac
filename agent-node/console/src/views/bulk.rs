//! One action with many tasks: what it would do, and what has become of each task.

use super::task_line::TaskLine;
use crate::{
    action_form::ActionForm,
    location::{ConsoleLocation, ViewName},
    state_mark::{StateTone, mark},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::task::TaskState;

/// The most tasks of one action.
pub const MAX_BULK: usize = 200;
/// The most tasks that are listed before it begins.
const MAX_LISTED: usize = 50;

/// What a bulk action does with each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkVerb {
    Cancel,
    Retry,
}

impl BulkVerb {
    /// The verb of this name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Cancel, Self::Retry].into_iter().find(|verb| verb.word() == word)
    }

    /// Its name in an address, a form and the route of one task.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
        }
    }

    /// The group of states of the tasks that it is for.
    pub fn states(self) -> &'static str {
        match self {
            Self::Cancel => "open",
            Self::Retry => "ended",
        }
    }

    /// Whether it is for tasks in this state.
    pub fn is_for(self, state: TaskState) -> bool {
        state.is_terminal() == (self == Self::Retry)
    }

    /// What it does with `count` tasks.
    fn title(self, count: usize) -> String {
        let tasks = times::counted(count, "task");
        match self {
            Self::Cancel => format!("Cancel {tasks}"),
            Self::Retry => format!("Send {tasks} again"),
        }
    }
}

/// What has become of one task of a bulk action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkOutcome {
    Waits,
    /// With the id of the new task, if there is one.
    Done(Option<String>),
    /// With the reason.
    Failed(String),
}

/// A bulk action that runs or has ended.
#[derive(Debug, Clone)]
pub struct BulkRun {
    pub id: String,
    pub verb: BulkVerb,
    /// The agent and the id of each task, and what has become of it.
    pub tasks: Vec<(String, String, BulkOutcome)>,
}

impl BulkRun {
    /// How many of its tasks wait.
    pub fn waiting(&self) -> usize {
        self.tasks.iter().filter(|(.., outcome)| *outcome == BulkOutcome::Waits).count()
    }
}

/// The tasks that an action would be done with.
#[derive(Debug, Clone)]
pub struct BulkPreview {
    pub verb: BulkVerb,
    /// At most [`MAX_BULK`].
    pub tasks: Vec<TaskLine>,
    /// Whether there are more.
    pub has_more: bool,
}

/// The links of a list of tasks to the actions with all of them.
pub(super) fn links(viewer: &Viewer, at: &ConsoleLocation) -> Markup {
    let link =
        |verb: BulkVerb| ConsoleLocation { view: ViewName::Bulk, kind: verb.word().to_owned(), ..at.clone() };
    html! {
        @if viewer.is_signed_in {
            div.actions {
                a.button href=(link(BulkVerb::Cancel).href()) { "Cancel these\u{2026}" }
                a.button href=(link(BulkVerb::Retry).href()) { "Send these again\u{2026}" }
            }
        }
    }
}

fn tasks_at(at: &ConsoleLocation) -> String {
    ConsoleLocation { view: ViewName::Tasks, id: String::new(), kind: String::new(), ..at.clone() }.href()
}

/// The page that says what an action would do. Nothing is done before its form is sent.
pub fn preview(viewer: &Viewer, at: &ConsoleLocation, data: &BulkPreview) -> Markup {
    let BulkPreview { verb, tasks, has_more } = data;
    let title = verb.title(tasks.len());
    let named: Vec<_> = tasks.iter().map(|task| format!("{}/{}", task.agent, task.id)).collect();
    let hidden: Vec<_> =
        [("verb", verb.word())].into_iter().chain(named.iter().map(|task| ("task", task.as_str()))).collect();
    viewer.view(
        ViewHead { view: ViewName::Bulk, title: &title, live: "" },
        html! {
            div.head { div { h1 { (title) } p.muted { "Of the tasks that match the filters those that you have requested and that are " (verb.states()) "." } } }
            @if *has_more { p.notice.wait { "More tasks match than one action takes: these are the " (MAX_BULK) " that have changed last. Do it again for the others." } }
            section.card {
                @if tasks.is_empty() { div.empty { strong { "No " (verb.states()) " task of yours matches." } } }
                ul.lines { @for task in tasks.iter().take(MAX_LISTED) { (task.item(viewer.now)) } }
                @if tasks.len() > MAX_LISTED { div.body { p.muted { "And " (tasks.len() - MAX_LISTED) " more." } } }
            }
            div.actions {
                @if viewer.is_signed_in && !tasks.is_empty() {
                    (ActionForm { path: "bulk", done: "", hidden: &hidden }.with(html! {
                        button type="submit" class=(if *verb == BulkVerb::Cancel { "danger" } else { "primary" }) { (title) }
                    }))
                }
                a.button href=(tasks_at(at)) { "Back to the tasks" }
            }
        },
    )
}

/// The page of an action that runs or has ended.
pub fn progress(viewer: &Viewer, at: &ConsoleLocation, run: &BulkRun) -> Markup {
    let (all, waiting) = (run.tasks.len(), run.waiting());
    let failed = run.tasks.iter().filter(|(.., outcome)| matches!(outcome, BulkOutcome::Failed(_))).count();
    let title = run.verb.title(all);
    viewer.view(
        ViewHead { view: ViewName::Bulk, title: &title, live: "bulk" },
        html! {
            div.head { div {
                h1 { (title) }
                p role="status" { (all - waiting) " of " (all) " done" @if failed > 0 { ", " (failed) " failed" } "." }
                progress max=(all) value=(all - waiting) aria-label="Tasks that are done" {}
            } }
            section.card {
                ul.lines {
                    @for (agent, task, outcome) in &run.tasks {
                        li data-key={ "bulk-" (agent) "-" (task) } {
                            div.row {
                                (outcome_mark(run.verb, agent, outcome))
                                a.mono href=(ConsoleLocation::task(agent, task).href()) { (brief(task, 80)) }
                                span.small.muted { (agent) }
                            }
                        }
                    }
                }
            }
            div.actions { a.button href=(tasks_at(at)) { "Back to the tasks" } }
        },
    )
}

fn outcome_mark(verb: BulkVerb, agent: &str, outcome: &BulkOutcome) -> Markup {
    html! {
        @match (outcome, verb) {
            (BulkOutcome::Waits, _) => (mark(StateTone::Idle, "waits")),
            (BulkOutcome::Failed(why), _) => { (mark(StateTone::Bad, "failed")) span.small { (VisibleText(why)) } }
            (BulkOutcome::Done(_), BulkVerb::Cancel) => (mark(StateTone::Ok, "is told to end")),
            (BulkOutcome::Done(new), BulkVerb::Retry) => {
                (mark(StateTone::Ok, "sent again"))
                @if let Some(new) = new { a.small href=(ConsoleLocation::task(agent, new).href()) { "the new task" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{a2a::task::A2aTask, task::EXTENSION};
    use serde_json::json;

    fn line(number: usize) -> TaskLine {
        let ours = json!({ "description": "<script>", "owner": "user:local" });
        let status = json!({ "state": "TASK_STATE_WORKING" });
        let id = format!("t-{number}");
        let task = json!({ "id": id, "contextId": "c", "status": status, "metadata": { EXTENSION: ours } });
        TaskLine::of_a2a("a-1", &serde_json::from_value::<A2aTask>(task).unwrap()).unwrap()
    }

    #[test]
    fn the_first_fifty_are_listed_and_exactly_all_that_are_counted_are_sent() {
        let tasks = (0..60).map(line).collect();
        let data = BulkPreview { verb: BulkVerb::Cancel, tasks, has_more: true };
        let at = ConsoleLocation { text: "\"><b>".to_owned(), ..ConsoleLocation::of(ViewName::Bulk) };
        let shown = preview(&Viewer::of_test(true), &at, &data).into_string();
        assert!(shown.contains("Cancel 60 tasks") && shown.contains("And 10 more"), "{shown}");
        assert!(
            shown.contains("More tasks match") && !shown.contains("<script") && !shown.contains("<b>"),
            "{shown}"
        );
        assert_eq!(shown.matches("name=\"task\"").count(), 60);
        assert_eq!(shown.matches("data-key=\"task-").count(), 50);
        let shown = preview(&Viewer::of_test(false), &at, &data).into_string();
        assert!(!shown.contains("<form"), "{shown}");
    }

    #[test]
    fn each_task_has_one_result() {
        let task = |id: &str, outcome| ("a-1".to_owned(), id.to_owned(), outcome);
        let run = BulkRun {
            id: "run".to_owned(),
            verb: BulkVerb::Retry,
            tasks: vec![
                task("t-1", BulkOutcome::Done(Some("t-9".to_owned()))),
                task("t-2", BulkOutcome::Failed("<script>\u{202e}".to_owned())),
                task("t-3", BulkOutcome::Waits),
            ],
        };
        let shown =
            progress(&Viewer::of_test(true), &ConsoleLocation::of(ViewName::Bulk), &run).into_string();
        assert!(shown.contains("2 of 3 done, 1 failed") && shown.contains("id=t-9"), "{shown}");
        assert!(!shown.contains("<script") && !shown.contains('\u{202e}'), "{shown}");
        assert_eq!(shown.matches("data-key=\"bulk-").count(), 3);
    }
}
