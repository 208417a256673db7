//! Which model each request asks: names with weights, in exact shares and an order drawn from the seed.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::Failure;

/// A model and how many requests it gets, as a share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weighted {
    pub(super) model: String,
    pub(super) weight: f64,
}

impl Weighted {
    /// `NAME`, or `NAME=WEIGHT`; an equals sign that no number follows belongs to the name.
    ///
    /// # Errors
    /// No name, or a weight that is not above zero.
    pub(super) fn parse(text: &str) -> Result<Weighted, String> {
        let pair = text.rsplit_once('=').and_then(|(name, weight)| Some((name, weight.parse::<f64>().ok()?)));
        let (name, weight) = pair.unwrap_or((text, 1.0));
        if name.trim().is_empty() {
            return Err("a model needs a name".to_owned());
        }
        if !(weight.is_finite() && weight > 0.0) {
            return Err(format!("the weight {weight} of {name} is not above 0"));
        }
        Ok(Weighted { model: name.trim().to_owned(), weight })
    }
}

/// The weights of models.
#[derive(Clone, Debug)]
pub(super) struct Mix(Vec<f64>);

impl Mix {
    /// # Errors
    /// A model that is named twice.
    pub(super) fn new(models: &[Weighted]) -> Result<Mix, Failure> {
        for (index, one) in models.iter().enumerate() {
            if models[..index].iter().any(|other| other.model == one.model) {
                return Err(Failure::usage(format!("--model {} is there twice", one.model)));
            }
        }
        Ok(Mix(models.iter().map(|one| one.weight).collect()))
    }

    /// The model, by index, of each of `count` conversations: as many of each as its weight says, in random order.
    pub(super) fn draw(&self, count: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
        let mut all = self.even(count);
        all.shuffle(rng);
        all
    }

    /// As many of each model as its weight says, taken in turn: the next is the one that is furthest behind its share.
    fn even(&self, count: usize) -> Vec<usize> {
        let total: f64 = self.0.iter().sum();
        let mut given = vec![0_usize; self.0.len()];
        let next = |round: usize| {
            let behind = |index: usize| self.0[index] / total * (round + 1) as f64 - given[index] as f64;
            // The first of several that are equally far behind.
            let most = (0..self.0.len()).rev().max_by(|a, b| behind(*a).total_cmp(&behind(*b)));
            let most = most.unwrap_or_default();
            if let Some(given) = given.get_mut(most) {
                *given += 1;
            }
            most
        };
        (0..count).map(next).collect()
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn mix(texts: &[&str]) -> Mix {
        let models: Vec<Weighted> = texts.iter().map(|text| Weighted::parse(text).unwrap()).collect();
        Mix::new(&models).unwrap()
    }

    #[test]
    fn names_and_weights() {
        let read = |text: &str| Weighted::parse(text).map(|one| (one.model, one.weight));
        assert_eq!(read("a"), Ok(("a".to_owned(), 1.0)));
        assert_eq!(read("qwen2.5:0.5b=2.5"), Ok(("qwen2.5:0.5b".to_owned(), 2.5)));
        assert_eq!(read("a=b"), Ok(("a=b".to_owned(), 1.0)));
        for bad in ["", "=2", "a=0", "a=-1", "a=inf", "a=nan"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let twice = [Weighted::parse("a").unwrap(), Weighted::parse("a=2").unwrap()];
        assert_eq!(Mix::new(&twice).unwrap_err().code, 2);
    }

    #[test]
    fn shares_are_exact_and_orders_the_seeds() {
        assert_eq!(mix(&["a", "b"]).even(5), [0, 1, 0, 1, 0]);
        assert_eq!(mix(&["a=3", "b"]).even(8).iter().filter(|model| **model == 0).count(), 6);
        assert_eq!(mix(&["a"]).even(3), [0; 3]);
        let drawn = |seed| mix(&["a=2", "b", "c"]).draw(101, &mut ChaCha8Rng::seed_from_u64(seed));
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let count = |model| drawn(1).iter().filter(|one| **one == model).count();
        assert!((50..=51).contains(&count(0)) && count(1) >= 25 && count(2) >= 25);
    }
}
