//! The events of an A2A stream, out of server-sent events (A2A §9.4.2, §11.7). Every byte is looked at once, and an event
//! that is too long is refused before it has ended.

mod lines;

use super::{CallError, Events, away, read};
use crate::outbox::outside;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use lines::Lines;
use protocol::a2a::{error::A2aError, event::StreamResponse};
use serde_json::Value;

/// The events in `bytes`, none longer than `most`: bare over HTTP+JSON, wrapped over JSON-RPC. The first error is the last
/// item.
pub(super) fn events(
    bytes: impl Stream<Item = Result<Bytes, outside::Error>> + Send + 'static,
    is_rest: bool,
    most: usize,
) -> Events {
    let open = Some((Box::pin(bytes), Lines::new(most)));
    futures_util::stream::unfold(open, move |open| async move {
        let (mut bytes, mut lines) = open?;
        loop {
            let said = match lines.event() {
                Ok(Some(data)) if data.trim_ascii().is_empty() => continue,
                Ok(Some(data)) => one(&data, is_rest),
                Ok(None) => match bytes.next().await? {
                    Ok(more) => {
                        lines.take(&more);
                        continue;
                    }
                    Err(error) => Err(away(error)),
                },
                Err(lines::TooLong) => {
                    Err(CallError::TooLarge(format!("an event is longer than {most} bytes")))
                }
            };
            let next = said.is_ok().then_some((bytes, lines));
            return Some((said, next));
        }
    })
    .boxed()
}

fn one(data: &[u8], is_rest: bool) -> Result<StreamResponse, CallError> {
    let mut value: Value = serde_json::from_slice(data)
        .map_err(|error| CallError::Malformed(format!("an event is no JSON: {error}")))?;
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        return Err(CallError::Refused(match is_rest {
            true => A2aError::from_rest(500, &value),
            false => A2aError::from_rpc(error),
        }));
    }
    match is_rest {
        true => read(value),
        false => read(value.get_mut("result").map(Value::take).unwrap_or(Value::Null)),
    }
}
