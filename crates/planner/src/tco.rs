//! Total cost of ownership: buying against renting, month by month.
//!
//! Hardware is paid at the start and again whenever it is written off. Power, staff and other costs are paid each
//! month. Rent is paid each month, after an optional setup fee. There is no interest and no tax: over three years the
//! inputs matter more, and [`sensitivity`] shows how much.

use serde::{Deserialize, Serialize};

use crate::cost::HOURS_A_MONTH;
use crate::error::{Error, not_negative, positive, required, share};
use crate::money::Money;
use crate::sensitivity::{Swing, swings};

/// Bought hardware and its running costs: `[purchase]` of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Purchase {
    /// Price of all machines, installed.
    pub hardware: Money,
    /// Average power of all machines together, in watts.
    pub power_watts: f64,
    /// Power usage effectiveness: watts at the meter per watt at the machines, 1 to 10; 0 counts as 1.
    pub pue: f64,
    /// Price of a kilowatt-hour.
    pub price_per_kwh: Money,
    /// Staff, a month.
    pub staff_per_month: Money,
    /// Colocation, network, support contracts, a month.
    pub other_per_month: Money,
    /// Months after which the hardware is replaced.
    pub amortization_months: f64,
    /// Resale value of replaced hardware, as a share of its price, 0 to 1.
    pub resale_share: f64,
}

/// Rented machines, or an API: `[rent]` of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rent {
    /// Rent of all machines, or the API's bill, a month.
    pub per_month: Money,
    /// Staff, a month.
    pub staff_per_month: Money,
    /// Other costs, a month.
    pub other_per_month: Money,
    /// Setup fee, paid once.
    pub setup: Money,
}

/// Buying and renting over a horizon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The horizon, in months.
    pub months: u32,
    /// Running costs of the bought machines, a month.
    pub own_running_per_month: Money,
    /// Running costs plus depreciation of the hardware, a month.
    pub own_per_month: Money,
    /// Cost of renting, a month.
    pub rent_per_month: Money,
    /// Buying: amount paid by the end of month 0, 1, … `months`.
    pub own: Vec<Money>,
    /// Renting: amount paid by the end of month 0, 1, … `months`.
    pub rent: Vec<Money>,
    /// Months after which buying has cost no more than renting; none if that is not before the first replacement.
    pub break_even_months: Option<f64>,
    /// What buying saves by the end of the horizon; negative if buying costs more.
    pub saved: Money,
    /// `saved` as a share of the cost of renting.
    pub saved_share: Option<f64>,
}

impl Purchase {
    /// Cost of power, a month.
    #[must_use]
    pub fn power_per_month(&self) -> Money {
        self.price_per_kwh.times(self.power_watts / 1000.0 * self.pue() * HOURS_A_MONTH)
    }

    /// Running costs of the bought machines, a month.
    #[must_use]
    pub fn running_per_month(&self) -> Money {
        self.power_per_month() + self.staff_per_month + self.other_per_month
    }

    /// Power usage effectiveness; 1 where the plan gives none.
    fn pue(&self) -> f64 {
        if self.pue == 0.0 { 1.0 } else { self.pue }
    }

    fn check(&self) -> Result<(), Error> {
        money_fields(
            "purchase",
            &[
                ("hardware", self.hardware),
                ("price_per_kwh", self.price_per_kwh),
                ("staff_per_month", self.staff_per_month),
                ("other_per_month", self.other_per_month),
            ],
        )?;
        not_negative("purchase.power_watts", self.power_watts)?;
        share("purchase.resale_share", self.resale_share)?;
        let field = "purchase.amortization_months";
        if self.amortization_months == 0.0 {
            return required(field, None, "the months after which the hardware is replaced, such as 36");
        }
        positive(field, self.amortization_months)?;
        if !(1.0..=10.0).contains(&self.pue()) {
            return Err(Error::Range {
                field: "purchase.pue".to_owned(),
                value: self.pue.to_string(),
                expected: "1 to 10".to_owned(),
            });
        }
        Ok(())
    }

    /// Amount paid by the end of `month`. Each replacement is paid less the resale value of the old hardware.
    fn paid(&self, month: f64) -> Money {
        let replaced = ((month / self.amortization_months) - 1e-9).floor().max(0.0);
        let net = self.hardware.times(1.0 - self.resale_share);
        self.hardware + net.times(replaced) + self.running_per_month().times(month)
    }
}

impl Rent {
    /// Cost of renting, a month.
    #[must_use]
    pub fn running_per_month(&self) -> Money {
        self.per_month + self.staff_per_month + self.other_per_month
    }

    fn check(&self) -> Result<(), Error> {
        money_fields(
            "rent",
            &[
                ("per_month", self.per_month),
                ("staff_per_month", self.staff_per_month),
                ("other_per_month", self.other_per_month),
                ("setup", self.setup),
            ],
        )
    }
}

fn money_fields(section: &str, fields: &[(&str, Money)]) -> Result<(), Error> {
    for (name, amount) in fields {
        not_negative(&format!("{section}.{name}"), amount.value())?;
    }
    Ok(())
}

/// Upper bound of a plan's months: fifty years.
pub const MAX_MONTHS: u32 = 600;

/// Compares buying with renting over `months` months.
///
/// # Errors
/// A horizon outside 1 to 600 months, a negative amount, no amortization period, a PUE outside 1 to 10.
pub fn compare(purchase: &Purchase, rent: &Rent, months: u32) -> Result<Comparison, Error> {
    if !(1..=MAX_MONTHS).contains(&months) {
        return Err(Error::Range {
            field: "tco.months".to_owned(),
            value: months.to_string(),
            expected: format!("1 to {MAX_MONTHS}"),
        });
    }
    purchase.check()?;
    rent.check()?;
    let (own_running, rent_running) = (purchase.running_per_month(), rent.running_per_month());
    let rented = |month: f64| rent.setup + rent_running.times(month);
    let series = |paid: &dyn Fn(f64) -> Money| (0..=months).map(|month| paid(f64::from(month))).collect();
    let (own, rent_paid): (Vec<Money>, Vec<Money>) = (series(&|m| purchase.paid(m)), series(&rented));
    let saved = rented(f64::from(months)) - purchase.paid(f64::from(months));
    let monthly = rent_running - own_running;
    let gap = purchase.hardware - rent.setup;
    // Both amounts are linear in time until the hardware is first replaced.
    let reach = purchase.amortization_months.max(f64::from(months));
    let crossing = if gap <= Money::ZERO { Some(0.0) } else { gap.ratio(monthly).filter(|m| *m > 0.0) };
    let wear = purchase.hardware.times((1.0 - purchase.resale_share) / purchase.amortization_months);
    Ok(Comparison {
        months,
        own_running_per_month: own_running,
        own_per_month: own_running + wear,
        rent_per_month: rent_running,
        own,
        rent: rent_paid,
        break_even_months: crossing.filter(|m| *m <= reach.min(purchase.amortization_months)),
        saved,
        saved_share: saved.ratio(rented(f64::from(months))),
    })
}

/// The savings at the end of the horizon with each input changed by a fifth, the widest swing first.
///
/// # Errors
/// As [`compare`].
pub fn sensitivity(purchase: &Purchase, rent: &Rent, months: u32) -> Result<Vec<Swing>, Error> {
    let inputs = [
        ("purchase.hardware", purchase.hardware.value()),
        ("purchase.power_watts", purchase.power_watts),
        ("purchase.price_per_kwh", purchase.price_per_kwh.value()),
        ("purchase.staff_per_month", purchase.staff_per_month.value()),
        ("purchase.other_per_month", purchase.other_per_month.value()),
        ("purchase.amortization_months", purchase.amortization_months),
        ("rent.per_month", rent.per_month.value()),
        ("rent.staff_per_month", rent.staff_per_month.value()),
        ("rent.other_per_month", rent.other_per_month.value()),
        ("rent.setup", rent.setup.value()),
    ];
    swings(&inputs, |values| {
        let money = |index: usize| Money::from_f64(values[index]);
        let bought = Purchase {
            hardware: money(0),
            power_watts: values[1],
            price_per_kwh: money(2),
            staff_per_month: money(3),
            other_per_month: money(4),
            amortization_months: values[5],
            ..purchase.clone()
        };
        let rented = Rent {
            per_month: money(6),
            staff_per_month: money(7),
            other_per_month: money(8),
            setup: money(9),
        };
        Ok(compare(&bought, &rented, months)?.saved.value())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> (Purchase, Rent) {
        let purchase = Purchase {
            hardware: Money::from_f64(12_000.0),
            power_watts: 500.0,
            pue: 1.2,
            price_per_kwh: Money::from_f64(0.30),
            staff_per_month: Money::from_f64(100.0),
            amortization_months: 36.0,
            resale_share: 0.1,
            ..Purchase::default()
        };
        (purchase, Rent { per_month: Money::from_f64(900.0), ..Rent::default() })
    }

    #[test]
    fn months_add_up_and_hardware_is_replaced() {
        let (purchase, rent) = plan();
        // 0.5 kW x 1.2 x 730 h x 0.30.
        assert_eq!(purchase.power_per_month().text(2), "131.40");
        let found = compare(&purchase, &rent, 48).unwrap();
        assert_eq!(found.own_running_per_month.text(2), "231.40");
        assert_eq!(found.own_per_month.text(2), "531.40");
        assert_eq!(found.own[36].text(2), "20,330.40");
        assert_eq!(found.own[37].text(2), "31,361.80", "new hardware, less what the old fetched");
        assert_eq!(found.rent[48].text(2), "43,200.00");
        let months = found.break_even_months.unwrap();
        assert!((months - 12_000.0 / 668.6).abs() < 1e-9);
        assert_eq!(found.saved, found.rent[48] - found.own[48]);
    }

    #[test]
    fn never_is_never() {
        let (purchase, mut rent) = plan();
        rent.per_month = Money::from_f64(200.0);
        let found = compare(&purchase, &rent, 24).unwrap();
        assert_eq!(found.break_even_months, None);
        assert!(found.saved < Money::ZERO);
        // Rent that is dearer by so little that the hardware is gone before.
        rent.per_month = Money::from_f64(240.0);
        assert_eq!(compare(&purchase, &rent, 24).unwrap().break_even_months, None);
    }

    #[test]
    fn the_heaviest_input_comes_first() {
        let (purchase, rent) = plan();
        let swings = sensitivity(&purchase, &rent, 36).unwrap();
        assert_eq!(swings[0].input, "rent.per_month");
        // Hardware that lasts a fifth less is bought twice in 36 months.
        assert_eq!(
            (swings[1].input.as_str(), swings[2].input.as_str()),
            ("purchase.amortization_months", "purchase.hardware")
        );
        assert_eq!(swings[1].width().round(), 10_800.0);
        assert!((swings[0].high - swings[0].low - 0.4 * 900.0 * 36.0).abs() < 1e-6);
        assert!(swings.iter().all(|swing| swing.input != "rent.setup"), "nothing has no weight");
    }

    #[test]
    fn bad_inputs_are_named() {
        let (purchase, rent) = plan();
        let said = |purchase: Purchase, months| compare(&purchase, &rent, months).unwrap_err().to_string();
        assert_eq!(said(purchase.clone(), 0), "tco.months: 0 is outside 1 to 600");
        let lifeless = Purchase { amortization_months: 0.0, ..purchase.clone() };
        assert!(said(lifeless, 12).starts_with("purchase.amortization_months is missing"));
        let paid_to_take = Purchase { hardware: Money::from_f64(-1.0), ..purchase };
        assert!(said(paid_to_take, 12).starts_with("purchase.hardware: -1 is outside"));
    }
}
