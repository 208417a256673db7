//! This server as a node of a gateway: it registers itself, pushes its record, and takes itself out when it stops.
//!
//! All of it happens beside the requests: a gateway that is away costs a line in the log and an attempt now and then.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::Method;
use hyper::body::Bytes;
use server::Server;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use wire::node::{NodePush, NodeRecord, PUSH_PATH};

use super::door;
use super::operations::LogFormat;
use crate::Failure;
use crate::http::{self, Client, Reach};

/// How often the record is looked at, and pushed while there is work or something changed.
const TICK: Duration = Duration::from_secs(1);
/// Ticks between two pushes of a server that idles.
const IDLE_TICKS: u32 = 5;
/// The longest that a push may take.
const PUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest that a server which stops waits for its gateway to hear of it.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest pause after pushes that failed.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read, so that the connection can be used again.
const ANSWER_BYTES: usize = 64 << 10;
/// Bytes of a file with a key.
const KEY_BYTES: u64 = 4 << 10;

#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Flags {
    /// Register with the gateway at this URL as one of its nodes, and push this server's load to it.
    #[arg(long, value_name = "URL", help_heading = "Gateway")]
    gateway: Option<String>,

    /// The URL at which the gateway reaches this server [default: the address that it listens on].
    #[arg(long, value_name = "URL", requires = "gateway", help_heading = "Gateway")]
    advertise: Option<String>,

    /// A file with the key that the gateway wants of its nodes.
    #[arg(long, value_name = "FILE", requires = "gateway", help_heading = "Gateway")]
    gateway_key_file: Option<PathBuf>,
}

/// A gateway that this server is to be a node of.
pub(super) struct Gateway {
    client: Client,
    url: String,
    advertise: Option<String>,
}

/// This server as a node: its pushes, until it leaves.
pub(super) struct Node {
    gateway: Arc<Gateway>,
    id: String,
    /// The gateway knows the server.
    known: Arc<AtomicBool>,
    pushes: AbortHandle,
}

impl Flags {
    /// The gateway of the flags, if there is one.
    ///
    /// # Errors
    /// An address that is none, a file without a key, or a server that the gateway could not reach.
    pub(super) fn gateway(&self, host: &str) -> Result<Option<Gateway>, Failure> {
        let Some(url) = &self.gateway else { return Ok(None) };
        let key = self.gateway_key_file.as_ref().map(|file| {
            let text = std::fs::File::open(file)
                .and_then(|file| std::io::read_to_string(std::io::Read::take(file, KEY_BYTES)));
            let text = text
                .map_err(|error| Failure::new(format!("--gateway-key-file {}: {error}", file.display())))?;
            match text.trim() {
                "" => Err(Failure::new(format!("--gateway-key-file {}: no key in it", file.display()))),
                key => Ok(key.to_owned()),
            }
        });
        let key = key.transpose()?;
        if self.advertise.is_none() && door::is_unspecified(host) {
            return Err(Failure::usage(format!(
                "--host {host} is no address that a gateway can call: say with --advertise where it reaches this server"
            )));
        }
        let reach = Reach {
            base_url: url,
            api_key: key.as_deref(),
            headers: &[],
            ca_file: None,
            timeout: PUSH_TIMEOUT,
        };
        let client = Client::new(&reach)
            .map_err(|failure| Failure::usage(format!("--gateway: {}", failure.message)))?;
        let gateway = Gateway { client, url: url.clone(), advertise: self.advertise.clone() };
        if let Some(advertise) = &gateway.advertise {
            let id = "0".repeat(32);
            let push =
                NodePush { advertise: advertise.clone(), record: NodeRecord { id, ..NodeRecord::default() } };
            let body = serde_json::to_vec(&push).unwrap_or_default();
            NodePush::parse(&body)
                .map_err(|fault| Failure::usage(format!("--advertise: {}", fault.message)))?;
        }
        Ok(Some(gateway))
    }
}

impl Gateway {
    /// Begins to push the record of `server`, which listens on `address`.
    pub(super) fn join(
        self,
        server: &Server,
        scheme: &str,
        address: SocketAddr,
        log: LogFormat,
        runtime: &Runtime,
    ) -> Node {
        let advertise = self.advertise.clone().unwrap_or_else(|| format!("{scheme}://{address}"));
        let (gateway, known) = (Arc::new(self), Arc::new(AtomicBool::new(false)));
        let id = server.service().node_id().to_owned();
        log.say(&format!("a node of the gateway {}, which reaches it at {advertise}", gateway.url));
        let pushing =
            Pushes { gateway: gateway.clone(), server: server.clone(), advertise, known: known.clone(), log };
        let pushes = runtime.spawn(pushing.go_on()).abort_handle();
        Node { gateway, id, known, pushes }
    }

    async fn call(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<(), String> {
        let answer = async {
            let response = self.client.call(method, path, body).await?;
            let response = http::accepted(response).await?;
            let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
            body.map(|_| ()).map_err(|error| format!("the answer broke off: {error}"))
        };
        self.client.in_time(answer).await
    }
}

impl Node {
    /// Takes the server out of the gateway, which then sends nothing more. Waits a second at most.
    pub(super) async fn leave(self) {
        self.pushes.abort();
        if self.known.load(Ordering::Acquire) {
            let path = format!("{PUSH_PATH}/{}", self.id);
            // A gateway that does not hear of it finds out by itself.
            let _ = timeout(LEAVE_TIMEOUT, self.gateway.call(Method::DELETE, &path, None)).await;
        }
    }
}

/// The pushes of a server.
struct Pushes {
    gateway: Arc<Gateway>,
    server: Server,
    advertise: String,
    known: Arc<AtomicBool>,
    log: LogFormat,
}

impl Pushes {
    async fn go_on(self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut quiet, mut failures): (Option<NodeRecord>, u32, u32) = (None, 0, 0);
        loop {
            ticks.tick().await;
            let record = self.server.service().node_record();
            quiet += 1;
            let busy = record.load.running + record.load.waiting > 0;
            let news = last.as_ref().is_none_or(|last| is_news(last, &record));
            if !busy && !news && quiet < IDLE_TICKS {
                continue;
            }
            match self.push(record.clone()).await {
                Ok(()) => {
                    if failures > 0 {
                        self.log
                            .say(&format!("the gateway {} takes this node's load again", self.gateway.url));
                    }
                    self.known.store(true, Ordering::Release);
                    (last, quiet, failures) = (Some(record), 0, 0);
                }
                Err(why) => {
                    if failures == 0 {
                        let url = &self.gateway.url;
                        self.log.say(&format!(
                            "the gateway {url} does not take this node's load, trying on: {why}"
                        ));
                    }
                    failures += 1;
                    last = None;
                    sleep(pause(failures)).await;
                }
            }
        }
    }

    async fn push(&self, record: NodeRecord) -> Result<(), String> {
        let push = NodePush { advertise: self.advertise.clone(), record };
        let body = serde_json::to_vec(&push).map_err(|error| error.to_string())?;
        self.gateway.call(Method::POST, PUSH_PATH, Some(body.into())).await
    }
}

/// Whether a record says more than that time has passed.
fn is_news(last: &NodeRecord, record: &NodeRecord) -> bool {
    let NodeRecord { sequence, uptime_s, .. } = *record;
    NodeRecord { sequence, uptime_s, ..last.clone() } != *record
}

/// The pause after so many failures, at least one.
fn pause(failures: u32) -> Duration {
    (TICK * 2u32.saturating_pow(failures.saturating_sub(1).min(8))).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound() {
        let seconds: Vec<u64> = (1..9).map(|failures| pause(failures).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pause(u32::MAX), MAX_PAUSE);
    }

    #[test]
    fn time_alone_is_no_news() {
        let record = NodeRecord { sequence: 3, uptime_s: 7, ..NodeRecord::default() };
        assert!(!is_news(&record, &NodeRecord { sequence: 4, uptime_s: 8, ..record.clone() }));
        assert!(is_news(&record, &NodeRecord { tier: "avx2".into(), ..record.clone() }));
    }
}
