//! The events of an A2A stream, out of server-sent events (A2A §9.4.2, §11.7).

use super::{CallError, Events, away, read};
use crate::outbox::outside;
use bytes::Bytes;
use eventsource_stream::{EventStreamError, Eventsource};
use futures_util::{Stream, StreamExt};
use protocol::a2a::{error::A2aError, event::StreamResponse};
use serde_json::Value;

/// The events in `bytes`: bare over HTTP+JSON, wrapped over JSON-RPC. The first error is the last item.
pub(super) fn events(
    bytes: impl Stream<Item = Result<Bytes, outside::Error>> + Send + 'static,
    is_rest: bool,
) -> Events {
    let events = Box::pin(bytes.eventsource());
    futures_util::stream::unfold(Some(events), move |events| async move {
        let mut events = events?;
        loop {
            let said = match events.next().await? {
                Ok(event) if event.data.trim().is_empty() => continue,
                Ok(event) => one(&event.data, is_rest),
                Err(EventStreamError::Transport(error)) => Err(away(error)),
                Err(error) => Err(CallError::Malformed(error.to_string())),
            };
            let next = said.is_ok().then_some(events);
            return Some((said, next));
        }
    })
    .boxed()
}

fn one(data: &str, is_rest: bool) -> Result<StreamResponse, CallError> {
    let mut value: Value = serde_json::from_str(data)
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
