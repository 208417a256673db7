//! Decimal numbers of arbitrary precision, and regular sets of the numbers in a range.

use std::cmp::Ordering;
use std::fmt;

use super::term::Term;

/// The most digits before the decimal point, as in an f64.
const DIGITS: usize = 308;
/// The most digits after the decimal point.
const FRACTION: usize = 40;
/// The most digits of a number with a decimal point under a bound: with more digits, an f64 might round it to the
/// bound.
const MAX_DIGITS_UNDER_BOUND: usize = 16;
/// Bounds with at least this many digits are enforced by generating fewer digits and no exponent.
const LARGE_BOUND_DIGITS: usize = 24;
/// The most digits of a number after its exponent is expanded.
const MOST_DIGITS: usize = 1_200;

/// A decimal number in normal form: sign, integer digits and fraction digits without redundant zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    whole: String,
    fraction: String,
}

impl Decimal {
    /// Parses a JSON number; `None` if it has more than 1,200 digits.
    pub(super) fn read(text: &str) -> Option<Decimal> {
        let negative = text.starts_with('-');
        let text = text.trim_start_matches(['-', '+']);
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) || whole.is_empty() {
            return None;
        }
        let mut all = format!("{whole}{fraction}");
        if all.bytes().all(|b| b == b'0') {
            return Some(Decimal { negative: false, whole: "0".into(), fraction: String::new() });
        }
        let exponent: i64 = exponent.parse().ok()?;
        let mut point = whole.len() as i64 + exponent;
        if point.unsigned_abs() as usize > MOST_DIGITS || all.len() > MOST_DIGITS {
            return None;
        }
        while point < 1 {
            all.insert(0, '0');
            point += 1;
        }
        while (all.len() as i64) < point {
            all.push('0');
        }
        let (whole, fraction) = all.split_at(point as usize);
        let whole = Some(whole.trim_start_matches('0')).filter(|w| !w.is_empty()).unwrap_or("0");
        Some(Decimal { negative, whole: whole.into(), fraction: fraction.trim_end_matches('0').into() })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.fraction.is_empty()
    }

    pub(super) fn is_zero(&self) -> bool {
        self.whole == "0" && self.fraction.is_empty()
    }

    pub(super) fn is_negative(&self) -> bool {
        self.negative
    }

    fn size(&self, other: &Decimal) -> Ordering {
        let (a, b) = (&self.whole, &other.whole);
        a.len().cmp(&b.len()).then_with(|| a.cmp(b)).then_with(|| self.fraction.cmp(&other.fraction))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.size(other),
            (true, true) => other.size(self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        let point = if self.fraction.is_empty() { "" } else { "." };
        write!(f, "{sign}{}{point}{}", self.whole, self.fraction)
    }
}

/// A bound, inclusive or exclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) value: Decimal,
    pub(super) beyond: bool,
}

/// The texts of the numbers between two bounds. `exact`: the set is intersected with other sets, so equal values must
/// be written alike.
pub(super) fn between(whole: bool, least: Option<&Bound>, most: Option<&Bound>, exact: bool) -> Term {
    let outer = |bound: &&Bound, below: bool| {
        bound.value.negative == below && bound.value.whole.len() > LARGE_BOUND_DIGITS
    };
    let far = least.is_some_and(|b| outer(&b, true)) || most.is_some_and(|b| outer(&b, false));
    let least = least.filter(|bound| !outer(bound, true));
    let most = most.filter(|bound| !outer(bound, false));
    let digits = if far { LARGE_BOUND_DIGITS } else { DIGITS } - 1;
    let plain = format!("(?:0|[1-9][0-9]{{0,{digits}}})");
    let shape = if whole {
        format!("-?{plain}")
    } else if exact || far || least.is_some() || most.is_some() {
        let mut forms = vec![plain, format!(r"0\.[0-9]{{1,{MAX_DIGITS_UNDER_BOUND}}}")];
        forms.extend(
            (1..MAX_DIGITS_UNDER_BOUND)
                .map(|n| format!(r"[1-9][0-9]{{{}}}\.[0-9]{{1,{}}}", n - 1, MAX_DIGITS_UNDER_BOUND - n)),
        );
        format!("-?(?:{})", forms.join("|"))
    } else {
        // An exponent that keeps the number in the range of an f64.
        let exponent = "[eE][+-]?(?:[0-9]{1,2}|[12][0-9]{2}|30[0-7])";
        format!(r"-?(?:{plain}(?:\.[0-9]{{1,{FRACTION}}})?|[0-9](?:\.[0-9]{{1,{FRACTION}}})?{exponent})")
    };
    let mut terms = vec![Term::regex(shape)];
    if let Some(bound) = least {
        let value = &bound.value;
        // -0 equals 0.
        let above = if value.negative {
            format!("(?:{ANY}|-{})", below(value, bound.beyond).unwrap_or_else(|| "0".into()))
        } else {
            above(value, bound.beyond)
        };
        terms.push(Term::regex(above));
    }
    if let Some(bound) = most {
        let value = &bound.value;
        let low = if value.negative {
            Some(format!("-{}", above(value, bound.beyond)))
        } else if value.is_zero() {
            let zero = if bound.beyond { "" } else { r"|0(?:\.0+)?" };
            // Less than zero: a sign, and a nonzero digit.
            Some(format!(r"(?:-[0-9.]*[1-9][0-9.]*{zero})"))
        } else {
            below(value, bound.beyond).map(|below| format!("(?:-{ANY}|{below})"))
        };
        terms.push(low.map_or_else(Term::nothing, Term::regex));
    }
    Term::both(terms)
}

/// The texts of a number that equals `value`, without an exponent.
pub(super) fn equal(value: &Decimal) -> Term {
    let sign = match (value.negative, value.is_zero()) {
        (_, true) => "-?",
        (true, _) => "-",
        _ => "",
    };
    let zeros =
        if value.fraction.is_empty() { r"(?:\.0+)?".to_owned() } else { format!(r"\.{}0*", value.fraction) };
    Term::regex(format!("{sign}{}{zeros}", value.whole))
}

/// The multiples of `step`, if the last digits decide; otherwise `None`.
pub(super) fn multiple(step: &Decimal) -> Option<Term> {
    let places = step.fraction.len();
    let unit: u64 = format!("{}{}", step.whole, step.fraction).parse().ok().filter(|unit| *unit > 0)?;
    // The number of last digits that decide.
    let telling = (0..=4).find(|k| 10u64.pow(*k).is_multiple_of(unit))? as usize;
    let endings = |digits: usize| {
        let all = 10u64.pow(digits as u32);
        (0..all / unit).map(move |n| format!("{:0digits$}", n * unit)).collect::<Vec<_>>()
    };
    let term = if telling <= places {
        // All deciding digits are after the decimal point.
        let free = format!("[0-9]{{{}}}", places - telling);
        let mut options = vec![r"0+".to_owned()];
        for ending in endings(telling) {
            let whole = if telling == 0 { String::new() } else { ending.clone() };
            options.push(format!("{free}{whole}0*"));
            // Without trailing zeros.
            let cut = whole.trim_end_matches('0');
            if !cut.is_empty() {
                options.push(format!("{free}{cut}0*"));
            } else {
                options.push(format!("[0-9]{{0,{}}}0*", places - telling));
            }
        }
        options.sort();
        options.dedup();
        options.retain(|option| option != "0*" && !option.is_empty());
        let options = options.iter().map(|o| format!(r"\.{o}")).collect::<Vec<_>>().join("|");
        format!(r"-?[0-9]+(?:{options})?")
    } else if places == 0 {
        let last = endings(telling).join("|");
        let short: Vec<String> = endings(telling)
            .iter()
            .map(|e| e.trim_start_matches('0').to_owned())
            .filter(|e| !e.is_empty())
            .collect();
        let short = if short.is_empty() { String::new() } else { format!("|{}", short.join("|")) };
        format!(r"-?(?:[0-9]*(?:{last})|0{short})(?:\.0+)?")
    } else {
        return None;
    };
    Some(Term::regex(term))
}

const ANY: &str = r"[0-9]+(?:\.[0-9]+)?";

/// Absolute values of at least `value` (more than `value` if `beyond`).
fn above(value: &Decimal, beyond: bool) -> String {
    let (whole, fraction) = (&value.whole, &value.fraction);
    let mut options = vec![format!("[1-9][0-9]{{{},}}(?:\\.[0-9]+)?", whole.len())];
    for (at, digit) in whole.bytes().enumerate().filter(|(_, digit)| *digit < b'9') {
        let rest = whole.len() - at - 1;
        options.push(format!(r"{}[{}-9][0-9]{{{rest}}}(?:\.[0-9]+)?", &whole[..at], (digit + 1) as char));
    }
    // With the same integer digits.
    let behind = match (fraction.is_empty(), beyond) {
        (true, false) => r"(?:\.[0-9]+)?".to_owned(),
        (true, true) => r"\.[0-9]*[1-9][0-9]*".to_owned(),
        (false, _) => format!(r"\.{}", fraction_above(fraction, beyond)),
    };
    options.push(format!("{whole}{behind}"));
    format!("(?:{})", options.join("|"))
}

fn fraction_above(fraction: &str, beyond: bool) -> String {
    let Some(digit) = fraction.bytes().next() else {
        return if beyond { "[0-9]*[1-9][0-9]*".into() } else { "[0-9]*".into() };
    };
    let same = format!("{}{}", digit as char, fraction_above(&fraction[1..], beyond));
    if digit == b'9' { same } else { format!("(?:{same}|[{}-9][0-9]*)", (digit + 1) as char) }
}

/// Absolute values of at most `value` (less than `value` if `beyond`); `None` if there is none.
fn below(value: &Decimal, beyond: bool) -> Option<String> {
    let (whole, fraction) = (&value.whole, &value.fraction);
    let mut options = Vec::new();
    if whole.len() > 1 {
        options.push(format!(r"(?:0|[1-9][0-9]{{0,{}}})(?:\.[0-9]+)?", whole.len() - 2));
    }
    for (at, digit) in whole.bytes().enumerate() {
        let first = if at == 0 && whole.len() > 1 { b'1' } else { b'0' };
        if digit > first {
            let rest = whole.len() - at - 1;
            let (low, high) = (first as char, (digit - 1) as char);
            options.push(format!(r"{}[{low}-{high}][0-9]{{{rest}}}(?:\.[0-9]+)?", &whole[..at]));
        }
    }
    match (fraction.is_empty(), beyond) {
        (true, false) => options.push(format!(r"{whole}(?:\.0+)?")),
        (true, true) => {}
        (false, _) => {
            options.push(format!(r"{whole}(?:\.{})?", fraction_below(fraction, beyond)));
        }
    }
    (!options.is_empty()).then(|| format!("(?:{})", options.join("|")))
}

/// Fraction digits, at least one, up to those of `fraction`, which does not end in zero.
fn fraction_below(fraction: &str, beyond: bool) -> String {
    let (first, rest) = fraction.split_at(1);
    let digit = first.as_bytes()[0];
    let mut options = Vec::new();
    if digit > b'0' {
        options.push(format!("[0-{}][0-9]*", (digit - 1) as char));
    }
    if !rest.is_empty() {
        // A prefix is less.
        options.push(format!("{first}(?:{})?", fraction_below(rest, beyond)));
    } else if !beyond {
        options.push(format!("{first}0*"));
    }
    format!("(?:{})", options.join("|"))
}

/// The multiples of a small integer, by an automaton over remainders. `None` for steps above 64, steps with a fraction,
/// and expressions that become too long.
pub(super) fn remainders(step: &Decimal) -> Option<Term> {
    let step: usize =
        step.is_whole().then(|| step.whole.parse().ok()).flatten().filter(|step| *step <= 64)?;
    // State elimination: expressions between the states 0..step, of which one is removed at a time.
    let mut edges: Vec<Vec<Option<String>>> = vec![vec![None; step]; step];
    for state in 0..step {
        for digit in 0..10 {
            let to = (state * 10 + digit) % step;
            let edge = &mut edges[state][to];
            *edge = Some(edge.take().map_or_else(|| digit.to_string(), |old| format!("{old}|{digit}")));
        }
    }
    let group = |text: &str| if text.len() > 1 { format!("(?:{text})") } else { text.to_owned() };
    for gone in (1..step).rev() {
        let own = edges[gone][gone].take().map_or_else(String::new, |own| format!("{}*", group(&own)));
        for from in 0..gone {
            let Some(first) = edges[from][gone].clone() else { continue };
            for to in 0..gone {
                let Some(last) = edges[gone][to].clone() else { continue };
                let way = format!("{}{own}{}", group(&first), group(&last));
                let edge = &mut edges[from][to];
                *edge = Some(edge.take().map_or_else(|| way.clone(), |old| format!("{old}|{way}")));
                if edge.as_ref().is_some_and(|edge| edge.len() > 200_000) {
                    return None;
                }
            }
        }
    }
    let around = edges[0][0].clone()?;
    Some(Term::regex(format!(r"-?(?:{around})+(?:\.0+)?")))
}
