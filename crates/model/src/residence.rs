//! Which matrices of a model lie in memory when not all of them may, and what is read from the disk for a token then.
//!
//! A row of the batch reads every matrix once but for the experts that it did not choose, and but for the rows of an
//! embedding that are not its token's. So memory goes to what each step reads first, then to experts, then to the
//! embedding. Within a class the matrices that are left on the disk are spread evenly: reading one of them ahead takes
//! place while those before it are multiplied. A cache of the last used pages, such as the system's, would hold nothing
//! of a model that is read in a circle and is larger than the cache.

use crate::locate::PackedWeight;
use crate::spec::{LmHead, Spec};
use crate::weight_role::{LayerWeight, WeightRole};

/// Where the packed matrices of a model are, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residence {
    /// Matrices in memory, and vectors.
    pub memory: u64,
    /// Matrices on the disk that every step reads.
    pub disk_step: u64,
    /// Experts on the disk, of which a step reads those that its rows chose.
    pub disk_experts: u64,
    /// Tables on the disk of which a row reads a line.
    pub disk_rows: u64,
}

impl Residence {
    /// Where the weights of `spec` are if their matrices may take `budget` bytes of memory.
    #[must_use]
    pub fn of(spec: &Spec, weights: &[PackedWeight], budget: u64) -> Residence {
        let matrices: Vec<_> = weights.iter().filter(|weight| !weight.vector).collect();
        let sizes: Vec<_> = matrices.iter().map(|weight| (weight.role, weight.bytes)).collect();
        let vectors = weights.iter().filter(|weight| weight.vector).map(|weight| weight.bytes).sum();
        let mut all = Residence { memory: vectors, ..Residence::default() };
        for (in_memory, (role, bytes)) in in_memory(spec, &sizes, budget).into_iter().zip(sizes) {
            let place = match Reads::of(spec, role) {
                _ if in_memory => &mut all.memory,
                Reads::Step => &mut all.disk_step,
                Reads::Expert => &mut all.disk_experts,
                Reads::Row => &mut all.disk_rows,
            };
            *place += bytes;
        }
        all
    }

    /// Bytes that lie on the disk.
    #[must_use]
    pub fn disk(&self) -> u64 {
        self.disk_step + self.disk_experts + self.disk_rows
    }

    /// Bytes that a step of `rows` rows reads from the disk at most, if the system caches none of them and rows choose
    /// `used` of `count` experts independently.
    #[must_use]
    pub fn read_by(&self, rows: f64, (count, used): (usize, usize)) -> f64 {
        let unused = 1.0 - used as f64 / count.max(1) as f64;
        self.disk_step as f64 + self.disk_experts as f64 * (1.0 - unused.powf(rows))
    }
}

/// Who reads a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// Every step.
    Step,
    /// The rows that chose the expert.
    Expert,
    /// A line of it for each row.
    Row,
}

impl Reads {
    fn of(spec: &Spec, role: WeightRole) -> Reads {
        use LayerWeight::{ExpertDown, ExpertGate, ExpertUp};
        match role {
            WeightRole::Embedding if spec.lm_head == LmHead::Own => Reads::Row,
            WeightRole::Layer(_, ExpertGate(_) | ExpertUp(_) | ExpertDown(_)) => Reads::Expert,
            _ => Reads::Step,
        }
    }
}

/// Which of the matrices (role and packed bytes) lie in memory.
pub(crate) fn in_memory(spec: &Spec, matrices: &[(WeightRole, u64)], budget: u64) -> Vec<bool> {
    let mut chosen = vec![false; matrices.len()];
    let mut left = budget;
    for reads in [Reads::Step, Reads::Expert, Reads::Row] {
        let of_class = |(role, _): &&(WeightRole, u64)| Reads::of(spec, *role) == reads;
        let all: u64 = matrices.iter().filter(of_class).map(|(_, bytes)| bytes).sum();
        let share = left.min(all);
        let (mut due, mut taken) = (0_u128, 0);
        for (chosen, (_, bytes)) in chosen.iter_mut().zip(matrices).filter(|(_, matrix)| of_class(matrix)) {
            // `due / all` bytes of those so far belong in memory and are not there.
            due += u128::from(*bytes) * u128::from(share);
            let whole = u128::from(*bytes) * u128::from(all);
            if due >= whole {
                due -= whole;
                *chosen = true;
                taken += bytes;
            }
        }
        left -= taken;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes;

    fn looked(label: &str) -> (Spec, Vec<PackedWeight>) {
        let (shape, recipe) = shapes::parse(label).unwrap();
        let outline = shape.outline(recipe).unwrap();
        let spec = Spec::read(&outline).unwrap();
        let packed = spec.packed_weights(&outline, cpu::Tier::Scalar, kernels::Precision::Fast).unwrap();
        (spec, packed)
    }

    #[test]
    fn memory_is_bounded_and_what_each_step_reads_comes_first() {
        for label in ["qwen3-4b:q4_k_m", "llama3.2-3b:q4_k_m", "qwen3-30b-a3b:q4_k_m"] {
            let (spec, packed) = looked(label);
            let total: u64 = packed.iter().map(|weight| weight.bytes).sum();
            let vectors: u64 = packed.iter().filter(|weight| weight.vector).map(|weight| weight.bytes).sum();
            for tenths in 0..=10 {
                let budget = (total - vectors) * tenths / 10;
                let found = Residence::of(&spec, &packed, budget);
                assert_eq!(found.memory + found.disk(), total, "{label}");
                assert!(found.memory - vectors <= budget, "{label} {tenths}: {found:?}");
                // A matrix or two less than the budget has room for.
                let largest = packed.iter().map(|weight| weight.bytes).max().unwrap();
                assert!(found.memory + 3 * largest >= budget, "{label} {tenths}: {found:?}");
                assert!(found.disk_experts == 0 || found.disk_rows > 0 || spec.lm_head == LmHead::Tied);
            }
            assert_eq!(Residence::of(&spec, &packed, total).disk(), 0);
        }
    }

    #[test]
    fn a_step_reads_the_experts_that_its_rows_chose() {
        let residence = Residence { memory: 5, disk_step: 100, disk_experts: 1000, disk_rows: 7 };
        assert_eq!(residence.read_by(1.0, (8, 2)), 350.0);
        assert_eq!(residence.read_by(2.0, (8, 2)), 100.0 + 1000.0 * (1.0 - 0.5625));
        assert_eq!(residence.read_by(1.0, (0, 0)), 100.0);
    }

    #[test]
    fn what_is_left_on_the_disk_is_spread() {
        let (spec, packed) = looked("qwen3-4b:q4_k_m");
        let matrices: Vec<_> =
            packed.iter().filter(|weight| !weight.vector).map(|weight| (weight.role, weight.bytes)).collect();
        let total: u64 = matrices.iter().map(|(_, bytes)| bytes).sum();
        let chosen = in_memory(&spec, &matrices, total / 2);
        // In each quarter of the layers about half of the bytes.
        for quarter in chosen.iter().zip(&matrices).collect::<Vec<_>>().chunks_exact(matrices.len() / 4) {
            let of = |wanted: bool| -> u64 {
                quarter.iter().filter(|(chosen, _)| **chosen == wanted).map(|(_, (_, bytes))| bytes).sum()
            };
            let (memory, disk) = (of(true) as f64, of(false) as f64);
            assert!((0.25..4.0).contains(&(memory / disk)), "{memory} {disk}");
        }
    }
}
