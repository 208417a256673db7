//! The tokenizers of BERT, by the names that transformers gives their classes.

/// Tokenizer classes with BERT's pipeline; each may end in `Fast`.
pub(crate) const CLASSES: [&str; 8] = [
    "BertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "ConvBertTokenizer",
    "MobileBertTokenizer",
    "SqueezeBertTokenizer",
    "LayoutLMTokenizer",
    "MPNetTokenizer",
];

/// Whether a tokenizer class has BERT's pipeline.
pub(crate) fn is_bert_class(class: &str) -> bool {
    CLASSES.contains(&class.strip_suffix("Fast").unwrap_or(class))
}
