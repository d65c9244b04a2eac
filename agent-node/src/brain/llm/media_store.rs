//! The content of images and PDFs, in the store of the agent: it is kept as it comes, and goes along with the requests to models that
//! see it.

use super::{
    media,
    model::{MediaRef, ModelMessage, ModelRequest},
    provider::ModelRules,
};
use crate::brain::{TurnRequest, agent_access::AgentAccess};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use patterns::turn::TurnSubject;
use protocol::artifact::{BlobRef, Part, PartContent};
use std::{collections::BTreeMap, sync::Arc};

/// The most media of a request.
const MAX_MEDIA: usize = 20;
/// The most bytes of all media of a request. In base64 they fit into what providers take.
const MAX_BYTES: u64 = 20 << 20;

/// The longest text that is read from a file, bytes.
const MAX_TEXT: u64 = 1 << 20;

/// Makes the files of a turn readable: media with content of their own are kept, if a model sees any; a text takes the place of its
/// file; and of a file without a type it is said if it is a medium.
pub(super) async fn prepare(request: &mut TurnRequest, access: &AgentAccess, sees_any: bool) {
    for part in parts(request) {
        match BlobRef::of(part) {
            Some(blob) => read_file(part, blob, access).await,
            None if sees_any => keep(std::iter::once(&*part), access).await,
            None => {}
        }
    }
}

/// All parts that a turn is given.
fn parts(request: &mut TurnRequest) -> impl Iterator<Item = &mut Part> {
    let prompt = &mut request.prompt;
    let subject = match &mut prompt.about {
        TurnSubject::Task(task) => task.artifacts.as_mut_slice(),
        TurnSubject::Help(asked) => asked.artifacts.as_mut_slice(),
        TurnSubject::Signal(_) | TurnSubject::Check { .. } => &mut [],
    };
    let earlier = prompt.context.iter_mut().flat_map(|context| &mut context.turns);
    let earlier = earlier.flat_map(|turn| turn.new.iter_mut().chain(&mut turn.produced));
    let answered = prompt.answers.iter_mut().flat_map(|answer| &mut answer.artifacts);
    let refused = prompt.revision.iter_mut().flat_map(|revision| &mut revision.artifacts);
    let artifacts = earlier.chain(subject).chain(answered).chain(refused).chain(&mut prompt.produced);
    let said = prompt.messages.iter_mut().flat_map(|message| &mut message.parts);
    artifacts.flat_map(|artifact| &mut artifact.parts).chain(said)
}

/// Puts a text in the place of its file, or says what a file without a type is.
async fn read_file(part: &mut Part, blob: BlobRef, access: &AgentAccess) {
    let is_text = media::is_text(part);
    let most = if is_text { MAX_TEXT } else { MAX_BYTES };
    if blob.bytes > most || !is_text && !media::is_untyped(part) {
        return;
    }
    let Some(content) = access.bytes(&blob.digest).await else { return };
    match std::str::from_utf8(&content) {
        Ok(text) if is_text => part.content = PartContent::Text(text.to_owned()),
        Ok(_) | Err(_) if !is_text => {
            let found = media::media_type(None, part.filename.as_deref(), &content);
            part.media_type = found.map(str::to_owned).or(part.media_type.take());
        }
        Ok(_) | Err(_) => {}
    }
}

/// Keeps the media among parts, so that a request finds them by their digests.
pub(super) async fn keep(parts: impl Iterator<Item = &Part>, access: &AgentAccess) {
    for part in parts {
        let PartContent::Raw(raw) = &part.content else { continue };
        let Some(medium) = media::of_parts(std::slice::from_ref(part)).pop() else { continue };
        let content = Bytes::from(STANDARD.decode(raw).unwrap_or_default());
        if let Err(error) = access.keep_content(&medium.media_type, content).await {
            tracing::warn!(%error, "an image or a file can't be kept, so that no model sees it");
        }
    }
}

/// The request with the content of what a model with these rules sees: of the newest media, as many as a request takes.
pub(super) async fn with_content(
    request: Arc<ModelRequest>,
    rules: &ModelRules,
    access: Option<&AgentAccess>,
) -> Arc<ModelRequest> {
    let mut content = BTreeMap::new();
    let mut bytes = 0;
    for medium in seen(&request, rules) {
        if content.contains_key(&medium.digest) {
            continue;
        }
        if content.len() == MAX_MEDIA || bytes + medium.bytes > MAX_BYTES {
            break;
        }
        let Some(access) = access else { break };
        let Some(found) = access.bytes(&medium.digest).await else { continue };
        bytes += medium.bytes;
        content.insert(medium.digest, Arc::from(STANDARD.encode(&found)));
        // No record names it, so that it is kept for as long as it is asked for.
        if let Err(error) = access.keep_content(&medium.media_type, found).await {
            tracing::warn!(%error, "an image or a file can't be kept for longer");
        }
    }
    if content.is_empty() {
        return request;
    }
    Arc::new(ModelRequest { media: content, ..ModelRequest::clone(&request) })
}

/// The media that a model with these rules sees, the newest first.
fn seen<'r>(request: &'r ModelRequest, rules: &ModelRules) -> impl Iterator<Item = &'r MediaRef> {
    let media = request.messages.iter().rev().filter_map(|message| match message {
        ModelMessage::Media(media) => Some(media.iter().rev()),
        ModelMessage::User(_) | ModelMessage::Assistant { .. } | ModelMessage::Results(_) => None,
    });
    media.flatten().filter(|medium| medium.unseen(rules).is_none())
}
