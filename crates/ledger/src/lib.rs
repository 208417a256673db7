//! What was spent and what was sent: budgets that cannot be exceeded, receipts, and the audit chain.
//!
//! A request reserves the upper bound of its price before it is sent and settles it by its usage. Replicas spend what
//! they have leased from a common store, so that a cap holds over all of them without a trip per request.
//!
//! Deliberately absent: HTTP, prices of any provider, texts of prompts and answers.

mod account;
mod amount;
pub mod audit;
mod book;
mod bucket;
mod calendar;
mod exchanger;
mod ledger;
mod rates;
mod receipt;
mod refused;
mod shared;
pub mod store;

pub use amount::{Amount, AmountError};
pub use book::{Asked, Book, Held, Short};
pub use bucket::{
    Bounds, Bucket, Cap, CapError, Cost, MAX_CAPS, MAX_NAME_BYTES, Scope, Subjects, Unit, check_caps,
};
pub use calendar::{Window, date, timestamp};
pub use ledger::{Ledger, LedgerStats, Reservation};
pub use rates::{Limited, RateHold, RateLimit, RateLimitError, RateUnit, Rates};
pub use receipt::{
    AttemptRecord, Billing, BucketTotal, GroupBy, MAX_ATTEMPTS, MAX_REPORT_ROWS, Receipt, ReportRow,
};
pub use refused::{BudgetFull, Refused};
pub use shared::{Clock, MAX_QUEUED_RECEIPTS, Options};
