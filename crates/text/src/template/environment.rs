//! The minijinja environment of templates: filters, tests, functions and methods.

use std::sync::Arc;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

use super::python::{Raised, format, text, to_json};
use super::{meter, methods, operations, strftime};

/// The clock of `strftime_now`: seconds since 1970.
pub(super) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

pub(super) fn install(environment: &mut Environment<'static>) {
    operations::install(environment);
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(format);
    environment.add_function("raise_exception", |message: Value| -> Result<Value, Error> {
        let message = text(&message)?;
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
    });
    environment.add_filter("tojson", to_json);
    environment.add_filter("string", |value: &Value| -> Result<String, Error> { text(value) });
    fn cased(value: &Value, change: impl Fn(&str) -> String) -> Result<String, Error> {
        let text = text(value)?;
        // A character may become several, as `ß` does.
        meter::charge_created(2 * text.len() as u64)?;
        Ok(change(&text))
    }
    environment
        .add_filter("upper", |value: &Value| -> Result<String, Error> { cased(value, str::to_uppercase) });
    environment
        .add_filter("lower", |value: &Value| -> Result<String, Error> { cased(value, str::to_lowercase) });
    environment.add_filter("trim", |value: &Value, chars: Option<String>| -> Result<String, Error> {
        let text = text(value)?;
        meter::charge_created(text.len() as u64)?;
        Ok(methods::strip(&text, chars.as_deref(), true, true).to_owned())
    });
    // Python's strings and dicts are sequences too.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Iterable)
    });
    environment.add_test("iterable", |value: &Value| {
        let kind = value.kind();
        matches!(
            kind,
            ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Iterable | ValueKind::Undefined
        )
    });
    environment
        .add_test("number", |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
}

pub(super) fn install_clock(environment: &mut Environment<'static>, clock: Clock) {
    environment.add_function("strftime_now", move |format: &str| -> Result<String, Error> {
        // The longest output of a directive is twelve times its length.
        meter::charge_created(12 * format.len() as u64)?;
        Ok(strftime::strftime(format, clock()))
    });
}
