//! Labels: how far a request may travel, and the proof that it was asked before an attempt was made.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How far a text may travel, in rising order.
///
/// The label of a request is the [`max`](Ord::max) of every source: key, header, model, detection. A later source can
/// therefore raise it and never lower it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// May go to every upstream.
    #[default]
    Public,
    /// May go to upstreams that the configuration clears for internal data.
    Internal,
    /// May go to upstreams that the configuration clears for secrets: most often, the own nodes.
    Secret,
}

impl Label {
    /// Every label, in rising order.
    pub const ALL: [Label; 3] = [Label::Public, Label::Internal, Label::Secret];

    /// The label's name, as [`FromStr`] reads it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Label::Public => "public",
            Label::Internal => "internal",
            Label::Secret => "secret",
        }
    }

    /// The proof that this label may go to an upstream of that clearance; `None` where it may not.
    ///
    /// # Examples
    ///
    /// ```
    /// use privacy::{Clearance, Label};
    /// assert!(Label::Internal.permit(Clearance(Label::Secret)).is_some());
    /// assert!(Label::Secret.permit(Clearance(Label::Public)).is_none());
    /// ```
    #[must_use]
    pub fn permit(self, clearance: Clearance) -> Option<Permit> {
        (self <= clearance.0).then_some(Permit { label: self, clearance })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A label's name that is none of the three.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no label: use public, internal or secret")]
pub struct UnknownLabel(String);

impl FromStr for Label {
    type Err = UnknownLabel;

    fn from_str(name: &str) -> Result<Self, UnknownLabel> {
        let known = Label::ALL.into_iter().find(|label| label.name().eq_ignore_ascii_case(name.trim()));
        // Names come from headers too: an error shows no more than a line of them.
        known.ok_or_else(|| UnknownLabel(name.chars().filter(|c| !c.is_control()).take(32).collect()))
    }
}

/// The highest label that an upstream may receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Clearance(pub Label);

/// The proof that a label was compared with an upstream's clearance, and may go there.
///
/// Only [`Label::permit`] makes one, its fields are private, and it is neither `Clone` nor `Copy`. An attempt that takes
/// a `Permit` by value can therefore be made only after the comparison for that very attempt: retries, hedges and
/// fallbacks each need their own.
///
/// No other code can build one:
///
/// ```compile_fail,E0451
/// use privacy::{Clearance, Label, Permit};
/// let forged = Permit { label: Label::Public, clearance: Clearance(Label::Public) };
/// ```
///
/// Nor can one permit serve two attempts:
///
/// ```compile_fail,E0599
/// use privacy::{Clearance, Label};
/// let permit = Label::Secret.permit(Clearance(Label::Secret)).unwrap();
/// let second = permit.clone();
/// ```
///
/// ```compile_fail,E0382
/// use privacy::{Clearance, Label, Permit};
/// fn attempt(_: Permit) {}
/// let permit = Label::Secret.permit(Clearance(Label::Secret)).unwrap();
/// attempt(permit);
/// attempt(permit);
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit is for one attempt"]
pub struct Permit {
    label: Label,
    clearance: Clearance,
}

impl Permit {
    /// The label that was compared.
    #[must_use]
    pub fn label(&self) -> Label {
        self.label
    }

    /// The clearance that the label was compared with. An attempt checks that it is that of its upstream.
    #[must_use]
    pub fn clearance(&self) -> Clearance {
        self.clearance
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    #[test]
    fn labels_rise_and_read_their_own_names() {
        assert!(Label::Public < Label::Internal && Label::Internal < Label::Secret);
        for label in Label::ALL {
            assert_eq!(label.to_string().parse::<Label>().unwrap(), label);
            assert_eq!(label.max(Label::Public), label);
        }
        let error = "top\nsecret".parse::<Label>().unwrap_err();
        assert_eq!(error.to_string(), "`topsecret` is no label: use public, internal or secret");
    }

    #[test]
    fn a_permit_exists_exactly_where_the_clearance_suffices() {
        for label in Label::ALL {
            for clearance in Label::ALL.map(Clearance) {
                let permit = label.permit(clearance);
                assert_eq!(permit.is_some(), label <= clearance.0);
                assert!(permit.is_none_or(|it| it.label() == label && it.clearance() == clearance));
            }
        }
    }
}
