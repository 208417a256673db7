//! Discovery by DNS: each address of an upstream's host is a target of its own.
//!
//! Names are resolved again and again; an address that has come gets connections and a circuit breaker of its own, one
//! that has gone gets no further requests, and its running ones end. An answer that fails changes nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;

use crate::upstream::Upstream;

/// For a resolver to answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
/// Most addresses of a name.
const MOST: usize = 256;

/// The addresses of each upstream with `discover`, by its name.
#[derive(Default)]
pub(crate) struct Discovered(Mutex<BTreeMap<String, Vec<Found>>>);

#[derive(Clone)]
struct Found {
    address: IpAddr,
    /// Connects to the address, whatever the name means then.
    upstream: Arc<Upstream>,
}

impl Discovered {
    /// The upstreams that stand for another at its addresses.
    pub(crate) fn of(&self, upstream: &str) -> Vec<Arc<Upstream>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(upstream).into_iter().flatten().map(|found| found.upstream.clone()).collect()
    }

    /// Every upstream that was found.
    pub(crate) fn all(&self) -> Vec<Arc<Upstream>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().flatten().map(|found| found.upstream.clone()).collect()
    }

    /// Takes the addresses of an upstream; whether they have changed. What is known already keeps its connections.
    fn set(&self, parent: &Upstream, mut addresses: Vec<IpAddr>, tls: &Arc<ClientConfig>) -> bool {
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(MOST);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.get(&parent.name).cloned().unwrap_or_default();
        if before.iter().map(|found| found.address).eq(addresses.iter().copied()) {
            return false;
        }
        let found = addresses.into_iter().filter_map(|address| {
            let known = before.iter().find(|found| found.address == address);
            known.cloned().or_else(|| {
                let upstream = Arc::new(parent.at(address, tls).ok()?);
                Some(Found { address, upstream })
            })
        });
        let found = found.collect();
        all.insert(parent.name.clone(), found);
        true
    }

    /// The addresses of names that a new configuration has too; their upstreams are made anew with its settings.
    pub(crate) fn renewed(&self, upstreams: &[Arc<Upstream>], tls: &Arc<ClientConfig>) -> Discovered {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut renewed = BTreeMap::new();
        for parent in upstreams.iter().filter(|upstream| upstream.discover.is_some()) {
            let Some(before) = all.get(&parent.name) else { continue };
            let anew = before.iter().filter_map(|found| {
                let upstream = Arc::new(parent.at(found.address, tls).ok()?);
                Some(Found { address: found.address, upstream })
            });
            renewed.insert(parent.name.clone(), anew.collect());
        }
        Discovered(Mutex::new(renewed))
    }
}

/// Resolves an upstream's name; whether its addresses have changed.
pub(crate) async fn resolve(upstream: &Upstream, discovered: &Discovered, tls: &Arc<ClientConfig>) -> bool {
    let to = upstream.client.address();
    let question = tokio::net::lookup_host((to.host.as_str(), to.port));
    match tokio::time::timeout(ASK_TIMEOUT, question).await {
        Ok(Ok(answers)) => {
            let addresses: Vec<IpAddr> = answers.take(4 * MOST).map(|answer| answer.ip()).collect();
            let changed = !addresses.is_empty() && discovered.set(upstream, addresses, tls);
            if changed {
                let count = discovered.of(&upstream.name).len();
                tracing::info!(upstream = %upstream.name, addresses = count, "the addresses of an upstream changed");
            }
            changed
        }
        Ok(Err(error)) => {
            tracing::warn!(upstream = %upstream.name, %error, "the host of an upstream cannot be resolved");
            false
        }
        Err(_) => {
            tracing::warn!(upstream = %upstream.name, "no answer about the host of an upstream within {ASK_TIMEOUT:?}");
            false
        }
    }
}
