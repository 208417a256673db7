//! A delivery: one event on its way to one receiver. A state machine over attempts, which decides only.
//!
//! `pending → sending → delivered`, or back to `pending` until the schedule is used up, then `dead`. A delivery whose
//! receiver is gone is `discarded`. A server that dies while it sends leaves `sending`: the attempt counts, and the next
//! server begins another.

use jobs::Millis;
use jobs::id::new_id;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::Event;

const SECOND: Millis = 1_000;
const MINUTE: Millis = 60 * SECOND;
const HOUR: Millis = 60 * MINUTE;

/// The pause before each attempt: ten attempts in some 75 hours.
pub const SCHEDULE: [Millis; 10] =
    [0, 5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
/// The longest pause that a receiver may ask for.
pub const MOST_RETRY_AFTER: Millis = HOUR;
/// How long an ended delivery is kept.
pub const KEPT: Millis = 7 * 24 * HOUR;
/// Characters of an error that are kept.
pub const MOST_ERROR_CHARACTERS: usize = 200;

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for its next attempt.
    Pending,
    /// An attempt is made.
    Sending,
    /// The receiver took it.
    Delivered,
    /// Every attempt failed.
    Dead,
    /// Given up: its receiver is gone or switched off.
    Discarded,
}

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receiver {
    /// A webhook endpoint, by its id.
    Endpoint(String),
    /// A URL that one request named.
    Url(String),
}

/// An event on its way to a receiver. Kept as a JSON document, due at `next_at`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// `whd_…`.
    pub id: String,
    /// The name of the API key to which it belongs; empty without keys.
    pub key: String,
    /// Who is told.
    pub receiver: Receiver,
    /// Of what.
    pub event: Event,
    /// Where it stands.
    pub state: State,
    /// Attempts so far.
    pub attempt: u32,
    /// When the next attempt is due.
    pub next_at: Option<Millis>,
    /// When it was made.
    pub created_at: Millis,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// HTTP status of the last attempt's answer.
    pub last_status: Option<u16>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// How long the last attempt took, in milliseconds.
    pub last_ms: Option<u64>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The answer's status, or why there was none.
    pub result: Result<u16, String>,
    /// The answer's `Retry-After`, as it came.
    pub retry_after: Option<String>,
    /// How long it took, in milliseconds.
    pub millis: u64,
}

/// What an attempt says about the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// It takes messages.
    Healthy,
    /// It did not take this one.
    Failing,
    /// It wants nothing before this time.
    Busy(Millis),
    /// It says that it is gone for good.
    Gone,
}

/// A call that a delivery's state does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the delivery {id} is {}, so it cannot be {wanted}", state.name())]
pub struct WrongState {
    /// The delivery.
    pub id: String,
    /// Its state.
    pub state: State,
    /// What was asked for.
    pub wanted: &'static str,
}

impl State {
    /// Its name, such as `pending`.
    pub fn name(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Sending => "sending",
            State::Delivered => "delivered",
            State::Dead => "dead",
            State::Discarded => "discarded",
        }
    }

    /// Whether nothing more happens by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, State::Delivered | State::Dead | State::Discarded)
    }
}

impl Delivery {
    /// A new delivery, due at once.
    pub fn new(
        key: impl Into<String>,
        receiver: Receiver,
        event: Event,
        now: Millis,
        random: u128,
    ) -> Delivery {
        Delivery {
            id: new_id("whd_", now, random),
            key: key.into(),
            receiver,
            event,
            state: State::Pending,
            attempt: 0,
            next_at: Some(now),
            created_at: now,
            ended_at: None,
            last_status: None,
            last_error: None,
            last_ms: None,
        }
    }

    /// Begins an attempt. One that an earlier server left in `sending` is begun anew; if that was the last one, the
    /// delivery is dead.
    ///
    /// # Errors
    /// A delivery that has ended, or ends now.
    pub fn begin(&mut self, now: Millis) -> Result<(), WrongState> {
        if !self.state.is_terminal() && self.attempts_left() == 0 {
            self.last_error = Some("the server stopped during the last attempt".to_owned());
            self.end(State::Dead, now);
        }
        if self.state.is_terminal() {
            return Err(self.wrong("sent"));
        }
        self.state = State::Sending;
        self.attempt += 1;
        self.next_at = None;
        Ok(())
    }

    /// Ends an attempt. Of `random` depends how far the next pause is from the schedule's.
    ///
    /// # Errors
    /// A delivery that is not being sent.
    pub fn settle(&mut self, attempt: &Attempt, now: Millis, random: u64) -> Result<Consequence, WrongState> {
        if self.state != State::Sending {
            return Err(self.wrong("settled"));
        }
        self.last_ms = Some(attempt.millis);
        self.last_status = attempt.result.as_ref().ok().copied();
        self.last_error = error_of(&attempt.result);
        let consequence = consequence_of(attempt, now);
        match consequence {
            Consequence::Healthy => self.end(State::Delivered, now),
            Consequence::Gone => self.end(State::Discarded, now),
            Consequence::Failing => self.wait(now, None, random),
            Consequence::Busy(until) => self.wait(now, Some(until), random),
        }
        Ok(consequence)
    }

    /// Gives the delivery up.
    ///
    /// # Errors
    /// A delivery that has ended.
    pub fn discard(&mut self, why: &str, now: Millis) -> Result<(), WrongState> {
        if self.state.is_terminal() {
            return Err(self.wrong("discarded"));
        }
        self.last_error = Some(shortened(why));
        self.end(State::Discarded, now);
        Ok(())
    }

    /// Puts an attempt off, when its receiver is switched off or busy, without counting one.
    ///
    /// # Errors
    /// A delivery that has ended.
    pub fn postpone(&mut self, until: Millis) -> Result<(), WrongState> {
        if self.state.is_terminal() {
            return Err(self.wrong("postponed"));
        }
        if self.state == State::Sending {
            self.attempt = self.attempt.saturating_sub(1);
        }
        self.state = State::Pending;
        self.next_at = Some(until);
        Ok(())
    }

    /// Sends an ended delivery again, from the beginning of the schedule; one that waits is due now.
    ///
    /// # Errors
    /// A delivery that is being sent.
    pub fn replay(&mut self, now: Millis) -> Result<(), WrongState> {
        match self.state {
            State::Sending => return Err(self.wrong("replayed")),
            State::Pending => {}
            State::Delivered | State::Dead | State::Discarded => self.attempt = 0,
        }
        self.state = State::Pending;
        self.next_at = Some(now);
        self.ended_at = None;
        Ok(())
    }

    /// When the delivery may be forgotten.
    pub fn expires_at(&self) -> Option<Millis> {
        self.ended_at.map(|ended| ended.saturating_add(KEPT))
    }

    /// The delivery as the API shows it.
    pub fn object(&self) -> Value {
        let (endpoint, url) = match &self.receiver {
            Receiver::Endpoint(id) => (Some(id), None),
            Receiver::Url(url) => (None, Some(url)),
        };
        json!({
            "id": self.id,
            "object": "webhook_delivery",
            "endpoint": endpoint,
            "url": url,
            "event": { "id": self.event.id, "type": self.event.kind },
            "job": self.event.subject,
            "state": self.state,
            "attempt": self.attempt,
            "next_at": self.next_at.map(seconds),
            "created_at": seconds(self.created_at),
            "ended_at": self.ended_at.map(seconds),
            "last_status": self.last_status,
            "last_error": self.last_error,
            "last_ms": self.last_ms,
        })
    }

    fn attempts_left(&self) -> usize {
        SCHEDULE.len().saturating_sub(self.attempt as usize)
    }

    fn wait(&mut self, now: Millis, not_before: Option<Millis>, random: u64) {
        let Some(pause) = SCHEDULE.get(self.attempt as usize) else { return self.end(State::Dead, now) };
        let due = now.saturating_add(spread(*pause, random));
        self.state = State::Pending;
        self.next_at = Some(not_before.map_or(due, |until| due.max(until)));
    }

    fn end(&mut self, state: State, now: Millis) {
        self.state = state;
        self.next_at = None;
        self.ended_at = Some(now);
    }

    fn wrong(&self, wanted: &'static str) -> WrongState {
        WrongState { id: self.id.clone(), state: self.state, wanted }
    }
}

/// A pause, 20 % shorter to 20 % longer: receivers that failed together are not asked together.
fn spread(pause: Millis, random: u64) -> Millis {
    let thousandths = 800 + i64::try_from(random % 401).unwrap_or(200);
    pause / 1_000 * thousandths
}

fn seconds(time: Millis) -> i64 {
    time.div_euclid(SECOND)
}

fn consequence_of(attempt: &Attempt, now: Millis) -> Consequence {
    match attempt.result {
        Ok(200..=299) => Consequence::Healthy,
        Ok(410) => Consequence::Gone,
        Ok(429 | 502..=504) => {
            let pause = attempt.retry_after.as_deref().and_then(|text| retry_after(text, now));
            Consequence::Busy(now.saturating_add(pause.unwrap_or(0)))
        }
        _ => Consequence::Failing,
    }
}

fn error_of(result: &Result<u16, String>) -> Option<String> {
    match result {
        Ok(200..=299) => None,
        Ok(status @ 300..=399) => Some(format!("the receiver answered {status}; redirects are not followed")),
        Ok(410) => Some("the receiver answered 410: it is gone".to_owned()),
        Ok(status) => Some(format!("the receiver answered {status}")),
        Err(error) => Some(shortened(error)),
    }
}

fn shortened(error: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    error.chars().take(MOST_ERROR_CHARACTERS).map(shown).collect()
}

/// The pause of a `Retry-After`, in milliseconds and at most an hour: seconds, or a date of RFC 9110.
pub fn retry_after(text: &str, now: Millis) -> Option<Millis> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds: Millis = text.parse().unwrap_or(Millis::MAX);
        return Some(seconds.saturating_mul(SECOND).min(MOST_RETRY_AFTER));
    }
    let at = http_date(text)?;
    Some((at - now).clamp(0, MOST_RETRY_AFTER))
}

/// A date such as `Sun, 06 Nov 1994 08:49:37 GMT`, in Unix milliseconds.
fn http_date(text: &str) -> Option<Millis> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, date) = text.split_once(", ")?;
    let mut parts = date.split(' ');
    let mut part = || parts.next();
    let (day, month, year, clock, zone) = (part()?, part()?, part()?, part()?, part()?);
    let number = |text: &str, most: i64| -> Option<i64> {
        let digits = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten().filter(|number| *number <= most)
    };
    let (day, year) = (number(day, 31)?, number(year, 9_999)?);
    let month = MONTHS.iter().position(|name| *name == month)?;
    let mut clock = clock.splitn(3, ':');
    let mut next = |most| number(clock.next()?, most);
    let (hour, minute, second) = (next(23)?, next(59)?, next(60)?);
    if zone != "GMT" {
        return None;
    }
    let days = days_since_1970(year, i64::try_from(month).ok()? + 1, day);
    Some(((days * 24 + hour) * 60 + minute) * MINUTE + second * SECOND)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that a leap day is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_before_month = (153 * month + 2) / 5;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + days_before_month + day - 1 - 719_468
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
