//! The server's own API of jobs, and what makes requests of other APIs jobs.

pub(crate) mod events;
pub(crate) mod lists;
mod prefer;
pub(crate) mod routes;
mod submit;
pub(crate) mod task;
mod view;
mod wait;

pub(crate) use view::{is_known, unchanged};

pub use prefer::{prefers_async, respond_async};
pub use task::{GuideBody, accept_guide, guide_body};
