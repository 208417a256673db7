//! The tokenizer pipeline of Hugging Face's `tokenizers` library (normalizer, pre-tokenizer, model), in two variants
//! that share one model: with and without parsing of control tokens.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokenizers::models::TrainerWrapper;
use tokenizers::{
    AddedToken, DecoderWrapper, Model, ModelWrapper, NormalizerWrapper, PostProcessorWrapper,
    PreTokenizerWrapper, Token, TokenizerImpl,
};

use crate::Error;
use crate::bounds::{self, BoundedNormalizer};
use crate::packed_model::PackedModel;
use crate::spm::Spm;

/// The library's pipeline. Its post-processor and decoder are not used: the tokens around a text, and the bytes of each
/// token, are computed once at load.
pub(crate) type Pipeline =
    TokenizerImpl<SharedModel, BoundedNormalizer, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// The two pipelines of a tokenizer: one parses control tokens in text, the other treats them as plain text.
pub(crate) struct Pipelines {
    parse: Pipeline,
    plain: Pipeline,
}

/// The parts of a pipeline.
pub(crate) struct PipelineParts {
    pub(crate) normalizer: Option<NormalizerWrapper>,
    pub(crate) pre_tokenizer: Option<PreTokenizerWrapper>,
    pub(crate) model: SharedModel,
    /// Added tokens, which are matched in the text before the model runs, with their ids in the file.
    pub(crate) added: Vec<(u32, AddedToken)>,
}

/// What a pipeline consists of besides its model, as JSON: what a packed tokenizer keeps of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PipelineIndex {
    pub(crate) normalizer: Option<Value>,
    pub(crate) pre_tokenizer: Option<Value>,
    /// Added tokens with their ids.
    pub(crate) added: Vec<(u32, AddedToken)>,
}

impl PipelineIndex {
    /// The parts as JSON; `None` if they cannot be written so.
    pub(crate) fn of(parts: &PipelineParts) -> Option<PipelineIndex> {
        fn json<T: Serialize>(step: Option<&T>) -> Option<Option<Value>> {
            step.map(serde_json::to_value).transpose().ok()
        }
        Some(PipelineIndex {
            normalizer: json(parts.normalizer.as_ref())?,
            pre_tokenizer: json(parts.pre_tokenizer.as_ref())?,
            added: parts.added.clone(),
        })
    }

    /// The added tokens alone.
    pub(crate) fn of_added(parts: &PipelineParts) -> PipelineIndex {
        PipelineIndex { normalizer: None, pre_tokenizer: None, added: parts.added.clone() }
    }

    /// The parts, with their model.
    fn parts(&self, model: &SharedModel) -> Result<PipelineParts, Error> {
        self.pre_tokenizer.as_ref().map_or(Ok(()), bounds::check_pre_tokenizer)?;
        fn step<T: DeserializeOwned>(what: &str, json: Option<&Value>) -> Result<Option<T>, Error> {
            let step = json.map(T::deserialize).transpose();
            step.map_err(|error| Error::malformed(what.to_owned(), error))
        }
        Ok(PipelineParts {
            normalizer: step("normalizer", self.normalizer.as_ref())?,
            pre_tokenizer: step("pre_tokenizer", self.pre_tokenizer.as_ref())?,
            model: model.clone(),
            added: self.added.clone(),
        })
    }
}

/// The pipelines of a tokenizer, of a packed one built when they are first used: most texts need only its words.
pub(crate) struct LazyPipelines {
    pub(crate) index: PipelineIndex,
    pub(crate) model: SharedModel,
    built: OnceLock<Result<Pipelines, String>>,
}

impl LazyPipelines {
    /// Pipelines that are built at first use.
    pub(crate) fn new(index: PipelineIndex, model: SharedModel) -> LazyPipelines {
        LazyPipelines { index, model, built: OnceLock::new() }
    }

    /// Pipelines of parts that `index` describes.
    ///
    /// # Errors
    /// As [`Pipelines::build`].
    pub(crate) fn build(index: PipelineIndex, parts: PipelineParts) -> Result<LazyPipelines, Error> {
        let model = parts.model.clone();
        let built = OnceLock::from(Ok(Pipelines::build(parts)?));
        Ok(LazyPipelines { index, model, built })
    }

    /// The pipeline that parses control tokens in text, or the one that does not.
    ///
    /// # Errors
    /// Steps of a packed tokenizer that the library refuses.
    pub(crate) fn pipeline(&self, parse_special: bool) -> Result<&Pipeline, String> {
        let build = || self.index.parts(&self.model).and_then(Pipelines::build).map_err(|e| e.to_string());
        self.built
            .get_or_init(build)
            .as_ref()
            .map(|built| built.pipeline(parse_special))
            .map_err(String::clone)
    }

    /// The id of a token as the vocabulary writes it.
    pub(crate) fn token_id(&self, text: &str) -> Option<u32> {
        let added = self.index.added.iter().find(|(_, token)| token.content == text && !text.is_empty());
        added.map(|(id, _)| *id).or_else(|| self.model.token_to_id(text))
    }
}

impl Pipelines {
    /// Assembles the parts. An added token to which the library assigns another id is an error.
    pub(crate) fn build(parts: PipelineParts) -> Result<Pipelines, Error> {
        let mut parse = Pipeline::new(parts.model);
        let refused = |error: tokenizers::Error| Error::malformed("added tokens", error.to_string());
        parse.with_normalizer(parts.normalizer.map(BoundedNormalizer::new)).map_err(refused)?;
        parse.with_pre_tokenizer(parts.pre_tokenizer);
        parse.add_tokens(parts.added.iter().map(|(_, token)| token.clone())).map_err(refused)?;
        for (id, token) in &parts.added {
            if token.content.is_empty() {
                continue;
            }
            let given = parse.token_to_id(&token.content);
            if given != Some(*id) {
                let problem = format!("the file says id {id}, the model says {given:?}");
                return Err(Error::malformed(format!("added token {:?}", token.content), problem));
            }
        }
        let mut plain = parse.clone();
        plain.set_encode_special_tokens(true);
        Ok(Pipelines { parse, plain })
    }

    /// The pipeline that parses control tokens in text, or the one that does not.
    pub(crate) fn pipeline(&self, parse_special: bool) -> &Pipeline {
        if parse_special { &self.parse } else { &self.plain }
    }
}

/// A reference-counted model, so that both pipelines share one vocabulary.
#[derive(Clone)]
pub(crate) struct SharedModel(Arc<ModelKind>);

#[allow(clippy::large_enum_variant, reason = "one lives behind an Arc for each tokenizer")]
pub(crate) enum ModelKind {
    /// A model of the library, and the control tokens that it must not produce from text.
    Library(ModelWrapper, HashMap<String, u32>),
    /// The same from the tables of a packed tokenizer.
    Packed(PackedModel, HashMap<String, u32>),
    Spm(Spm),
}

impl SharedModel {
    /// Wraps a model of the library.
    pub(crate) fn new(model: ModelWrapper) -> SharedModel {
        SharedModel::with_control(model, HashMap::new())
    }

    /// Wraps a model of the library whose `control` tokens were replaced by unreachable texts.
    pub(crate) fn with_control(model: ModelWrapper, control: HashMap<String, u32>) -> SharedModel {
        SharedModel(Arc::new(ModelKind::Library(model, control)))
    }

    /// Wraps a model of a packed tokenizer, and the control tokens that it must not produce from text.
    pub(crate) fn packed(model: PackedModel, control: HashMap<String, u32>) -> SharedModel {
        SharedModel(Arc::new(ModelKind::Packed(model, control)))
    }

    /// The model itself.
    pub(crate) fn kind(&self) -> &ModelKind {
        &self.0
    }

    /// Wraps this crate's SentencePiece BPE model.
    pub(crate) fn spm(model: Spm) -> SharedModel {
        SharedModel(Arc::new(ModelKind::Spm(model)))
    }

    /// Whether this is a byte-pair model whose merges depend only on the two neighbours.
    pub(crate) fn joins_pairs(&self) -> bool {
        match &*self.0 {
            ModelKind::Library(ModelWrapper::BPE(bpe), _) => {
                bpe.dropout.is_none()
                    && bpe.continuing_subword_prefix.is_none()
                    && bpe.end_of_word_suffix.is_none()
            }
            ModelKind::Library(..) => false,
            ModelKind::Packed(model, _) => model.joins_pairs(),
            ModelKind::Spm(_) => true,
        }
    }

    /// The prefix of tokens that continue a word, if the model has one.
    pub(crate) fn subword_prefix(&self) -> Option<&str> {
        let prefix = match &*self.0 {
            ModelKind::Library(ModelWrapper::WordPiece(pieces), _) => {
                Some(pieces.continuing_subword_prefix.as_str())
            }
            ModelKind::Library(ModelWrapper::BPE(bpe), _) => bpe.get_continuing_subword_prefix().as_deref(),
            ModelKind::Packed(model, _) => model.subword_prefix(),
            ModelKind::Library(..) | ModelKind::Spm(_) => None,
        };
        prefix.filter(|prefix| !prefix.is_empty())
    }

    /// Tokenizes a word. SentencePiece stops with an error when `keep_going` returns false.
    pub(crate) fn tokenize_while(
        &self,
        word: &str,
        keep_going: &dyn Fn() -> bool,
    ) -> tokenizers::Result<Vec<Token>> {
        match &*self.0 {
            ModelKind::Library(..) | ModelKind::Packed(..) => self.tokenize(word),
            ModelKind::Spm(model) => model.tokenize_while(word, keep_going).map_err(Into::into),
        }
    }

    /// Calls `visit` with the text of every token of the vocabulary.
    pub(crate) fn each_piece(&self, visit: &mut impl FnMut(&str)) {
        match &*self.0 {
            ModelKind::Library(model, _) => model.get_vocab().keys().for_each(|piece| visit(piece)),
            ModelKind::Packed(model, _) => model.each_piece(visit),
            ModelKind::Spm(model) => model.each_piece(visit),
        }
    }

    /// The unknown token's text, if the model has one.
    pub(crate) fn unknown(&self) -> Option<String> {
        let ModelKind::Library(model, _) = &*self.0 else { return None };
        match model {
            ModelWrapper::BPE(bpe) => bpe.get_unk_token().clone(),
            ModelWrapper::WordPiece(wordpiece) => Some(wordpiece.unk_token.clone()),
            ModelWrapper::WordLevel(words) => Some(words.unk_token.clone()),
            ModelWrapper::Unigram(_) => None,
        }
    }
}

impl Model for SharedModel {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, sequence: &str) -> tokenizers::Result<Vec<Token>> {
        match &*self.0 {
            ModelKind::Library(model, _) => model.tokenize(sequence),
            ModelKind::Packed(model, _) => model.tokenize(sequence),
            ModelKind::Spm(model) => model.tokenize(sequence).map_err(Into::into),
        }
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        match &*self.0 {
            ModelKind::Library(model, control) => {
                control.get(token).copied().or_else(|| model.token_to_id(token))
            }
            ModelKind::Packed(model, control) => control.get(token).copied().or_else(|| model.id(token)),
            ModelKind::Spm(model) => model.id(token),
        }
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        match &*self.0 {
            ModelKind::Library(model, _) => model.id_to_token(id),
            ModelKind::Packed(..) | ModelKind::Spm(_) => None,
        }
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        match &*self.0 {
            ModelKind::Library(model, _) => model.get_vocab(),
            ModelKind::Packed(..) | ModelKind::Spm(_) => HashMap::new(),
        }
    }

    fn get_vocab_size(&self) -> usize {
        match &*self.0 {
            ModelKind::Library(model, _) => model.get_vocab_size(),
            ModelKind::Packed(model, _) => model.size(),
            ModelKind::Spm(model) => model.size(),
        }
    }

    fn save(&self, _folder: &Path, _prefix: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        Err("a model in use is not saved".into())
    }

    fn get_trainer(&self) -> TrainerWrapper {
        match &*self.0 {
            ModelKind::Library(model, _) => model.get_trainer(),
            ModelKind::Packed(..) | ModelKind::Spm(_) => {
                tokenizers::models::bpe::BpeTrainer::default().into()
            }
        }
    }
}
