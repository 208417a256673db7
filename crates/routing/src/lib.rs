//! Which upstream answers a request: the gateway's policies, and their seeded simulation.
//!
//! Everything here is arithmetic on records: expected completion from a node's step times, queue and cached prefix;
//! circuit breakers; retries by evidence; hedging; admission by class; overflow at a shadow price. The time is an
//! argument, randomness comes from a seed, so that the simulation and `plan fleet` run the code that serves.
//!
//! Deliberately absent: HTTP, clocks, threads, tokens of any model, money that is spent (`ledger`).
