//! What can't be shown, and why.

use super::tasks::{self, TaskListPage};
use crate::{
    location::{ConsoleLocation, ViewName},
    viewer::{ViewHead, Viewer},
    visible_text::VisibleText,
};
use maud::{Markup, html};

/// The view. An invalid filter of tasks is mended in its form.
pub fn view(viewer: &Viewer, at: &ConsoleLocation, why: &str) -> Markup {
    viewer.view(
        ViewHead { view: at.view, title: "Not shown", live: "" },
        html! {
            div.head { div { h1 { "This can't be shown" } } }
            @if at.view == ViewName::Tasks { (tasks::filters(at, &TaskListPage::default())) }
            div.notice.bad role="alert" { p { (VisibleText(why)) } }
            p { a href=(ConsoleLocation::of(ViewName::Tasks).href()) { "All tasks" } }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_that_is_refused_can_be_changed() {
        let at = ConsoleLocation { min_cost: "abc".to_owned(), ..ConsoleLocation::of(ViewName::Tasks) };
        let shown = view(&Viewer::of_test(true), &at, "<b> is no number").into_string();
        assert!(shown.contains("value=\"abc\"") && !shown.contains("<b>"), "{shown}");
    }
}
