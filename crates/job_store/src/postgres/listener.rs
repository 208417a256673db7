//! A connection that only hears when another server says that there is work. It is no more than a hint: who waits also asks
//! from time to time.

use super::connection::CHANNEL;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, Config, NoTls};

/// Whoever waits for work.
pub(crate) struct Listener {
    config: Config,
    shared: Arc<Shared>,
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct Shared {
    woken: Notify,
    runs: AtomicBool,
}

impl Listener {
    pub(crate) fn new(config: Config) -> Listener {
        Listener { config, shared: Arc::default(), task: Mutex::default() }
    }

    /// Waits until another server says that there is work.
    pub(crate) async fn woken(&self) {
        if !self.shared.runs.swap(true, Ordering::AcqRel) {
            let (config, shared) = (self.config.clone(), self.shared.clone());
            let task = tokio::spawn(async move {
                if let Err(error) = listen(&config, &shared.woken).await {
                    tracing::debug!(%error, "PostgreSQL does not tell of new jobs");
                }
                // The next one who waits connects again.
                shared.runs.store(false, Ordering::Release);
            });
            *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
        }
        self.shared.woken.notified().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// Listens until the connection ends.
async fn listen(config: &Config, woken: &Notify) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let hear = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message? {
                woken.notify_one();
            }
        }
        Ok(())
    };
    let ask = async {
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        // Something may have come before.
        woken.notify_one();
        Ok(())
    };
    tokio::try_join!(hear, ask).map(drop)
}
