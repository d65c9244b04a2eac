//! How much of its earlier turns a turn is given again, by their kind.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How earlier turns of one context come back: whole, or as a line each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Compaction {
    /// Turns at a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<KeptTurns>,
    /// Turns of side conversations that have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<KeptTurns>,
    /// All others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<KeptTurns>,
}

impl Compaction {
    /// What it says, and where it says nothing, what `other` says.
    pub fn or(self, other: Self) -> Self {
        let Self { table, side, tasks } = self;
        Self { table: table.or(other.table), side: side.or(other.side), tasks: tasks.or(other.tasks) }
    }

    /// Whether it says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Which turns of a kind come back whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum KeptTurns {
    /// All, as far as they fit.
    #[default]
    Full,
    /// None: each is a line of the summary.
    Summary,
    /// The newest of this number; the others are lines of the summary.
    Last(u32),
}

impl TryFrom<String> for KeptTurns {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = || text.strip_prefix("last ")?.trim().parse().ok().filter(|number| *number > 0);
        match text.as_str() {
            "full" => Ok(Self::Full),
            "summary" => Ok(Self::Summary),
            _ => number()
                .map(Self::Last)
                .ok_or_else(|| format!("must be `full`, `summary` or such as `last 5`, not `{text}`")),
        }
    }
}

impl fmt::Display for KeptTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Summary => f.write_str("summary"),
            Self::Last(number) => write!(f, "last {number}"),
        }
    }
}

impl From<KeptTurns> for String {
    fn from(kept: KeptTurns) -> Self {
        kept.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_seat_does_not_say_its_agent_says() {
        let read = |value| serde_json::from_value::<Compaction>(value).unwrap();
        let both = read(json!({ "side": "last 2" })).or(read(json!({ "side": "full", "table": "summary" })));
        assert_eq!(json!(both), json!({ "side": "last 2", "table": "summary" }));
        for wrong in ["last", "last 0", "some"] {
            let error = serde_json::from_value::<Compaction>(json!({ "table": wrong })).unwrap_err();
            assert!(error.to_string().contains("`full`, `summary` or such as `last 5`"), "{error}");
        }
    }
}
