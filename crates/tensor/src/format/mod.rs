//! One file a format: its layout, and the scalar code that defines it.
