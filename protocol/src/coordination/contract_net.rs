//! A message becomes a signal.
use super::{Effect, Event, Pattern};
use serde::{Deserialize, Serialize};
/// stub
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContractNet {}
impl Pattern for ContractNet {
    fn on(&mut self, _: &Event) -> Vec<Effect> {
        Vec::new()
    }
}
pub mod record;
impl ContractNet {
    /// stub
    pub fn record(&self) -> &record::AwardRecord {
        unimplemented!()
    }
}
