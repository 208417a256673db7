//! Probes what a template accepts, by rendering small conversations once.
//!
//! Templates differ in what they accept, and do not declare it: some read `content` as a string, some as a list of
//! parts (`message['content'][0]['text']`), some refuse system messages or drop them silently. So each template renders
//! small conversations with unique texts, and the output shows which texts it kept.

use serde_json::{Map, Value, json};

use super::TemplateError;

/// The format of a message's text for a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentFormat {
    /// As a string.
    #[default]
    Text,
    /// As a list with one part, `[{"type": "text", "text": …}]`.
    Parts,
}

/// The roles that are probed separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    const ALL: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

    /// The role of a message; unknown names count as the user's.
    pub(super) fn of(message: &Value) -> Role {
        match message.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => Role::System,
            Some("assistant") => Role::Assistant,
            Some("tool" | "function") => Role::Tool,
            _ => Role::User,
        }
    }
}

/// The traits of a template, found by probing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    /// The format of each role's texts, in the order of [`Role::ALL`].
    forms: [ContentFormat; 4],
    /// Whether each role's texts are rendered.
    keeps: [bool; 4],
    /// Whether system messages after the first turn are rendered.
    pub(super) late_system: bool,
    /// Whether several system messages at the start are rendered.
    pub(super) several_systems: bool,
    /// Whether consecutive messages of the same role are accepted.
    pub(super) same_role_twice: bool,
    /// Whether the role `developer` is supported: its text is rendered, and its name is not.
    pub(super) developer: bool,
}

impl Default for Traits {
    /// The traits of most templates.
    fn default() -> Traits {
        Traits {
            forms: [ContentFormat::Text; 4],
            keeps: [true; 4],
            late_system: true,
            several_systems: true,
            same_role_twice: true,
            developer: false,
        }
    }
}

impl Traits {
    pub(super) fn form(&self, role: Role) -> ContentFormat {
        self.forms[role as usize]
    }

    pub(super) fn keeps(&self, role: Role) -> bool {
        self.keeps[role as usize]
    }

    /// Probes `render` with messages and tools. A run that exceeds its limits ends the probing; what is known by then
    /// is kept.
    pub(super) fn find(render: &mut Render<'_>) -> Traits {
        let mut traits = Traits::default();
        let plain = Score::of(&traits.forms, render);
        if !plain.is_full() {
            traits.forms = best_forms(plain, render);
        }
        let score = Score::of(&traits.forms, render);
        traits.keeps = Role::ALL.map(|role| score.kept[role as usize] > 0);
        let mut says = |roles: &[&str]| {
            let texts: Vec<String> = (0..roles.len()).map(needle).collect();
            let messages: Vec<Value> = roles
                .iter()
                .zip(&texts)
                .map(|(role, text)| shaped(&json!({"role": role, "content": text}), &traits.forms))
                .collect();
            let said = render(&messages, None).ok().flatten();
            said.filter(|said| texts.iter().all(|text| comes_out(said, text)))
        };
        traits.several_systems = says(&["system", "system", "user"]).is_some();
        traits.late_system = says(&["user", "assistant", "system", "user"]).is_some()
            && says(&["system", "user", "assistant", "user", "system"]).is_some();
        traits.same_role_twice = says(&["user", "user", "assistant", "assistant", "user"]).is_some();
        traits.developer = says(&["developer", "user"]).is_some_and(|said| !said.contains("developer"));
        traits
    }
}

/// Renders messages and tools; `None` if the template refuses them, an error if it exceeds its limits.
pub(super) type Render<'a> =
    dyn FnMut(&[Value], Option<&[Value]>) -> Result<Option<String>, TemplateError> + 'a;

/// A message with its text in the format of its role. Content that is not a string is unchanged.
pub(super) fn shaped(message: &Value, forms: &[ContentFormat; 4]) -> Value {
    let wanted = forms[Role::of(message) as usize];
    let Some(text) =
        message.get("content").filter(|_| wanted == ContentFormat::Parts).and_then(Value::as_str)
    else {
        return message.clone();
    };
    let mut message: Map<String, Value> = message.as_object().cloned().unwrap_or_default();
    message.insert("content".into(), json!([{"type": "text", "text": text}]));
    message.into()
}

impl Traits {
    /// [`shaped`] by these traits.
    pub(super) fn shape(&self, message: &Value) -> Value {
        shaped(message, &self.forms)
    }
}

/// A unique text that no template contains.
fn needle(at: usize) -> String {
    format!("Zq{at}vxk{at}Wj")
}

/// Whether a text is rendered as itself, and not as part of a printed list.
fn comes_out(said: &str, text: &str) -> bool {
    let printed = ["'text': '", "\"text\": \"", "\"text\":\""];
    said.match_indices(text).any(|(at, _)| !printed.iter().any(|before| said[..at].ends_with(before)))
}

/// Conversations to probe with, as roles; `call` is an assistant message with text and a tool call, `mute` one with a
/// call only.
const TRIALS: &[(&[&str], bool)] = &[
    (&["user"], false),
    (&["system", "user"], false),
    (&["user", "assistant", "user"], false),
    (&["system", "user", "assistant", "user"], false),
    (&["user"], true),
    (&["system", "user"], true),
    (&["user", "call", "tool"], true),
    (&["system", "user", "mute", "tool", "assistant", "user"], true),
];

/// The number of rendered texts of each role, and of all texts.
#[derive(Clone, Copy, Default)]
struct Score {
    kept: [usize; 4],
    all: [usize; 4],
    /// Whether a run exceeded its limits, so that probing ends.
    over: bool,
}

impl Score {
    fn is_full(&self) -> bool {
        self.kept == self.all
    }

    /// The rank of a score: rendered user texts first, then all texts.
    fn rank(&self) -> (usize, usize) {
        (self.kept[Role::User as usize], self.kept.iter().sum())
    }

    fn of(forms: &[ContentFormat; 4], render: &mut Render<'_>) -> Score {
        let mut score = Score::default();
        let tools = [
            json!({"type": "function", "function": {"name": "look_up", "description": "Looks it up.",
            "parameters": {"type": "object", "properties": {"word": {"type": "string", "description": "The word."}},
            "required": ["word"]}}}),
        ];
        for (roles, with_tools) in TRIALS {
            let given: Vec<(Value, Option<String>)> =
                roles.iter().enumerate().map(|(at, role)| trial(at, role)).collect();
            let messages: Vec<Value> = given.iter().map(|(message, _)| shaped(message, forms)).collect();
            let said = match render(&messages, with_tools.then_some(&tools)) {
                Ok(said) => said.unwrap_or_default(),
                Err(_) => {
                    score.over = true;
                    return score;
                }
            };
            for (message, text) in &given {
                let Some(text) = text else { continue };
                let role = Role::of(message) as usize;
                score.all[role] += 1;
                score.kept[role] += usize::from(comes_out(&said, text));
            }
        }
        score
    }
}

fn trial(at: usize, role: &str) -> (Value, Option<String>) {
    let text = needle(at);
    let calls = json!([{"id": "callabc12", "type": "function",
        "function": {"name": "look_up", "arguments": {"word": "sun"}}}]);
    match role {
        "call" => (json!({"role": "assistant", "content": text, "tool_calls": calls}), Some(text)),
        "mute" => (json!({"role": "assistant", "content": "", "tool_calls": calls}), None),
        "tool" => (
            json!({"role": "tool", "content": text, "tool_call_id": "callabc12", "name": "look_up"}),
            Some(text),
        ),
        role => (json!({"role": role, "content": text}), Some(text)),
    }
}

/// The formats with which most texts are rendered. Roles whose texts are all rendered as strings keep strings.
fn best_forms(plain: Score, render: &mut Render<'_>) -> [ContentFormat; 4] {
    let open: Vec<usize> = (0..4).filter(|role| plain.kept[*role] < plain.all[*role]).collect();
    let mut best = (plain.rank(), [ContentFormat::Text; 4]);
    let mut over = plain.over;
    // Parts for all roles first: most templates that take parts take them for every role.
    for choice in (1..1_usize << open.len()).rev() {
        if over {
            break;
        }
        let mut forms = [ContentFormat::Text; 4];
        for (bit, role) in open.iter().enumerate() {
            if choice >> bit & 1 == 1 {
                forms[*role] = ContentFormat::Parts;
            }
        }
        let score = Score::of(&forms, render);
        over = score.over;
        if !over && score.rank() > best.0 {
            best = (score.rank(), forms);
        }
    }
    best.1
}
