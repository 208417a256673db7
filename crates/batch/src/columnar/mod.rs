//! Apache Parquet as input and output.

pub(crate) mod reader;
pub(crate) mod writer;
