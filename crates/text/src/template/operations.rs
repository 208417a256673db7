//! All operations of templates, charged for the bytes that they create and read.
//!
//! Filters and tests are Jinja2's. minijinja's additions (`zip`, `chain`, `lines`, `pprint`, `bool`, `debug`) are left
//! out, because templates for transformers cannot use them.

use std::fmt::Write;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, functions, tests};

use super::meter::{self, ENTRY, PAIR};
use super::python;

pub(super) const ADD: &str = "__add";
pub(super) const CONCAT: &str = "__concat";
pub(super) const MUL: &str = "__mul";
pub(super) const ITEM: &str = "__item";
/// Charges for a value that is completely compared, hashed or searched.
pub(super) const COMPARED: &str = "__compared";
/// Charges for a list that is iterated over.
pub(super) const LOOP: &str = "__loop";
/// Charges for a list or map that was created.
pub(super) const MADE: &str = "__made";
/// Charges for a value of which a slice is taken.
pub(super) const SLICED: &str = "__sliced";
/// Materializes a slice as a list.
pub(super) const SETTLED: &str = "__settled";
/// Refuses a value that contains a namespace: a namespace that contains itself would never be freed.
pub(super) const KEPT: &str = "__kept";

/// How a filter or test is charged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cost {
    /// By the length of the arguments.
    Length,
    /// By the complete content of the arguments, this many times.
    All(u64),
}

/// The most entries of `batch` and `slice`.
const MAX_PIECES: u64 = 100_000;
/// The widest column of `format`, and the widest `indent`.
const MAX_WIDTH: u64 = 1000;

pub(super) fn install(environment: &mut Environment<'static>) {
    operators(environment);
    functions(environment);
    sequences(environment);
    strings(environment);
    plain_tests(environment);
}

/// Charges for arguments; returns the charged bytes.
fn charge(args: &[Value], cost: Cost) -> Result<u64, Error> {
    let mut sum = 0_u64;
    for arg in args {
        let bytes = match cost {
            Cost::Length => meter::shallow_size(arg),
            Cost::All(times) => {
                let bytes = meter::charge_read_all(arg)?;
                meter::charge_read(bytes.saturating_mul(times.saturating_sub(1)))?;
                bytes
            }
        };
        sum = sum.saturating_add(bytes);
    }
    if cost == Cost::Length {
        meter::charge_read(sum)?;
    }
    Ok(sum)
}

fn invalid(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, words.into())
}

fn operators(environment: &mut Environment<'static>) {
    environment.add_filter(ADD, |a: &Value, b: &Value| add(a, b));
    environment.add_filter(MUL, |a: &Value, b: &Value| multiply(a, b));
    environment.add_filter(CONCAT, |a: &Value, b: &Value| -> Result<String, Error> {
        let (mut a, b) = (python::text(a)?, python::text(b)?);
        meter::charge_created((a.len() + b.len()) as u64)?;
        a.push_str(&b);
        Ok(a)
    });
    environment.add_filter(ITEM, |value: &Value, key: &Value| -> Result<Value, Error> {
        charge(std::slice::from_ref(key), Cost::All(1))?;
        meter::charge_read(if value.kind() == ValueKind::String { meter::shallow_size(value) } else { 0 })?;
        value.get_item(key)
    });
    environment.add_filter(COMPARED, |value: Value| -> Result<Value, Error> {
        meter::charge_read_all(&value).map(|_| value)
    });
    environment.add_filter(LOOP, |value: Value| -> Result<Value, Error> {
        meter::charge_read(meter::shallow_size(&value)).map(|()| value)
    });
    environment.add_filter(MADE, |value: Value| -> Result<Value, Error> {
        meter::charge_created(meter::shallow_size(&value)).map(|()| value)
    });
    environment.add_filter(SLICED, |value: Value| -> Result<Value, Error> {
        let bytes = meter::shallow_size(&value);
        meter::charge_read(bytes)?;
        // A reversed slice creates a list of characters first.
        meter::charge_created(if value.kind() == ValueKind::String { bytes.saturating_mul(5) } else { 0 })?;
        Ok(value)
    });
    environment.add_filter(SETTLED, |value: Value| meter::materialized(value));
    environment.add_filter(KEPT, |value: Value| holds_no_namespace(&value, 0).map(|()| value));
}

fn holds_no_namespace(value: &Value, depth: usize) -> Result<(), Error> {
    let Some(object) = value.as_object() else { return Ok(()) };
    if object.type_name().contains("Namespace") {
        return Err(invalid("a namespace cannot be put into a namespace"));
    }
    if depth > meter::MAX_DEPTH {
        return Err(meter::too_deep());
    }
    meter::charge_read(meter::shallow_size(value))?;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.try_for_each(|item| holds_no_namespace(&item, depth + 1))
        }
        ValueKind::Map => value
            .try_iter()?
            .try_for_each(|key| value.get_item(&key).and_then(|item| holds_no_namespace(&item, depth + 1))),
        _ => Ok(()),
    }
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

fn impossible(sign: &str, a: &Value, b: &Value) -> Error {
    invalid(format!("tried to use {sign} operator on unsupported types {} and {}", a.kind(), b.kind()))
}

/// An integer; booleans count as 0 and 1.
fn integer(value: &Value) -> Option<i128> {
    match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        _ => None,
    }
}

fn whole(number: i128) -> Value {
    i64::try_from(number).map_or_else(|_| Value::from(number), Value::from)
}

fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(first), Some(second)) = (a.as_str(), b.as_str()) {
        meter::charge_created((first.len() + second.len()) as u64)?;
        return Ok(Value::from([first, second].concat()));
    }
    if is_list(a) && is_list(b) {
        meter::charge_created(meter::shallow_size(a).saturating_add(meter::shallow_size(b)))?;
        return Ok(Value::from(a.try_iter()?.chain(b.try_iter()?).collect::<Vec<Value>>()));
    }
    if let (Some(first), Some(second)) = (integer(a), integer(b)) {
        return first.checked_add(second).map(whole).ok_or_else(|| invalid("a number is too large"));
    }
    match (float(a), float(b)) {
        (Some(first), Some(second)) => Ok(Value::from(first + second)),
        _ => Err(impossible("+", a, b)),
    }
}

fn multiply(a: &Value, b: &Value) -> Result<Value, Error> {
    let times = |count: &Value| integer(count).map(|n| usize::try_from(n.max(0)).unwrap_or(usize::MAX));
    for (value, count) in [(a, b), (b, a)] {
        let Some(count) = times(count).filter(|_| value.as_str().is_some() || is_list(value)) else {
            continue;
        };
        meter::charge_created(meter::shallow_size(value).saturating_mul(count as u64))?;
        return match value.as_str() {
            Some(text) => Ok(Value::from(text.repeat(count))),
            None => {
                let items: Vec<Value> = value.try_iter()?.collect();
                Ok(Value::from((0..count).flat_map(|_| items.iter().cloned()).collect::<Vec<Value>>()))
            }
        };
    }
    if let (Some(first), Some(second)) = (integer(a), integer(b)) {
        return first.checked_mul(second).map(whole).ok_or_else(|| invalid("a number is too large"));
    }
    match (float(a), float(b)) {
        (Some(first), Some(second)) => Ok(Value::from(first * second)),
        _ => Err(impossible("*", a, b)),
    }
}

fn functions(environment: &mut Environment<'static>) {
    environment.add_function("range", |state: &State<'_, '_>, args: Rest<Value>| -> Result<Value, Error> {
        let made = Value::from_function(functions::range).call(state, &args)?;
        // At most 100,000 by itself.
        meter::materialized(made)
    });
    for (name, function) in [
        ("dict", Value::from_function(functions::dict)),
        ("namespace", Value::from_function(functions::namespace)),
    ] {
        environment.add_function(
            name,
            move |state: &State<'_, '_>, args: Rest<Value>| -> Result<Value, Error> {
                args.iter().try_for_each(|arg| holds_no_namespace(arg, 0))?;
                let bytes = charge(&args, Cost::Length)?;
                meter::charge_created(bytes.saturating_add(PAIR))?;
                function.call(state, &args)
            },
        );
    }
}

/// Adds a charged filter; `extra` computes the bytes that it creates beyond its arguments.
fn filter(
    environment: &mut Environment<'static>,
    name: &'static str,
    filter: Value,
    cost: Cost,
    extra: impl Fn(&[Value]) -> Result<u64, Error> + Send + Sync + 'static,
) {
    environment.add_filter(name, move |state: &State<'_, '_>, args: Rest<Value>| -> Result<Value, Error> {
        let bytes = charge(&args, cost)?;
        meter::charge_created(bytes.saturating_add(extra(&args)?))?;
        meter::materialized(filter.call(state, &args)?)
    });
}

/// The bytes of a list of a string's characters.
fn characters(args: &[Value]) -> Result<u64, Error> {
    let text = args.first().and_then(Value::as_str).unwrap_or_default();
    Ok((text.len() as u64).saturating_mul(ENTRY))
}

fn nothing(_: &[Value]) -> Result<u64, Error> {
    Ok(0)
}

/// The bytes of the pieces that `batch` and `slice` create.
fn pieces(args: &[Value]) -> Result<u64, Error> {
    let count = args.get(1).and_then(Value::as_usize).unwrap_or(1) as u64;
    if count > MAX_PIECES {
        return Err(invalid(format!("{count} pieces are too many; the limit is {MAX_PIECES}")));
    }
    Ok(count.saturating_mul(2 * ENTRY).saturating_add(characters(args)?))
}

/// Adds filters with their charges.
macro_rules! filters {
    ($environment:ident: $($name:literal $($alias:literal)* = $function:path, $cost:expr, $extra:expr;)*) => {
        $(
            for name in [$name $(, $alias)*] {
                filter($environment, name, Value::from_function($function), $cost, $extra);
            }
        )*
    };
}

fn sequences(environment: &mut Environment<'static>) {
    const LENGTH: Cost = Cost::Length;
    const ALL: Cost = Cost::All(1);
    /// Each entry is compared about sixteen times, as in sorting.
    const SORT: Cost = Cost::All(16);
    filters! { environment:
        "dictsort" = filters::dictsort, SORT, nothing;
        "items" = filters::items, LENGTH, nothing;
        "reverse" = filters::reverse, LENGTH, characters;
        "default" "d" = filters::default, LENGTH, nothing;
        "round" = filters::round, LENGTH, nothing;
        "abs" = filters::abs, LENGTH, nothing;
        "int" = filters::int, LENGTH, nothing;
        "float" = filters::float, LENGTH, nothing;
        "attr" = filters::attr, LENGTH, nothing;
        "first" = filters::first, LENGTH, nothing;
        "last" = filters::last, LENGTH, nothing;
        "min" = filters::min, ALL, nothing;
        "max" = filters::max, ALL, nothing;
        "sort" = filters::sort, SORT, characters;
        "list" = filters::list, LENGTH, characters;
        "batch" = filters::batch, LENGTH, pieces;
        "slice" = filters::slice, LENGTH, pieces;
        "select" = filters::select, LENGTH, characters;
        "reject" = filters::reject, LENGTH, characters;
        "selectattr" = filters::selectattr, LENGTH, characters;
        "rejectattr" = filters::rejectattr, LENGTH, characters;
        "map" = filters::map, LENGTH, characters;
        "groupby" = filters::groupby, SORT, characters;
        "unique" = filters::unique, SORT, characters;
        "safe" = filters::safe, ALL, nothing;
    }
    filter(environment, "sum", Value::from_function(filters::sum), Cost::All(1), |args| {
        let numbers = args.first().map(Value::try_iter).transpose()?;
        match numbers.into_iter().flatten().find(|item| float(item).is_none()) {
            Some(other) => Err(impossible("+", &Value::from(0), &other)),
            None => Ok(0),
        }
    });
    for name in ["length", "count"] {
        environment.add_filter(name, |value: &Value| -> Result<usize, Error> {
            meter::charge_read(if value.kind() == ValueKind::String {
                meter::shallow_size(value)
            } else {
                0
            })?;
            // An undefined value is empty in Jinja2.
            if value.is_undefined() { Ok(0) } else { filters::length(value) }
        });
    }
}

fn strings(environment: &mut Environment<'static>) {
    /// A character may become several, as `ß` does.
    fn thrice(args: &[Value]) -> Result<u64, Error> {
        Ok(args.first().map_or(0, meter::shallow_size).saturating_mul(2))
    }
    const ALL: Cost = Cost::All(1);
    filters! { environment:
        "title" = filters::title, ALL, thrice;
        "capitalize" = filters::capitalize, ALL, thrice;
        "split" = filters::split, ALL, characters;
    }
    // `&` becomes `&amp;`.
    for name in ["escape", "e"] {
        filter(environment, name, Value::from_function(filters::escape), ALL, |args| {
            Ok(args.first().map_or(Ok(0), meter::charge_read_all)?.saturating_mul(6))
        });
    }
    filter(environment, "indent", Value::from_function(filters::indent), ALL, |args| {
        let text = args.first().and_then(Value::as_str).unwrap_or_default();
        let kwargs = args.last().filter(|last| last.is_kwargs());
        let width = kwargs.and_then(|kwargs| kwargs.get_attr("width").ok()).filter(|w| !w.is_undefined());
        let width = width.or_else(|| args.get(1).filter(|arg| !arg.is_kwargs()).cloned());
        let width = width.map_or(Some(4), |width| width.as_usize()).unwrap_or(0) as u64;
        if width > MAX_WIDTH {
            return Err(invalid(format!("an indent of {width} is too wide; the limit is {MAX_WIDTH}")));
        }
        Ok((text.matches('\n').count() as u64 + 1).saturating_mul(width))
    });
    filter(environment, "format", Value::from_function(filters::format), ALL, |args| {
        formats(args.first().and_then(Value::as_str).unwrap_or_default(), &args[1.min(args.len())..])
    });
    environment.add_filter(
        "replace",
        |value: &Value, old: &Value, new: &Value, count: Option<i64>| -> Result<String, Error> {
            replace(&python::text(value)?, &python::text(old)?, &python::text(new)?, count)
        },
    );
    environment.add_filter(
        "join",
        |items: &Value, by: Option<Value>, kwargs: Kwargs| -> Result<String, Error> {
            let by = by.or(kwargs.get::<Option<Value>>("d")?);
            let by = by.filter(|by| !by.is_none() && !by.is_undefined());
            let attribute: Option<String> = kwargs.get("attribute")?;
            kwargs.assert_all_used()?;
            join(items, &by.map_or_else(|| Ok(String::new()), |by| python::text(&by))?, attribute.as_deref())
        },
    );
}

/// The bytes that a format string adds to its arguments, by the widths in it: `%5d`, `{:>5}`.
pub(super) fn formats(pattern: &str, args: &[Value]) -> Result<u64, Error> {
    let mut texts = 0_u64;
    for arg in args {
        texts = texts.saturating_add(meter::charge_read_all(arg)?.saturating_mul(2));
    }
    let digits = pattern.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
    let widest = digits.map(|run| run.parse::<u64>().unwrap_or(u64::MAX)).max().unwrap_or(0);
    if widest > MAX_WIDTH || pattern.contains("%*") || pattern.contains(".*") {
        return Err(invalid(format!("a format is wider than {MAX_WIDTH}")));
    }
    let fields = pattern.matches(['%', '{']).count() as u64;
    Ok(fields.saturating_mul(texts.saturating_add(widest)).saturating_add(pattern.len() as u64))
}

/// Python's `str.replace`.
pub(super) fn replace(text: &str, old: &str, new: &str, count: Option<i64>) -> Result<String, Error> {
    meter::charge_read((text.len() + old.len() + new.len()) as u64)?;
    let most = count.filter(|count| *count >= 0).map_or(usize::MAX, |count| count as usize);
    let found = text.matches(old).take(most).count() as u64;
    let longer = (new.len() as u64).saturating_sub(old.len() as u64).saturating_mul(found);
    meter::charge_created((text.len() as u64).saturating_add(longer))?;
    Ok(text.replacen(old, new, most))
}

/// Python's `str.join`, of any values as Jinja2 has it.
pub(super) fn join(items: &Value, by: &str, attribute: Option<&str>) -> Result<String, Error> {
    if items.is_undefined() {
        return Ok(String::new());
    }
    let mut out = String::new();
    for (at, item) in items.try_iter()?.enumerate() {
        let item = attribute.map_or_else(|| Ok(item.clone()), |name| item.get_attr(name))?;
        let item = python::text(&item)?;
        let by = if at > 0 { by } else { "" };
        meter::charge_created((by.len() + item.len()) as u64)?;
        // Writing to a string cannot fail.
        let _ = write!(out, "{by}{item}");
    }
    Ok(out)
}

fn plain_tests(environment: &mut Environment<'static>) {
    fn add(environment: &mut Environment<'static>, name: &'static str, test: Value, cost: Cost) {
        environment.add_test(name, move |state: &State<'_, '_>, args: Rest<Value>| -> Result<bool, Error> {
            charge(&args, cost)?;
            Ok(test.call(state, &args)?.is_true())
        });
    }
    macro_rules! tests {
        ($($($name:literal)+ = $function:path, $cost:expr;)*) => {
            $($( add(environment, $name, Value::from_function($function), $cost); )+)*
        };
    }
    const LENGTH: Cost = Cost::Length;
    const ALL: Cost = Cost::All(1);
    tests! {
        "undefined" = tests::is_undefined, LENGTH;
        "defined" = tests::is_defined, LENGTH;
        "none" = tests::is_none, LENGTH;
        "safe" "escaped" = tests::is_safe, LENGTH;
        "boolean" = tests::is_boolean, LENGTH;
        "odd" = tests::is_odd, LENGTH;
        "even" = tests::is_even, LENGTH;
        "divisibleby" = tests::is_divisibleby, LENGTH;
        "integer" "int" = tests::is_integer, LENGTH;
        "float" = tests::is_float, LENGTH;
        "string" = tests::is_string, LENGTH;
        "mapping" = tests::is_mapping, LENGTH;
        "startingwith" = tests::is_startingwith, ALL;
        "endingwith" = tests::is_endingwith, ALL;
        "lower" = tests::is_lower, ALL;
        "upper" = tests::is_upper, ALL;
        "sameas" = tests::is_sameas, ALL;
        "eq" "equalto" "==" = tests::is_eq, ALL;
        "ne" "!=" = tests::is_ne, ALL;
        "lt" "lessthan" "<" = tests::is_lt, ALL;
        "le" "<=" = tests::is_le, ALL;
        "gt" "greaterthan" ">" = tests::is_gt, ALL;
        "ge" ">=" = tests::is_ge, ALL;
        "in" = tests::is_in, ALL;
        "true" = tests::is_true, LENGTH;
        "false" = tests::is_false, LENGTH;
        "filter" = tests::is_filter, LENGTH;
        "test" = tests::is_test, LENGTH;
    }
}
