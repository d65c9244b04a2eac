//! Numbers with a range.

use serde::{Deserialize, Serialize};

macro_rules! schema_of_number {
    ($name:ident, $range:tt) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut schema = f64::json_schema(generator);
                if let serde_json::Value::Object(range) = serde_json::json!($range) {
                    range.into_iter().for_each(|(name, bound)| _ = schema.insert(name, bound));
                }
                schema
            }
        }
    };
}

const MAX_COST: f64 = 1e9;

/// A cost: finite and not negative, in the mesh's own unit.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Cost(f64);

impl Cost {
    /// `value`, if it is a cost: from 0 to 1e9.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=MAX_COST).contains(&value).then_some(Self(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The number of millionths, rounded. Bounds are compared by it: sums of floating-point numbers are not exact.
    pub fn micros(self) -> u64 {
        (self.0 * 1e6).round() as u64
    }

    /// This number of millionths, at most the largest cost.
    pub fn from_micros(micros: u64) -> Self {
        Self((micros as f64 / 1e6).min(MAX_COST))
    }

    /// The difference in whole millionths, at least 0.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self::from_micros(self.micros().saturating_sub(other.micros()))
    }
}

impl TryFrom<f64> for Cost {
    type Error = String;
    fn try_from(value: f64) -> Result<Self, String> {
        Self::new(value).ok_or_else(|| format!("a cost is a number from 0 to 1e9, got {value}"))
    }
}

schema_of_number!(Cost, { "minimum": 0 });

impl From<Cost> for f64 {
    fn from(cost: Cost) -> f64 {
        cost.0
    }
}

/// A share from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Fraction(f64);

impl Fraction {
    /// All of it.
    pub const FULL: Self = Self(1.0);

    /// `value`, if it lies between 0 and 1.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Fraction {
    type Error = String;
    fn try_from(value: f64) -> Result<Self, String> {
        Self::new(value).ok_or_else(|| format!("a share is a number from 0 to 1, got {value}"))
    }
}

schema_of_number!(Fraction, { "minimum": 0, "maximum": 1 });

impl From<Fraction> for f64 {
    fn from(share: Fraction) -> f64 {
        share.0
    }
}
