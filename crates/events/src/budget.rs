//! The memory that models may take together.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The budget of all models and what is reserved of it, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelBudget {
    /// All that may be reserved.
    pub budget_bytes: u64,
    /// Reserved for models that are loaded or being loaded.
    pub reserved_bytes: u64,
}

pub(crate) struct BudgetMetrics {
    budget: Gauge,
    reserved: Gauge,
}

impl BudgetMetrics {
    pub(crate) fn new(r: &mut Registry) -> BudgetMetrics {
        let (budget, reserved) = (Gauge::default(), Gauge::default());
        let help = "Memory that models may take together";
        r.register("gristmill_memory_budget_bytes", help, budget.clone());
        let help = "Memory reserved for models, of the budget";
        r.register("gristmill_memory_reserved_bytes", help, reserved.clone());
        BudgetMetrics { budget, reserved }
    }

    pub(crate) fn set(&self, memory: &ModelBudget) {
        let whole = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.budget.set(whole(memory.budget_bytes));
        self.reserved.set(whole(memory.reserved_bytes));
    }
}
