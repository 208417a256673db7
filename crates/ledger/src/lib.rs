//! What was spent and what was sent: budgets that cannot be exceeded, receipts, and the audit chain.
//!
//! A request reserves the upper bound of its price before it is sent and settles it by its usage. Replicas spend what
//! they have leased from a common store, so that a cap holds over all of them without a trip per request.
//!
//! Deliberately absent: HTTP, prices of any provider, texts of prompts and answers.
