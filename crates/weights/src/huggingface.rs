//! huggingface
