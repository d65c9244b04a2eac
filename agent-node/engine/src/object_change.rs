//! The difference between two JSON objects, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
    /// The change from `old` to `new`.
    pub(crate) fn between(old: &Map<String, Value>, new: &Map<String, Value>) -> Self {
        let mut change = Self::default();
        change.removed.extend(old.keys().filter(|name| !new.contains_key(*name)).cloned());
        for (name, value) in new {
            match (old.get(name), value) {
                (Some(before), value) if before == value => {}
                (Some(Value::Object(before)), Value::Object(after)) => {
                    let nested = serde_json::to_value(Self::between(before, after)).unwrap_or_default();
                    change.changed.insert(name.clone(), nested);
                }
                (Some(_) | None, value) => drop(change.set.insert(name.clone(), value.clone())),
            }
        }
        change
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
            let change = ObjectChange::between(&old, &new);
            prop_assert_eq!(change.is_empty(), old == new);
            let text = serde_json::to_string(&change).unwrap();
            let mut changed = old;
            serde_json::from_str::<ObjectChange>(&text).unwrap().apply(&mut changed).unwrap();
            prop_assert_eq!(changed, new);
        }
    }
}
