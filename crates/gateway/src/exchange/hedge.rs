//! A second attempt beside a slow one, among own nodes: the first content wins, and the other attempt is given up.

use std::sync::Arc;

use privacy::Permit;

use super::attempt::Started;
use super::request::Exchange;
use super::request::Failed;
use crate::route::{Flight, Route};

impl Exchange {
    /// Asks one target; a second one beside it if the first is slower than nearly all before it.
    pub(crate) async fn attempt_or_hedge(
        &self,
        route: &Arc<Route>,
        flight: Flight,
        permit: Permit,
        why: &'static str,
    ) -> Result<Started, Failed> {
        let delay = self.snapshot.config.hedge.enabled.then(|| flight.hedge_delay()).flatten();
        let Some(delay) = delay else { return self.attempt(route, flight, permit, why).await };
        let slow = flight.target().clone();
        // In boxes: attempts without a second one beside them would carry the size of both.
        let mut first = Box::pin(self.attempt(route, flight, permit, why));
        if let Ok(ended) = tokio::time::timeout(delay, &mut first).await {
            return ended;
        }
        // Where nobody else may be asked, the first is waited for.
        let Ok((flight, permit)) = self.pick_beside(route, &slow) else { return first.await };
        let mut second = Box::pin(self.attempt(route, flight, permit, "hedge"));
        tokio::select! {
            ended = &mut first => match ended {
                Ok(started) => Ok(started),
                Err(_) => second.await,
            },
            ended = &mut second => match ended {
                Ok(started) => Ok(started),
                Err(_) => first.await,
            },
        }
    }
}
