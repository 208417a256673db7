//! opened
