//! What a template does with messages, found out once by giving it some.
//!
//! Templates differ in what they take and nothing in them says so: some read `content` as a string, some as a list of
//! parts (`message['content'][0]['text']`), some refuse a system message or leave it out without a word. So each is
//! given small conversations whose texts are unique, and what comes out tells.

use serde_json::{Map, Value, json};

use super::TemplateError;

/// How a message's text is handed to a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentFormat {
    /// As a string.
    #[default]
    Text,
    /// As a list with one part, `[{"type": "text", "text": …}]`.
    Parts,
}

/// Roles whose treatment is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    const ALL: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

    /// The role of a message; names that are not known count as the user's.
    pub(super) fn of(message: &Value) -> Role {
        match message.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => Role::System,
            Some("assistant") => Role::Assistant,
            Some("tool" | "function") => Role::Tool,
            _ => Role::User,
        }
    }
}

/// What was found out about a template.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    /// The form of each role's texts, in the order of [`Role::ALL`].
    forms: [ContentFormat; 4],
    /// Whether each role's texts come out.
    keeps: [bool; 4],
    /// System messages after the first turn come out.
    pub(super) late_system: bool,
    /// Several system messages at the start come out.
    pub(super) several_systems: bool,
    /// Messages of the same role may follow each other.
    pub(super) same_role_twice: bool,
    /// The role `developer` is known: its text comes out, and its name does not.
    pub(super) developer: bool,
}

impl Default for Traits {
    /// What most templates do.
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

    /// Finds out what `render` does with messages and tools. A run that needs too much ends the search: what is known
    /// by then stays.
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

/// Renders messages and tools; `None` where the template refuses them, an error where it needs too much.
pub(super) type Render<'a> =
    dyn FnMut(&[Value], Option<&[Value]>) -> Result<Option<String>, TemplateError> + 'a;

/// A message whose text has the form that its role wants. What is no string stays as it is.
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
    /// [`shaped`] by what was found out.
    pub(super) fn shape(&self, message: &Value) -> Value {
        shaped(message, &self.forms)
    }
}

/// A text that no template writes by itself.
fn needle(at: usize) -> String {
    format!("Zq{at}vxk{at}Wj")
}

/// Whether a text comes out as what it is, and not inside a list that was printed.
fn comes_out(said: &str, text: &str) -> bool {
    let printed = ["'text': '", "\"text\": \"", "\"text\":\""];
    said.match_indices(text).any(|(at, _)| !printed.iter().any(|before| said[..at].ends_with(before)))
}

/// A conversation to try, as roles; `call` is an assistant that says something and calls a tool, `mute` one that only
/// calls.
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

/// How many texts of each role came out, and how many there were.
#[derive(Clone, Copy, Default)]
struct Score {
    kept: [usize; 4],
    all: [usize; 4],
    /// A run needed too much: nothing more is to be tried.
    over: bool,
}

impl Score {
    fn is_full(&self) -> bool {
        self.kept == self.all
    }

    /// What counts first is the user's text, then all.
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

/// The forms with which most texts come out. Roles whose texts all come out as strings keep that.
fn best_forms(plain: Score, render: &mut Render<'_>) -> [ContentFormat; 4] {
    let open: Vec<usize> = (0..4).filter(|role| plain.kept[*role] < plain.all[*role]).collect();
    let mut best = (plain.rank(), [ContentFormat::Text; 4]);
    let mut over = plain.over;
    // All in parts first: most templates that want parts want them of every role.
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
