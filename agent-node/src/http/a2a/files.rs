//! The files of messages and results: kept beside the store as they come, and on the way out with a URL, or as they were sent.

use super::call::A2aCall;
use crate::{
    artifacts::{ShownFiles, keep_file, put_file},
    http::{edge::SpooledFile, node_state::HostedAgent},
};
use protocol::{
    a2a::{error::A2aError, json::InvalidField, message::Message},
    artifact::{Part, PartContent, blob},
    problem::{Problem, Reason},
};
use std::sync::{MutexGuard, PoisonError};

/// Keeps the files of a message: long `raw` parts, each of which its client may read again. Refuses a name of a file, which clients
/// don't have, and a file that is too large.
pub(super) async fn keep(call: &A2aCall, message: &mut Message) -> Result<(), A2aError> {
    let (store, me) = (call.local.store.as_ref(), &call.local.id);
    let (by, now, max) = (&call.by, call.wall(), call.limits().max_artifact_bytes);
    // A body of gRPC is larger, because of the files that it may have.
    if call.is_grpc && bytes_beside_files(message) > call.limits().max_body_bytes {
        return Err(too_much_text(call.limits().max_body_bytes));
    }
    for (at, part) in message.parts.iter_mut().enumerate() {
        let spooled = match &part.content {
            PartContent::Raw(raw) => take(&mut call.files(), raw),
            PartContent::Url(url) if url.starts_with(blob::SCHEME) => {
                let why = "names a file inside of the mesh; send the file, as `raw`, or a URL";
                return Err(InvalidField::new(format!("message.parts[{at}].url"), why).into());
            }
            PartContent::Text(_) | PartContent::Data(_) | PartContent::Url(_) => continue,
        };
        let bytes = match &spooled {
            Some(file) => usize::try_from(file.content.bytes).unwrap_or(usize::MAX),
            None => part_bytes(part),
        };
        if bytes > max {
            let message =
                format!("message.parts[{at}].raw: a file may have {max} bytes at most (maxArtifactBytes)");
            return Err(Problem::new(Reason::PayloadTooLarge, message).with("limit", max).into());
        }
        if spooled.is_none() && bytes <= blob::MIN_BYTES {
            continue;
        }
        call.check_file_quota(bytes)?;
        match spooled {
            Some(SpooledFile { content, .. }) => {
                let media_type = part.media_type.as_deref();
                let kept = put_file(store, me, by, now, media_type, content).await;
                part.content = kept.map_err(Problem::from)?.content();
            }
            None => drop(keep_file(store, me, by, now, part).await.map_err(Problem::from)?),
        }
    }
    check_left(call)
}

fn too_much_text(limit: usize) -> A2aError {
    let message = format!("beside the files in its parts (raw) a request may have {limit} bytes");
    Problem::new(Reason::PayloadTooLarge, message).with("limit", limit).into()
}

/// Fails if the request has brought a file that is in no part of a message.
pub(super) fn check_left(call: &A2aCall) -> Result<(), A2aError> {
    if call.files().is_empty() {
        return Ok(());
    }
    Err(too_much_text(call.limits().max_body_bytes))
}

/// The bytes of a message without its long `raw` parts.
fn bytes_beside_files(message: &mut Message) -> usize {
    let parts = std::mem::take(&mut message.parts);
    let head = serde_json::to_vec(message).map_or(0, |json| json.len());
    let rest = parts.iter().filter(|part| part_bytes(part) <= blob::MIN_BYTES);
    let bytes = head + rest.map(|part| serde_json::to_vec(part).map_or(0, |json| json.len())).sum::<usize>();
    message.parts = parts;
    bytes
}

fn part_bytes(part: &Part) -> usize {
    match &part.content {
        PartContent::Raw(raw) => raw.len() / 4 * 3,
        PartContent::Text(_) | PartContent::Data(_) | PartContent::Url(_) => 0,
    }
}

fn take(files: &mut MutexGuard<'_, Vec<SpooledFile>>, mark: &str) -> Option<SpooledFile> {
    let at = files.iter().position(|file| file.mark == mark)?;
    Some(files.swap_remove(at))
}

impl A2aCall {
    fn check_file_quota(&self, bytes: usize) -> Result<(), Problem> {
        let (node, local) = (self.node(), &self.local);
        let max = node.limits.max_artifact_bytes_per_principal;
        node.artifact_quota.add(local.store.as_ref(), &local.id, &self.by, bytes, max)
    }

    fn files(&self) -> MutexGuard<'_, Vec<SpooledFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostedAgent {
    /// Where its files are when a client is told of them.
    pub(crate) fn shown_files(&self) -> ShownFiles {
        ShownFiles::new(&self.store, &self.id, self.facade.get().policy.base_url(&self.card.get()))
    }
}
