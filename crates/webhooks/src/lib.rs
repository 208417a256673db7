//! Webhooks by Standard Webhooks 1.0.0: who is told of what, signed, retried over days, and never sent to where it must not go.
