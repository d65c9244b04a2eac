//! Reads the events of an A2A stream from server-sent events (A2A §9.4.2, §11.7).

use super::{CallError, RemoteEventStream, check_id, decode, from_outbound_error, is_rest, v03};
use crate::outbox::{
    outbound_client,
    sse_parser::{SseEventTooLong, SseParser},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use protocol::a2a::{card::AgentInterface, error::A2aError, event::StreamResponse, request::A2aOperation};
use serde_json::Value;

/// The events that `interface` sends in `bytes` as answers to the request of that id, each of at most `max_bytes`. HTTP+JSON sends them bare, JSON-RPC as results. The
/// stream ends after its first error.
pub(super) fn events(
    bytes: impl Stream<Item = Result<Bytes, outbound_client::Error>> + Send + 'static,
    (interface, id): (&AgentInterface, Option<u64>),
    max_bytes: usize,
) -> RemoteEventStream {
    let (is_rest, is_v03) = (is_rest(interface), v03::is_spoken(interface));
    let open = Some((Box::pin(bytes), SseParser::new(max_bytes)));
    futures_util::stream::unfold(open, move |open| async move {
        let (mut bytes, mut parser) = open?;
        loop {
            let event = match parser.next_event() {
                Ok(Some(data)) if data.trim_ascii().is_empty() => continue,
                Ok(Some(data)) => parse(&data, id, is_rest, is_v03),
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

fn parse(data: &[u8], id: Option<u64>, is_rest: bool, is_v03: bool) -> Result<StreamResponse, CallError> {
    let mut value: Value = serde_json::from_slice(data)
        .map_err(|error| CallError::Malformed(format!("an event is no JSON: {error}")))?;
    check_id(&value, id)?;
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        return Err(CallError::Refused(match is_rest {
            true => A2aError::from_rest(500, &value),
            false => A2aError::from_rpc(error),
        }));
    }
    let event = match is_rest {
        true => value,
        false => value.get_mut("result").map(Value::take).unwrap_or_default(),
    };
    decode(if is_v03 { v03::result(A2aOperation::SubscribeToTask, event) } else { event })
}
