//! What the machine costs, for the meter.

use server::{Currency, Price};

use crate::Failure;

/// The highest price an hour: past it somebody forgot a decimal point.
const MOST: f64 = 1e6;

#[derive(clap::Args)]
#[command(next_help_heading = "Cost")]
pub(super) struct Pricing {
    /// What the machine costs an hour, as 0.79: metrics then tell what was spent on prompts, on answers and on idling.
    #[arg(long, value_name = "AMOUNT", value_parser = amount, allow_hyphen_values = true)]
    price_per_hour: Option<f64>,

    /// The price's currency, as three letters.
    #[arg(long, value_name = "CODE", default_value = "USD", value_parser = currency)]
    currency: Currency,

    /// Say in each answer's `usage` what it cost; else a request asks with `include_cost`.
    #[arg(long)]
    cost_in_usage: bool,
}

impl Pricing {
    /// The price, if there is one.
    ///
    /// # Errors
    /// Costs are to be told and no price is.
    pub(super) fn price(&self) -> Result<Option<Price>, Failure> {
        let Pricing { price_per_hour, currency, cost_in_usage } = *self;
        if cost_in_usage && price_per_hour.is_none() {
            return Err(Failure::usage("--cost-in-usage needs --price-per-hour"));
        }
        Ok(price_per_hour.map(|per_hour| Price { per_hour, currency, in_usage: cost_in_usage }))
    }
}

fn amount(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|amount| *amount > 0.0 && *amount <= MOST);
    amount.ok_or_else(|| format!("expected an amount above 0 and up to {MOST}, as 0.79"))
}

fn currency(code: &str) -> Result<Currency, String> {
    Currency::new(code).ok_or_else(|| "expected a code of three letters, as USD".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_amounts_above_nothing() {
        assert_eq!(amount("0.79"), Ok(0.79));
        for bad in ["0", "-1", "NaN", "inf", "1e7", "0,79", "$1", ""] {
            assert!(amount(bad).is_err(), "{bad}");
        }
    }
}
