//! Small templates that would make or walk through something endless: each ends in an error, soon and within bounds.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use text::{ChatTemplate, TemplateError};

/// Bytes that this process may ever have had; a bomb that goes off takes gigabytes.
const PEAK: u64 = 700 << 20;

fn render(source: &str) -> Result<String, TemplateError> {
    let hello = [json!({"role": "user", "content": "Hello"})];
    ChatTemplate::compile(source)?.render(&hello, None, true, &Map::new())
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn goes_out(source: &str) {
    let begun = Instant::now();
    let error = render(source).map(|text| text.len()).expect_err(source);
    assert!(begun.elapsed() < Duration::from_secs(60), "{source}: {:?}", begun.elapsed());
    assert!(!error.message.is_empty() && error.message.len() < 1000, "{source}: {error}");
    assert!(peak() < PEAK, "{source}: {} MB", peak() >> 20);
}

/// `{x}` is what is made longer.
fn doubled(start: &str, expression: &str) -> String {
    let expression = expression.replace("{x}", "ns.x");
    format!(
        "{{% set ns = namespace(x={start}) %}}{{% for i in range(60) %}}{{% set ns.x = {expression} %}}{{% endfor %}}{{{{ ns.x | length }}}}"
    )
}

#[test]
fn fault_04_texts_that_double() {
    for expression in [
        "{x} + {x}",
        "{x} ~ {x}",
        "{x} * 2",
        "2 * {x}",
        "[{x}, {x}] | join",
        "[{x}, {x}] | join('-')",
        "{x}.join([{x}, {x}, 'a'])",
        "{x} | replace('a', 'aa')",
        "{x}.replace('a', 'aa')",
        "{x} | replace('', 'a')",
        "'%s%s' | format({x}, {x})",
        "'{}{}'.format({x}, {x})",
        "'{0}{0}'.format({x})",
        "({x} ~ '\\\\' ~ '\"') | tojson | tojson",
        "[{x}, {x}] | tojson",
        "[{x}, {x}] | string",
        "'' ~ [{x}, {x}]",
        "{x} | escape ~ {x} | e",
        "({x} ~ '\\n') | indent(1000) ~ {x}",
        "{x} | upper ~ {x} | lower",
        "({x} | title) ~ ({x} | capitalize)",
        "{x}.strip() ~ {x}.title()",
        "({x} | list + {x} | list) | join",
        "{x}[::-1] ~ {x}",
        "{x}[:] + {x}[:]",
        "({x} + {x}) if true else ''",
        "{'k': {x}, 'l': {x}} | tojson",
        "[[{x}, {x}]] | map('join') | first",
        "[{x}, {x}] | map('upper') | join",
        "{x}.zfill(1000) ~ {x}.center(1000)",
        "({x}, {x}) | join",
        "{x}.split('a') | join('aaa')",
        "strftime_now({x} ~ '%c%c') ~ {x}",
    ] {
        goes_out(&doubled("'aaaaaaaaaa'", expression));
    }
}

#[test]
fn fault_04_lists_and_maps_that_double() {
    for expression in [
        "{x} + {x}",
        "{x} * 2",
        "({x} + {x}) | list",
        "({x} + {x})[:]",
        "({x} + {x})[::-1]",
        "({x} | reverse | list) + {x}",
        "({x} | batch(2) | list) + {x} + {x}",
        "({x} | map('string') | list) + {x}",
        "({x} | select | list) + {x}",
        "({x} | sort) + {x}",
        "[{x}, {x}]",
        "[{x}, {x}] | string | list",
        "{'a': {x}, 'b': {x}}",
    ] {
        for end in ["", "{{ ns.x | string }}", "{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x == ns.x[:] }}"] {
            let source = doubled("[1, 2, 3]", expression) + end;
            let begun = Instant::now();
            // Those that only nest need no room until they are written.
            let said = render(&source);
            assert!(said.map_or(0, |text| text.len()) < 1000, "{source}");
            assert!(begun.elapsed() < Duration::from_secs(60), "{source}: {:?}", begun.elapsed());
            assert!(peak() < PEAK, "{source}: {} MB", peak() >> 20);
        }
    }
}

/// Values that are small in memory and endless when they are walked through.
#[test]
fn fault_04_values_that_hold_themselves_twice() {
    let nested =
        "{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
    for use_of in [
        "{{ ns.x }}",
        "{{ ns.x | tojson }}",
        "{{ ns.x | string | length }}",
        "{{ 'a' ~ ns.x }}",
        "{{ [ns.x] | join }}",
        "{{ ','.join([ns.x]) }}",
        "{{ '%s' | format(ns.x) }}",
        "{{ '{}'.format(ns.x) }}",
        "{% set y = namespace(x=['a']) %}{% for i in range(60) %}{% set y.x = [y.x, y.x] %}{% endfor %}{{ ns.x == y.x }}",
        "{% set y = namespace(x=['a']) %}{% for i in range(60) %}{% set y.x = [y.x, y.x] %}{% endfor %}{{ ns.x < y.x }}",
        "{% set y = namespace(x=['a']) %}{% for i in range(60) %}{% set y.x = [y.x, y.x] %}{% endfor %}{{ ns.x in [y.x] }}",
        "{{ [ns.x, ns.x] | sort }}",
        "{{ [ns.x, ns.x] | unique | list }}",
        "{{ [ns.x, ns.x] | max }}",
        "{{ {ns.x: 1} }}",
        "{{ ns.x is eq(ns.x) }}",
        "{{ ns.x | replace('a', 'b') }}",
        "{{ ns.x | title }}",
        "{{ ns.x | indent }}",
        "{{ ns.x | escape }}",
        "{{ ns.x | upper }}",
        "{{ ns.x | trim }}",
        "{{ raise_exception(ns.x) }}",
        "{% for i in [1, 2] %}{{ loop.changed(ns.x) }}{% endfor %}",
        "{{ ns.x.count(ns.x) }}",
        "{{ [1][ns.x] }}",
        "{{ {'a': 1}[ns.x] }}",
        "{{ dict(ns.x) }}",
    ] {
        goes_out(&format!("{nested}{use_of}"));
    }
    goes_out("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}");
    goes_out("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}");
    goes_out("{% set ns = namespace() %}{% set m = namespace(x=ns) %}{{ ns }}");
}

#[test]
fn fault_04_counts_that_are_huge() {
    for source in [
        "{{ 'a' * 1000000000 }}",
        "{{ 1000000000 * 'a' }}",
        "{{ [1] * 1000000000 }}",
        "{{ range(1000000000) | list | length }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '%.1000000000f' | format(1.0) }}",
        "{{ '%*d' | format(1000000000, 1) }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, 1000000000) ~ 'a' * 100000000 }}",
        "{{ [1] | slice(1000000000) | list | length }}",
        "{{ [1] | batch(1000000000, 'x') | list | length }}",
        "{{ 'a\na' | indent(1000000000) }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    ] {
        goes_out(source);
    }
}

/// Short steps that each look at something long.
#[test]
fn fault_04_long_texts_looked_at_often() {
    let long = "{% set ns = namespace(s='a' * 10000000, t='a' * 10000000, x=0) %}{% set l = ns.s %}";
    for step in [
        "{% if ns.s == ns.t %}{% endif %}",
        "{% if ns.s < ns.t %}{% endif %}",
        "{% if 'b' in ns.s %}{% endif %}",
        "{% if ns.s is eq(ns.t) %}{% endif %}",
        "{% if ns.s | length %}{% endif %}",
        "{% if ns.s | first %}{% endif %}",
        "{% if ns.s[9999999] %}{% endif %}",
        "{% if ns.s[-1] %}{% endif %}",
        "{% if ns.s[1:2] %}{% endif %}",
        "{% if ns.s.find('b') %}{% endif %}",
        "{% if ns.s.count('b') %}{% endif %}",
        "{% if ns.s.count('') %}{% endif %}",
        "{% if ns.s.startswith(ns.t) %}{% endif %}",
        "{% if ns.s is startingwith(ns.t) %}{% endif %}",
        "{% if ns.s.isdigit() %}{% endif %}",
        "{% if ns.s | int(default=0) %}{% endif %}",
        "{% if {'a': 1}[ns.s] %}{% endif %}",
        "{% if {'a': 1}.get(ns.s) %}{% endif %}",
        "{% if [ns.s, ns.t] | sort %}{% endif %}",
        "{% if ns.s is lower %}{% endif %}",
        "{% if loop.changed(ns.s) %}{% endif %}",
        "{% set y = ns.s | trim %}",
        "{% set y = ns.s.strip() %}",
        "{% set y %}{{ ns.s }}{% endset %}",
    ] {
        goes_out(&format!("{long}{{% for i in range(90000) %}}{step}{{% endfor %}}"));
    }
}

/// What is written where no limit of the output sees it.
#[test]
fn fault_04_blocks_that_collect() {
    let words = "word ".repeat(2000);
    for (begin, end) in [
        ("{% set x %}", "{% endset %}{{ x | length }}"),
        ("{% set x | upper %}", "{% endset %}{{ x | length }}"),
        ("{% macro m() %}", "{% endmacro %}{{ m() | length }}"),
        ("{% filter trim %}", "{% endfilter %}"),
        ("{% macro m() %}{{ caller() | length }}{% endmacro %}{% call m() %}", "{% endcall %}"),
        ("{% block b %}", "{% endblock %}"),
        ("", ""),
    ] {
        goes_out(&format!("{begin}{{% for i in range(90000) %}}{words}{{% endfor %}}{end}"));
        goes_out(&format!(
            "{begin}{{% set w = 'a' * 100000 %}}{{% for i in range(90000) %}}{{{{ w }}}}{{% endfor %}}{end}"
        ));
    }
    goes_out("{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('aaaaaaaaaa') }}");
    goes_out("{% for a in [[1, 2]] recursive %}{{ loop([[1, 2], [1, 2]]) }}{% endfor %}");
}

/// 15 seconds before, of which no step was long.
#[test]
fn abuse_a5_json_of_json_of_json() {
    let source = format!("{{{{ messages{} }}}}", " | tojson".repeat(40));
    let begun = Instant::now();
    assert!(render(&source).is_err());
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    for filter in ["replace('a', 'a' * 1000)", "join('a' * 1000)"] {
        goes_out(&format!("{{% set x = 'a' * 1000 %}}{{{{ x{} }}}}", format!(" | {filter}").repeat(10)));
    }
}

/// The meter lets through what honest templates do with a long conversation.
#[test]
fn a_long_conversation_renders() {
    let source = "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'assistant' %}{% set c = m.content.split('</think>')[-1].lstrip('\\n') %}{% else %}{% set c = m.content | trim %}{% endif %}{{ '<|' + m['role'] + '|>' + c + '<|end|>' }}{% set ns.n = ns.n + 1 %}{% endfor %}{{ messages | length }}";
    let template = ChatTemplate::compile(source).expect("compiles");
    let words = "Sunshine and rain, 晴れ. ".repeat(160);
    let turn = |at: usize| json!({"role": if at.is_multiple_of(2) { "user" } else { "assistant" }, "content": words});
    let messages: Vec<Value> = (0..1000).map(turn).collect();
    let text = template.render(&messages, None, true, &Map::new()).expect("renders");
    assert!(text.len() > 4_000_000);
}

#[test]
fn bombs_do_not_stop_a_load() {
    let bomb = "{% set ns = namespace(s='aaaaaaaaaa') %}{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ messages[0].content }}";
    let begun = Instant::now();
    let template = ChatTemplate::compile(bomb).expect("compiles");
    let remarks = template.remarks();
    assert!(
        remarks.len() == 1 && begun.elapsed() < Duration::from_secs(5),
        "{remarks:?} {:?}",
        begun.elapsed()
    );
    assert!(remarks[0].contains("too many bytes"), "{remarks:?}");
}
