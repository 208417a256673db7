//! The attempts of simulated requests: dispatch, answers, failures, retries, hedges.

use std::time::Duration;

use super::node::{Job, Progress};
use super::report::PeriodReport;
use super::world::{Attempt, Happens, Request, World};
use crate::ask::Ask;
use crate::failure::{Answer, Failure, Limit, Outcome};
use crate::flight::Flight;
use crate::retry::{FailedAttempt, Next, advise};
use crate::target::{TargetId, Tier};

/// Seconds after which a refused connection is known.
const CONNECT_S: f64 = 0.001;
/// Seconds that a hung node leaves a connection without a byte is `first_byte`; between bytes it is this.
const REFUSED_RETRY: Duration = Duration::from_secs(1);

impl World<'_> {
    /// Sends a request to the target of the router's choice, or to that of `flight`.
    pub(super) fn attempt(&mut self, request: usize, flight: Option<Flight>) {
        let Some(Some(sent)) = self.requests.get_mut(request) else { return };
        let replica = sent.replica;
        let flight = match flight {
            Some(flight) => Ok(flight),
            None => {
                let tried = std::mem::take(&mut sent.tried);
                let allowed = |id: TargetId| !tried.contains(&id);
                let flight = self.routers[replica].dispatch(self.now, &ask(sent, &allowed));
                sent.tried = tried;
                flight
            }
        };
        match flight {
            Ok(flight) => self.sent(request, flight),
            Err(refused) => {
                // Waits for a target, if time may help.
                sent.tried.clear();
                let now_s = self.now.as_secs_f64();
                let after = refused.retry_after.unwrap_or(REFUSED_RETRY).as_secs_f64().clamp(0.05, 5.0);
                if now_s + after < sent.waits_until_s {
                    self.schedule(after, Happens::Tries(request));
                } else {
                    self.close(request, false);
                }
            }
        }
    }

    fn sent(&mut self, request: usize, flight: Flight) {
        let Some(Some(sent)) = self.requests.get_mut(request) else { return };
        sent.attempts += 1;
        let number = sent.attempts;
        let Some(node) = self.ids.iter().position(|id| *id == flight.target) else { return };
        let hedge_after = self.routers[sent.replica].hedge_delay(self.now, &flight);
        let is_own = self.nodes[node].spec.target.tier == Tier::Own;
        let prompt = &sent.prompt;
        let (tokens, output) = (prompt.tokens + sent.seen, prompt.output - sent.seen);
        let job = Job::new(request, number, prompt.chain.clone(), tokens, output.max(1), prompt.after);
        let is_down = self.nodes[node].is_down;
        let is_taken = !is_down && self.nodes[node].accept(job);
        let may_hedge = self.scenario.hedges && is_own && number == 1;
        sent.under_way.push(Attempt {
            number,
            node,
            flight,
            sent_at: self.now,
            first_at: None,
            is_rejected_by_refusal: !is_down,
        });
        if !is_taken {
            self.schedule(CONNECT_S, Happens::Rejected(request, number));
            return;
        }
        self.schedule(self.scenario.first_byte.as_secs_f64(), Happens::Overdue(request, number));
        if let Some(after) = hedge_after.filter(|_| may_hedge) {
            self.schedule(after.as_secs_f64(), Happens::Hedges(request, number));
        }
        self.wake(node);
    }

    pub(super) fn progress(&mut self, node: usize, progress: Progress) {
        match progress {
            Progress::FirstToken(request, number) => self.first_token(request, number),
            Progress::Done(job) => self.done(node, &job),
        }
    }

    fn first_token(&mut self, request: usize, number: u32) {
        let now = self.now;
        let Some(Some(sent)) = self.requests.get_mut(request) else { return };
        if let Some(attempt) = sent.under_way.iter_mut().find(|attempt| attempt.number == number) {
            attempt.first_at = Some(now);
        }
        sent.first_at.get_or_insert(now);
        // Whoever is first goes on, others are cancelled.
        let others: Vec<u32> = sent.under_way.iter().map(|a| a.number).filter(|n| *n != number).collect();
        for other in others {
            if let Some((node, flight)) = self.take(request, other) {
                self.nodes[node].cancel(request, other);
                self.finish(request, flight, &Outcome::Cancelled);
            }
        }
    }

    fn done(&mut self, node: usize, job: &Job) {
        let Some(Some(sent)) = self.requests.get(job.request) else { return };
        let Some(attempt) = sent.under_way.iter().find(|attempt| attempt.number == job.attempt) else {
            return;
        };
        let seconds = |at: Duration| at.saturating_sub(attempt.sent_at).as_secs_f64();
        let tells = self.nodes[node].spec.tells;
        let answer = Answer {
            first_token_s: seconds(attempt.first_at.unwrap_or(self.now)),
            total_s: seconds(self.now),
            prompt_tokens: job.prompt_tokens,
            cached_tokens: tells.then_some(job.cached),
            output_tokens: job.generated,
        };
        let predicted = attempt.flight.cached_tokens;
        let (replica, is_own) = (sent.replica, self.nodes[node].spec.target.tier == Tier::Own);
        let period = self.scenario.load.period(sent.came_at);
        let report = &mut self.report;
        report.periods.resize_with(report.periods.len().max(period + 1), PeriodReport::default);
        let within = &mut report.periods[period];
        within.answered += 1;
        report.predicted_cached += predicted;
        report.prompt_tokens += job.prompt_tokens;
        report.cached_tokens += job.cached;
        report.nodes[node].answered += 1;
        report.nodes[node].tokens += job.prompt_tokens - job.cached + job.generated;
        if !is_own {
            report.left += 1;
            let price = self.nodes[node].spec.target.price.unwrap_or_default();
            let cost = price.of(job.prompt_tokens - job.cached, job.cached, job.generated);
            report.cost += cost;
            within.left += 1;
            within.cost += cost;
        }
        let first_s = sent.first_at.unwrap_or(self.now).saturating_sub(sent.came_at).as_secs_f32();
        if is_own {
            report.own_first_token_s.push(first_s);
            within.own_first_token_s.push(first_s);
        }
        report.first_token_s.push(first_s);
        report.total_s.push(self.now.saturating_sub(sent.came_at).as_secs_f32());
        if let Some((_, flight)) = self.take(job.request, job.attempt) {
            self.finish(job.request, flight, &Outcome::Answered(answer));
        }
        if tells {
            let record = self.nodes[node].record();
            self.routers[replica].observe(self.now, self.ids[node], &record);
        }
        self.close(job.request, true);
    }

    /// The attempt's node died.
    pub(super) fn reset(&mut self, job: &Job) {
        if let Some(Some(sent)) = self.requests.get_mut(job.request) {
            sent.seen += job.generated.min(sent.prompt.output - sent.seen);
        }
        self.fail(job.request, job.attempt, Failure::Reset);
    }

    pub(super) fn rejected(&mut self, request: usize, number: u32) {
        let Some(Some(sent)) = self.requests.get(request) else { return };
        let attempt = sent.under_way.iter().find(|attempt| attempt.number == number);
        let failure = match attempt.is_some_and(|attempt| attempt.is_rejected_by_refusal) {
            true => Failure::Refused { retry_after: Some(REFUSED_RETRY) },
            false => Failure::Connect,
        };
        self.fail(request, number, failure);
    }

    pub(super) fn overdue(&mut self, request: usize, number: u32) {
        let Some(Some(sent)) = self.requests.get(request) else { return };
        let is_late = |attempt: &Attempt| attempt.number == number && attempt.first_at.is_none();
        if let Some(node) = sent.under_way.iter().find(|attempt| is_late(attempt)).map(|attempt| attempt.node)
        {
            self.nodes[node].cancel(request, number);
            self.fail(request, number, Failure::Timeout(Limit::FirstByte));
        }
    }

    pub(super) fn hedge(&mut self, request: usize, number: u32) {
        let Some(Some(sent)) = self.requests.get(request) else { return };
        let [first] = &sent.under_way[..] else { return };
        if first.number != number || first.first_at.is_some() {
            return;
        }
        let allowed = |_| true;
        let flight = self.routers[sent.replica].hedge(self.now, &ask(sent, &allowed), &first.flight);
        if let Some(flight) = flight {
            self.report.hedges += 1;
            self.attempt(request, Some(flight));
        }
    }

    /// An attempt failed: another one, or the end.
    fn fail(&mut self, request: usize, number: u32, failure: Failure) {
        let Some((node, flight)) = self.take(request, number) else { return };
        self.report.nodes[node].failed += 1;
        let target = flight.target;
        self.finish(request, flight, &Outcome::Failed(failure));
        let Some(Some(sent)) = self.requests.get_mut(request) else { return };
        if !sent.under_way.is_empty() {
            return;
        }
        sent.tried.push(target);
        let failed = FailedAttempt {
            failure,
            tier: self.scenario.nodes[node].target.tier,
            visible: sent.seen > 0,
            resumable: true,
            attempts: sent.attempts,
        };
        let budget = &mut self.budgets[sent.replica];
        let advice = advise(&failed, &self.scenario.retry, budget, Duration::from_secs(60));
        match advice.next {
            Next::Stop | Next::OtherModel => self.close(request, false),
            Next::Resume => {
                self.report.resumed += 1;
                self.report.retries += 1;
                self.attempt(request, None);
            }
            Next::SameTarget | Next::OtherTarget => {
                self.report.retries += 1;
                self.attempt(request, None);
            }
        }
    }

    fn take(&mut self, request: usize, number: u32) -> Option<(usize, Flight)> {
        let sent = self.requests.get_mut(request)?.as_mut()?;
        let at = sent.under_way.iter().position(|attempt| attempt.number == number)?;
        let attempt = sent.under_way.swap_remove(at);
        Some((attempt.node, attempt.flight))
    }

    fn finish(&mut self, request: usize, flight: Flight, outcome: &Outcome) {
        if let Some(Some(sent)) = self.requests.get(request) {
            self.routers[sent.replica].finished(self.now, flight, outcome);
        }
    }

    /// The end of a request.
    fn close(&mut self, request: usize, is_answered: bool) {
        let Some(sent) = self.requests.get_mut(request).and_then(Option::take) else { return };
        self.open -= 1;
        if is_answered {
            self.report.answered += 1;
        } else {
            self.report.failed += 1;
        }
        self.think(sent.client);
    }
}

fn ask<'a>(sent: &'a Request, allowed: &'a dyn Fn(TargetId) -> bool) -> Ask<'a> {
    Ask {
        prompt_tokens: sent.prompt.tokens + sent.seen,
        chain: &sent.prompt.chain,
        affinity: sent.prompt.affinity,
        allowed,
        tenant: sent.client.unwrap_or(0) as u64 % 64,
        ..Ask::of_size(1, 4096)
    }
}
