//! The steps of an attempt, for people who want to know why a message does not arrive.
//!
//! The steps tell addresses, so they are for the operator; owners of endpoints are told the error alone.

/// A step, in the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The URL is read.
    Url,
    /// The host is looked up.
    Resolution,
    /// Every address is checked against the rules.
    Rule,
    /// A connection is opened.
    Connection,
    /// The receiver's certificate is checked.
    Tls,
    /// The message and its signature are sent.
    Request,
    /// The answer comes.
    Answer,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// With the attempt.
    Failed,
    /// The time was over first.
    Unfinished,
}

/// A step that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub phase: Phase,
    /// How it ended.
    pub outcome: Outcome,
    /// What was found, in words.
    pub detail: String,
}

/// The steps of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    steps: Vec<Step>,
}

impl Phase {
    /// Its name, such as `resolution`.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Url => "url",
            Phase::Resolution => "resolution",
            Phase::Rule => "rule",
            Phase::Connection => "connection",
            Phase::Tls => "tls",
            Phase::Request => "request",
            Phase::Answer => "answer",
        }
    }
}

impl Steps {
    /// The steps so far.
    pub fn list(&self) -> &[Step] {
        &self.steps
    }

    /// The step that ended the attempt, if none passed it.
    pub fn failed(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.outcome != Outcome::Passed)
    }

    /// The phase that was begun last.
    pub(crate) fn phase(&self) -> Phase {
        self.steps.last().map_or(Phase::Url, |step| step.phase)
    }

    pub(crate) fn begin(&mut self, phase: Phase, detail: impl Into<String>) {
        self.steps.push(Step { phase, outcome: Outcome::Unfinished, detail: detail.into() });
    }

    pub(crate) fn pass(&mut self, detail: impl Into<String>) {
        self.end(Outcome::Passed, detail.into());
    }

    pub(crate) fn fail(&mut self, detail: impl Into<String>) {
        self.end(Outcome::Failed, detail.into());
    }

    /// Ends the step that was begun last. How it ended first stays: who is nearest knows most.
    fn end(&mut self, outcome: Outcome, detail: String) {
        if let Some(step) = self.steps.last_mut().filter(|step| step.outcome == Outcome::Unfinished) {
            step.outcome = outcome;
            step.detail = detail;
        }
    }
}
