//! The attributes of a node, by name and type.

use std::cell::RefCell;

use crate::file::Beside;
use crate::proto::{AttributeProto, AttributeType};
use crate::stored;
use crate::value::Tensor;

/// A node's attributes. What no one has asked for is an error in the end ([`Attributes::unread`]): an attribute that
/// is ignored would change the answer.
pub(crate) struct Attributes<'a> {
    list: &'a [AttributeProto],
    beside: &'a Beside,
    read: RefCell<Vec<bool>>,
}

impl<'a> Attributes<'a> {
    /// # Errors
    /// When two have one name.
    pub(crate) fn new(list: &'a [AttributeProto], beside: &'a Beside) -> Result<Attributes<'a>, String> {
        for (at, one) in list.iter().enumerate() {
            if list[..at].iter().any(|other| other.name == one.name) {
                return Err(format!("attribute {} is there twice", one.name));
            }
        }
        Ok(Attributes { list, beside, read: RefCell::new(vec![false; list.len()]) })
    }

    fn find(&self, name: &str, wanted: AttributeType) -> Result<Option<&'a AttributeProto>, String> {
        let Some(at) = self.list.iter().position(|one| one.name == name) else { return Ok(None) };
        self.read.borrow_mut()[at] = true;
        let one = &self.list[at];
        // Files of the first version state no type.
        if one.r#type != wanted as i32 && one.r#type != AttributeType::Undefined as i32 {
            let found = AttributeType::try_from(one.r#type).map_or_else(
                |_| format!("of the unknown type {}", one.r#type),
                |found| format!("of type {found:?}"),
            );
            return Err(format!("attribute {name} is {found}, not {wanted:?}"));
        }
        Ok(Some(one))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.list.iter().any(|one| one.name == name)
    }

    /// Marks an attribute as read that changes nothing here.
    pub(crate) fn ignore(&self, name: &str) {
        if let Some(at) = self.list.iter().position(|one| one.name == name) {
            self.read.borrow_mut()[at] = true;
        }
    }

    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, String> {
        Ok(self.find(name, AttributeType::Int)?.map(|one| one.i))
    }

    pub(crate) fn int_or(&self, name: &str, default: i64) -> Result<i64, String> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    pub(crate) fn float_or(&self, name: &str, default: f32) -> Result<f32, String> {
        Ok(self.find(name, AttributeType::Float)?.map_or(default, |one| one.f))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, String> {
        self.find(name, AttributeType::String)?.map(|one| stored::text(&one.s)).transpose()
    }

    pub(crate) fn text_or(&self, name: &str, default: &str) -> Result<String, String> {
        Ok(self.text(name)?.unwrap_or_else(|| default.to_owned()))
    }

    /// A list of integers; empty if it is not there.
    pub(crate) fn ints(&self, name: &str) -> Result<&'a [i64], String> {
        Ok(self.find(name, AttributeType::Ints)?.map_or(&[], |one| &one.ints))
    }

    /// A list of floats; empty if it is not there.
    pub(crate) fn floats(&self, name: &str) -> Result<&'a [f32], String> {
        Ok(self.find(name, AttributeType::Floats)?.map_or(&[], |one| &one.floats))
    }

    /// A list of texts; empty if it is not there.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        self.find(name, AttributeType::Strings)?.map_or(Ok(Vec::new()), |one| stored::strings(&one.strings))
    }

    pub(crate) fn tensor(&self, name: &str) -> Result<Option<Tensor>, String> {
        let Some(one) = self.find(name, AttributeType::Tensor)? else { return Ok(None) };
        let Some(proto) = &one.t else { return Err(format!("attribute {name} holds no tensor")) };
        stored::read(proto, self.beside).map(Some).map_err(|problem| format!("attribute {name}: {problem}"))
    }

    /// The attributes that no one has asked for.
    pub(crate) fn unread(&self) -> Vec<&'a str> {
        let read = self.read.borrow();
        self.list.iter().zip(&*read).filter(|(_, read)| !**read).map(|(one, _)| &*one.name).collect()
    }
}
