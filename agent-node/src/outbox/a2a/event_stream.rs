//! Reads the events of an A2A stream from server-sent events (A2A §9.4.2, §11.7).

use super::{CallError, RemoteEventStream, decode, from_outbound_error};
use crate::outbox::{
    outbound_client,
    sse_parser::{SseEventTooLong, SseParser},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use protocol::a2a::{error::A2aError, event::StreamResponse};
use serde_json::Value;

/// The events in `bytes`, each of at most `max_bytes`. HTTP+JSON (`is_rest`) sends them bare, JSON-RPC as results. The stream
/// ends after its first error.
pub(super) fn events(
    bytes: impl Stream<Item = Result<Bytes, outbound_client::Error>> + Send + 'static,
    is_rest: bool,
    max_bytes: usize,
) -> RemoteEventStream {
    let open = Some((Box::pin(bytes), SseParser::new(max_bytes)));
    futures_util::stream::unfold(open, move |open| async move {
        let (mut bytes, mut parser) = open?;
        loop {
            let event = match parser.next_event() {
                Ok(Some(data)) if data.trim_ascii().is_empty() => continue,
                Ok(Some(data)) => parse(&data, is_rest),
                Ok(None) => match bytes.next().await? {
                    Ok(more) => {
                        parser.push(&more);
                        continue;
                    }
                    Err(error) => Err(from_outbound_error(error)),
                },
                Err(SseEventTooLong) => {
                    Err(CallError::TooLarge(format!("an event is longer than {max_bytes} bytes")))
                }
            };
            let next = event.is_ok().then_some((bytes, parser));
            return Some((event, next));
        }
    })
    .boxed()
}

fn parse(data: &[u8], is_rest: bool) -> Result<StreamResponse, CallError> {
    let mut value: Value = serde_json::from_slice(data)
        .map_err(|error| CallError::Malformed(format!("an event is no JSON: {error}")))?;
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        return Err(CallError::Refused(match is_rest {
            true => A2aError::from_rest(500, &value),
            false => A2aError::from_rpc(error),
        }));
    }
    match is_rest {
        true => decode(value),
        false => decode(value.get_mut("result").map(Value::take).unwrap_or(Value::Null)),
    }
}
