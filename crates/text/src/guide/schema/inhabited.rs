//! Finds nodes that no finite value satisfies, and the reason.

use super::node::Node;
use super::term::Term;

/// Whether each node has a finite value.
pub(super) fn inhabited(nodes: &[Node]) -> Vec<bool> {
    let mut ends: Vec<bool> = nodes.iter().map(|node| matches!(node, Node::Pending | Node::Any)).collect();
    loop {
        let mut changed = false;
        for (id, node) in nodes.iter().enumerate().rev() {
            if !ends[id] && has_value(node, &ends) {
                ends[id] = true;
                changed = true;
            }
        }
        if !changed {
            return ends;
        }
    }
}

fn has_value(node: &Node, ends: &[bool]) -> bool {
    match node {
        Node::Pending | Node::Any => true,
        Node::Never(_) => false,
        Node::Scalar(term) => *term != Term::nothing(),
        Node::Either(options) => options.iter().any(|option| ends[*option]),
        Node::Object(object) => {
            let required = object.fields.iter().filter(|field| field.required);
            let possible = object.fields.iter().filter(|field| ends[field.value]).count() as u64;
            let others = object.others.iter().any(|(_, value)| ends[*value]);
            required.clone().all(|field| ends[field.value])
                && (others || possible >= object.least)
                && object.most.is_none_or(|most| most >= object.least && required.count() as u64 <= most)
        }
        Node::Array(array) => {
            let first = array.first.iter().take_while(|item| ends[**item]).count() as u64;
            let all = if first == array.first.len() as u64 && ends[array.items] { u64::MAX } else { first };
            let all = array.distinct.as_ref().map_or(all, |texts| all.min(texts.len() as u64));
            array.least <= all
                && array.most.is_none_or(|most| most >= array.least)
                && array.contains.is_none_or(|(item, least)| least == 0 || ends[item])
        }
    }
}

/// Why a node has no value.
pub(super) fn reason(nodes: &[Node], ends: &[bool], id: usize, depth: usize) -> String {
    if depth > 40 {
        return "it goes on without an end: each value must hold another of its kind".into();
    }
    match &nodes[id] {
        Node::Never(reason) => reason.clone(),
        Node::Either(options) => match options.as_slice() {
            [one] => reason(nodes, ends, *one, depth + 1),
            _ => {
                let first =
                    options.first().map_or_else(String::new, |id| reason(nodes, ends, *id, depth + 1));
                if first.contains("without an end") {
                    first
                } else {
                    format!("none of the options can be met; the first: {first}")
                }
            }
        },
        Node::Object(object) => {
            if let Some(field) = object.fields.iter().find(|field| field.required && !ends[field.value]) {
                let inner = reason(nodes, ends, field.value, depth + 1);
                let endless = inner.contains("without an end") || depth > 20;
                return if endless {
                    inner
                } else {
                    format!("the required property {:?}: {inner}", field.name)
                };
            }
            format!(
                "an object cannot have at least {} and at most {} of the properties that it may have",
                object.least,
                object.most.map_or_else(|| "any number".into(), |most| most.to_string())
            )
        }
        Node::Array(array) => {
            let most = array.most.map_or_else(|| "any number".into(), |most| most.to_string());
            if let Some(item) = array.first.iter().chain([&array.items]).find(|item| !ends[**item])
                && array.most.is_none_or(|most| most >= array.least)
            {
                let inner = reason(nodes, ends, *item, depth + 1);
                if inner.contains("without an end") {
                    return inner;
                }
                return format!("an array of at least {} items: {inner}", array.least);
            }
            format!("an array cannot have at least {} and at most {most} items", array.least)
        }
        _ => "no text is one".into(),
    }
}
