//! A watch as server-sent events: `snapshot`, then `change`s, and a comment when idle. A reader that lags gets a new
//! snapshot; nothing is buffered for it beyond the registry's channel.

use crate::{
    client::RegistryWatch,
    entry::{AgentEntry, RegistryEvent},
    registrar::{GetRegistryState, SupervisedRegistry},
};
use actix_web::{HttpResponse, http::header};
use bytes::{BufMut, Bytes, BytesMut};
use protocol::problem::{Problem, Reason};
use std::time::Duration;

const COMMENT: Bytes = Bytes::from_static(b": here\n\n");

/// The streaming response of a new watch; an error if there are too many watchers.
pub(super) async fn respond(registry: SupervisedRegistry) -> Result<HttpResponse, Problem> {
    let config = registry.ask(GetRegistryState).await?.config;
    let interval = Duration::from_millis(config.watch_comment_ms.max(1));
    let mut watch = RegistryWatch::local(registry);
    let first = encode(&watch.next().await?)?;
    let events = futures_util::stream::unfold((Some(first), watch), move |(first, mut watch)| async move {
        if let Some(first) = first {
            return Some((Ok(first), (None, watch)));
        }
        let bytes = match tokio::time::timeout(interval, watch.next()).await {
            Err(_) => Ok(COMMENT),
            Ok(event) => event.and_then(|event| encode(&event)),
        };
        match bytes {
            Ok(bytes) => Some((Ok::<_, Problem>(bytes), (None, watch))),
            Err(problem) => {
                tracing::debug!(%problem, "a watch ends");
                None
            }
        }
    });
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(events))
}

fn encode(event: &RegistryEvent) -> Result<Bytes, Problem> {
    match event {
        RegistryEvent::Snapshot(agents) => snapshot(agents),
        RegistryEvent::Change(entry) => {
            let mut bytes = BytesMut::from(&b"event: change\ndata: "[..]);
            write(&mut bytes, entry)?;
            bytes.put_slice(b"\n\n");
            Ok(bytes.freeze())
        }
    }
}

/// One `data` line per agent, so that a client can read a large snapshot line by line.
fn snapshot(agents: &[AgentEntry]) -> Result<Bytes, Problem> {
    let mut bytes = BytesMut::from(&b"event: snapshot\ndata: {\"agents\":["[..]);
    for (at, entry) in agents.iter().enumerate() {
        bytes.put_slice(if at == 0 { b"\ndata: " } else { b",\ndata: " });
        write(&mut bytes, entry)?;
    }
    bytes.put_slice(b"\ndata: ]}\n\n");
    Ok(bytes.freeze())
}

fn write(bytes: &mut BytesMut, entry: &AgentEntry) -> Result<(), Problem> {
    serde_json::to_writer(bytes.writer(), entry)
        .map_err(|error| Problem::new(Reason::Internal, error.to_string()))
}
