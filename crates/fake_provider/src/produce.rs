//! The task that sends an answer piece by piece, at the script's pace and with its faults.

use crate::answer::Answer;
use crate::answer_body::Cut;
use crate::attempt::Attempt;
use crate::dialects::errors::Trouble;
use crate::dialects::{events, whole};
use crate::socket::ResetFlag;
use crate::{Dialect, Fault, Outcome, Script};
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a connection stays open on which nothing comes any more.
pub(crate) const SILENCE: Duration = Duration::from_secs(600);

/// Wait after the last bytes before a cut, in which they reach the connection.
const BEFORE_CUT: Duration = Duration::from_millis(10);

/// Bytes of an endless line that are sent at once.
const PIECE: &[u8] = &[b'a'; 64 << 10];

/// The client has left.
pub(crate) struct Left;

/// The sending end of a body, with the pace of its bytes.
pub(crate) struct Sender {
    pub(crate) frames: mpsc::Sender<Result<Bytes, Cut>>,
    pub(crate) reset: ResetFlag,
    /// Wait before each byte, when they come one by one.
    pub(crate) byte_gap: Option<Duration>,
}

impl Sender {
    /// Waits, unless the client leaves.
    async fn pause(&self, wait: Duration) -> Result<(), Left> {
        if wait.is_zero() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(()),
            () = self.frames.closed() => Err(Left),
        }
    }

    async fn send(&self, bytes: Bytes) -> Result<(), Left> {
        let Some(gap) = self.byte_gap else {
            return self.frames.send(Ok(bytes)).await.map_err(|_| Left);
        };
        for at in 0..bytes.len() {
            self.pause(gap).await?;
            self.frames.send(Ok(bytes.slice(at..=at))).await.map_err(|_| Left)?;
        }
        Ok(())
    }

    async fn send_all(&self, all: &[Bytes]) -> Result<(), Left> {
        for bytes in all {
            self.send(bytes.clone()).await?;
        }
        Ok(())
    }

    /// Ends the connection.
    async fn cut(&self, reset: bool) -> Result<(), Left> {
        self.pause(BEFORE_CUT).await?;
        if reset {
            self.reset.set();
        }
        self.frames.send(Err(Cut)).await.map_err(|_| Left)
    }

    /// A line without an end, up to a length.
    async fn endless_line(&self, bytes: u64) -> Result<(), Left> {
        let mut rest = bytes;
        while rest > 0 {
            let length = usize::try_from(rest).unwrap_or(usize::MAX).min(PIECE.len());
            self.send(Bytes::from_static(&PIECE[..length])).await?;
            rest -= length as u64;
        }
        self.cut(false).await
    }
}

/// The tokens before a fault that comes in the middle of an answer.
fn tokens_before(fault: Option<&Fault>) -> Option<usize> {
    match fault? {
        Fault::Cut { after_tokens, .. }
        | Fault::Stall { after_tokens }
        | Fault::MalformedEvent { after_tokens }
        | Fault::ErrorEvent { after_tokens } => Some(*after_tokens),
        Fault::EndlessLine { .. } => Some(0),
        _ => None,
    }
}

/// What becomes of a stream at a fault.
enum After {
    GoesOn,
    Ended(Outcome),
}

/// Plays the fault in the middle of a stream.
async fn play(sender: &Sender, dialect: Dialect, fault: &Fault) -> Result<After, Left> {
    match fault {
        Fault::Cut { reset, .. } => sender.cut(*reset).await?,
        Fault::Stall { .. } => {
            sender.pause(SILENCE).await?;
            sender.cut(false).await?;
        }
        Fault::MalformedEvent { .. } => {
            sender.send(Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"cont\n\n")).await?;
            return Ok(After::GoesOn);
        }
        Fault::ErrorEvent { .. } => sender.send(Trouble::of(500).event(dialect)).await?,
        Fault::EndlessLine { bytes } => {
            sender.send(Bytes::from_static(b"data: ")).await?;
            sender.endless_line(*bytes).await?;
        }
        _ => return Ok(After::GoesOn),
    }
    Ok(After::Ended(Outcome::Failed))
}

/// Sends a stream. The outcome is on the books at the end, whatever it is.
pub(crate) async fn stream(
    sender: Sender,
    mut attempt: Attempt,
    script: &Script,
    answer: &Answer,
    array: bool,
    fault: Option<Fault>,
) {
    if let Ok(outcome) = stream_inner(&sender, &mut attempt, script, answer, array, fault).await {
        attempt.end(outcome);
    }
}

async fn stream_inner(
    sender: &Sender,
    attempt: &mut Attempt,
    script: &Script,
    answer: &Answer,
    array: bool,
    fault: Option<Fault>,
) -> Result<Outcome, Left> {
    let events = events(answer, array);
    let count = events.count();
    let mut planned_fault = tokens_before(fault.as_ref()).map(|at| at.min(count));
    attempt.generated(0);
    sender.send_all(&events.before()).await?;
    for index in 0..=count {
        if planned_fault == Some(index) {
            planned_fault = None;
            if let Some(fault) = &fault
                && let After::Ended(outcome) = play(sender, answer.dialect, fault).await?
            {
                return Ok(outcome);
            }
        }
        if index < count {
            if index > 0 {
                sender.pause(Duration::from_millis(script.gap_ms)).await?;
            }
            sender.send(events.token(index)).await?;
            attempt.generated((index + 1).min(answer.tokens.len()));
        }
    }
    let mut after = events.after();
    let is_whole = !matches!(fault, Some(Fault::NoDone));
    if !is_whole {
        after.truncate(after.len() - events.closing());
    }
    sender.send_all(&after).await?;
    Ok(if is_whole { Outcome::Completed } else { Outcome::Failed })
}

/// Sends a whole answer, or what a fault leaves of it.
pub(crate) async fn whole_slowly(sender: Sender, mut attempt: Attempt, answer: &Answer, fault: Fault) {
    let bytes = Bytes::from(whole(answer).to_string());
    attempt.generated(answer.tokens.len());
    let half = bytes.slice(..bytes.len() / 2);
    let sent = async {
        match fault {
            Fault::Cut { reset, .. } => {
                sender.send(half).await?;
                sender.cut(reset).await?;
                Ok(Outcome::Failed)
            }
            Fault::Stall { .. } => {
                sender.send(half).await?;
                sender.pause(SILENCE).await?;
                sender.cut(false).await?;
                Ok(Outcome::Failed)
            }
            Fault::EndlessLine { bytes } => {
                sender.send(Bytes::from_static(b"{\"id\":\"")).await?;
                sender.endless_line(bytes).await?;
                Ok(Outcome::Failed)
            }
            _ => {
                sender.send(bytes).await?;
                Ok(Outcome::Completed)
            }
        }
    };
    let sent: Result<Outcome, Left> = sent.await;
    if let Ok(outcome) = sent {
        attempt.end(outcome);
    }
}
