//! A file of requests in, a file of answers out: resumable after any kill, in an order that computes shared beginnings once.
