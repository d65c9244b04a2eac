//! Which signed requests were taken already.

use crate::{clock::wall_time, http::edge::TakenRequests};
use std::path::Path;
use store::embedded::OpenError;

/// The signed requests that this process and those before it have taken, kept in `folder`.
pub(super) fn open(folder: Option<&Path>) -> anyhow::Result<TakenRequests> {
    let Some(folder) = folder else { return Ok(TakenRequests::default()) };
    let now = u64::try_from(wall_time().0 / 1_000).unwrap_or_default();
    let taken = TakenRequests::open(folder, now);
    taken.map_err(|source| OpenError::Io { dir: folder.to_owned(), source }.into())
}
