//! Quotas as the files of agents and of the mesh name them.

use super::{EtaForms, TokenCount};
use protocol::{
    bid::Cost,
    ids::Capability,
    principal::Principal,
    quota::{QuotaLimits, QuotaPeriod},
};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use std::fmt;

/// What may be used in an hour, a day or a month, beginning by UTC. At least one of `tokens`, `cost` and `tasks`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub struct Quota {
    /// The capability that it is for; without it, for all that the agent does.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub capability: Option<Capability>,
    /// Who asks, such as `user:alice`, or `*` for each one apart that no other
    /// quota for the same time names; without it, for all together. What agents have others
    /// do counts for who asked first.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub requester: Option<QuotaRequester>,
    /// Tokens of models, in and out: a number, or text like `2M`.
    #[serde(default)]
    #[schemars(with = "Option<EtaForms>")]
    pub tokens: Option<TokenCount>,
    /// Cost, in the mesh's own unit.
    #[serde(default)]
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub cost: Option<Cost>,
    /// Tasks: of an agent those that it does, of the mesh those that are asked for from outside.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub tasks: Option<u64>,
    /// For how long it counts.
    pub per: QuotaPeriod,
    /// What becomes of new work when it is used up.
    #[serde(default)]
    pub reached: WhenReached,
}

/// Whose quota it is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum QuotaRequester {
    /// Each principal has one of its own.
    Each,
    One(Principal),
}

impl TryFrom<String> for QuotaRequester {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "*" => Ok(Self::Each),
            name => match Principal::try_from(name.to_owned()) {
                Ok(principal @ Principal::User(_)) => Ok(Self::One(principal)),
                _ => Err(format!("must be `*` or a name such as user:alice, got {name:?}")),
            },
        }
    }
}

/// What becomes of new work when a quota is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WhenReached {
    /// It is refused, with the time when the quota opens again.
    #[default]
    Refuse,
    /// It waits until then.
    Wait,
}

/// The schema of quotas without the key `name`.
fn without(quotas: &mut Schema, name: &str) {
    let properties = quotas.get_mut("items").and_then(|items| items.get_mut("properties")?.as_object_mut());
    properties.into_iter().for_each(|properties| drop(properties.remove(name)));
}

/// The schema of the quotas of an agent.
pub(super) fn of_agent(quotas: &mut Schema) {
    without(quotas, "requester");
}

/// The schema of the quotas of the mesh.
pub fn of_mesh(quotas: &mut Schema) {
    without(quotas, "capability");
}

impl Quota {
    /// How much it allows.
    pub fn limits(&self) -> QuotaLimits {
        QuotaLimits { tokens: self.tokens.map(|tokens| tokens.0), cost: self.cost, tasks: self.tasks }
    }

    /// What is wrong with it, with the key; `of_mesh` says where it stands.
    pub fn fault(&self, of_mesh: bool) -> Option<(&'static str, &'static str)> {
        let limits = self.limits();
        if limits == QuotaLimits::default() {
            Some(("per", "limits nothing: name tokens, cost or tasks"))
        } else if of_mesh && self.capability.is_some() {
            Some(("capability", "is for quotas of an agent"))
        } else if !of_mesh && self.requester.is_some() {
            Some(("requester", "is for `mesh: { quotas: … }`"))
        } else if limits.tokens == Some(0) {
            Some(("tokens", "must be at least 1"))
        } else if limits.tasks == Some(0) {
            Some(("tasks", "must be at least 1"))
        } else if limits.cost.is_some_and(|cost| cost.micros() == 0) {
            Some(("cost", "must be above 0"))
        } else {
            None
        }
    }

    /// The requester that it names.
    pub fn one_requester(&self) -> Option<Principal> {
        match &self.requester {
            Some(QuotaRequester::One(principal)) => Some(principal.clone()),
            Some(QuotaRequester::Each) | None => None,
        }
    }

    /// Whether both are counted alike, so that one of them is too many.
    pub fn is_twin_of(&self, other: &Self) -> bool {
        (self.per, &self.capability, &self.requester) == (other.per, &other.capability, &other.requester)
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the quota per {}", self.per)?;
        match (&self.capability, &self.requester) {
            (Some(capability), _) => write!(f, " for {capability}"),
            (None, Some(QuotaRequester::Each)) => f.write_str(" of each requester"),
            (None, Some(QuotaRequester::One(principal))) => write!(f, " of {principal}"),
            (None, None) => Ok(()),
        }
    }
}
