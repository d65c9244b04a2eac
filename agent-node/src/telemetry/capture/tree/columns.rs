//! Tables in structures: a list of names, and rows as long as it.

use crate::telemetry::capture::name::{self, Says};
use serde_json::{Map, Value};

/// Members that name columns: `{"columns": ["user", "password"], "rows": [["bob", "x"]]}`.
const HEADS: &[&str] = &["columns", "header", "headers", "fields", "head"];

/// What the names of columns say.
pub(super) struct Columns(Vec<Option<Says>>);

impl Columns {
    /// What is said of the column at `at`.
    pub(super) fn says(&self, at: usize) -> Option<Says> {
        self.0.get(at).copied().flatten()
    }

    /// Those of a list of rows, the first of which names them.
    pub(super) fn of_rows(rows: &[Value]) -> Option<Self> {
        let [Value::Array(head), Value::Array(first), ..] = rows else { return None };
        if head.len() == first.len() { Self::of(head) } else { None }
    }

    /// Those that a member names beside the rows.
    pub(super) fn of_head(members: &Map<String, Value>) -> Option<Self> {
        let is_head = |name: &str| HEADS.iter().any(|head| name.eq_ignore_ascii_case(head));
        let mut heads = members.iter().filter(|(name, _)| is_head(name));
        heads.find_map(|(_, head)| Self::of(head.as_array()?))
    }

    fn of(head: &[Value]) -> Option<Self> {
        let name = |cell: &Value| cell.get("name").unwrap_or(cell).as_str().map(str::to_owned);
        let names = head.iter().map(name).collect::<Option<Vec<_>>>().filter(|names| names.len() > 1)?;
        let says: Vec<_> = names.iter().map(|name| name::says(name.as_bytes())).collect();
        says.iter().any(Option::is_some).then_some(Self(says))
    }
}
