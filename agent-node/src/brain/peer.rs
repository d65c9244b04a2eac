//! A process that speaks for its agent over HTTP as a brain. It registers at the node, and takes its turns at an endpoint of its
//! own or from a stream. While it is away, its turns pause.

pub mod process;

use super::{
    Brain, BrainError, TurnFuture, TurnHandle, TurnRequest,
    exec::access::{BrainAccess, BrainAccessCell},
    http::HttpBrain,
    json_lines::{BrainLine, prompt_line},
};
use patterns::turn::{Progress, TurnEnd};
use process::{PeerPresence, PeerProcess, SentLine};
use protocol::ids::ConversationId;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The shortest pause of a turn while the process is away.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The process of an agent as its brain.
pub struct PeerBrain {
    /// Whether it is there, and the turns that it has.
    pub process: PeerProcess,
    http: Arc<HttpBrain>,
    access: BrainAccessCell,
}

impl PeerBrain {
    /// A brain for `process`; `http` calls its endpoint.
    pub fn new(process: PeerProcess, http: HttpBrain, access: BrainAccessCell) -> Self {
        Self { process, http: Arc::new(http), access }
    }

    /// Fails unless `endpoint` can be called.
    pub async fn check_endpoint(&self, endpoint: &str) -> Result<(), String> {
        self.http.check_url(endpoint).await
    }

    /// The process takes turns from now on, at `endpoint` if it has one.
    pub fn register(&self, endpoint: Option<String>) {
        if let Some(endpoint) = &endpoint {
            self.http.set_url(endpoint.clone());
        }
        self.process.register(endpoint, Instant::now());
    }

    async fn turn(&self, request: &TurnRequest, report: &TurnHandle) -> Result<TurnEnd, BrainError> {
        let mut presence = self.process.presence();
        // After a restart of the node it is given the same turn, with the same key, if it is back soon.
        let present = presence.wait_for(|now| matches!(now, PeerPresence::Present(_)));
        drop(tokio::time::timeout_at(self.process.expected_until().into(), present).await);
        let begun = presence.borrow_and_update().clone();
        if matches!(begun, PeerPresence::Absent { .. }) {
            return Ok(pause(&begun, Instant::now()));
        }
        let turn = async {
            match self.process.has_endpoint() {
                true => self.http.turn(request, report).await,
                false => self.turn_by_stream(request, report).await,
            }
        };
        let other = async { presence.wait_for(|now| *now != begun).await.map(|now| now.clone()) };
        tokio::select! {
            biased;
            end = turn => end,
            Ok(now) = other => Ok(pause(&now, Instant::now())),
        }
    }

    async fn turn_by_stream(
        &self,
        request: &TurnRequest,
        report: &TurnHandle,
    ) -> Result<TurnEnd, BrainError> {
        let node = self.access.get().map(BrainAccess::url);
        let prompt = match prompt_line::prompt_text(request, report.access(), node).await {
            Ok(prompt) => prompt,
            Err(error) => return Ok(TurnEnd::Failed { reason: error.to_string() }),
        };
        let report = report.clone().with_references(prompt.references);
        let mut turn = self.process.open_turn(&request.key, prompt.line);
        while let Some(SentLine { line, taken }) = turn.next().await {
            match line {
                BrainLine::End(end) => {
                    let _ = taken.send(());
                    turn.end();
                    return Ok(end);
                }
                BrainLine::Bid(_) => return Err(BrainError::WrongEnd("a turn with a bid")),
                BrainLine::Progress(Progress::Checkpoint(checkpoint)) => {
                    if report.checkpoint(checkpoint).await.is_err() {
                        break;
                    }
                }
                BrainLine::Progress(progress) => report.send(progress).await,
            }
            let _ = taken.send(());
        }
        Err(BrainError::NoResult { stderr: String::new() })
    }
}

/// The end of a turn that its process does not go on with; the pause grows with the time that the process is away.
fn pause(presence: &PeerPresence, now: Instant) -> TurnEnd {
    let (reason, after) = match presence {
        PeerPresence::Absent { why, since } => (why.clone(), now.saturating_duration_since(*since) / 2),
        PeerPresence::Present(_) => ("its peer takes turns elsewhere now".to_owned(), MIN_PAUSE),
    };
    let after = after.clamp(MIN_PAUSE, MAX_PAUSE);
    TurnEnd::Pause { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX), reason }
}

impl Brain for Arc<PeerBrain> {
    fn think(&self, request: TurnRequest, report: TurnHandle) -> TurnFuture {
        let this = self.clone();
        Box::pin(async move { this.turn(&request, &report).await })
    }

    fn release(&self, ended: &ConversationId) {
        self.http.release(ended);
    }

    fn name(&self) -> &'static str {
        "peer"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_grows_with_the_time_that_the_process_is_away() {
        let since = Instant::now();
        let absent = PeerPresence::Absent { why: "silent".to_owned(), since };
        let after = |seconds| match pause(&absent, since + Duration::from_secs(seconds)) {
            TurnEnd::Pause { after_ms, reason } => (after_ms, reason),
            other => panic!("{other:?}"),
        };
        assert_eq!(after(0), (1_000, "silent".to_owned()));
        assert_eq!(after(20).0, 10_000);
        assert_eq!(after(3_600).0, 30_000);
    }
}
