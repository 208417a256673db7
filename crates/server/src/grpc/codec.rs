//! Messages of gRPC: protobuf whose number of fields is checked before it is decoded.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use wire::oip::rpc::{Nested, check_fields};

use crate::faults::status;

/// The codec of a method that takes `D` and gives `E`.
pub(super) struct Checked<E, D> {
    nested: &'static Nested,
    kinds: PhantomData<fn(D) -> E>,
}

impl<E, D> Checked<E, D> {
    /// The codec; `nested` tells which fields of `D` are messages that could be many.
    pub(super) fn new(nested: &'static Nested) -> Checked<E, D> {
        Checked { nested, kinds: PhantomData }
    }
}

impl<E, D> Codec for Checked<E, D>
where
    E: Message + 'static,
    D: Message + Default + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = Writer<E>;
    type Decoder = Reader<D>;

    fn encoder(&mut self) -> Writer<E> {
        Writer(PhantomData)
    }

    fn decoder(&mut self) -> Reader<D> {
        Reader { nested: self.nested, kind: PhantomData }
    }
}

/// Writes messages.
pub(super) struct Writer<E>(PhantomData<fn(E)>);

impl<E: Message> Encoder for Writer<E> {
    type Item = E;
    type Error = Status;

    fn encode(&mut self, item: E, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(out).map_err(|error| Status::internal(error.to_string()))
    }
}

/// Reads messages.
pub(super) struct Reader<D> {
    nested: &'static Nested,
    kind: PhantomData<fn() -> D>,
}

impl<D: Message + Default> Decoder for Reader<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        check_fields(&bytes, self.nested).map_err(|fault| status(&fault))?;
        // What the message keeps of the bytes is a part of them, not a copy.
        D::decode(bytes).map(Some).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}
