//! Compiles constraints to token-level grammars for one vocabulary.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

use super::brief::brief;
use super::thinking::ReasoningState;
use super::{AnswerConstraint, CompiledConstraint};
use crate::parts::{Channels, ReasoningFormat};
use crate::{Special, Tokenizer};

/// The number of compiled grammars that are cached for requests with the same constraint.
const CACHED_GRAMMARS: usize = 32;
/// Stack size for compiling, in bytes: schemas nest at most 128 levels (serde_json's limit), grammars as deep as they
/// are long.
const STACK: usize = 256 << 20;

/// Compiles constraints for one vocabulary.
pub struct ConstraintCompiler {
    tokenizer: Arc<Tokenizer>,
    factory: ParserFactory,
    ends: Vec<u32>,
    vocab: usize,
    /// The cache, least recently used first.
    kept: Mutex<VecDeque<(String, Compiled)>>,
}

/// A compiled constraint.
struct Compiled {
    matcher: Matcher,
    warnings: Vec<String>,
}

impl Compiled {
    /// A deep copy: it shares no lock with the original.
    fn copy(&self) -> Compiled {
        Compiled { matcher: self.matcher.deep_clone(), warnings: self.warnings.clone() }
    }
}

impl ConstraintCompiler {
    /// Builds the token trie, which takes some tenths of a second for a large vocabulary.
    ///
    /// # Errors
    /// The library's message if it refuses the vocabulary.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Result<ConstraintCompiler, String> {
        guarded(|| ConstraintCompiler::build(tokenizer))
    }

    fn build(tokenizer: Arc<Tokenizer>) -> Result<ConstraintCompiler, String> {
        let size = tokenizer.vocab_size();
        let mut words: Vec<Vec<u8>> = (0..size as u32).map(|id| word(&tokenizer, id)).collect();
        let mut ends = tokenizer.ends().to_vec();
        ends.retain(|id| (*id as usize) < size);
        if ends.is_empty() {
            // The library requires an end token; this one has no logit, so it is never chosen.
            ends.push(size as u32);
            words.push(vec![TokTrie::SPECIAL_TOKEN_MARKER, b'<', b'>']);
        }
        let vocab = words.len();
        let info = TokRxInfo::new(vocab as u32, ends[0]);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&ends);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices);
        let mut factory = factory.map_err(|error| brief(&error.to_string()))?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(ConstraintCompiler { tokenizer, factory, ends, vocab, kept: Mutex::default() })
    }

    /// Compiles a constraint, a reasoning budget (in tokens), or both.
    ///
    /// # Errors
    /// Why the constraint cannot be enforced.
    pub fn guidance(
        &self,
        form: Option<&AnswerConstraint>,
        thought: Option<&ReasoningFormat>,
        budget: Option<usize>,
    ) -> Result<CompiledConstraint, String> {
        let channels = thought.and_then(|thought| thought.tags.channels());
        let compiled = form.map(|form| self.compile(form, channels)).transpose()?;
        let (matcher, warnings) =
            compiled.map_or((None, Vec::new()), |compiled| (Some(compiled.matcher), compiled.warnings));
        let thinking = thought.filter(|_| matcher.is_some() || budget.is_some());
        let encode = |text: &str| self.tokenizer.encode(text, Special::Parse, false).unwrap_or_default();
        let token = |text: &str| self.whole(text);
        Ok(CompiledConstraint {
            matcher,
            warnings,
            thinking: thinking.map(|thought| ReasoningState::new(thought, budget, token, encode)),
            ends: self.ends.clone(),
            vocab: self.vocab,
            tokenizer: self.tokenizer.clone(),
        })
    }

    /// The single token (normal or control) with exactly this text.
    fn whole(&self, text: &str) -> Option<u32> {
        let tokens = self.tokenizer.encode(text, Special::Parse, false).ok()?;
        match tokens.as_slice() {
            [token] => {
                Some(*token).filter(|token| self.tokenizer.token_bytes(*token) == Some(text.as_bytes()))
            }
            _ => None,
        }
    }

    fn compile(&self, form: &AnswerConstraint, channels: Option<Channels>) -> Result<Compiled, String> {
        let name = match channels {
            Some(channels) => format!("{channels:?} {form:?}"),
            None => format!("{form:?}"),
        };
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut kept = kept();
            if let Some(at) = kept.iter().position(|(known, _)| *known == name) {
                let found = kept.remove(at).expect("a position that was found");
                let compiled = found.1.copy();
                kept.push_back(found);
                return Ok(compiled);
            }
        }
        let control = |mark: &str| self.tokenizer.token_id(mark).filter(|id| self.tokenizer.is_special(*id));
        let compile = || {
            let (lark, warnings) = form.lark_in(channels, &control)?;
            Ok(Compiled { matcher: self.compile_lark(&lark)?, warnings })
        };
        let compiled = cpu::thread::with_stack(STACK, || guarded(compile))
            .map_err(|error| format!("no thread to compile the grammar on: {error}"))??;
        let mut kept = kept();
        if kept.len() >= CACHED_GRAMMARS {
            kept.pop_front();
        }
        kept.push_back((name, compiled.copy()));
        Ok(compiled)
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|(form, _)| form.clone()).collect()
    }

    fn compile_lark(&self, lark: &str) -> Result<Matcher, String> {
        let parser = self.factory.create_parser(TopLevelGrammar::from_lark(lark.to_owned()));
        let parser = parser.map_err(|error| brief(&format!("{error:#}")))?;
        let mut matcher = Matcher::new(Ok(parser));
        // A constraint that no text satisfies is an error here, not during generation.
        let mask = matcher.compute_mask_or_eos().map_err(|error| brief(&error.to_string()))?;
        if mask.is_zero() { Err("no text has this form".into()) } else { Ok(matcher) }
    }
}

/// Limits for grammars of requests, in the library's units; others have the library's defaults.
fn limits() -> ParserLimits {
    ParserLimits {
        // For the whole grammar; about 50 thousand take a millisecond.
        initial_lexer_fuel: 1_000_000,
        // For each token; about 14 thousand, and 20 thousand items, take a millisecond.
        step_lexer_fuel: 100_000,
        step_max_items: 50_000,
        // One or two KiB each.
        max_lexer_states: 20_000,
        max_grammar_size: 200_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// A token's bytes for the library; control tokens have a marker, so that text cannot match them.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let marked = |name: &str| [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat();
    if tokenizer.is_special(id) {
        return tokenizer.token_text(id).map(marked).unwrap_or_default();
    }
    tokenizer.token_bytes(id).map(<[u8]>::to_vec).unwrap_or_default()
}

/// Runs library code on untrusted input, and turns panics into errors.
fn guarded<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let caught = std::panic::catch_unwind(AssertUnwindSafe(run));
    caught.unwrap_or_else(|_| Err("the grammar library failed on it".into()))
}

impl std::fmt::Debug for ConstraintCompiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConstraintCompiler").field("vocab", &self.vocab).finish_non_exhaustive()
    }
}
