//! A message becomes a signal.
use super::{Effect, Event, Pattern};
use serde::{Deserialize, Serialize};
/// stub
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HelpRequest {}
impl Pattern for HelpRequest {
    fn on(&mut self, _: &Event) -> Vec<Effect> {
        Vec::new()
    }
}
