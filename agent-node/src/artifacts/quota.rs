//! The quota of content: how many bytes of artifacts, and of a user's large requests, one principal may have at one agent
//! (`maxArtifactBytesPerPrincipal`).
//!
//! The store knows what is kept. Reading it takes a pass over all rows, so a sum is kept beside it that is never too small: uploads
//! and requests are added, and what the sweep deletes is found by another pass when the sum reaches the limit.

use engine::artifacts::kept_bytes;
use protocol::{
    ids::AgentId,
    limits::INLINE_CONTENT_BYTES,
    principal::Principal,
    problem::{Problem, Reason},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use store::{Error, Store};

/// The shortest time between two passes for one principal.
const PASS_INTERVAL: Duration = Duration::from_secs(5);

/// The sums of every principal. Every clone shares them.
#[derive(Clone, Default)]
pub struct ArtifactQuota(Arc<Mutex<BTreeMap<(AgentId, Principal), StoredBytes>>>);

struct StoredBytes {
    bytes: u64,
    read_at: Instant,
}

impl ArtifactQuota {
    /// Adds a message of `bytes` of a user, unless it is so small that it is stored as it is. The messages of agents are not
    /// counted: each is of a task that another principal has begun.
    pub fn add_message(
        &self,
        store: &dyn Store,
        me: &AgentId,
        by: &Principal,
        bytes: usize,
        max: u64,
    ) -> Result<(), Problem> {
        match by {
            Principal::User(_) if bytes > INLINE_CONTENT_BYTES => self.add(store, me, by, bytes, max),
            Principal::User(_) | Principal::Agent(_) | Principal::Service(_) | Principal::Brain(_) => Ok(()),
        }
    }

    /// Adds an upload of `bytes` by `by`. Fails with 429 if they then would have more than `max`, unless that is 0.
    pub fn add(
        &self,
        store: &dyn Store,
        me: &AgentId,
        by: &Principal,
        bytes: usize,
        max: u64,
    ) -> Result<(), Problem> {
        if max == 0 {
            return Ok(());
        }
        let (bytes, key, now) = (bytes as u64, (me.clone(), by.clone()), Instant::now());
        let read = || -> Result<StoredBytes, Error> {
            Ok(StoredBytes { bytes: kept_bytes(store, me, by)?, read_at: now })
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut usage = match all.remove(&key) {
            Some(usage) => usage,
            None => read().map_err(Problem::from)?,
        };
        if usage.bytes + bytes > max && now.saturating_duration_since(usage.read_at) >= PASS_INTERVAL {
            usage = read().map_err(Problem::from)?;
        }
        let is_over = usage.bytes + bytes > max;
        let message = format!(
            "{by} has {} bytes of artifacts and large requests at {me}; {bytes} more would exceed maxArtifactBytesPerPrincipal, {max}. \
             Artifacts that no task refers to are deleted after keepArtifactsMs, ended tasks after keepTasksMs",
            usage.bytes
        );
        usage.bytes += if is_over { 0 } else { bytes };
        all.insert(key, usage);
        drop(all);
        match is_over {
            false => Ok(()),
            true => {
                Err(Problem::new(Reason::RateLimited, message).with("limit", max).retry_after(PASS_INTERVAL))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use protocol::time::WallTime;
    use store::memory;

    #[tokio::test]
    async fn the_bytes_of_a_principal_are_limited_and_those_of_the_store_count() {
        let (store, me) = (memory::new(), AgentId::parse("a").unwrap());
        let user = |name: &str| Principal::User(AgentId::parse(name).unwrap());
        let (alice, bob) = (user("alice"), user("bob"));
        for content in [&b"1234"[..], b"56789"] {
            let content = Bytes::from_static(content);
            crate::artifacts::put(store.as_ref(), &me, &alice, WallTime(1), None, content).await.unwrap();
        }
        let quota = ArtifactQuota::default();
        let add = |by: &Principal, bytes| quota.add(store.as_ref(), &me, by, bytes, 12);
        assert_eq!(add(&alice, 3), Ok(()));
        let refused = add(&alice, 1).unwrap_err();
        assert_eq!(refused.reason, Reason::RateLimited);
        for word in ["user:alice", "12 bytes", "maxArtifactBytesPerPrincipal, 12", "keepArtifactsMs"] {
            assert!(refused.message.contains(word), "{}", refused.message);
        }
        assert_eq!(add(&bob, 12), Ok(()), "another has its own");
        assert!(add(&bob, 1).is_err());
        assert_eq!(quota.add(store.as_ref(), &me, &bob, 1, 0), Ok(()), "0 is no limit");
    }
}
