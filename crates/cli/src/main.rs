//! The command `gristmill`.
fn main() {}
