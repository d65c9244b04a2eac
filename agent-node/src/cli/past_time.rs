//! Times in the past on the command line.

use crate::clock::wall_time;
use protocol::{bid::Eta, time::WallTime};

/// The time that `text` names, or so long ago as it says: a value parser of clap.
pub(super) fn past_time(text: &str) -> Result<WallTime, String> {
    if let Ok(ago) = Eta::parse(text) {
        let millis = i64::try_from(ago.0).unwrap_or(i64::MAX);
        return Ok(WallTime(wall_time().0.saturating_sub(millis)));
    }
    let wanted = "neither a time such as 2026-11-01T00:00:00Z nor a duration such as 7d";
    WallTime::parse(text).map_err(|_| format!("it is {wanted}"))
}
