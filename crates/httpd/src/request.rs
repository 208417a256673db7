//! What the layers know of a request: who sends it, and its context.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use inference::{Client, Owner, RequestContext};

/// Who is at the other end of a connection.
#[derive(Clone, Copy)]
pub struct Peer(pub IpAddr);

/// The context that the layers gave a request.
pub fn context(request: &Request) -> Option<&Arc<RequestContext>> {
    request.extensions().get()
}

/// The client that a request comes from; the same one for all where no key is needed.
pub fn client(request: &Request) -> Client {
    context(request).map(|context| context.client()).unwrap_or_default()
}

/// Whom the bounds count a request for.
pub(crate) fn owner(request: &Request) -> Owner {
    let address = request.extensions().get::<Peer>().map(|peer| peer.0);
    Owner::new(client(request), address)
}
