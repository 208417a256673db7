//! Why a request may not be sent: which bucket, how much of it is used, and when it starts anew.

use crate::bucket::Bucket;
use crate::calendar::timestamp;
use std::fmt;

/// A cap that has no room for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetFull {
    /// The bucket without room.
    pub bucket: Bucket,
    /// Settled spending of all replicas in this period, as far as this replica knows.
    pub used: i64,
    /// What running requests and the replicas' leases hold beyond that.
    pub reserved: i64,
    /// The cap.
    pub limit: i64,
    /// What the request needs at most.
    pub needed: i64,
    /// When the period ends, in Unix seconds; `None` for a total.
    pub resets_at: Option<i64>,
}

impl fmt::Display for BudgetFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |quantity| self.bucket.unit.show(quantity);
        let (used, reserved, limit) = (show(self.used), show(self.reserved), show(self.limit));
        write!(f, "budget: {}: ", self.bucket)?;
        write!(f, "{used} used and {reserved} reserved of {limit}; ")?;
        write!(f, "this request may need {}; ", show(self.needed))?;
        match self.resets_at {
            Some(at) => write!(f, "starts anew at {}", timestamp(at)),
            None => f.write_str("does not start anew"),
        }
    }
}

/// The reason why a request was not given a reservation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A cap has no room.
    #[error("{0}")]
    Full(Box<BudgetFull>),
    /// A cap on money, and no known price.
    #[error("budget: the price of this request is not known, and there is a cap on {0}")]
    UnknownPrice(Box<Bucket>),
    /// The lease does not suffice, and the store that grants more cannot be reached.
    #[error("budget: the store of the budgets has not answered since {}: {reason}", timestamp(*.since))]
    StoreDown {
        /// When the first failed exchange was, in Unix seconds.
        since: i64,
        /// The last error.
        reason: String,
    },
    /// The store has not answered before the caller's deadline.
    #[error("budget: the store of the budgets has not answered before the request's deadline")]
    Deadline,
    /// The ledger was closed.
    #[error("budget: the ledger is closed, because the gateway is shutting down")]
    Closed,
}

impl Refused {
    /// When another try may succeed, in Unix seconds, if a window's end is what it waits for.
    pub fn resets_at(&self) -> Option<i64> {
        match self {
            Refused::Full(full) => full.resets_at,
            Refused::UnknownPrice(_) | Refused::StoreDown { .. } | Refused::Deadline | Refused::Closed => {
                None
            }
        }
    }
}
