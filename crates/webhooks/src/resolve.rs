//! Who looks up names of hosts.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Lookups of the system at once. One goes on to its end even if nobody waits for it any more.
const LOOKUPS: usize = 16;

/// The addresses of a name, or why there are none.
pub type Resolution<'a> = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, String>> + Send + 'a>>;

/// Looks up names of hosts.
pub trait Resolve: Send + Sync {
    /// The addresses of a name, in the order in which they are tried.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolution<'a>;
}

/// Looks up names as the system does.
#[derive(Debug)]
pub struct SystemResolver {
    slots: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> SystemResolver {
        SystemResolver { slots: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolution<'a> {
        Box::pin(async move {
            let slot = self.slots.clone().acquire_owned().await.map_err(|error| error.to_string())?;
            let name = name.to_owned();
            let lookup = tokio::spawn(async move {
                let found = tokio::net::lookup_host((name.as_str(), 0)).await;
                drop(slot);
                found.map(|addresses| addresses.map(|address| address.ip()).collect())
            });
            let found = lookup.await.map_err(|error| error.to_string())?;
            found.map_err(|error| error.to_string())
        })
    }
}
