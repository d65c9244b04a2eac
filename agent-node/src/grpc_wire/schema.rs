//! Converts A2A's protobuf messages to and from ProtoJSON, so that every binding reads, checks and refuses the same JSON.
//!
//! `proto/a2a.bin` describes the messages. It is generated from `proto/a2a.proto` of specification v1.0.1 by
//! `protoc -I agent-node/proto --include_imports --descriptor_set_out=agent-node/proto/a2a.bin a2a.proto`.

mod deterministic;

use super::status::status;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use protocol::a2a::{
    error::{A2aError, A2aErrorKind},
    json::InvalidField,
    request::A2aOperation,
};
use serde_json::{Number, Value, value::Serializer};
use std::sync::{Arc, LazyLock};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
};

/// The service's full name.
pub(crate) const SERVICE: &str = "lf.a2a.v1.A2AService";
/// Above this magnitude a double does not distinguish all integers.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(&include_bytes!("../../proto/a2a.bin")[..])
        .expect("proto/a2a.bin is a descriptor set")
});

fn method(operation: A2aOperation) -> MethodDescriptor {
    let service = POOL.get_service_by_name(SERVICE).expect("proto/a2a.bin has the service");
    service
        .methods()
        .find(|method| method.name() == operation.name())
        .expect("the service has every operation")
}

/// Whether `operation` is answered with a stream.
pub(crate) fn is_streaming(operation: A2aOperation) -> bool {
    method(operation).is_server_streaming()
}

/// The path of `operation`'s calls.
pub(crate) fn path(operation: A2aOperation) -> PathAndQuery {
    let path = format!("/{SERVICE}/{}", operation.name());
    path.parse().expect("names of operations need no escapes")
}

/// Why a message can't be read; the source of the status that says so.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{0}")]
    Malformed(String),
    #[error("more than {0} bytes")]
    TooLarge(usize),
}

/// Writes and reads JSON as the protobuf messages of one operation.
#[derive(Clone)]
pub(crate) struct JsonCodec {
    writes: MessageDescriptor,
    reads: MessageDescriptor,
    max_bytes: usize,
}

impl JsonCodec {
    /// Reads requests of `operation` and writes its responses.
    pub(crate) fn of_server(operation: A2aOperation) -> Self {
        let method = method(operation);
        Self { writes: method.output(), reads: method.input(), max_bytes: usize::MAX }
    }

    /// Writes requests of `operation` and reads its responses, up to `max_bytes` in all.
    pub(crate) fn of_client(operation: A2aOperation, max_bytes: usize) -> Self {
        let method = method(operation);
        Self { writes: method.input(), reads: method.output(), max_bytes }
    }
}

impl Codec for JsonCodec {
    type Encode = Value;
    type Decode = Value;
    type Encoder = JsonEncoder;
    type Decoder = JsonDecoder;

    fn encoder(&mut self) -> JsonEncoder {
        JsonEncoder(self.writes.clone())
    }

    fn decoder(&mut self) -> JsonDecoder {
        JsonDecoder { message: self.reads.clone(), max_bytes: self.max_bytes, bytes: 0 }
    }
}

pub(crate) struct JsonEncoder(MessageDescriptor);

impl Encoder for JsonEncoder {
    type Item = Value;
    type Error = Status;

    fn encode(&mut self, item: Value, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        DynamicMessage::deserialize_with_options(self.0.clone(), item, &options)
            .map(|message| bytes::BufMut::put_slice(buffer, &deterministic::encode(&message)))
            .map_err(|error| Status::internal(format!("{}: {error}", self.0.full_name())))
    }
}

pub(crate) struct JsonDecoder {
    message: MessageDescriptor,
    max_bytes: usize,
    bytes: usize,
}

impl Decoder for JsonDecoder {
    type Item = Value;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Value>, Status> {
        self.bytes += bytes::Buf::remaining(buffer);
        if self.bytes > self.max_bytes {
            let error = A2aError::new(A2aErrorKind::Internal, format!("more than {} bytes", self.max_bytes));
            return Err(status_with_source(&error, ReadError::TooLarge(self.max_bytes)));
        }
        let message = DynamicMessage::decode(self.message.clone(), buffer).map_err(|error| {
            let text = format!("the message can't be read: {error}");
            status_with_source(&A2aError::new(A2aErrorKind::Parse, text.clone()), ReadError::Malformed(text))
        })?;
        json(&message).map(Some).map_err(|invalid| {
            let text = invalid.to_string();
            status_with_source(&invalid.into(), ReadError::Malformed(text))
        })
    }
}

fn status_with_source(error: &A2aError, source: ReadError) -> Status {
    let mut status = status(error);
    status.set_source(Arc::new(source));
    status
}

/// `message` as ProtoJSON, with whole numbers as integers. Fails for a value that JSON can't express (NaN, the year 10,000).
fn json(message: &DynamicMessage) -> Result<Value, InvalidField> {
    let mut path = serde_path_to_error::Track::new();
    let serializer = serde_path_to_error::Serializer::new(Serializer, &mut path);
    match message.serialize_with_options(serializer, &SerializeOptions::new()) {
        Ok(mut value) => {
            write_integers(&mut value);
            Ok(value)
        }
        Err(error) => Err(InvalidField::new(path.path().to_string(), error.to_string())),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
fn write_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= MAX_WHOLE);
            if let Some(whole) = whole {
                *number = Number::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_integers),
        Value::Object(members) => members.values_mut().for_each(write_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
