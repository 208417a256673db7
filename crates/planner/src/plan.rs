//! The plan: all inputs of the planner, as one TOML text.
//!
//! Every field may be absent; a computation that needs a missing field returns an error that names it. Unknown fields
//! are errors, so that a misspelt one is not ignored.

use serde::{Deserialize, Serialize};

use crate::cost::{HOURS_A_MONTH, Request, Server};
use crate::error::{Error, not_negative, positive, required};
use crate::farm::FarmPlan;
use crate::fleet::{FleetPlan, Slo};
use crate::money::{Currency, Money};
use crate::tables::{self, ApiPrice, RentedMachine};
use crate::tco::{Purchase, Rent};

/// The whole plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    currency: Option<String>,
    /// An own machine, on its CPU.
    pub own: ServerPlan,
    /// A machine with a GPU.
    pub gpu: ServerPlan,
    /// A commercial API.
    pub api: Api,
    /// The requests to serve.
    pub work: Work,
    /// The service level to keep.
    pub slo: Slo,
    /// Bought hardware.
    pub purchase: Option<Purchase>,
    /// Rented machines.
    pub rent: Option<Rent>,
    /// Settings of the comparison of buying and renting.
    pub tco: Tco,
    /// Settings of the simulation.
    pub fleet: FleetPlan,
    /// Models that share a machine.
    pub farm: FarmPlan,
    /// Settings of the recommendation.
    pub choose: Choose,
    /// Prices that replace shipped ones of the same name, or are added.
    pub price: Vec<ApiPrice>,
    /// Machines that replace shipped ones of the same name, or are added.
    pub machine: Vec<RentedMachine>,
}

/// A serving machine: `[own]` or `[gpu]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerPlan {
    /// Name of an entry of the machine table, for the price.
    pub machine: Option<String>,
    /// Price of an hour.
    pub price_per_hour: Option<Money>,
    /// Price of a month, in place of that of an hour.
    pub price_per_month: Option<Money>,
    /// Tokens generated a second, all streams together.
    pub tokens_per_s: Option<f64>,
    /// Prompt tokens computed a second.
    pub prompt_tokens_per_s: Option<f64>,
    /// Share of the time in which the machine is busy (1 unless given).
    pub utilization: Option<f64>,
}

/// `[api]`: names of entries of the price table.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Api {
    /// The API model that serves requests.
    pub model: Option<String>,
    /// A larger API model, for escalated requests.
    pub large: Option<String>,
}

/// `[work]`: the requests to serve.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Work {
    /// Requests a month.
    pub requests_per_month: Option<f64>,
    /// Prompt tokens of the average request.
    pub input_tokens: Option<u64>,
    /// Generated tokens of the average request.
    pub output_tokens: Option<u64>,
    /// Share of the prompt tokens that a prompt cache holds, 0 to 1 (0 unless given).
    pub cached_share: f64,
    /// Share of the requests that are escalated to a large model, 0 to 1 (0 unless given).
    pub escalated_share: f64,
    /// Requests in each hour of a period that repeats: a day, a week.
    pub requests_by_hour: Option<Vec<f64>>,
}

/// `[tco]`: settings of the comparison of buying and renting.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tco {
    /// The horizon, in months (36 unless given).
    pub months: u32,
}

impl Default for Tco {
    fn default() -> Tco {
        Tco { months: 36 }
    }
}

/// `[choose]`: settings of the recommendation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Choose {
    /// Sensitivity of the data.
    pub data: Option<Sensitivity>,
    /// Parameters of the smallest model that is good enough, in 1e9.
    pub model_billions: Option<f64>,
    /// Upper bound of the price of a month.
    pub budget_per_month: Option<Money>,
}

/// Where the data may be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sensitivity {
    /// The data is public.
    Public,
    /// The data may go to an API under contract.
    Internal,
    /// The data stays on own machines.
    Secret,
}

impl Plan {
    /// Parses a plan from `text`, overridden by `settings` (pairs of `section.field` and value). Returns the plan, and
    /// the resulting TOML for reports.
    ///
    /// A setting's value is TOML; what cannot be parsed as TOML is a string.
    ///
    /// # Errors
    /// Invalid TOML, an unknown field, a value of the wrong type.
    pub fn read(text: &str, settings: &[(String, String)]) -> Result<(Plan, String), Error> {
        let of = |what: &str, error: toml::de::Error| Error::Text {
            what: what.to_owned(),
            detail: error.message().lines().next().unwrap_or_default().to_owned(),
        };
        let mut table: toml::Table = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count());
            of(&format!("the plan, line {}", line.max(1)), error)
        })?;
        for (key, value) in settings {
            set(&mut table, key, value)?;
        }
        let printed = toml::to_string(&table)
            .map_err(|error| Error::Text { what: "the plan".to_owned(), detail: error.to_string() })?;
        let plan: Plan = toml::from_str(&printed).map_err(|error| {
            let at = error.span().map(|span| location(&printed, span.start)).unwrap_or_default();
            of(&format!("the plan{at}"), error)
        })?;
        plan.currency()?;
        Ok((plan, printed))
    }

    /// The currency of all amounts; USD unless given.
    ///
    /// # Errors
    /// An invalid currency code.
    pub fn currency(&self) -> Result<Currency, Error> {
        self.currency.as_deref().map_or(Ok(Currency::USD), Currency::named)
    }

    /// The machine table, merged with the plan's entries.
    ///
    /// # Errors
    /// As [`tables::machines`].
    pub fn machines(&self) -> Result<Vec<RentedMachine>, Error> {
        tables::machines(&self.machine)
    }

    /// The machine called `name` in the table.
    ///
    /// # Errors
    /// An unknown name, with the known ones.
    pub fn machine(&self, field: &str, name: &str) -> Result<RentedMachine, Error> {
        let all = self.machines()?;
        tables::find(field, "machine", &all, name, |machine| &machine.name).cloned()
    }

    /// The prices in the plan's currency; empty where all are in another.
    ///
    /// # Errors
    /// As [`tables::prices`].
    pub fn prices(&self) -> Result<Vec<ApiPrice>, Error> {
        let currency = self.currency()?;
        let all = tables::prices(&self.price)?;
        Ok(all.into_iter().filter(|price| price.currency == currency.name()).collect())
    }

    /// The API that serves requests, if the plan names one.
    ///
    /// # Errors
    /// An unknown name, or a price in another currency.
    pub fn api(&self) -> Result<Option<ApiPrice>, Error> {
        self.api_named("api.model", self.api.model.as_deref())
    }

    /// The API for escalated requests, if the plan names one.
    ///
    /// # Errors
    /// As [`Plan::api`].
    pub fn large(&self) -> Result<Option<ApiPrice>, Error> {
        self.api_named("api.large", self.api.large.as_deref())
    }

    fn api_named(&self, field: &str, name: Option<&str>) -> Result<Option<ApiPrice>, Error> {
        let Some(name) = name else { return Ok(None) };
        let all = tables::prices(&self.price)?;
        let price = tables::find(field, "API model", &all, name, |price| &price.name)?;
        tables::same_currency(&format!("price `{name}`"), &price.currency, self.currency()?)?;
        Ok(Some(price.clone()))
    }

    /// The average request.
    ///
    /// # Errors
    /// Missing token counts, or a share outside 0 to 1.
    pub fn request(&self) -> Result<Request, Error> {
        let input =
            required("work.input_tokens", self.work.input_tokens, "tokens in, of the average request")?;
        let output =
            required("work.output_tokens", self.work.output_tokens, "tokens out, of the average request")?;
        Request::new(input, output, self.work.cached_share)
    }

    /// Requests a month: as given, or the sum of the load curve.
    ///
    /// # Errors
    /// Neither given, or a negative number.
    pub fn requests_per_month(&self) -> Result<f64, Error> {
        let curve = self.work.requests_by_hour.as_ref().filter(|load| !load.is_empty());
        let summed = curve.map(|load| load.iter().sum::<f64>() * HOURS_A_MONTH / load.len() as f64);
        let given = self.work.requests_per_month.or(summed);
        let requests = required("work.requests_per_month", given, "give it, or work.requests_by_hour")?;
        not_negative("work.requests_per_month", requests)
    }

    /// Price of an hour of the own machine.
    ///
    /// # Errors
    /// A missing or negative price, an unknown machine, a price in another currency.
    pub fn own_price(&self) -> Result<Money, Error> {
        self.price_of("own", &self.own)
    }

    /// The own machine.
    ///
    /// # Errors
    /// A price or rate that is missing or out of range.
    pub fn own(&self) -> Result<Server, Error> {
        self.server("own", &self.own)
    }

    /// The machine with a GPU, if the plan has one.
    ///
    /// # Errors
    /// As [`Plan::own`].
    pub fn gpu(&self) -> Result<Option<Server>, Error> {
        if self.gpu == ServerPlan::default() {
            return Ok(None);
        }
        self.server("gpu", &self.gpu).map(Some)
    }

    fn price_of(&self, section: &str, machine: &ServerPlan) -> Result<Money, Error> {
        let field = format!("{section}.price_per_hour");
        if let Some(price) = machine.price_per_hour {
            not_negative(&field, price.value())?;
            return Ok(price);
        }
        if let Some(month) = machine.price_per_month {
            not_negative(&format!("{section}.price_per_month"), month.value())?;
            return Ok(month.times(1.0 / HOURS_A_MONTH));
        }
        let mut why = "what an hour of this machine costs (prices are never guessed)".to_owned();
        if let Some(name) = &machine.machine {
            let found = self.machine(&format!("{section}.machine"), name)?;
            if let Some(price) = found.price_per_hour {
                tables::same_currency(&format!("machine `{name}`"), &found.currency, self.currency()?)?;
                return Ok(price);
            }
            why = format!("nobody looked up what `{name}` costs an hour (prices are never guessed)");
        }
        required(&field, None, &why)
    }

    fn server(&self, section: &str, machine: &ServerPlan) -> Result<Server, Error> {
        let rate = required(
            &format!("{section}.tokens_per_s"),
            machine.tokens_per_s,
            "tokens generated a second, all streams together; or a bench JSON",
        )?;
        let used = machine.utilization.unwrap_or(1.0);
        let price = self.price_of(section, machine)?;
        Server::new(section, price, rate, machine.prompt_tokens_per_s, used)
    }

    /// Parameters of the smallest model that is good enough, in 1e9, if the plan gives them.
    ///
    /// # Errors
    /// Zero or less.
    pub fn model_billions(&self) -> Result<Option<f64>, Error> {
        self.choose.model_billions.map(|b| positive("choose.model_billions", b)).transpose()
    }
}

/// Sets the field `key` (`section.field`) to `value`, creating the section if needed.
fn set(table: &mut toml::Table, key: &str, value: &str) -> Result<(), Error> {
    let refused = |detail: &str| Error::Text { what: key.to_owned(), detail: detail.to_owned() };
    let value = match toml::from_str::<toml::Table>(&format!("value = {value}")) {
        Ok(mut read) => read.remove("value").ok_or_else(|| refused("no value"))?,
        Err(_) => toml::Value::String(value.to_owned()),
    };
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop().filter(|last| !last.is_empty()).ok_or_else(|| refused("no field"))?;
    let mut at = table;
    for part in parts {
        let inner = at.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = inner.as_table_mut().ok_or_else(|| refused("is no section"))?;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

/// The section and field at a byte offset of the printed plan, for error messages: `, [own] tokens_per_s`.
fn location(printed: &str, byte: usize) -> String {
    let mut section = "";
    let mut seen = 0;
    for line in printed.split_inclusive('\n') {
        let text = line.trim();
        if text.starts_with('[') {
            section = text;
        }
        seen += line.len();
        if seen > byte {
            let field = text.split('=').next().unwrap_or_default().trim();
            let shown = if text.starts_with('[') { "" } else { field };
            return format!(", {section} {shown}").trim_end().to_owned();
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, settings: &[(&str, &str)]) -> String {
        let settings: Vec<_> = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Plan::read(text, &settings).map(drop).unwrap_err().to_string()
    }

    fn plan(text: &str) -> Plan {
        Plan::read(text, &[]).unwrap().0
    }

    #[test]
    fn settings_go_over_the_text_and_both_are_printed() {
        let settings = [
            ("own.tokens_per_s".to_owned(), "60".to_owned()),
            ("api.model".to_owned(), "gpt-4o-mini".to_owned()),
            ("own.price_per_hour".to_owned(), "0.79".to_owned()),
        ];
        let (plan, printed) = Plan::read("[own]\ntokens_per_s = 1\nutilization = 0.5\n", &settings).unwrap();
        let own = plan.own().unwrap();
        assert_eq!((own.tokens_per_s, own.utilization), (60.0, 0.5));
        assert_eq!(plan.api().unwrap().unwrap().name, "gpt-4o-mini");
        let (again, same) = Plan::read(&printed, &[]).unwrap();
        assert_eq!((again.own().unwrap(), same), (own, printed));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(said("[own]\nprice = 1\n", &[]).split(':').next(), Some("the plan, [own] price"));
        assert!(said("[own\n", &[]).starts_with("the plan, line 1: "));
        assert!(said("", &[("own.tokens_per_s", "fast")]).starts_with("the plan, [own] tokens_per_s: "));
        assert!(said("currency = \"dollars\"", &[]).starts_with("currency: `dollars` is outside"));
        assert!(said("own = 3", &[("own.tokens_per_s", "1")]).starts_with("own.tokens_per_s: is no section"));
    }

    #[test]
    fn nothing_is_invented() {
        let why = |text: &str| plan(text).own().unwrap_err().to_string();
        assert!(why("").starts_with("own.tokens_per_s is missing"));
        assert!(why("[own]\ntokens_per_s = 1").starts_with("own.price_per_hour is missing"));
        let unpriced = "[own]\ntokens_per_s = 1\nmachine = \"aws-c7i.4xlarge\"";
        assert_eq!(
            why(unpriced),
            "own.price_per_hour is missing: nobody looked up what `aws-c7i.4xlarge` costs an hour (prices are never guessed)"
        );
        let priced = "[own]\ntokens_per_s = 1\nmachine = \"aws-m7g.large\"";
        assert_eq!(plan(priced).own_price().unwrap().text(4), "0.0816");
        assert!(
            why("[own]\ntokens_per_s = 1\nmachine = \"abacus\"").contains("no machine is called `abacus`")
        );
        let monthly = plan("[own]\nprice_per_month = 60").own_price().unwrap();
        assert_eq!(monthly.times(HOURS_A_MONTH).text(2), "60.00");
    }

    #[test]
    fn bad_rates_and_shares_name_their_field() {
        let why = |fields: &str| {
            plan(&format!("[own]\nprice_per_hour = 1\n{fields}")).own().unwrap_err().to_string()
        };
        assert!(why("tokens_per_s = 0").starts_with("own.tokens_per_s: 0 is outside"));
        assert!(why("tokens_per_s = -3").starts_with("own.tokens_per_s: -3 is outside"));
        assert!(why("tokens_per_s = nan").starts_with("own.tokens_per_s: NaN is outside"));
        assert!(why("tokens_per_s = 1\nutilization = 1.2").starts_with("own.utilization: 1.2 is outside"));
        assert!(why("tokens_per_s = 1\nutilization = 0").starts_with("own.utilization: 0 is outside"));
        assert!(why("tokens_per_s = 1\nprompt_tokens_per_s = 0").starts_with("own.prompt_tokens_per_s: 0"));
    }

    #[test]
    fn currencies_do_not_mix() {
        let euros = plan("currency = \"EUR\"\n[api]\nmodel = \"gpt-4o-mini\"");
        let why = euros.api().unwrap_err().to_string();
        assert!(why.starts_with("price `gpt-4o-mini` is in USD and the plan in EUR"), "{why}");
        assert!(euros.prices().unwrap().is_empty());
    }

    #[test]
    fn volume_is_given_or_summed() {
        assert_eq!(plan("[work]\nrequests_per_month = 5").requests_per_month().unwrap(), 5.0);
        assert_eq!(plan("[work]\nrequests_by_hour = [10, 20]").requests_per_month().unwrap(), 15.0 * 730.0);
        assert!(
            plan("").requests_per_month().unwrap_err().to_string().starts_with("work.requests_per_month is")
        );
    }
}
