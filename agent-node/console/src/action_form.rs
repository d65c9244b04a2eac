//! A form that does something.

use maud::{Markup, html};

/// A form that is sent to a route of the console.
#[derive(Debug, Clone, Copy)]
pub struct ActionForm<'a> {
    /// The name of the route below `/console`.
    pub path: &'a str,
    /// What the page says once it is done; nothing if empty.
    pub done: &'a str,
    /// The fields that nobody fills in.
    pub hidden: &'a [(&'a str, &'a str)],
}

impl ActionForm<'_> {
    /// The form with `fields` and their buttons.
    pub fn with(self, fields: Markup) -> Markup {
        self.form(None, fields)
    }

    /// The form of a decision: only a press on one of `buttons` decides. Enter in a field presses the first button of a form, which is
    /// one that does nothing.
    pub fn with_decisions(self, fields: Markup, buttons: Markup) -> Markup {
        self.form(None, html! { (fields) button type="submit" disabled hidden {} div.actions { (buttons) } })
    }

    /// The same, with files of the person who sends it: the field `file`.
    pub fn with_files(self, fields: Markup, buttons: Markup) -> Markup {
        self.form(
            Some("multipart/form-data"),
            html! {
                (fields)
                details data-key={ "files-" (self.path) } {
                    summary.small { "Files" }
                    label { span.sr-only { "Files" } input type="file" name="file" multiple; }
                }
                (buttons)
            },
        )
    }

    fn form(self, encoding: Option<&str>, fields: Markup) -> Markup {
        html! {
            form hx-encoding=[encoding] hx-post={ "console/" (self.path) } hx-swap="none" hx-sync="this:drop" hx-disabled-elt="find button:not([hidden])" data-done=[Some(self.done).filter(|done| !done.is_empty())] {
                @for (name, value) in self.hidden { input type="hidden" name=(name) value=(value); }
                (fields)
            }
        }
    }
}
