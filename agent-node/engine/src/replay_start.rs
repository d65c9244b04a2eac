//! Where a replay of a journal may start. It is recorded with the rules that have written it.

use patterns::AnyPattern;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

/// A state from which a replay starts. It is read only by the rules that have written it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayStart {
    rules: u32,
    pub(crate) pattern: AnyPattern,
}

impl ReplayStart {
    /// The state of `pattern`, under these rules.
    pub fn of(pattern: &AnyPattern) -> Box<Self> {
        Box::new(Self { rules: AnyPattern::RULES, pattern: pattern.clone() })
    }
}

/// A recorded start of a replay; `None` if it is of other rules.
pub(crate) fn of_these_rules<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Box<ReplayStart>>, D::Error> {
    let mut recorded = Value::deserialize(from)?;
    if recorded["rules"] != AnyPattern::RULES {
        return Ok(None);
    }
    let pattern = AnyPattern::deserialize(recorded["pattern"].take()).map_err(D::Error::custom)?;
    Ok(Some(Box::new(ReplayStart { rules: AnyPattern::RULES, pattern })))
}
