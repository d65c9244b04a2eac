//! A watch as server-sent events: `snapshot`, then `change`s; a comment when nothing happens. A slow reader makes the
//! registry hold nothing: it is given a new snapshot instead of what it missed.

use crate::{
    client::{Watch, ask},
    entry::{Entry, News},
    registrar::{Keeper, Observe},
};
use actix_web::{HttpResponse, http::header};
use bytes::{BufMut, Bytes, BytesMut};
use protocol::problem::{Problem, Reason};
use std::time::Duration;

const COMMENT: Bytes = Bytes::from_static(b": here\n\n");

/// The answer to a watcher, or why it is not let in.
pub(super) async fn answer(registry: Keeper) -> Result<HttpResponse, Problem> {
    let config = ask(&registry, Observe).await?.config;
    let every = Duration::from_millis(config.watch_comment_ms.max(1));
    let mut watch = Watch::here(registry);
    let first = event(&watch.next().await?)?;
    let events = futures_util::stream::unfold((Some(first), watch), move |(first, mut watch)| async move {
        if let Some(first) = first {
            return Some((Ok(first), (None, watch)));
        }
        let bytes = match tokio::time::timeout(every, watch.next()).await {
            Err(_) => Ok(COMMENT),
            Ok(news) => news.and_then(|news| event(&news)),
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

fn event(news: &News) -> Result<Bytes, Problem> {
    match news {
        News::Snapshot(agents) => snapshot(agents),
        News::Change(entry) => {
            let mut bytes = BytesMut::from(&b"event: change\ndata: "[..]);
            write(&mut bytes, entry)?;
            bytes.put_slice(b"\n\n");
            Ok(bytes.freeze())
        }
    }
}

/// One line an agent, so that a reader can take it in line by line.
fn snapshot(agents: &[Entry]) -> Result<Bytes, Problem> {
    let mut bytes = BytesMut::from(&b"event: snapshot\ndata: {\"agents\":["[..]);
    for (at, entry) in agents.iter().enumerate() {
        bytes.put_slice(if at == 0 { b"\ndata: " } else { b",\ndata: " });
        write(&mut bytes, entry)?;
    }
    bytes.put_slice(b"\ndata: ]}\n\n");
    Ok(bytes.freeze())
}

fn write(bytes: &mut BytesMut, entry: &Entry) -> Result<(), Problem> {
    serde_json::to_writer(bytes.writer(), entry)
        .map_err(|error| Problem::new(Reason::Internal, error.to_string()))
}
