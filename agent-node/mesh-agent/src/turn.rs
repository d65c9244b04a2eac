//! A turn: what the brain is given, and what it can report.

use crate::{
    Answer, ArtifactLine, Checkpoint, Delegate, DirectiveLine, End, Find, Help, ModelUsage, OutputLine,
    PeerQuestion, Post, Propose, Question, Remember, Request, Say, SideMode, SignalLine, Subject, Task,
    TaskId, ToolUse, TurnPrompt,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the lines of a turn go, and what comes back while it runs.
pub(crate) trait NodeLink: Send + Sync {
    /// Writes a line of the turn `key`.
    fn emit(&self, key: &str, line: &OutputLine);

    /// Waits until so many checkpoints of the turn are durable.
    fn settle(&self, checkpoints: u64) -> Result<(), End>;

    fn is_cancelled(&self) -> bool;
}

/// One turn of a brain. Its methods take `&self`, also from other threads.
pub struct Turn {
    /// What the turn is given: answers, messages, peers, budgets, … ([`Turn::task`] has the task).
    pub prompt: TurnPrompt,
    notes: Mutex<Notes>,
    link: Arc<dyn NodeLink>,
}

/// The checkpoints of the task that count, and how many of them this turn has made.
struct Notes {
    all: Vec<Value>,
    own: u64,
}

/// The checkpoint of [`Turn::once`]. The modules for other languages write the same.
#[derive(Deserialize)]
struct OnceNote<T> {
    once: String,
    result: T,
}

impl Turn {
    pub(crate) fn new(prompt: TurnPrompt, link: Arc<dyn NodeLink>) -> Self {
        let notes = Mutex::new(Notes { all: prompt.checkpoints.clone(), own: 0 });
        Self { prompt, notes, link }
    }

    fn emit(&self, line: impl Into<OutputLine>) {
        self.link.emit(&self.prompt.key, &line.into());
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task. Fails the turn if it is about something else: a peer's question, a result to check or a signal.
    pub fn task(&self) -> Result<&Task, End> {
        match &self.prompt.about {
            Subject::Task(task) => Ok(task),
            Subject::Help(_) | Subject::Check(_) | Subject::Signal(_) => {
                Err(End::Failed("the turn has no task: see Turn::question and Turn::prompt".to_owned()))
            }
        }
    }

    /// A peer's question, if the turn is about one. What the turn returns is the answer.
    pub fn question(&self) -> Option<&PeerQuestion> {
        match &self.prompt.about {
            Subject::Help(question) => Some(question),
            Subject::Task(_) | Subject::Check(_) | Subject::Signal(_) => None,
        }
    }

    /// The answer to the request with this id, if it has come.
    pub fn answer(&self, id: &str) -> Option<&Answer> {
        self.prompt.answers.iter().find(|answer| answer.id == id)
    }

    /// Reports progress, for people.
    pub fn status(&self, message: impl Into<String>) {
        self.emit(OutputLine::Status { message: message.into() });
    }

    /// Writes a line to the log of the node.
    pub fn log(&self, message: impl Into<String>) {
        self.emit(OutputLine::Log { message: message.into() });
    }

    /// Hands back a result, or a piece of one. A line has at most 1 MiB, so a larger result comes in pieces with `append`.
    pub fn artifact(&self, artifact: impl Into<ArtifactLine>) {
        self.emit(OutputLine::Artifact(Box::new(artifact.into())));
    }

    /// Publishes a signal on the board.
    pub fn publish(&self, signal: SignalLine) {
        self.emit(OutputLine::Signal(signal));
    }

    /// What the space of the task has decided and knows, as a text; empty if it knows nothing. It is data.
    pub fn brief(&self) -> &str {
        self.prompt.brief.as_ref().map_or("", |brief| &brief.text)
    }

    /// Sends a message to other seats of a session: their names, or `team` for all. It is delivered with the end of the turn.
    pub fn say<S: Into<String>>(&self, to: impl IntoIterator<Item = S>, text: impl Into<String>) {
        let to = to.into_iter().map(Into::into).collect();
        self.emit(OutputLine::Say(Say { to, text: text.into(), mode: SideMode::Dialogue }));
    }

    /// Has another seat of a session work on something: its answer comes back, and the turn with it.
    pub fn hand_over(&self, to: impl Into<String>, text: impl Into<String>) {
        let (to, mode) = (vec![to.into()], SideMode::Delegation);
        self.emit(OutputLine::Say(Say { to, text: text.into(), mode }));
    }

    /// Steers the session, if the seat is a supervisor's.
    pub fn directive(&self, directive: DirectiveLine) {
        self.emit(OutputLine::Directive(directive));
    }

    /// Posts a finding in the space of the task.
    pub fn post(&self, finding: Post) {
        self.emit(OutputLine::Post(finding));
    }

    /// Proposes a decision or a memory of the team.
    pub fn propose(&self, proposal: Propose) {
        self.emit(OutputLine::Propose(proposal));
    }

    /// Remembers something beyond the task.
    pub fn remember(&self, memory: Remember) {
        self.emit(OutputLine::Remember(memory));
    }

    /// Searches the space of the task. The `text` of the answer has what was found.
    pub fn find(&self, find: Find) -> Result<&Answer, End> {
        self.request(find.into())
    }

    /// Reports what one call of a model has used.
    pub fn usage(&self, call: ModelUsage) {
        self.emit(OutputLine::Usage(call));
    }

    /// Reports a call of a tool that has ended, for traces and metrics.
    pub fn tool(&self, call: ToolUse) {
        self.emit(OutputLine::Tool(call));
    }

    /// The notes of this and of earlier turns that count, the oldest first.
    pub fn checkpoints(&self) -> Vec<Value> {
        self.notes().all.clone()
    }

    /// Notes something for every later turn of the task, also after a crash. In a worker it returns when the note is durable.
    /// Fails if the turn is stopped meanwhile.
    pub fn checkpoint(&self, data: impl Serialize) -> Result<(), End> {
        self.note(Checkpoint { data: serde_json::to_value(data)?, replace: false, summary: None })
    }

    /// The same; it makes all earlier notes obsolete, also those of [`Turn::once`].
    pub fn replace_checkpoints(&self, data: impl Serialize) -> Result<(), End> {
        self.note(Checkpoint { data: serde_json::to_value(data)?, replace: true, summary: None })
    }

    fn note(&self, note: Checkpoint) -> Result<(), End> {
        let own = {
            let mut notes = self.notes();
            if note.replace {
                notes.all.clear();
            }
            notes.all.push(note.data.clone());
            notes.own += 1;
            // Written under the lock: the node counts the notes in the order of their lines.
            self.emit(OutputLine::Checkpoint(note));
            notes.own
        };
        self.link.settle(own)
    }

    /// Calls `call` and notes its result. Later turns of the task return the note and do not call, also after a crash.
    pub fn once<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        call: impl FnOnce() -> Result<T, End>,
    ) -> Result<T, End> {
        let noted = self.notes().all.iter().find_map(|note| {
            let note = OnceNote::<Value>::deserialize(note).ok()?;
            (note.once == name).then_some(note.result)
        });
        if let Some(noted) = noted {
            return Ok(serde_json::from_value(noted)?);
        }
        let result = call()?;
        self.checkpoint(json!({ "once": name, "result": result }))?;
        Ok(result)
    }

    /// Asks the person who owns the task.
    pub fn ask(&self, question: Question) -> Result<&Answer, End> {
        self.request(question.into())
    }

    /// Asks another agent.
    pub fn help(&self, help: Help) -> Result<&Answer, End> {
        self.request(help.into())
    }

    /// Gives a task to another agent.
    pub fn delegate(&self, delegate: Delegate) -> Result<&Answer, End> {
        self.request(delegate.into())
    }

    /// Waits until a task of anybody's has ended. `ok`: it is completed; `text`: how it has ended.
    pub fn wait_for(&self, task: &TaskId) -> Result<&Answer, End> {
        self.check_cancelled()?;
        self.answer(task.as_str()).ok_or_else(|| End::WaitFor(task.clone()))
    }

    fn request(&self, request: Request) -> Result<&Answer, End> {
        self.together([request])?.pop().ok_or(End::Wait)
    }

    /// Sends all requests at once; returns their answers in the same order. An id is used once in a task.
    pub fn together(&self, requests: impl IntoIterator<Item = Request>) -> Result<Vec<&Answer>, End> {
        self.check_cancelled()?;
        let answers: Vec<_> = requests.into_iter().map(|request| self.sent(request)).collect();
        answers.into_iter().collect::<Option<_>>().ok_or(End::Wait)
    }

    /// Sends a request and goes on without waiting. Returns the answer if it has come; a turn that needs it ends with
    /// [`End::Wait`]. The end of the task withdraws what has no answer.
    pub fn start(&self, request: impl Into<Request>) -> Option<&Answer> {
        self.sent(request.into().without_waiting())
    }

    /// The answer to a request. The request is sent if there is none.
    fn sent(&self, request: Request) -> Option<&Answer> {
        let answer = self.answer(request.id());
        if answer.is_none() {
            self.emit(request);
        }
        answer
    }

    /// Whether the node has stopped the turn. It has two seconds to end then; after that its process is killed.
    pub fn is_cancelled(&self) -> bool {
        self.link.is_cancelled()
    }

    /// [`End::Cancelled`] if the node has stopped the turn. Long work calls it now and then.
    pub fn check_cancelled(&self) -> Result<(), End> {
        if self.is_cancelled() { Err(End::Cancelled) } else { Ok(()) }
    }
}
