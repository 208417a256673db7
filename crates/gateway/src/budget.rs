//! Budgets of the configuration as the ledger keeps them, and the receipts of requests.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use ledger::store::Store;
use ledger::store::postgres::PostgresStore;
use ledger::store::sqlite::SqliteStore;
use ledger::{Bounds, Bucket, Cap, Ledger, Options, Refused, Reservation, Scope, Subjects, Unit, Window};
use wire::Fault;

use crate::asked::Asked;
use crate::clock::now;
use crate::config::{self, Config};
use crate::receipt::Ended;

/// For the store to grant a lease to a request that needs one.
const LEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// For the last settlements when the gateway stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// All budgets; without a store there are none.
pub(crate) struct Budgets(ArcSwapOption<Ledger>);

impl Budgets {
    /// Opens the store of a configuration.
    ///
    /// # Errors
    /// A file that cannot be opened, or caps that are not possible.
    pub(crate) async fn open(config: &Config) -> Result<Budgets, String> {
        let Some(table) = &config.store else {
            return Ok(Budgets(ArcSwapOption::empty()));
        };
        let store = open(table).await?;
        let replica = table.replica.clone().unwrap_or_else(|| "gateway".to_owned());
        let mut options = Options::new(&replica, Arc::new(now));
        options.retention_days = table.receipt_days;
        if table.postgres.is_some() {
            // A shared database gets the sums once a second, not fifty times.
            options.group = Duration::from_secs(1);
        }
        let ledger = Ledger::start(options, store, &caps(config)).map_err(|error| error.to_string())?;
        Ok(Budgets(ArcSwapOption::from_pointee(ledger)))
    }

    /// The ledger, if there is a store.
    pub(crate) fn ledger(&self) -> Option<Arc<Ledger>> {
        self.0.load_full()
    }

    /// Takes the caps of another configuration; what is counted stays counted.
    ///
    /// # Errors
    /// Caps that are not possible.
    pub(crate) fn set(&self, config: &Config) -> Result<(), String> {
        match self.ledger() {
            Some(ledger) => ledger.set_caps(&caps(config)).map_err(|error| error.to_string()),
            None if caps(config).is_empty() => Ok(()),
            None => Err("budgets need [store], which is opened when the gateway starts".to_owned()),
        }
    }

    /// Reserves what an attempt may cost at most.
    ///
    /// # Errors
    /// A cap without room, a price that is not known, or a store that does not answer.
    pub(crate) async fn reserve(
        &self,
        asked: &Asked,
        model: &str,
        bounds: &Bounds,
    ) -> Result<Option<Reservation>, Fault> {
        let Some(ledger) = self.ledger() else { return Ok(None) };
        let key = asked.key.as_deref();
        let subjects = Subjects {
            key: key.map_or("", |key| &key.name),
            team: key.and_then(|key| key.team.as_deref()),
            model,
        };
        let deadline = tokio::time::Instant::now() + LEASE_TIMEOUT;
        match ledger.reserve(now(), subjects, *bounds, deadline).await {
            Ok(reservation) => Ok(Some(reservation)),
            Err(refused) => Err(fault(&refused)),
        }
    }

    /// Keeps the receipt of a request; whether there was room.
    pub(crate) fn record(&self, ended: &Ended<'_>) -> bool {
        self.0.load().as_ref().is_none_or(|ledger| ledger.add_receipt(ended.receipt(now())))
    }

    /// Settles everything and returns what is leased.
    pub(crate) async fn close(&self) {
        let Some(ledger) = self.0.swap(None) else { return };
        let deadline = tokio::time::Instant::now() + CLOSE_TIMEOUT;
        if let Err(error) = ledger.close(deadline).await {
            tracing::warn!(%error, "the last settlements are not in the store");
        }
    }
}

async fn open(table: &config::Store) -> Result<Arc<dyn Store>, String> {
    if let Some(path) = table.sqlite.clone() {
        let opened = tokio::task::spawn_blocking(move || {
            SqliteStore::open(&path).map_err(|error| format!("store.sqlite {}: {error}", path.display()))
        });
        let store = opened.await.map_err(|error| error.to_string())??;
        return Ok(Arc::new(store));
    }
    let url = table.postgres.as_deref().unwrap_or_default();
    let store = PostgresStore::new(url).map_err(|error| format!("store.postgres: {error}"))?;
    Ok(Arc::new(store))
}

/// A refused reservation as its client hears it.
fn fault(refused: &Refused) -> Fault {
    let message = refused.to_string();
    let after = refused.resets_at().map(|at| u32::try_from((at - now()).clamp(1, 86_400)).unwrap_or(1));
    match refused {
        Refused::Full(_) => {
            let mut fault = Fault::key_limit(message, after.unwrap_or(3_600));
            fault.code = Some("budget_exceeded");
            fault
        }
        Refused::UnknownPrice(_) => {
            let mut fault = Fault::origin(message);
            fault.code = Some("price_unknown");
            fault
        }
        Refused::StoreDown { .. } | Refused::Deadline | Refused::Closed => {
            Fault::unavailable("budget_store_unavailable", message, 5)
        }
    }
}

/// The caps of a configuration.
pub(crate) fn caps(config: &Config) -> Vec<Cap> {
    let mut caps = Vec::new();
    for key in &config.keys {
        add(&mut caps, Scope::Key, &key.name, &key.budgets);
    }
    for team in &config.teams {
        add(&mut caps, Scope::Team, &team.name, &team.budgets);
    }
    for model in &config.models {
        add(&mut caps, Scope::Model, &model.name, &model.budgets);
    }
    add(&mut caps, Scope::Everything, "", &config.budgets);
    // Of two caps on the same the lower one holds, which comes first then.
    caps.sort_by_key(|cap| cap.limit);
    let mut seen = HashSet::new();
    caps.retain(|cap| seen.insert(cap.bucket.clone()));
    caps
}

fn add(caps: &mut Vec<Cap>, scope: Scope, name: &str, budgets: &[config::Budget]) {
    for budget in budgets {
        let window = match budget.window {
            config::Window::Day => Window::Day,
            config::Window::Month => Window::Month,
            config::Window::Total => Window::Total,
        };
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for (unit, limit) in [
            (Unit::Money, budget.money.map(|money| money.0)),
            (Unit::Tokens, budget.tokens.map(count)),
            (Unit::Requests, budget.requests.map(count)),
        ] {
            if let Some(limit) = limit {
                caps.push(Cap { bucket: Bucket { scope, name: name.to_owned(), window, unit }, limit });
            }
        }
    }
}
