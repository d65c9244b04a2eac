//! Why a bid won.
/// stub
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AwardRecord {}
