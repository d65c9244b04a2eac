//! What a node knows of the process of an agent: whether it is there, where it takes turns, and which turns it has.

use crate::{brain::json_lines::BrainLine, clock::wall_time};
use protocol::time::WallTime;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// How many heartbeats may be missing.
const MISSED: u32 = 3;
/// The turns that wait in a stream, beside those that it begins with. A stream that is not read ends; the next one begins with all
/// open turns.
const WAITING_TURNS: usize = 64;
/// The lines of a turn that wait.
const WAITING_LINES: usize = 16;

/// Why a process takes no turns that has not registered yet.
const UNREGISTERED: &str = "its peer has not registered yet (PUT /a2a/peer)";

/// Whether the process takes turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerPresence {
    /// It does. The number is another one if it takes them in another way than before.
    Present(u64),
    /// It does not.
    Absent { why: String, since: Instant },
}

/// The process of an agent. Clones share it.
#[derive(Clone)]
pub struct PeerProcess(Arc<SharedPeer>);

struct SharedPeer {
    heartbeat: Duration,
    started: Instant,
    state: Mutex<PeerState>,
    presence: watch::Sender<PeerPresence>,
    /// When it counts as silent has changed.
    heard: Notify,
}

struct PeerState {
    is_registered: bool,
    endpoint: Option<String>,
    /// Counts the ways in which it takes turns.
    way: u64,
    last_heard: (Instant, WallTime),
    /// The stream of its turns, with its number.
    stream: Option<(u64, mpsc::Sender<Vec<u8>>)>,
    streams: u64,
    turns: BTreeMap<String, OpenTurn>,
}

struct OpenTurn {
    prompt: Vec<u8>,
    lines: mpsc::Sender<SentLine>,
}

/// A line of a turn that the process has sent.
pub struct SentLine {
    /// The line.
    pub line: BrainLine,
    /// Told when the turn has taken it, of a checkpoint when it is durable.
    pub taken: oneshot::Sender<()>,
}

/// Why a stream of turns is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoStream {
    /// The process has not registered.
    Unregistered,
    /// It has an endpoint.
    HasEndpoint,
}

/// The process has not registered, or it has said goodbye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unregistered;

/// No turn of this key is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchTurn;

impl PeerProcess {
    /// A process that sends a heartbeat in every interval of `heartbeat`, and has not registered.
    pub fn new(heartbeat: Duration) -> Self {
        let since = Instant::now();
        let state = PeerState {
            is_registered: false,
            endpoint: None,
            way: 0,
            last_heard: (since, wall_time()),
            stream: None,
            streams: 0,
            turns: BTreeMap::new(),
        };
        let absent = PeerPresence::Absent { why: UNREGISTERED.to_owned(), since };
        let presence = watch::Sender::new(absent);
        let (state, heard) = (Mutex::new(state), Notify::new());
        Self(Arc::new(SharedPeer { heartbeat, started: since, state, presence, heard }))
    }

    fn state(&self) -> MutexGuard<'_, PeerState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interval of its heartbeats.
    pub fn heartbeat_interval(&self) -> Duration {
        self.0.heartbeat
    }

    /// Until when it is expected to register after the start of the node.
    pub(super) fn expected_until(&self) -> Instant {
        self.0.started + self.0.heartbeat * MISSED
    }

    /// Whether it takes turns, now and later.
    pub fn presence(&self) -> watch::Receiver<PeerPresence> {
        self.0.presence.subscribe()
    }

    /// Why it takes no turns, if it does not.
    pub fn absence(&self) -> Option<String> {
        match &*self.0.presence.borrow() {
            PeerPresence::Present(_) => None,
            PeerPresence::Absent { why, .. } => Some(why.clone()),
        }
    }

    fn set_present(&self, way: u64) {
        self.0.presence.send_if_modified(|presence| {
            let present = PeerPresence::Present(way);
            let is_new = *presence != present;
            *presence = present;
            is_new
        });
        self.0.heard.notify_one();
    }

    fn set_absent(&self, why: String, since: Instant) {
        self.0.presence.send_replace(PeerPresence::Absent { why, since });
        self.0.heard.notify_one();
    }

    /// It takes turns from `now` on: at `endpoint`, or from a stream.
    pub(super) fn register(&self, endpoint: Option<String>, now: Instant) {
        let mut state = self.state();
        if !state.is_registered || state.endpoint != endpoint {
            state.way += 1;
            state.stream = None;
        }
        (state.is_registered, state.endpoint) = (true, endpoint);
        state.last_heard = (now, wall_time());
        self.set_present(state.way);
    }

    /// It is there.
    pub fn hear(&self, now: Instant) -> Result<(), Unregistered> {
        let mut state = self.state();
        if !state.is_registered {
            return Err(Unregistered);
        }
        state.last_heard = (now, wall_time());
        self.set_present(state.way);
        Ok(())
    }

    /// It takes no turns until it registers again.
    pub fn leave(&self, why: &str) {
        let mut state = self.state();
        (state.is_registered, state.stream) = (false, None);
        self.set_absent(why.to_owned(), Instant::now());
    }

    /// When it counts as silent unless it is heard; `None` if it does not take turns, or has a stream.
    fn silent_from(&self) -> Option<Instant> {
        let state = self.state();
        let is_present = matches!(*self.0.presence.borrow(), PeerPresence::Present(_));
        (is_present && state.stream.is_none()).then(|| state.last_heard.0 + self.0.heartbeat * MISSED)
    }

    /// Takes it for absent if it is silent at `now`.
    fn check_silence(&self, now: Instant) {
        if self.silent_from().is_some_and(|from| from <= now) {
            let (_, wall) = self.state().last_heard;
            self.set_absent(format!("its peer is silent since {wall}"), now);
        }
    }

    /// Watches it until its presence changes from `known`.
    pub async fn watch(&self, known: &Option<String>) {
        loop {
            let heard = self.0.heard.notified();
            self.check_silence(Instant::now());
            if self.absence() != *known {
                return;
            }
            match self.silent_from() {
                Some(from) => drop(tokio::time::timeout_at(from.into(), heard).await),
                None => heard.await,
            }
        }
    }

    /// Whether it takes turns at an endpoint.
    pub(super) fn has_endpoint(&self) -> bool {
        self.state().endpoint.is_some()
    }

    /// A new stream of its turns, which ends the one before. It begins with the turns that are open.
    pub fn open_stream(&self) -> Result<TurnStream, NoStream> {
        let mut state = self.state();
        match &state.endpoint {
            _ if !state.is_registered => return Err(NoStream::Unregistered),
            Some(_) => return Err(NoStream::HasEndpoint),
            None => {}
        }
        let (sender, receiver) = mpsc::channel(state.turns.len() + WAITING_TURNS);
        for turn in state.turns.values() {
            let _ = sender.try_send(turn.prompt.clone());
        }
        state.streams += 1;
        let number = state.streams;
        state.stream = Some((number, sender));
        state.last_heard = (Instant::now(), wall_time());
        self.set_present(state.way);
        Ok(TurnStream { process: self.clone(), number, receiver })
    }

    /// The turn `key` is open until the answer is dropped.
    pub(super) fn open_turn(&self, key: &str, prompt: Vec<u8>) -> TurnLines {
        let (lines, receiver) = mpsc::channel(WAITING_LINES);
        let mut state = self.state();
        let is_read = |(_, stream): &(u64, mpsc::Sender<_>)| stream.try_send(prompt.clone()).is_ok();
        if !state.stream.as_ref().is_none_or(is_read) {
            state.stream = None;
            state.last_heard = (Instant::now(), wall_time());
            self.0.heard.notify_one();
        }
        state.turns.insert(key.to_owned(), OpenTurn { prompt, lines });
        TurnLines { process: self.clone(), key: key.to_owned(), receiver, has_ended: false }
    }

    /// Whether the turn `key` is open.
    pub fn has_turn(&self, key: &str) -> bool {
        self.state().turns.contains_key(key)
    }

    /// Hands a line to the turn `key`. Returns when the turn has taken it.
    pub async fn send_line(&self, key: &str, line: BrainLine) -> Result<(), NoSuchTurn> {
        let lines = self.state().turns.get(key).map(|turn| turn.lines.clone()).ok_or(NoSuchTurn)?;
        let (taken, is_taken) = oneshot::channel();
        lines.send(SentLine { line, taken }).await.map_err(|_| NoSuchTurn)?;
        is_taken.await.map_err(|_| NoSuchTurn)
    }
}

impl fmt::Debug for PeerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerProcess").field("presence", &*self.0.presence.borrow()).finish_non_exhaustive()
    }
}

/// The prompts of turns, as a process reads them. Its end counts as the last heartbeat.
pub struct TurnStream {
    process: PeerProcess,
    number: u64,
    receiver: mpsc::Receiver<Vec<u8>>,
}

impl TurnStream {
    /// The next prompt with its line feed; `None` if a later stream replaces this one, the process has another way to take turns, or
    /// it did not read.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        self.receiver.recv().await
    }
}

impl Drop for TurnStream {
    fn drop(&mut self) {
        let mut state = self.process.state();
        if state.stream.as_ref().is_some_and(|(number, _)| *number == self.number) {
            state.stream = None;
            state.last_heard = (Instant::now(), wall_time());
            self.process.0.heard.notify_one();
        }
    }
}

/// The lines of an open turn.
pub(super) struct TurnLines {
    process: PeerProcess,
    key: String,
    receiver: mpsc::Receiver<SentLine>,
    /// Whether its process has ended it.
    has_ended: bool,
}

impl TurnLines {
    pub(super) async fn next(&mut self) -> Option<SentLine> {
        self.receiver.recv().await
    }

    /// Its process has ended it.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }
}

impl Drop for TurnLines {
    fn drop(&mut self) {
        let mut state = self.process.state();
        state.turns.remove(&self.key);
        // As an `exec` worker is told: its task was cancelled, or a bound has passed.
        if let Some((_, stream)) = state.stream.as_ref().filter(|_| !self.has_ended) {
            let line = serde_json::json!({ "type": "cancel", "key": self.key });
            drop(stream.try_send(format!("{line}\n").into_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patterns::turn::TurnEnd;

    const BEAT: Duration = Duration::from_secs(5);

    #[test]
    fn a_process_is_silent_after_three_heartbeats_and_back_with_the_next() {
        let process = PeerProcess::new(BEAT);
        let now = Instant::now();
        assert_eq!(process.hear(now), Err(Unregistered));
        process.register(Some("http://127.0.0.1:1/".to_owned()), now);
        process.check_silence(now + BEAT * 2);
        assert_eq!(process.absence(), None);
        process.hear(now + BEAT * 2).unwrap();
        process.check_silence(now + BEAT * 4);
        assert_eq!(process.absence(), None);
        process.check_silence(now + BEAT * 5);
        assert!(process.absence().unwrap().starts_with("its peer is silent since "));
        process.hear(now + BEAT * 6).unwrap();
        assert_eq!(process.absence(), None);
        process.leave("bye");
        assert_eq!((process.absence(), process.hear(now)), (Some("bye".to_owned()), Err(Unregistered)));
    }

    #[tokio::test]
    async fn a_stream_that_is_not_read_ends_and_the_next_one_has_all_turns() {
        let process = PeerProcess::new(BEAT);
        process.register(None, Instant::now());
        let mut first = process.open_stream().unwrap();
        let turn = |number: usize| process.open_turn(&format!("a:c:{number}:0"), b"prompt\n".to_vec());
        let turns: Vec<_> = (0..=WAITING_TURNS).map(turn).collect();
        for _ in 0..WAITING_TURNS {
            assert!(first.next().await.is_some());
        }
        assert_eq!(first.next().await, None);
        let mut second = process.open_stream().unwrap();
        for _ in &turns {
            assert!(second.next().await.is_some());
        }
    }

    #[tokio::test]
    async fn a_later_stream_is_given_the_open_turns_and_ends_the_earlier_one() {
        let process = PeerProcess::new(BEAT);
        assert_eq!(process.open_stream().err(), Some(NoStream::Unregistered));
        process.register(None, Instant::now());
        let mut first = process.open_stream().unwrap();
        let mut turn = process.open_turn("a:c:1:0", b"prompt\n".to_vec());
        assert_eq!(first.next().await.unwrap(), b"prompt\n");
        let mut second = process.open_stream().unwrap();
        assert_eq!((first.next().await, second.next().await.unwrap()), (None, b"prompt\n".to_vec()));
        drop(first);
        process.check_silence(Instant::now() + BEAT * 9);
        assert_eq!(process.absence(), None, "its stream is open");
        let (taken, sent) = tokio::join!(
            async {
                let sent = turn.next().await.unwrap();
                sent.taken.send(()).unwrap();
                sent.line
            },
            process.send_line("a:c:1:0", BrainLine::End(TurnEnd::Waiting))
        );
        assert_eq!((taken, sent), (BrainLine::End(TurnEnd::Waiting), Ok(())));
        drop(turn);
        assert_eq!(process.send_line("a:c:1:0", BrainLine::End(TurnEnd::Waiting)).await, Err(NoSuchTurn));
        drop(second);
        process.check_silence(Instant::now() + BEAT * 9);
        assert!(process.absence().is_some());
        process.register(Some("http://127.0.0.1:1/".to_owned()), Instant::now());
        assert_eq!(process.open_stream().err(), Some(NoStream::HasEndpoint));
    }
}
