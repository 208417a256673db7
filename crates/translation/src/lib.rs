//! One API's requests, answers, streams and errors as another's: OpenAI chat and Responses, Anthropic, Gemini.
//!
//! Where the dialects of client and upstream match, bytes pass unparsed and a scanner finds usage, errors and endings.
//!
//! Deliberately absent: HTTP, clocks, tokens of any model.
