//! What the benchmark says: one line a figure, each with what it is measured against.

use serde::Serialize;

/// One figure.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// What was measured.
    pub what: String,
    /// What came out.
    pub measured: f64,
    /// In which unit.
    pub unit: &'static str,
    /// What it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Wanted>,
    /// How it came about.
    pub detail: String,
}

/// A bound.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Wanted {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Line {
    /// Whether the figure is within its bound; one without a bound always is.
    pub fn holds(&self) -> bool {
        match self.wanted {
            Some(Wanted::AtLeast(bound)) => self.measured >= bound,
            Some(Wanted::AtMost(bound)) => self.measured <= bound,
            None => true,
        }
    }
}

/// All figures of one run.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// In the order they were measured.
    pub lines: Vec<Line>,
}

impl Report {
    /// Whether every figure is within its bound.
    pub fn holds(&self) -> bool {
        self.lines.iter().all(Line::holds)
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = self.lines.iter().map(|line| line.what.chars().count()).max().unwrap_or_default();
        for line in &self.lines {
            let bound = match line.wanted {
                Some(Wanted::AtLeast(bound)) => format!("≥ {bound}"),
                Some(Wanted::AtMost(bound)) => format!("≤ {bound}"),
                None => String::new(),
            };
            let verdict = match (line.wanted, line.holds()) {
                (None, _) => "",
                (Some(_), true) => "ok",
                (Some(_), false) => "missed",
            };
            let measured = format!("{:.2} {}", line.measured, line.unit);
            writeln!(f, "{:<width$}  {measured:>12}  {bound:>8}  {verdict:<6}  {}", line.what, line.detail)?;
        }
        Ok(())
    }
}
