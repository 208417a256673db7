//! The messages of the protocol over gRPC. Made of `crates/wire/proto/inference.proto` by
//! `tools/fixtures/oip_messages.py`.

mod infer;
mod repository;
mod server;
mod settings;

pub use infer::*;
pub use repository::*;
pub use server::*;
pub use settings::*;
