//! BERT's `vocab.txt`: one token a line, its id the line's number. For folders without a `tokenizer.json`, which this
//! writes from the vocabulary and `tokenizer_config.json`, as transformers' `BertTokenizer` does.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::bert::{CLASSES, is_bert_class};
use crate::config_files::ConfigFiles;
use crate::spec::MAX_TOKENS;

/// Names of the special tokens.
struct Names {
    unknown: String,
    cls: String,
    sep: String,
    pad: String,
    mask: String,
    /// Whether it is MPNet's pipeline: two separators between the texts of a pair.
    is_mpnet: bool,
}

/// The `tokenizer.json` of a vocabulary.
///
/// # Errors
/// A vocabulary that is not UTF-8, has too many tokens, or lacks the special tokens; a tokenizer class with another
/// pipeline.
pub(crate) fn tokenizer_json(vocab: &[u8], configs: &ConfigFiles) -> Result<Value, Error> {
    let text = std::str::from_utf8(vocab).map_err(|e| Error::malformed("vocab.txt", e))?;
    let names = names(configs)?;
    let vocab = vocabulary(text)?;
    let id = |name: &str| vocab.get(name).and_then(Value::as_u64);
    let required = |name: &str, what: &'static str| {
        id(name).ok_or_else(|| Error::malformed("vocab.txt", format!("it lacks the {what} {name:?}")))
    };
    required(&names.unknown, "unknown token")?;
    let (cls, sep) = (required(&names.cls, "classification token")?, required(&names.sep, "separator")?);
    let special = [&names.pad, &names.unknown, &names.cls, &names.sep, &names.mask];
    let added: Vec<Value> = special
        .into_iter()
        .filter_map(|name| {
            let strips = names.is_mpnet && *name == names.mask;
            Some(json!({"id": id(name)?, "content": name, "single_word": false, "lstrip": strips, "rstrip": false,
                "normalized": false, "special": true}))
        })
        .collect();
    let option = |key: &str| configs.tokenizer_config.as_ref().and_then(|config| config.get(key)?.as_bool());
    Ok(json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": option("tokenize_chinese_chars").unwrap_or(true),
            "strip_accents": option("strip_accents"),
            "lowercase": option("do_lower_case").unwrap_or(true),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template(&names, cls, sep),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {
            "type": "WordPiece",
            "unk_token": names.unknown,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocab,
        },
    }))
}

/// `[CLS] A [SEP] B [SEP]`, or MPNet's `<s> A </s></s> B </s>`.
fn template(names: &Names, cls: u64, sep: u64) -> Value {
    let token = |name: &str, kind: u8| json!({"SpecialToken": {"id": name, "type_id": kind}});
    let text = |name: &str, kind: u8| json!({"Sequence": {"id": name, "type_id": kind}});
    let single = vec![token(&names.cls, 0), text("A", 0), token(&names.sep, 0)];
    let mut pair = single.clone();
    if names.is_mpnet {
        pair.push(token(&names.sep, 0));
    }
    pair.extend([text("B", 1), token(&names.sep, 1)]);
    let mut special = Map::new();
    for (name, id) in [(&names.cls, cls), (&names.sep, sep)] {
        special.insert(name.clone(), json!({"id": name, "ids": [id], "tokens": [name]}));
    }
    json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special})
}

/// The lines with their ids; of equal lines the last counts, as in transformers.
fn vocabulary(text: &str) -> Result<Map<String, Value>, Error> {
    let lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
    let mut vocab = Map::new();
    for (id, line) in lines.enumerate() {
        if id >= MAX_TOKENS {
            let (size, limit) = (id as u64 + 1, MAX_TOKENS as u64);
            return Err(Error::TooLarge { what: "the number of tokens in vocab.txt", size, limit });
        }
        vocab.insert(line.strip_suffix('\r').unwrap_or(line).to_owned(), json!(id));
    }
    Ok(vocab)
}

fn names(configs: &ConfigFiles) -> Result<Names, Error> {
    let of = |files: &[&Option<Value>], key: &str| {
        files.iter().find_map(|file| {
            let value = file.as_ref()?.get(key)?;
            value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
        })
    };
    let class = of(&[&configs.tokenizer_config, &configs.config], "tokenizer_class");
    let plain = class.as_deref().map(|class| class.strip_suffix("Fast").unwrap_or(class));
    if let Some(class) = plain.filter(|class| !is_bert_class(class)) {
        return Err(Error::Unsupported {
            what: "a vocab.txt of tokenizer_class",
            value: class.to_owned(),
            supported: CLASSES.join(", "),
        });
    }
    let model_type = of(&[&configs.config], "model_type");
    let is_mpnet =
        plain == Some("MPNetTokenizer") || (plain.is_none() && model_type.as_deref() == Some("mpnet"));
    let name = |key: &str, bert: &str, mpnet: &str| {
        let given = of(&[&configs.tokenizer_config, &configs.special_tokens_map], key);
        given.unwrap_or_else(|| if is_mpnet { mpnet } else { bert }.to_owned())
    };
    Ok(Names {
        unknown: name("unk_token", "[UNK]", "[UNK]"),
        cls: name("cls_token", "[CLS]", "<s>"),
        sep: name("sep_token", "[SEP]", "</s>"),
        pad: name("pad_token", "[PAD]", "<pad>"),
        mask: name("mask_token", "[MASK]", "<mask>"),
        is_mpnet,
    })
}
