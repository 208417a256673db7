//! Tests of webhooks over sockets, and against other programs.
