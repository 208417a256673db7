//! Flags about the clients: names under which the model answers, and pages of other origins.

use server::Cors;

use crate::Failure;

#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Flags {
    /// One more name that clients may put into `model`; may be given again.
    #[arg(long, value_name = "NAME")]
    alias: Vec<String>,

    /// Answer to any name in `model`, for clients that send one of their own. Answers carry the model's.
    #[arg(long)]
    any_model_name: bool,

    /// Pages of this origin, as `https://chat.example.org`, may use the server from a browser; `*` is any. May be given
    /// again.
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', help_heading = "Access")]
    cors_origin: Vec<String>,
}

impl Flags {
    /// The names that the model goes by: those given, or the model's own, and the aliases.
    pub(crate) fn names(&self, given: &[String], model: &str) -> Vec<String> {
        let own = if given.is_empty() { vec![model.to_owned()] } else { given.to_vec() };
        let mut names: Vec<String> = Vec::new();
        for name in own.iter().chain(&self.alias) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    pub(crate) fn any_model_name(&self) -> bool {
        self.any_model_name
    }

    /// Who may use the server from a browser; nobody if no origin is given.
    pub(crate) fn cors(&self) -> Result<Option<Cors>, Failure> {
        if self.cors_origin.is_empty() {
            return Ok(None);
        }
        let cors = Cors::new(&self.cors_origin);
        cors.map(Some).map_err(|why| Failure::usage(format!("--cors-origin {why}")))
    }
}

/// What is said at start where pages of any origin reach a server without a key.
pub(crate) const OPEN_TO_PAGES: &str = "warning: --cors-origin '*' without an API key: every page that a browser on this \
     machine shows can use the server and read its answers";
