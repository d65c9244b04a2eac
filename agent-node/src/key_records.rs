//! Takes what the registry says about keys: certificates, resets, and the registry's own key.

use protocol::{identity::KeyCertificate, problem::Problem};
use registry::{
    client::Registry,
    pinned_keys::{KeyCursor, KeyPage},
    registrar::ReadKeyRecords,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use transport::key_ring::KeyRing;

/// What the board answers: the last cursor that it has been told, `None` after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToldCursor {
    pub(crate) cursor: Option<KeyCursor>,
}

/// Takes what the registry says. Fails, and takes nothing, if the registry shows another key that does not follow from the
/// one that is known.
pub(crate) fn take(keys: &KeyRing, page: &KeyPage) -> Result<(), Problem> {
    keys.follow_service(&Arc::new(page.registry.clone()), &page.history)?;
    for record in &page.records {
        match &record.certificate {
            Some(certificate) => {
                if let Err(problem) = keys.learn(certificate) {
                    tracing::debug!(id = %record.id, %problem, "a key record is not taken");
                }
            }
            None => keys.revoke(record.id.as_str(), Some(record.number)),
        }
    }
    Ok(())
}

/// Takes the certificate of a key of this process. If the registry made it with a key that is not known yet, reads how that key
/// came to be.
pub(crate) async fn learn_own(
    keys: &KeyRing,
    registry: &Registry,
    certificate: &KeyCertificate,
) -> Result<(), Problem> {
    if keys.learn(certificate).is_ok() {
        return Ok(());
    }
    take(keys, &registry.read(ReadKeyRecords::default()).await?)?;
    keys.learn(certificate)
}
