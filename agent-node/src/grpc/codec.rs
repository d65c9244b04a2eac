//! How messages lie on the wire: protobuf, by prost. What can't be read is the caller's slip, in A2A's words.

use super::status::status;
use prost::Message;
use protocol::a2a::error::{A2aError, Kind};
use std::marker::PhantomData;
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// Writes `W`, reads `R`.
pub(crate) struct Protobuf<W, R>(PhantomData<fn(W) -> R>);

impl<W, R> Default for Protobuf<W, R> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<W, R> Codec for Protobuf<W, R>
where
    W: Message + Send + 'static,
    R: Message + Default + Send + 'static,
{
    type Encode = W;
    type Decode = R;
    type Encoder = Writer<W>;
    type Decoder = Reader<R>;

    fn encoder(&mut self) -> Writer<W> {
        Writer(PhantomData)
    }

    fn decoder(&mut self) -> Reader<R> {
        Reader(PhantomData)
    }
}

/// Writes messages.
pub(crate) struct Writer<T>(PhantomData<fn(T)>);

impl<T: Message> Encoder for Writer<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

/// Reads messages.
pub(crate) struct Reader<T>(PhantomData<fn() -> T>);

impl<T: Message + Default> Decoder for Reader<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        let unreadable = |error: prost::DecodeError| {
            status(&A2aError::new(Kind::Parse, format!("the message can't be read: {error}")))
        };
        T::decode(buffer).map(Some).map_err(unreadable)
    }
}
