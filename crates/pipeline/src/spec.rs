//! What is known of a tensor before there is one.

use wire::oip::{Datatype, TensorSpec, show_shape};

/// The datatype and shape of a tensor, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spec {
    /// The datatype.
    pub datatype: Option<Datatype>,
    /// The length of each dimension; −1 is any. None is any number of dimensions.
    pub shape: Option<Vec<i64>>,
}

impl Spec {
    /// A tensor of which all is known but open dimensions.
    pub fn new(datatype: Datatype, shape: Vec<i64>) -> Spec {
        Spec { datatype: Some(datatype), shape: Some(shape) }
    }

    /// The tensor of a model.
    pub fn of(spec: &TensorSpec) -> Spec {
        Spec::new(spec.datatype, spec.shape.clone())
    }

    /// The number of dimensions.
    pub fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(Vec::len)
    }

    /// What both say of one tensor.
    ///
    /// # Errors
    /// In words, where they contradict one another.
    pub fn and(&self, other: &Spec) -> Result<Spec, String> {
        let datatype = match (self.datatype, other.datatype) {
            (Some(one), Some(other)) if one != other => {
                return Err(format!("is {}, not {}", one.name(), other.name()));
            }
            (one, other) => one.or(other),
        };
        let shape = match (&self.shape, &other.shape) {
            (Some(one), Some(other)) => {
                let fits = |(one, other): (&i64, &i64)| *one == -1 || *other == -1 || one == other;
                if one.len() != other.len() || !one.iter().zip(other).all(fits) {
                    return Err(format!("has the shape {}, not {}", show_shape(one), show_shape(other)));
                }
                Some(one.iter().zip(other).map(|(one, other)| *one.max(other)).collect())
            }
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        Ok(Spec { datatype, shape })
    }

    /// The datatype, which must be among these.
    ///
    /// # Errors
    /// In words: another one.
    pub fn one_of(&self, datatypes: &[Datatype]) -> Result<(), String> {
        match self.datatype {
            Some(datatype) if !datatypes.contains(&datatype) => {
                let names: Vec<&str> = datatypes.iter().map(|datatype| datatype.name()).collect();
                Err(format!("is {}; it must be {}", datatype.name(), names.join(" or ")))
            }
            _ => Ok(()),
        }
    }
}
