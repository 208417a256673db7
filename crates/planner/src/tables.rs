//! The shipped tables of API prices and machines, and their merge with a plan's own entries.

use serde::{Deserialize, Serialize};

use crate::error::{Error, not_negative, positive};
use crate::money::{Currency, Money};

const PRICES: &str = include_str!("../prices.toml");
const MACHINES: &str = include_str!("../machines.toml");

/// A commercial API's prices of a million tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiPrice {
    /// The entry's name, as plans refer to it.
    pub name: String,
    /// Price of a million input tokens.
    pub input: Money,
    /// Price of a million output tokens.
    pub output: Money,
    /// Price of a million input tokens in the provider's cache; none where it has no cache.
    pub cached: Option<Money>,
    /// ISO 4217 code of the three prices' currency.
    #[serde(default = "usd")]
    pub currency: String,
    /// Date of the prices, `YYYY-MM-DD`.
    pub date: String,
    /// Source of the prices.
    pub source: String,
}

/// A machine that can be rented.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RentedMachine {
    /// The entry's name, as plans refer to it.
    pub name: String,
    /// The processor and the number of vCPUs, for reports.
    pub title: String,
    /// The ISA tier that the kernels would run on: `scalar`, `avx2`, `avx512`, `amx`, `amx-fp16`, `neon`.
    pub tier: String,
    /// Physical cores of the machine.
    pub cores: u32,
    /// Memory, in GiB.
    pub memory_gib: f64,
    /// Memory channels of the processor.
    pub memory_channels: u32,
    /// Peak bandwidth of all memory channels of the processor, GB/s (1e9 bytes).
    pub socket_gb_per_s: f64,
    /// Cores of the processor. The machine's share of the bandwidth is `cores / socket_cores`.
    pub socket_cores: u32,
    /// Eight-bit multiply-adds of one core in one cycle.
    pub int8_per_cycle: f64,
    /// Clock that all cores sustain under load, GHz.
    pub ghz: f64,
    /// Price of an hour; none where no source was found.
    pub price_per_hour: Option<Money>,
    /// ISO 4217 code of the price's currency.
    #[serde(default = "usd")]
    pub currency: String,
    /// Date of the entry, `YYYY-MM-DD`.
    pub date: String,
    /// Source of the entry.
    pub source: String,
    /// Names of the fields without a source.
    #[serde(default)]
    pub unverified: Vec<String>,
}

pub(crate) fn usd() -> String {
    "USD".to_owned()
}

/// Read bandwidth of long streams as a share of the memory channels' peak: 0.4 to 0.8 on servers. Used only for
/// machines without a measurement.
const READ_EFFICIENCY: f64 = 0.75;

impl RentedMachine {
    /// Estimated read bandwidth of the machine's cores, GB/s (1e9 bytes), from the memory channels.
    #[must_use]
    pub fn read_gb_per_s(&self) -> f64 {
        let share = f64::from(self.cores) / f64::from(self.socket_cores.max(1));
        self.socket_gb_per_s * share.min(1.0) * READ_EFFICIENCY
    }

    /// Estimated peak of eight-bit multiply-adds of the machine's cores, 1e9 a second, from the clock.
    #[must_use]
    pub fn int8_g_per_s(&self) -> f64 {
        f64::from(self.cores) * self.int8_per_cycle * self.ghz
    }

    fn check(&self) -> Result<(), Error> {
        let field = |name: &str| format!("machine `{}`: {name}", self.name);
        for (name, value) in [
            ("cores", f64::from(self.cores)),
            ("socket_cores", f64::from(self.socket_cores)),
            ("memory_gib", self.memory_gib),
            ("socket_gb_per_s", self.socket_gb_per_s),
            ("int8_per_cycle", self.int8_per_cycle),
            ("ghz", self.ghz),
        ] {
            positive(&field(name), value)?;
        }
        if let Some(price) = self.price_per_hour {
            not_negative(&field("price_per_hour"), price.value())?;
        }
        Currency::named(&self.currency).map(drop)
    }
}

impl ApiPrice {
    fn check(&self) -> Result<(), Error> {
        for (name, price) in
            [("input", Some(self.input)), ("output", Some(self.output)), ("cached", self.cached)]
        {
            let price = price.unwrap_or_default();
            not_negative(&format!("price `{}`: {name}", self.name), price.value())?;
        }
        Currency::named(&self.currency).map(drop)
    }
}

#[derive(Deserialize)]
struct PriceFile {
    price: Vec<ApiPrice>,
}

#[derive(Deserialize)]
struct MachineFile {
    machine: Vec<RentedMachine>,
}

/// The shipped prices merged with `own`: an entry of the same name is replaced, others are appended.
///
/// # Errors
/// A negative price, or an invalid currency.
pub fn prices(own: &[ApiPrice]) -> Result<Vec<ApiPrice>, Error> {
    let file: PriceFile = read("prices.toml", PRICES)?;
    own.iter().try_for_each(ApiPrice::check)?;
    Ok(merged(file.price, own, |price| &price.name))
}

/// The shipped machines merged with `own`, as [`prices`] does.
///
/// # Errors
/// A number of zero or less, or an invalid currency.
pub fn machines(own: &[RentedMachine]) -> Result<Vec<RentedMachine>, Error> {
    let file: MachineFile = read("machines.toml", MACHINES)?;
    own.iter().try_for_each(RentedMachine::check)?;
    Ok(merged(file.machine, own, |machine| &machine.name))
}

fn read<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T, Error> {
    toml::from_str(text)
        .map_err(|error| Error::Text { what: what.to_owned(), detail: error.message().to_owned() })
}

fn merged<T: Clone>(mut shipped: Vec<T>, own: &[T], name: impl Fn(&T) -> &String) -> Vec<T> {
    for entry in own {
        match shipped.iter_mut().find(|old| name(old) == name(entry)) {
            Some(old) => *old = entry.clone(),
            None => shipped.push(entry.clone()),
        }
    }
    shipped
}

/// The entry of `all` called `wanted`, or [`Error::Unknown`] with the names that exist.
pub(crate) fn find<'a, T>(
    field: &str,
    what: &'static str,
    all: &'a [T],
    wanted: &str,
    name: impl Fn(&T) -> &str,
) -> Result<&'a T, Error> {
    all.iter().find(|entry| name(entry) == wanted).ok_or_else(|| Error::Unknown {
        field: field.to_owned(),
        what,
        name: wanted.to_owned(),
        known: all.iter().map(name).collect::<Vec<_>>().join(", "),
    })
}

/// Checks that a price is in the plan's currency.
pub(crate) fn same_currency(field: &str, found: &str, wanted: Currency) -> Result<(), Error> {
    if found == wanted.name() {
        return Ok(());
    }
    let (field, found, wanted) = (field.to_owned(), found.to_owned(), wanted.name().to_owned());
    Err(Error::Currency { field, found, wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_tables_are_whole_and_dated() {
        for price in prices(&[]).unwrap() {
            price.check().unwrap();
            assert!(price.date.len() == 10 && !price.source.is_empty(), "{price:?}");
            assert!(price.cached.is_none_or(|cached| cached <= price.input), "{price:?}");
        }
        for machine in machines(&[]).unwrap() {
            machine.check().unwrap();
            assert!(machine.date.len() == 10 && !machine.source.is_empty(), "{machine:?}");
            assert!(machine.cores <= machine.socket_cores, "{machine:?}");
            let fields = toml::Table::try_from(&machine).unwrap();
            assert!(machine.unverified.iter().all(|name| fields.contains_key(name)), "{machine:?}");
            let carried = f64::from(machine.memory_channels) * 8.0;
            assert!(
                [4.8, 5.6].iter().any(|gt| (carried * gt - machine.socket_gb_per_s).abs() < 0.1),
                "{machine:?}"
            );
        }
    }

    #[test]
    fn own_entries_replace_and_add() {
        let own = |name: &str| ApiPrice {
            name: name.to_owned(),
            input: Money::from_f64(9.0),
            output: Money::from_f64(9.0),
            cached: None,
            currency: usd(),
            date: "2026-01-01".to_owned(),
            source: "a contract".to_owned(),
        };
        let shipped = prices(&[]).unwrap().len();
        let joined = prices(&[own("gpt-4o-mini"), own("ours")]).unwrap();
        assert_eq!(joined.len(), shipped + 1);
        assert_eq!(joined[0].input, Money::from_f64(9.0));
        let negative = ApiPrice { input: Money::from_f64(-1.0), ..own("bad") };
        let refused = prices(&[negative]).unwrap_err().to_string();
        assert_eq!(refused, "price `bad`: input: -1 is outside numbers from 0 to 1e15");
    }
}
