//! The pure core of budgets: what a replica may spend of each bucket, with the time as an argument.
//!
//! One [`Book`] a replica, behind one lock: an attempt's bound is reserved in all its buckets or in none, in the order
//! key < team < model < everything. What it may spend was leased from the store before, by the lines of an exchange.
//!
//! Deliberately absent: waiting, stores, clocks.

use crate::account::{Account, bound_of};
use crate::amount::Amount;
use crate::bucket::{Bounds, Bucket, Cap, CapError, Cost, Scope, Subjects, Unit, check_caps};
use crate::calendar::Moment;
use crate::refused::Refused;
use crate::store::{Granted, Line};
use std::collections::HashMap;
use std::sync::Arc;

/// A cap and its accounts: the present period, and earlier ones in which attempts still run or spending is unsettled.
#[derive(Debug)]
struct Entry {
    cap: Cap,
    bucket: Arc<Bucket>,
    /// Whether the configuration has it no more; its running attempts are still settled.
    retired: bool,
    accounts: Vec<Account>,
    /// Whether it is in the list of entries with news.
    listed: bool,
}

impl Entry {
    /// The place of the account of a period; a new one has the next number.
    fn at(&mut self, period: i64, now: i64, numbers: &mut i64) -> usize {
        let found = self.accounts.iter().position(|account| account.period == period);
        found.unwrap_or_else(|| {
            *numbers += 1;
            self.accounts.push(Account::new(period, *numbers, now));
            self.accounts.len() - 1
        })
    }

    fn account(&mut self, period: i64, now: i64, numbers: &mut i64) -> &mut Account {
        let at = self.at(period, now, numbers);
        &mut self.accounts[at]
    }

    fn find(&mut self, period: i64) -> Option<&mut Account> {
        self.accounts.iter_mut().find(|account| account.period == period)
    }
}

/// The buckets in which an attempt has reserved, and when.
#[derive(Debug)]
pub struct Held {
    moment: Moment,
    bounds: Bounds,
    count: usize,
    few: [u32; FEW],
    more: Vec<u32>,
}

/// How far a clock may be set back and not be believed, in seconds.
const CLOCK_STEP_SECONDS: i64 = 3600;

/// Buckets of an attempt that are kept without an allocation.
const FEW: usize = 8;

impl Held {
    fn new(moment: Moment, bounds: Bounds) -> Held {
        Held { moment, bounds, count: 0, few: [0; FEW], more: Vec::new() }
    }

    fn push(&mut self, entry: u32) {
        match self.few.get_mut(self.count) {
            Some(place) => *place = entry,
            None => self.more.push(entry),
        }
        self.count += 1;
    }

    fn all(mut self, entries: Option<&Vec<u32>>) -> Held {
        entries.into_iter().flatten().for_each(|entry| self.push(*entry));
        self
    }

    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let few = self.few[..self.count.min(FEW)].iter();
        few.chain(&self.more).copied()
    }
}

/// Why nothing was reserved.
#[derive(Debug)]
pub enum Short {
    /// It will not be, before something changes.
    Refused(Refused),
    /// The lease does not suffice: the next exchange asks for more.
    Lease,
}

/// The exchange that a request's need goes with. Kept between a request's tries, so that its need is counted once.
#[derive(Debug, Default)]
pub struct Asked(Option<u64>);

#[derive(Debug)]
struct Down {
    since: i64,
    reason: String,
}

/// The budgets of a replica.
#[derive(Debug, Default)]
pub struct Book {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    keys: HashMap<String, Vec<u32>>,
    teams: HashMap<String, Vec<u32>>,
    models: HashMap<String, Vec<u32>>,
    everything: Vec<u32>,
    /// Entries that an exchange may have something to say of.
    news: Vec<u32>,
    /// Exchanges that were built.
    builds: u64,
    /// Accounts that were opened.
    numbers: i64,
    /// The time, as [`see`](Self::see) takes it.
    now: i64,
    /// Until when the leases are valid.
    valid_until: i64,
    down: Option<Down>,
    /// Whether attempts without a price pass caps on tokens and requests while the store is down.
    free_when_down: bool,
}

impl Book {
    /// A book without leases. With `free_when_down`, attempts that cost no money are let through caps on tokens and on
    /// requests while the store cannot be reached; what they use is settled later. Caps on money are never passed.
    ///
    /// # Errors
    /// If a cap is not possible.
    pub fn new(caps: &[Cap], free_when_down: bool) -> Result<Book, CapError> {
        let mut book = Book { free_when_down, ..Book::default() };
        book.set_caps(caps)?;
        Ok(book)
    }

    /// Replaces the caps. Counters go on by the bucket's name; leases are returned where the limit is lower now.
    ///
    /// # Errors
    /// If a cap is not possible; the former caps then stay.
    pub fn set_caps(&mut self, caps: &[Cap]) -> Result<(), CapError> {
        check_caps(caps)?;
        let mut known: HashMap<Bucket, u32> = HashMap::new();
        for (index, entry) in (0..).zip(&mut self.entries) {
            if let Some(entry) = entry {
                known.insert(entry.cap.bucket.clone(), index);
                entry.retired = true;
            }
        }
        for names in [&mut self.keys, &mut self.teams, &mut self.models] {
            names.clear();
        }
        self.everything.clear();
        for cap in caps {
            let index = match known.get(&cap.bucket) {
                Some(index) => self.renew(*index, cap),
                None => self.add(cap),
            };
            let names = match cap.bucket.scope {
                Scope::Key => &mut self.keys,
                Scope::Team => &mut self.teams,
                Scope::Model => &mut self.models,
                Scope::Everything => {
                    self.everything.push(index);
                    continue;
                }
            };
            names.entry(cap.bucket.name.clone()).or_default().push(index);
        }
        self.scan(self.now);
        Ok(())
    }

    fn renew(&mut self, index: u32, cap: &Cap) -> u32 {
        let now = self.now;
        let mut news = false;
        if let Some(entry) = &mut self.entries[index as usize] {
            let lower = cap.limit < entry.cap.limit;
            entry.retired = false;
            entry.cap = cap.clone();
            for account in &mut entry.accounts {
                account.believe_nothing();
                news |= lower && account.give_back(now, true);
            }
        }
        if news {
            self.list(index);
        }
        index
    }

    fn add(&mut self, cap: &Cap) -> u32 {
        let bucket = Arc::new(cap.bucket.clone());
        let entry = Entry { cap: cap.clone(), bucket, retired: false, accounts: Vec::new(), listed: false };
        if let Some(index) = self.free.pop() {
            self.entries[index as usize] = Some(entry);
            return index;
        }
        self.entries.push(Some(entry));
        u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
    }

    /// Notes that an entry may have something to say in the next exchange.
    fn list(&mut self, index: u32) {
        if let Some(entry) = &mut self.entries[index as usize]
            && !entry.listed
        {
            entry.listed = true;
            self.news.push(index);
        }
    }

    /// Takes the time. A clock that is set back a little goes on from where it was, so that no window begins twice; one
    /// that was wrong by hours is believed: what was spent in each period is with the store.
    fn see(&mut self, now: i64) {
        if now > self.now || self.now.saturating_sub(now) > CLOCK_STEP_SECONDS {
            self.now = now;
        }
    }

    /// Reserves an attempt's bounds in all its buckets or in none. If leases do not suffice, the next exchange asks for
    /// what is lacking. The second value says whether a lease runs low, and the exchange should be soon.
    ///
    /// # Errors
    /// [`Short::Lease`] if the next exchange may help, [`Short::Refused`] if not.
    pub fn reserve(
        &mut self,
        now: i64,
        subjects: Subjects<'_>,
        bounds: Bounds,
        asked: &mut Asked,
    ) -> Result<(Held, bool), Short> {
        self.see(now);
        let held = Held::new(Moment::at(self.now), bounds)
            .all(self.keys.get(subjects.key))
            .all(subjects.team.and_then(|team| self.teams.get(team)))
            .all(self.models.get(subjects.model))
            .all(Some(&self.everything));
        let mut short = false;
        for index in held.iter() {
            short |= self.is_short(index, &held)?;
        }
        if short {
            self.ask(&held, asked);
            return Err(Short::Lease);
        }
        let mut low = false;
        for index in held.iter() {
            let now = self.now;
            let Some(entry) = &mut self.entries[index as usize] else { continue };
            let bound = bound_of(&bounds, entry.cap.bucket.unit).unwrap_or(0);
            let period = entry.cap.bucket.window.period(held.moment);
            if entry.account(period, now, &mut self.numbers).reserve(bound, now) {
                low = true;
                self.list(index);
            }
        }
        Ok((held, low))
    }

    /// Whether the lease of a bucket lacks something for an attempt.
    fn is_short(&mut self, index: u32, held: &Held) -> Result<bool, Short> {
        let (now, valid) = (self.now, self.now < self.valid_until);
        let Some(entry) = &mut self.entries[index as usize] else { return Ok(false) };
        let unit = entry.cap.bucket.unit;
        let Some(bound) = bound_of(&held.bounds, unit) else {
            return Err(Short::Refused(Refused::UnknownPrice(Box::new(entry.cap.bucket.clone()))));
        };
        if bound == 0 {
            return Ok(false);
        }
        let period = entry.cap.bucket.window.period(held.moment);
        let at = entry.at(period, now, &mut self.numbers);
        let (account, limit) = (&entry.accounts[at], entry.cap.limit);
        let lacking = account.short_of(bound);
        if lacking <= 0 && valid {
            return Ok(false);
        }
        let full = bound > limit || account.exhausted(lacking, now);
        if let (false, Some(down)) = (full, &self.down) {
            if self.free_when_down && unit != Unit::Money && held.bounds.money == Some(Amount::ZERO) {
                return Ok(false);
            }
            return Err(Short::Refused(Refused::StoreDown {
                since: down.since,
                reason: down.reason.clone(),
            }));
        }
        if full && lacking > 0 {
            let full = account.full(&entry.cap, bound);
            return Err(Short::Refused(Refused::Full(Box::new(full))));
        }
        Ok(true)
    }

    /// Has the next exchange ask for what an attempt lacks, once for each exchange.
    fn ask(&mut self, held: &Held, asked: &mut Asked) {
        if asked.0 == Some(self.builds) {
            return;
        }
        asked.0 = Some(self.builds);
        let now = self.now;
        for index in held.iter() {
            let Some(entry) = &mut self.entries[index as usize] else { continue };
            let bound = bound_of(&held.bounds, entry.cap.bucket.unit).unwrap_or(0);
            let period = entry.cap.bucket.window.period(held.moment);
            let account = entry.account(period, now, &mut self.numbers);
            let lacking = account.short_of(bound);
            if bound > 0 && lacking > 0 {
                account.ask(lacking);
                self.list(index);
            }
        }
    }

    /// Ends a reservation by what it cost, which may exceed its bound: then the bucket closes. `uncertain` says that the
    /// cost is only possible, because the answer was lost.
    pub fn settle(&mut self, held: Held, cost: &Cost, uncertain: bool) {
        for index in held.iter() {
            let Some(entry) = &mut self.entries[index as usize] else { continue };
            let unit = entry.cap.bucket.unit;
            let bound = bound_of(&held.bounds, unit).unwrap_or(0);
            let period = entry.cap.bucket.window.period(held.moment);
            let Some(account) = entry.find(period) else { continue };
            account.end(bound, cost.of(unit), uncertain);
            if account.has_news() {
                self.list(index);
            }
        }
    }

    /// Ends a reservation that nothing was sent for.
    pub fn release(&mut self, held: Held) {
        self.settle(held, &Cost::default(), false);
    }

    /// Returns idle leases and forgets accounts of past periods. To be called about once a second.
    pub fn scan(&mut self, now: i64) {
        self.see(now);
        let (now, moment) = (self.now, Moment::at(self.now));
        for index in 0..self.entries.len() {
            let Some(entry) = &mut self.entries[index] else { continue };
            let (present, retired) = (entry.cap.bucket.window.period(moment), entry.retired);
            let mut news = false;
            entry.accounts.retain_mut(|account| {
                let past = retired || account.period != present;
                news |= account.give_back(now, past);
                !(past && account.is_done())
            });
            let gone = retired && entry.accounts.is_empty() && !entry.listed;
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            if news {
                self.list(index);
            } else if gone {
                self.entries[index as usize] = None;
                self.free.push(index);
            }
        }
    }

    /// Returns all leases that no attempt holds and asks for no more, as before the end of the process.
    pub fn give_back_all(&mut self) {
        let now = self.now;
        for index in 0..self.entries.len() {
            let Some(entry) = &mut self.entries[index] else { continue };
            let mut returned = false;
            for account in &mut entry.accounts {
                account.ask_nothing();
                returned |= account.give_back(now, true);
            }
            if returned {
                self.list(u32::try_from(index).unwrap_or(u32::MAX));
            }
        }
    }

    /// The lines of the next exchange, at most about `most`; the others follow in the next. Only one exchange may be
    /// under way: [`apply`](Self::apply) or [`fail`](Self::fail) must come before the next call.
    pub fn lines(&mut self, most: usize) -> Vec<Line> {
        self.builds += 1;
        let mut lines = Vec::new();
        while lines.len() < most
            && let Some(index) = self.news.pop()
        {
            let Some(entry) = &mut self.entries[index as usize] else { continue };
            entry.listed = false;
            for account in entry.accounts.iter_mut().filter(|account| account.has_news()) {
                lines.push(account.line(index, &entry.bucket, entry.cap.limit));
            }
        }
        lines
    }

    /// Takes the store's answers to the lines of the exchange under way; leases are valid until `expires`.
    pub fn apply(&mut self, lines: &[Line], granted: &[Granted], expires: i64) {
        self.down = None;
        self.valid_until = expires;
        let now = self.now;
        for (line, granted) in lines.iter().zip(granted) {
            let Some(Some(entry)) = self.entries.get_mut(line.entry as usize) else { continue };
            let Some(account) = entry.accounts.iter_mut().find(|account| account.wrote(line)) else {
                continue;
            };
            account.granted(line, *granted, now);
            if account.has_news() {
                self.list(line.entry);
            }
        }
    }

    /// The exchange under way failed, or its answer was lost: its lines are said again in the next.
    pub fn fail(&mut self, lines: &[Line], reason: &str) {
        let since = self.down.as_ref().map_or(self.now, |down| down.since);
        self.down = Some(Down { since, reason: reason.to_owned() });
        lines.iter().for_each(|line| self.list(line.entry));
    }

    /// A new session in the store: the leases of the former are gone, and what was not settled in it is in this one.
    pub fn restart(&mut self) {
        self.valid_until = 0;
        for index in 0..self.entries.len() {
            let Some(entry) = &mut self.entries[index] else { continue };
            entry.accounts.iter_mut().for_each(Account::restart);
            if entry.accounts.iter().any(Account::has_news) {
                self.list(u32::try_from(index).unwrap_or(u32::MAX));
            }
        }
    }

    /// Until when the leases are valid, in Unix seconds; 0 before the first exchange.
    pub fn valid_until(&self) -> i64 {
        self.valid_until
    }

    /// Since when the store has not answered, in Unix seconds.
    pub fn down_since(&self) -> Option<i64> {
        self.down.as_ref().map(|down| down.since)
    }

    /// Whether an exchange has something to say.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The time of the book, in Unix seconds.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// The number of accounts, which caps bound.
    pub fn accounts(&self) -> usize {
        self.entries.iter().flatten().map(|entry| entry.accounts.len()).sum()
    }
}
