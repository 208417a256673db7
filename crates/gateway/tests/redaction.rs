//! Requests that leave without their findings, and answers that get them back.

use fake_provider::{Provider, Reply as Says, Script};
use serde_json::{Value, json};

use crate::support::{Reply, Running, post, start};

const CHAT: &str = "/v1/chat/completions";

/// An outside provider of one kind, and a gateway in front of it that redacts.
async fn outside(kind: &str, base: &str, script: Script, more: &str) -> (Provider, Running) {
    let provider = Provider::start(script).await.unwrap();
    let config = format!(
        r#"
[[upstream]]
name = "outside"
url = "{}{base}"
kind = "{kind}"

[[model]]
name = "main"
targets = [{{ upstream = "outside" }}]

[privacy]
redact = true
{more}"#,
        provider.url()
    );
    let running = start(&config).await;
    (provider, running)
}

/// A seeded stream of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn letters(&mut self, first: u8, count: u64) -> String {
        (0..count).map(|_| char::from(first + self.next(26) as u8)).collect()
    }

    /// A value that rules find.
    fn value(&mut self) -> String {
        match self.next(4) {
            0 => {
                let length = 4 + self.next(6);
                format!("{}.x@{}.example.com", self.letters(b'a', length), self.letters(b'a', 5))
            }
            1 => self.card(),
            2 => format!("81.{}.{}.{}", self.next(256), self.next(256), 1 + self.next(254)),
            _ => format!("sk-ant-api03-{}", self.letters(b'A', 40)),
        }
    }

    /// A card number with its check digit (Luhn).
    fn card(&mut self) -> String {
        let mut digits: Vec<u64> = std::iter::once(4).chain((0..14).map(|_| self.next(10))).collect();
        let doubled = |(at, digit): (usize, &u64)| match (at % 2, digit * 2) {
            (1, _) => *digit,
            (_, twice) if twice > 9 => twice - 9,
            (_, twice) => twice,
        };
        let sum: u64 = digits.iter().enumerate().map(doubled).sum();
        digits.push((10 - sum % 10) % 10);
        digits.iter().map(u64::to_string).collect()
    }

    /// A text with values in it, and those that rules find there.
    fn text(&mut self) -> (String, Vec<String>) {
        const WORDS: [&str; 8] =
            ["write", "to", "<b>", "the \"quoted\"", "naïve", "c:\\path", "<EMAIL_7>", "and\nthen"];
        let mut text = String::new();
        for _ in 0..4 + self.next(8) {
            let word = match self.next(3) {
                0 => self.value(),
                _ => WORDS[self.next(8) as usize].to_owned(),
            };
            text.push_str(&word);
            text.push(' ');
        }
        let found = privacy::Rules::default().find(&text);
        let values = found.into_iter().map(|finding| text[finding.range].to_owned()).collect();
        (text, values)
    }
}

/// A request in a dialect.
fn body(path: &str, text: &str, stream: bool) -> Value {
    match path {
        "/v1/responses" => json!({"model": "main", "stream": stream, "instructions": "Be kind.",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}]}),
        "/v1/messages" => json!({"model": "main", "stream": stream, "max_tokens": 1000,
            "messages": [{"role": "user", "content": text}]}),
        CHAT => json!({"model": "main", "stream": stream,
            "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]}),
        _ => json!({"contents": [{"role": "user", "parts": [{"text": text}]}]}),
    }
}

fn string(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

/// The events of a stream that are JSON.
fn events(reply: &Reply) -> impl Iterator<Item = Value> {
    reply.events().into_iter().filter_map(|event| serde_json::from_str(event).ok())
}

/// The text of an answer in any dialect.
fn said(path: &str, reply: &Reply, stream: bool) -> String {
    if !stream {
        let pointer = match path {
            "/v1/responses" => "/output/0/content/0/text",
            "/v1/messages" => "/content/0/text",
            CHAT => "/choices/0/message/content",
            _ => "/candidates/0/content/parts/0/text",
        };
        return string(&reply.json(), pointer).unwrap_or_else(|| panic!("{reply:?}"));
    }
    let piece = |event: Value| match path {
        "/v1/responses" => string(&event, "/delta").filter(|_| event["type"] == "response.output_text.delta"),
        "/v1/messages" => string(&event, "/delta/text"),
        CHAT => string(&event, "/choices/0/delta/content"),
        _ => {
            let parts = event.pointer("/candidates/0/content/parts").and_then(Value::as_array);
            parts.map(|parts| parts.iter().filter_map(|part| string(part, "/text")).collect())
        }
    };
    events(reply).filter_map(piece).collect()
}

#[tokio::test]
async fn no_value_leaves_and_every_value_comes_back() {
    let mut random = Random(7);
    let mut values = 0;
    for (kind, base) in [("openai", "/v1"), ("anthropic", ""), ("gemini", "")] {
        let (provider, running) = outside(kind, base, Script::new().reply(Says::Echo), "").await;
        for round in 0..40 {
            let (text, found) = random.text();
            let stream = round % 2 == 0;
            let gemini = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
            let gemini = format!("/v1beta/models/main:{gemini}");
            let paths = [CHAT, "/v1/responses", "/v1/messages", gemini.as_str()];
            let path = paths[(round / 2) % 4];
            let reply = post(running.address, path, &[], &body(path, &text, stream).to_string()).await;
            assert_eq!(reply.status, 200, "{kind} {path} {text:?} {reply:?}");
            assert_eq!(said(path, &reply, stream), text, "{kind} {path} {stream} {reply:?}");
            let log = provider.log();
            let sent = &log.last().unwrap().body;
            for value in &found {
                assert!(!sent.contains(value), "{value:?} left in {sent}");
            }
            values += found.len();
        }
    }
    assert!(values > 100, "{values} values");
}

#[tokio::test]
async fn arguments_of_tools_get_their_values_as_json() {
    // The model repeats placeholders within JSON; one value has a quote and a backslash.
    let arguments = r#"{"path": "<BADGE_1>", "to": "<EMAIL_1>"}"#;
    let script = Script::new().reply(Says::Tool { name: "send".to_owned(), arguments: arguments.to_owned() });
    let more = "[[privacy.rules.rule]]\nname = \"badge\"\npattern = 'B\"[0-9]{4}\\\\x'\nlabel = \"secret\"\n";
    let (provider, running) = outside("openai", "/v1", script, more).await;
    let text = r#"Send B"1234\x to bob@example.com."#;
    for stream in [false, true] {
        let mut request = body(CHAT, text, stream);
        request["tools"] = json!([{"type": "function", "function": {"name": "send", "parameters": {}}}]);
        let reply = post(running.address, CHAT, &[], &request.to_string()).await;
        let call = "tool_calls/0/function/arguments";
        let said: String = match stream {
            false => string(&reply.json(), &format!("/choices/0/message/{call}")).unwrap(),
            true => events(&reply).filter_map(|e| string(&e, &format!("/choices/0/delta/{call}"))).collect(),
        };
        let read: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert_eq!(read, json!({"path": "B\"1234\\x", "to": "bob@example.com"}), "{reply:?}");
        assert!(!provider.log().last().unwrap().body.contains("bob@"));
    }
}

#[tokio::test]
async fn what_was_said_to_be_secret_stays() {
    let text = "Write to bob@example.com.";
    let image = json!({"model": "main", "messages": [{"role": "user", "content": [
        {"type": "text", "text": text},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}]});
    let field = json!({"model": "main", "metadata": {"bob@example.com": "1"},
        "messages": [{"role": "user", "content": "Hello."}]});
    let plain = body(CHAT, text, false);
    let secret = [("x-gristmill-label", "secret")];
    let (provider, running) = outside("openai", "/v1", Script::new(), "").await;
    for (headers, request) in [(&secret[..], &plain), (&[], &image), (&[], &field)] {
        let reply = post(running.address, CHAT, headers, &request.to_string()).await;
        assert_eq!(reply.status, 403, "{request} {reply:?}");
        assert!(reply.body.contains("label"), "{reply:?}");
    }
    assert_eq!(provider.totals().attempts, 0);
}

#[tokio::test]
async fn nothing_is_redacted_unless_it_is_asked_for() {
    let (provider, running) = outside("openai", "/v1", Script::new(), "").await;
    let config = format!(
        "[[upstream]]\nname = \"outside\"\nurl = \"{}/v1\"\nkind = \"openai\"\n[[model]]\nname = \"main\"\n\
         targets = [{{ upstream = \"outside\" }}]\n[privacy]\n",
        provider.url()
    );
    running.gateway.reload(gateway::read_config(&config).unwrap()).unwrap();
    let request = body(CHAT, "Write to bob@example.com.", false).to_string();
    let reply = post(running.address, CHAT, &[], &request).await;
    assert_eq!((reply.status, provider.totals().attempts), (403, 0), "{reply:?}");
}

#[tokio::test]
async fn own_machines_get_the_request_as_it_is() {
    let provider = Provider::start(Script::new().reply(Says::Echo)).await.unwrap();
    let config = format!(
        "[[upstream]]\nname = \"own\"\nurl = \"{}/v1\"\nkind = \"openai\"\ntier = \"own\"\n[[model]]\n\
         name = \"main\"\ntargets = [{{ upstream = \"own\" }}]\n[privacy]\nredact = true\n",
        provider.url()
    );
    let running = start(&config).await;
    let text = "Write to bob@example.com about <EMAIL_1>.";
    let reply = post(running.address, CHAT, &[], &body(CHAT, text, false).to_string()).await;
    assert_eq!(reply.text(), text);
    assert!(provider.log()[0].body.contains("bob@example.com"));
}
