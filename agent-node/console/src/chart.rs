//! Small pictures of numbers. The numbers stand beside them as text.

use crate::{state_mark::StateTone, visible_text::brief};
use maud::{Markup, html};

/// How much of a whole is used, from 0 to 1.
pub fn meter(share: f64, tone: StateTone) -> Markup {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    html! {
        svg class={ "meter " (tone.class()) } viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
            rect width="100" height="6" rx="3" {}
            rect width=(format!("{:.0}", share * 100.0)) height="6" rx="3" {}
        }
    }
}

/// A column of a chart.
#[derive(Debug, Clone)]
pub struct ChartColumn {
    pub label: String,
    pub value: f64,
    /// The value, for people.
    pub text: String,
}

/// The height and width of a column with its gap.
const HEIGHT: f64 = 96.0;
const STEP: f64 = 18.0;

/// The columns side by side; `label` says what they are. Nothing if there are none.
pub fn columns(label: &str, columns: &[ChartColumn]) -> Markup {
    let most = columns.iter().map(|column| column.value).fold(0.0, f64::max);
    if most <= 0.0 {
        return html! {};
    }
    let width = (columns.len() as f64 * STEP).max(320.0);
    let named = columns.iter().filter(|column| column.value > 0.0);
    let spoken: Vec<_> =
        named.map(|column| format!("{}: {}", brief(&column.label, 40), column.text)).collect();
    // A label is as wide as two columns.
    let every = columns.len().div_ceil(9).max(3);
    let highest = columns.iter().max_by(|one, other| one.value.total_cmp(&other.value));
    html! {
        @if let Some(highest) = highest { p.small.muted { "highest: " (highest.text) } }
        div.scroll.from-end tabindex="0" role="region" aria-label=(label) {
            svg.chart viewBox=(format!("0 0 {width:.0} 124")) width=(format!("{width:.0}")) height="124" role="img" aria-label={ (label) ". " (spoken.join(", ")) } {
                @for (at, column) in columns.iter().enumerate() {
                    @let height = (column.value / most * HEIGHT).max(if column.value > 0.0 { 1.5 } else { 0.0 });
                    @let x = format!("{:.1}", at as f64 * STEP + 3.0);
                    g {
                        title { (brief(&column.label, 80)) ": " (column.text) }
                        rect.track x=(x) y="99" width="12" height="1" {}
                        rect.column x=(x) y=(format!("{:.1}", 4.0 + HEIGHT - height)) width="12" height=(format!("{height:.1}")) rx="2" {}
                        @if at % every == 0 { text x=(x) y="117" { (brief(column.label.get(5..).unwrap_or(&column.label), 12)) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_says_its_numbers_and_escapes_its_labels() {
        let one = |label: &str, value: f64| ChartColumn {
            label: label.to_owned(),
            value,
            text: format!("{value} tokens"),
        };
        let shown = columns("Tokens by day", &[one("2026-11-29", 3.0), one("<script>", 0.0)]).into_string();
        assert!(shown.contains("2026-11-29: 3 tokens") && !shown.contains("<script>"), "{shown}");
        assert_eq!(columns("Tokens", &[one("a", 0.0)]).into_string(), "");
        assert!(meter(f64::NAN, StateTone::Ok).into_string().contains("width=\"0\""));
    }
}
