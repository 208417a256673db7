//! What of an answer a request of OpenAI's completions wants to see.

use inference::TokenScore;
use wire::{ChatRequest, CompletionRequest, chat, logprobs};

/// What of an answer is sent.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// Whether it is an answer in a conversation.
    pub(crate) chat: bool,
    /// How many of the answers to each prompt are sent: the likeliest, if not all.
    pub(crate) best: usize,
    /// Log-probabilities, with so many alternatives.
    pub(crate) logprobs: Option<usize>,
    /// Whether the text begins with the prompt.
    pub(crate) echo: bool,
    /// The prompt's log-probabilities by themselves, with so many alternatives.
    pub(crate) prompt_logprobs: Option<usize>,
    /// What is said of token ids.
    pub(crate) ids: wire::Ids,
    /// Whether another node began the answer, so that a stream of it goes on where that one ended.
    pub(crate) resumed: bool,
    /// How it is sent.
    pub(crate) stream: chat::Stream,
}

impl Shown {
    /// What this request wants to see.
    pub(crate) fn of_chat(request: &ChatRequest) -> Shown {
        Shown {
            chat: true,
            best: request.n,
            logprobs: request.logprobs,
            echo: false,
            prompt_logprobs: request.prompt_logprobs,
            ids: request.ids,
            resumed: request.resume.is_some(),
            stream: request.stream,
        }
    }

    /// What this request wants to see.
    pub(crate) fn of_completion(request: &CompletionRequest) -> Shown {
        Shown {
            chat: false,
            best: request.n,
            logprobs: request.logprobs,
            echo: request.echo,
            prompt_logprobs: request.prompt_logprobs,
            ids: request.ids,
            resumed: request.resume.is_some(),
            stream: request.stream,
        }
    }

    /// The log-probabilities of a token, unless it is one that ends the answer: that has no text. After an echoed prompt
    /// it is there all the same: who scores a text with `max_tokens: 1` (lm-evaluation-harness) takes the last one for the
    /// answer's.
    pub(crate) fn position(&self, ends: bool, score: Option<&TokenScore>) -> Option<logprobs::Position> {
        let most = self.logprobs?;
        score.filter(|_| !ends || self.echo).map(|score| score.position(most, self.ids.as_names))
    }
}
