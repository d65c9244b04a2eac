//! The filters of a list, which are in its address, and the links to its other pages.

use crate::{location::ConsoleLocation, visible_text::VisibleText};
use maud::{Markup, html};

/// The form with `fields`. `all` is the list without filters.
pub fn form(label: &str, at: &ConsoleLocation, all: &ConsoleLocation, fields: Markup) -> Markup {
    html! {
        form.filters data-filter role="search" aria-label=(label) {
            input type="hidden" name="view" value=(at.view.word());
            @if !all.id.is_empty() { input type="hidden" name="id" value=(all.id); }
            @if !all.agent.is_empty() { input type="hidden" name="agent" value=(all.agent); }
            (fields)
            div.actions {
                button type="submit" { "Filter" }
                @if at != all { a.button href=(all.href()) { "Clear" } }
            }
        }
    }
}

/// A choice among `options`, each a value with its words, or any.
pub fn select(name: &str, label: &str, chosen: &str, options: &[(&str, &str)]) -> Markup {
    html! {
        label { (label)
            select name=(name) {
                option value="" { "any" }
                @if !chosen.is_empty() && !options.iter().any(|(value, _)| *value == chosen) { option value=(chosen) selected { (VisibleText(chosen)) } }
                @for (value, words) in options { option value=(value) selected[*value == chosen] { (VisibleText(words)) } }
            }
        }
    }
}

/// Options whose words are their values.
pub fn same(values: &[String]) -> Vec<(&str, &str)> {
    values.iter().map(|value| (value.as_str(), value.as_str())).collect()
}

/// A text.
pub fn text(name: &str, label: &str, value: &str, placeholder: &str) -> Markup {
    html! { label { (label) input type="text" name=(name) value=(value) placeholder=(placeholder); } }
}

/// The words that are looked for.
pub fn search(value: &str, placeholder: &str) -> Markup {
    html! { label.wide { "Text" input type="search" name="text" value=(value) placeholder=(placeholder); } }
}

/// The address of the page behind `next`.
pub fn older(at: &ConsoleLocation, next: String) -> String {
    ConsoleLocation { before: next, ..at.clone() }.href()
}

/// The links to the newest page and to the one behind `next`.
pub fn pages(at: &ConsoleLocation, next: Option<String>, note: &str) -> Markup {
    html! {
        @if !at.before.is_empty() || next.is_some() {
            nav.actions aria-label="Pages" {
                @if !at.before.is_empty() { a.button href=(older(at, String::new())) { "\u{2190} Newest" } }
                @if let Some(next) = next {
                    a.button href=(older(at, next)) { "Older \u{2192}" }
                    @if !note.is_empty() { span.muted.small { (note) } }
                }
            }
        }
    }
}
