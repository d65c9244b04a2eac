//! The difference between two JSON objects, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use std::collections::BTreeMap;

/// The members of a JSON object, unparsed.
pub(crate) type RawMembers<'a> = BTreeMap<&'a str, &'a RawValue>;

/// The members of the object `json`; `None` if it is no object, or if a name has an escape.
pub(crate) fn raw_members(json: &str) -> Option<RawMembers<'_>> {
    serde_json::from_str(json).ok()
}

/// The difference between two JSON objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectChange {
    /// Members that are new or have another value.
    #[serde(rename = "+", default, skip_serializing_if = "Map::is_empty")]
    set: Map<String, Value>,
    /// Members that are gone.
    #[serde(rename = "-", default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<String>,
    /// Objects that have changed in part.
    #[serde(rename = "~", default, skip_serializing_if = "Map::is_empty")]
    changed: Map<String, Value>,
}

impl ObjectChange {
    /// The change from `old` to `new`. Values are compared as text: members in another order count as a change, which makes
    /// the difference larger and no less right.
    pub(crate) fn between(old: &RawMembers<'_>, new: &RawMembers<'_>) -> serde_json::Result<Self> {
        let mut change = Self::default();
        change
            .removed
            .extend(old.keys().filter(|name| !new.contains_key(*name)).map(|name| (*name).to_owned()));
        for (name, value) in new {
            let before = old.get(name).map(|before| before.get());
            if before == Some(value.get()) {
                continue;
            }
            match before.and_then(raw_members).zip(raw_members(value.get())) {
                Some((before, after)) => {
                    let nested = serde_json::to_value(Self::between(&before, &after)?)?;
                    change.changed.insert((*name).to_owned(), nested);
                }
                None => drop(change.set.insert((*name).to_owned(), serde_json::from_str(value.get())?)),
            }
        }
        Ok(change)
    }

    pub(crate) fn apply(self, to: &mut Map<String, Value>) -> serde_json::Result<()> {
        self.removed.iter().for_each(|name| drop(to.remove(name)));
        to.extend(self.set);
        for (name, nested) in self.changed {
            if let Some(Value::Object(inner)) = to.get_mut(&name) {
                Self::deserialize(nested)?.apply(inner)?;
            }
        }
        Ok(())
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object() -> impl Strategy<Value = Map<String, Value>> {
        let leaf =
            prop_oneof![Just(Value::Null), (0..3).prop_map(Value::from), "[a-b]".prop_map(Value::from)];
        let value = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-d+~-]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        });
        proptest::collection::btree_map("[a-d]", value, 0..4)
            .prop_map(|members| members.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_change_leads_from_the_old_to_the_new(old in object(), new in object()) {
            let [before, after] = [&old, &new].map(|object| serde_json::to_string(object).unwrap());
            let (before, after) = (raw_members(&before).unwrap(), raw_members(&after).unwrap());
            let change = ObjectChange::between(&before, &after).unwrap();
            prop_assert_eq!(change.is_empty(), old == new);
            let text = serde_json::to_string(&change).unwrap();
            let mut changed = old;
            serde_json::from_str::<ObjectChange>(&text).unwrap().apply(&mut changed).unwrap();
            prop_assert_eq!(changed, new);
        }
    }
}
