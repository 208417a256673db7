//! Files beside a definition.

/// Reads a file beside the definition by its name.
pub type Files<'a> = dyn Fn(&str) -> Result<String, String> + 'a;
