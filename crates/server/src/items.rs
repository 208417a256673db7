//! An answer as a list of items in order: what was thought, said, and called, as the newer APIs show it.

use inference::Part;

/// One item of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    /// What was said.
    Said(String),
    /// What was thought.
    Thought(String),
    /// A tool that was called, with the JSON text of its arguments.
    Called { id: String, name: String, arguments: String },
}

/// The items so far.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) all: Vec<Item>,
    /// Where in `all` each call is.
    calls: Vec<usize>,
    /// The last one still grows.
    open: bool,
}

/// What a part did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// This item is complete.
    pub(crate) closed: Option<usize>,
    /// This one begins, empty.
    pub(crate) opened: Option<usize>,
    /// This one has more text.
    pub(crate) grown: Option<(usize, String)>,
}

impl Items {
    /// Takes the next part of the only choice.
    pub(crate) fn add(&mut self, part: Part) -> Change {
        match part {
            Part::Content(text) => {
                let goes_on = matches!(self.all.last(), Some(Item::Said(_)));
                self.grow(goes_on, Item::Said(String::new()), text)
            }
            Part::Reasoning(text) => {
                let goes_on = matches!(self.all.last(), Some(Item::Thought(_)));
                self.grow(goes_on, Item::Thought(String::new()), text)
            }
            Part::Call { id, name, .. } => {
                self.calls.push(self.all.len());
                self.grow(false, Item::Called { id, name, arguments: String::new() }, String::new())
            }
            Part::Arguments { index, text } => match self.calls.get(index) {
                Some(at) => self.append(*at, text),
                None => Change::default(),
            },
        }
    }

    /// The end: closes the item that is open. (An answer without any has an empty text.)
    pub(crate) fn finish(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.all.is_empty() {
            changes.push(self.grow(false, Item::Said(String::new()), String::new()));
        }
        if std::mem::take(&mut self.open) {
            changes.push(Change { closed: Some(self.all.len() - 1), ..Change::default() });
        }
        changes
    }

    fn grow(&mut self, goes_on: bool, new: Item, text: String) -> Change {
        let mut change = Change::default();
        if !(goes_on && self.open) {
            change.closed = self.open.then(|| self.all.len() - 1);
            change.opened = Some(self.all.len());
            self.all.push(new);
            self.open = true;
        }
        change.grown = self.append(self.all.len() - 1, text).grown;
        change
    }

    fn append(&mut self, at: usize, text: String) -> Change {
        if text.is_empty() {
            return Change::default();
        }
        match &mut self.all[at] {
            Item::Said(all) | Item::Thought(all) | Item::Called { arguments: all, .. } => all.push_str(&text),
        }
        Change { grown: Some((at, text)), ..Change::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_items_in_order() {
        let mut items = Items::default();
        let mut add = |part| items.add(part);
        let first = add(Part::Reasoning("hm".into()));
        assert_eq!((first.closed, first.opened, first.grown), (None, Some(0), Some((0, "hm".into()))));
        assert_eq!(add(Part::Reasoning("m".into())).opened, None);
        let said = add(Part::Content("I look.".into()));
        assert_eq!((said.closed, said.opened), (Some(0), Some(1)));
        assert_eq!(add(Part::Call { index: 0, id: "call_1".into(), name: "look".into() }).opened, Some(2));
        assert_eq!(add(Part::Arguments { index: 0, text: "{}".into() }).grown, Some((2, "{}".into())));
        let last = items.finish();
        assert_eq!(last, [Change { closed: Some(2), ..Change::default() }]);
        assert!(
            matches!(&items.all[2], Item::Called { name, arguments, .. } if name == "look" && arguments == "{}")
        );
    }

    #[test]
    fn an_answer_without_text_has_one_empty_item() {
        let mut items = Items::default();
        let ends: Vec<_> = items.finish().into_iter().map(|c| (c.opened, c.closed)).collect();
        assert_eq!(ends, [(Some(0), None), (None, Some(0))]);
        assert_eq!(items.all, [Item::Said(String::new())]);
    }
}
