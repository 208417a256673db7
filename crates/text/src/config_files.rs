//! The configuration files beside a `tokenizer.json`, and what they say of its pipeline.

use serde_json::Value;
use tokenizers::NormalizerWrapper;

use crate::bert::is_bert_class;

/// The configuration files in the directory of a `tokenizer.json`; each may be absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigFiles {
    /// The content of `tokenizer_config.json`.
    pub(crate) tokenizer_config: Option<Value>,
    /// The content of `generation_config.json`.
    pub(crate) generation_config: Option<Value>,
    /// The content of `config.json`.
    pub(crate) config: Option<Value>,
    /// The content of `special_tokens_map.json`.
    pub(crate) special_tokens_map: Option<Value>,
    /// The content of sentence-transformers' `sentence_bert_config.json`.
    pub(crate) sentence_bert_config: Option<Value>,
}

impl ConfigFiles {
    /// A normalizer with the options of tokenizer_config.json, which go before those of tokenizer.json for BERT's
    /// tokenizer classes in transformers.
    pub(crate) fn with_options(&self, normalizer: NormalizerWrapper) -> NormalizerWrapper {
        let config = self.tokenizer_config.as_ref();
        let class = config.and_then(|config| config.get("tokenizer_class")?.as_str());
        let NormalizerWrapper::BertNormalizer(mut bert) = normalizer else { return normalizer };
        let option = |key: &str| config.and_then(|config| config.get(key)?.as_bool());
        if class.is_none_or(is_bert_class) {
            bert.lowercase = option("do_lower_case").unwrap_or(bert.lowercase);
            bert.strip_accents = option("strip_accents").or(bert.strip_accents);
            bert.handle_chinese_chars = option("tokenize_chinese_chars").unwrap_or(bert.handle_chinese_chars);
        }
        bert.into()
    }

    /// Whether sentence-transformers lowercases texts before the tokenizer.
    pub(crate) fn lowercases(&self) -> bool {
        let config = self.sentence_bert_config.as_ref();
        config.and_then(|config| config.get("do_lower_case")?.as_bool()).unwrap_or(false)
    }

    /// Whether the model is given token types: by `model_input_names` of tokenizer_config.json, else by the tokenizer
    /// class.
    pub(crate) fn has_types(&self) -> bool {
        const WITHOUT: [&str; 5] = ["MPNet", "DistilBert", "Roberta", "XLMRoberta", "Camembert"];
        let Some(config) = &self.tokenizer_config else { return true };
        if let Some(names) = config.get("model_input_names").and_then(Value::as_array) {
            return names.iter().any(|name| name == "token_type_ids");
        }
        let class = config.get("tokenizer_class").and_then(Value::as_str).unwrap_or_default();
        let family = class.strip_suffix("Fast").unwrap_or(class).strip_suffix("Tokenizer");
        !family.is_some_and(|family| WITHOUT.contains(&family))
    }
}
