//! The loop of an agent with a model: ask the model, run what it calls, ask again, until it answers. A pure state machine: events
//! in, actions out. What it knows is a [`Transcript`], the fold of durable records, so that a turn begins where the last one
//! stopped: no recorded answer and no recorded result is asked for again.

use super::{
    call_meter::{CallMeter, CallUsage, TOKEN},
    circles::{self, Circle},
    loop_tool::{CallOutcome, LoopSubject, LoopTool, LoopToolKind},
    media,
    mesh_tools::{
        ASK_HELP, ASK_PERSON, DELEGATE, MeshOutcome, MeshTool, READ_ARTIFACT, READ_SIGNALS, SignalSelection,
        WAIT,
    },
    model::{
        MEDIUM_BYTES, MediaRef, ModelAnswer, ModelDelta, ModelError, ModelErrorKind, ModelMessage,
        ModelRequest, StopReason, ToolCall,
    },
    output::OutputSchema,
    prompts::{self, UserMessage},
    text_call,
    text_stream::{ANSWER, TextStream},
    tool_hook::{HookEvent, HookStages, HookVerdict},
    tool_list::keep_names,
    tool_permission::ToolPermission,
    transcript::{CallRecord, Round, ToolResult, Transcript, TranscriptRecord},
};
use patterns::{
    session::seat::{self, MAX_SAY_BYTES, MAX_SAYS},
    turn::{Progress, RequestResult, TurnEnd},
    work::MAX_REQUESTS,
};
use protocol::{
    artifact::Artifact,
    fence::fenced,
    question::Decision,
    usage::{RemainingBudget, ToolUse, Usage},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Bounds of the loop.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoopLimits {
    /// The most answers of models in a task.
    pub(super) rounds: u32,
    /// About how many tokens the conversation may have before it is compacted; `None` waits for the provider to refuse it.
    pub(super) context: Option<usize>,
    /// The models, in the order in which they are asked.
    pub(super) models: Vec<String>,
    /// Of each, whether an answer whose whole text is a call is taken for that call.
    pub(super) text_calls: Vec<bool>,
    /// The most bytes of a signal on the board.
    pub(super) signal_bytes: usize,
    /// How long a model may send nothing before the next one is asked.
    pub(super) silence: Duration,
    /// Where the agent has hooks.
    pub(super) hooks: HookStages,
}

/// The longest last words of a seat, bytes; longer ones are an artifact.
const MAX_WORDS: usize = 16 << 10;
/// How much of longer ones is said.
const MAX_WORDS_SHOWN: usize = 500;

#[derive(Debug)]
pub(super) enum LoopEvent {
    /// The model said something.
    Delta(ModelDelta),
    /// Nothing was reported for a while, although the model is answering.
    Quiet,
    /// The model gave no answer.
    Failed(ModelError),
    /// A call has ended.
    Called {
        call: String,
        /// What came of it, and further artifacts.
        outcome: CallOutcome,
        /// How long it took.
        took: Duration,
    },
    /// A hook has answered.
    Hooked {
        /// The call that it was asked about; [`END`] for the end of the turn.
        call: String,
        verdict: HookVerdict,
    },
}

/// What to do, in order.
#[derive(Debug, PartialEq)]
pub(super) enum LoopAction {
    /// Make this durable before the next action.
    Record(TranscriptRecord),
    Report(Progress),
    /// Ask a person whether a call may be made.
    Approve {
        /// The id of the question.
        id: String,
        /// What a person reads.
        text: String,
        /// The call, whose arguments the decision is about.
        call: ToolCall,
        /// The schema of other arguments with which it may be approved; `None` if it is to be approved as it is.
        schema: Option<Value>,
    },
    /// A call of a model has ended.
    Usage {
        /// The position of the model.
        model: usize,
        /// What it has used.
        usage: CallUsage,
        /// Why the answer ended, or why there is none, as a code.
        end: Result<&'static str, String>,
    },
    AskModel {
        model: usize,
        request: Arc<ModelRequest>,
    },
    /// Call a tool of a server.
    CallTool {
        /// The position of the server.
        server: usize,
        /// The name of the tool there.
        name: String,
        call: ToolCall,
    },
    /// Ask a hook.
    AskHook {
        /// The call that it is about; [`END`] for the end of the turn.
        call: String,
        event: HookEvent,
    },
    /// Read signals of the board.
    ReadSignals {
        call: ToolCall,
        query: SignalSelection,
    },
    End(LoopEnd),
}

/// How a turn ends.
#[derive(Debug, PartialEq)]
pub(super) enum LoopEnd {
    Turn(TurnEnd),
    /// No model can be reached; the turn begins again after the pause.
    Pause {
        after: Duration,
        reason: String,
    },
}

/// What a turn begins with.
pub(super) struct LoopStart {
    pub(super) limits: LoopLimits,
    pub(super) subject: LoopSubject,
    pub(super) system: String,
    pub(super) first: String,
    /// The same as every run of the same task has it.
    pub(super) repeatable_first: String,
    pub(super) tools: Vec<LoopTool>,
    pub(super) output: Option<OutputSchema>,
    /// What others have answered in this task.
    pub(super) answers: Vec<RequestResult>,
    /// The turn that was given the newest of them.
    pub(super) turn: u32,
    /// Texts that `read_artifact` reads, by id.
    pub(super) artifacts: BTreeMap<String, String>,
    /// The messages to other seats that the task has sent.
    pub(super) sent: usize,
    /// What the task is given, which says whom a seat can reach.
    pub(super) input: Option<Value>,
    /// The images and files that come with `first`.
    pub(super) first_media: Vec<MediaRef>,
    /// Those of artifacts, by id.
    pub(super) media: BTreeMap<String, Vec<MediaRef>>,
    /// The records of earlier turns, and of this one before it was interrupted.
    pub(super) records: Vec<TranscriptRecord>,
    /// The name of the turn, if it belongs to a context: its first message is recorded there, as `repeatable_first`, and comes behind
    /// the turns before.
    pub(super) turn_of_context: Option<String>,
    /// What the user has said since the last turn.
    pub(super) messages: Vec<UserMessage>,
    pub(super) budget: LoopBudget,
}

/// What the task had used when the turn began, and what it could still use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct LoopBudget {
    pub(super) used: Usage,
    pub(super) left: RemainingBudget,
}

/// The state of a turn.
pub(super) struct AgentLoop {
    limits: LoopLimits,
    subject: LoopSubject,
    system: String,
    first: String,
    repeatable_first: String,
    first_media: Vec<MediaRef>,
    tools: BTreeMap<String, LoopTool>,
    output: Option<OutputSchema>,
    answers: BTreeMap<String, RequestResult>,
    artifacts: BTreeMap<String, String>,
    /// The images and files of artifacts, by id.
    media: BTreeMap<String, Vec<MediaRef>>,
    /// The messages to other seats that the task has sent.
    sent: usize,
    /// What the task is given.
    input: Option<Value>,
    transcript: Transcript,
    /// Calls that run in this life, or about which a hook is asked.
    running: BTreeSet<String>,
    /// Results that a hook is asked about.
    held: BTreeMap<String, (ToolResult, Vec<Artifact>, Duration)>,
    turn: u32,
    /// Whether an answer has come for which the last turn waited.
    has_news: bool,
    /// What this turn has asked without waiting.
    asked: usize,
    /// The model that is asked, while it is, and what that uses.
    asking: Option<(usize, CallMeter)>,
    failures: Vec<ModelError>,
    /// How many of the oldest rounds the model is summing up, if that is what it is asked.
    summing: Option<usize>,
    /// Whether it has given no summary: it is not asked for one again in this turn.
    has_no_summary: bool,
    /// How the server of a model has counted the last request.
    counted: Option<CountedRequest>,
    asked_bytes: usize,
    has_warned_of_cut: bool,
    stream: TextStream,
    /// As the turn began.
    budget: LoopBudget,
    left: RemainingBudget,
}

/// A request as its server has counted it.
#[derive(Debug, Clone, Copy)]
struct CountedRequest {
    model: usize,
    bytes: usize,
    tokens: u64,
    /// How often in a row it counted no more although more was sent.
    still: u32,
}

/// What becomes of a call that a person has approved with other arguments.
enum EditedFate {
    /// It is made.
    Made,
    /// A hook is to be asked first.
    AsksHook,
    /// It is not made, and why.
    Refused(String),
}

/// A count stands still if it grows by no more than this.
const SAME_TOKENS: u64 = 64;
/// How much is added by then, bytes.
const GROWN_BYTES: usize = 8 << 10;
/// How often in a row that is a cut.
const MAX_STILL: u32 = 2;

/// The longest result that the model reads whole, bytes.
const MAX_RESULT: usize = 16 << 10;
/// How much of a longer one it reads, bytes.
const RESULT_HEAD: usize = 4 << 10;
/// The longest result that is kept as an artifact, bytes; the rest is dropped.
const MAX_KEPT_RESULT: usize = 1 << 20;
/// The most calls of one answer that are made.
const MAX_CALLS: usize = 64;
/// How often in a row the model may repair its answer.
const MAX_REPAIRS: usize = 2;
/// How often a call is started before its failure is the result.
const MAX_STARTS: u32 = 3;
/// The first pause when no model can be reached and none says how long; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// How many answers in a row may break off.
const MAX_BROKEN: u32 = 3;
/// The longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// In place of the id of a call: the end of the turn, about which a hook is asked.
const END: &str = "end";
/// The code of a call whose result is an error.
const TOOL_ERROR: &str = "tool_error";

impl AgentLoop {
    /// From the next request on the model is offered these tools. A tool that it has been offered keeps its name.
    pub(super) fn offer(&mut self, tools: Vec<LoopTool>) {
        self.tools = keep_names(&self.tools, tools);
    }

    /// Begins or continues; returns the first actions.
    pub(super) fn begin(start: LoopStart) -> (Self, Vec<LoopAction>) {
        let mut transcript = Transcript::default();
        start.records.into_iter().for_each(|record| transcript.apply(record));
        let mut state = Self {
            limits: start.limits,
            subject: start.subject,
            system: start.system,
            first: start.first,
            repeatable_first: start.repeatable_first,
            first_media: start.first_media,
            tools: start.tools.into_iter().map(|tool| (tool.spec.name.clone(), tool)).collect(),
            output: start.output,
            answers: start.answers.iter().map(|answer| (answer.id.clone(), answer.clone())).collect(),
            artifacts: start.artifacts,
            media: start.media,
            sent: start.sent,
            input: start.input,
            transcript,
            running: BTreeSet::new(),
            held: BTreeMap::new(),
            turn: start.turn,
            asked: 0,
            has_news: start.answers.iter().any(|answer| answer.for_turn == start.turn),
            asking: None,
            failures: Vec::new(),
            stream: TextStream::default(),
            summing: None,
            has_no_summary: false,
            counted: None,
            asked_bytes: 0,
            has_warned_of_cut: false,
            budget: start.budget,
            left: start.budget.left,
        };
        let mut actions = Vec::new();
        if let Some(id) = start.turn_of_context.filter(|id| !state.transcript.notes.contains(id)) {
            let text = state.repeatable_first.clone();
            let media = state.first_media.clone();
            state.record(TranscriptRecord::Began { id, text, media }, &mut actions);
        }
        for UserMessage { id, note, whole, mut media } in start.messages {
            if state.transcript.notes.contains(&id) {
                continue;
            }
            if let Some(artifact) = whole {
                state.artifacts.insert(artifact.artifact_id.clone(), artifact.as_text());
                actions.push(LoopAction::Report(Progress::Artifact {
                    artifact,
                    append: false,
                    last_chunk: true,
                }));
            }
            // What the task is about is shown with that.
            media.retain(|medium| !state.first_media.contains(medium));
            state.record(TranscriptRecord::Noted { id, text: note, media }, &mut actions);
        }
        for answer in start.answers {
            state.note_late_answer(&answer, &mut actions);
        }
        state.advance(&mut actions);
        (state, actions)
    }

    /// Tells the model the answer to a call that has not waited for it.
    fn note_late_answer(&mut self, answer: &RequestResult, actions: &mut Vec<LoopAction>) {
        let id = format!("answer-{}", answer.id);
        let is_late = match self.transcript.calls().find(|known| known.call.id == answer.id) {
            Some(known) => !waits(&known.call),
            // Its call was dropped, so it has not waited.
            None => answer.from.is_some() && answer.for_turn == self.turn,
        };
        if is_late && !self.transcript.notes.contains(&id) {
            let from = answer.from.as_ref().map_or("an agent", |from| from.as_str());
            let text = prompts::late_answer(from, &answer_text(answer), answer.ok);
            let media = media::of_artifacts(answer.artifacts.iter());
            self.record(TranscriptRecord::Noted { id, text, media }, actions);
        }
    }

    /// Takes an event; `left` is what is left of the task's budget. Returns what to do; after [`LoopAction::End`] there is
    /// nothing more.
    pub(super) fn on(&mut self, event: LoopEvent, left: &RemainingBudget) -> Vec<LoopAction> {
        self.left = *left;
        let mut actions = Vec::new();
        if let (LoopEvent::Delta(delta), Some((_, meter))) = (&event, &mut self.asking) {
            meter.observe(delta);
        }
        match event {
            LoopEvent::Delta(ModelDelta::Text(text)) => {
                let report = if self.is_text_shown() {
                    self.stream.push(&text)
                } else {
                    self.stream.hidden(text.len())
                };
                actions.extend(report.map(LoopAction::Report));
            }
            LoopEvent::Delta(ModelDelta::Hidden(bytes)) => {
                actions.extend(self.stream.hidden(bytes).map(LoopAction::Report));
            }
            LoopEvent::Delta(ModelDelta::Counted(_)) => {}
            LoopEvent::Delta(ModelDelta::Notice(message)) => {
                actions.push(LoopAction::Report(Progress::Status { message }));
            }
            LoopEvent::Delta(ModelDelta::Answer(answer)) => self.answered(answer, &mut actions),
            LoopEvent::Quiet => actions.extend(self.stream.flush().map(LoopAction::Report)),
            LoopEvent::Failed(error) => self.failed(error, &mut actions),
            LoopEvent::Called { call, outcome, took } => self.called(&call, outcome, took, &mut actions),
            LoopEvent::Hooked { call, verdict } => self.hooked(&call, verdict, &mut actions),
        }
        actions
    }

    /// The model that is asked, and what the call has used so far.
    pub(super) fn call_under_way(&self) -> Option<(usize, CallUsage)> {
        self.asking.as_ref().map(|(model, meter)| (*model, meter.used()))
    }

    /// Whether a call of a tool is under way.
    pub(super) fn runs_tools(&self) -> bool {
        !self.running.is_empty()
    }

    /// Whether the text of an answer goes to the artifact as it arrives. JSON is shown when it is valid, and what a hook may deny
    /// once it has allowed it.
    fn is_text_shown(&self) -> bool {
        matches!(self.subject, LoopSubject::Task | LoopSubject::Chat)
            && self.output.is_none()
            && self.summing.is_none()
            && !self.limits.hooks.end
    }

    fn record(&mut self, record: TranscriptRecord, actions: &mut Vec<LoopAction>) {
        self.transcript.apply(record.clone());
        actions.push(LoopAction::Record(record));
    }

    /// What follows from the transcript: calls to make, people to ask, the model to ask, or the end.
    fn advance(&mut self, actions: &mut Vec<LoopAction>) {
        let open = self.transcript.rounds.last().map(|round| {
            let open = round.calls.iter().filter(|call| call.result.is_none());
            open.map(|call| call.call.clone()).collect::<Vec<_>>()
        });
        let mut asks = Vec::new();
        for call in open.unwrap_or_default() {
            if !self.running.contains(&call.id) {
                self.take_up(&call, actions, &mut asks);
            }
        }
        if !self.running.is_empty() {
            return;
        }
        if let Some(at) = asks.iter().position(|ask| matches!(ask, LoopAction::End(_))) {
            // What was asked with it would have no turn that reads the answer.
            return actions.push(asks.swap_remove(at));
        }
        if !asks.is_empty() {
            actions.append(&mut asks);
            return actions.push(LoopAction::End(LoopEnd::Turn(TurnEnd::Waiting)));
        }
        match self.transcript.rounds.last() {
            Some(round)
                if round.is_last()
                    && self.limits.hooks.end
                    && !round.is_allowed
                    && round.stop != StopReason::Refused =>
            {
                let event = HookEvent::End { text: round.text.trim().to_owned() };
                self.ask_hook(END.to_owned(), event, actions);
            }
            Some(round) if round.is_last() => self.end(actions),
            Some(_) | None => self.ask(0, actions),
        }
    }

    /// Brings a call that has no result closer to it.
    fn take_up(&mut self, call: &ToolCall, actions: &mut Vec<LoopAction>, asks: &mut Vec<LoopAction>) {
        let Some(LoopTool { spec, kind }) = self.tools.get(&call.name).cloned() else {
            return self.finish(call, ToolResult::error(prompts::unknown_tool(&call.name)), actions);
        };
        let LoopToolKind::Server { server, name, is_repeatable, permission, .. } = kind else {
            return self.take_up_mesh(call, actions, asks);
        };
        if permission == ToolPermission::Denied {
            return self.finish(call, ToolResult::error(prompts::denied_tool(&call.name)), actions);
        }
        let record = self.transcript.call(&call.id);
        let starts = record.map_or(0, |call| call.starts);
        let is_unchecked = |call: &CallRecord| call.checked.is_none() && call.edited.is_none();
        if self.limits.hooks.before && starts == 0 && record.is_some_and(is_unchecked) {
            let event = HookEvent::Before { server, tool: name, call: call.clone() };
            return self.ask_hook(call.id.clone(), event, actions);
        }
        // What a person approves is what is called.
        let call = &record.map_or_else(|| call.clone(), CallRecord::made);
        let question = match starts {
            0 if permission == ToolPermission::Allowed => None,
            0 => Some((call.id.clone(), format!("May {} be called?", call.name))),
            _ if is_repeatable && starts < MAX_STARTS => None,
            _ if is_repeatable => {
                let text = prompts::interrupted("it failed each time that the call was made");
                return self.give_up(call, ToolResult::error(text), actions);
            }
            _ => {
                let text = format!(
                    "A call of {} was interrupted, and nobody knows whether it took effect. Shall it be made again?",
                    call.name
                );
                Some((format!("{}-again{starts}", call.id), text))
            }
        };
        if let Some((id, text)) = question {
            let refusal = match self.answers.get(&id) {
                // Words decide nothing.
                Some(answer) if answer.decision == Some(Decision::Approve) => {
                    match answer.values.clone().filter(|_| starts == 0) {
                        Some(values) => {
                            let approved = ToolCall { arguments: values, ..call.clone() };
                            match self.approve_edited(approved, &spec.schema, actions) {
                                EditedFate::Made => None,
                                EditedFate::Refused(why) => Some(ToolResult::error(why).of_person()),
                                EditedFate::AsksHook => {
                                    let event =
                                        HookEvent::Before { server, tool: name, call: self.made(call) };
                                    return self.ask_hook(call.id.clone(), event, actions);
                                }
                            }
                        }
                        None => None,
                    }
                }
                Some(answer) => {
                    let refused = if starts == 0 { prompts::denied } else { prompts::not_repeated };
                    Some(ToolResult::error(refused(&answer.text)).of_person())
                }
                None if self.subject == LoopSubject::Signal => {
                    Some(ToolResult::error(prompts::nobody_to_ask(&text)))
                }
                None => {
                    let schema = (starts == 0).then_some(spec.schema);
                    let ask = LoopAction::Approve { id, text, call: call.clone(), schema };
                    return self.ask_others(call, ask, actions, asks);
                }
            };
            match refusal {
                None => {}
                Some(refusal) if starts == 0 => return self.finish(call, refusal, actions),
                Some(refusal) => return self.give_up(call, refusal, actions),
            }
        }
        // The intent is durable before the call is made.
        self.record(TranscriptRecord::Started { call: call.id.clone() }, actions);
        let made = self.made(call);
        self.start(server, name, &made, actions);
    }

    /// The call as it is made.
    fn made(&self, call: &ToolCall) -> ToolCall {
        self.transcript.call(&call.id).map_or_else(|| call.clone(), CallRecord::made)
    }

    /// Takes the arguments with which a person has approved a call: they must fit its schema, and a hook may deny them.
    fn approve_edited(
        &mut self,
        approved: ToolCall,
        schema: &Value,
        actions: &mut Vec<LoopAction>,
    ) -> EditedFate {
        if self.transcript.call(&approved.id).is_some_and(|call| call.edited.is_none()) {
            let fits = OutputSchema::of_request(schema.clone())
                .map_or(Ok(()), |schema| schema.check_value(&Value::Object(approved.arguments.clone())));
            if let Err(why) = fits {
                return EditedFate::Refused(prompts::edited_amiss(&why));
            }
            let ToolCall { id, arguments, .. } = approved.clone();
            self.record(TranscriptRecord::Edited { call: id, arguments }, actions);
        }
        let edited = self.transcript.call(&approved.id).and_then(|call| call.edited.as_ref());
        let is_allowed = edited.is_none_or(|edited| edited.is_allowed);
        if self.limits.hooks.before && !is_allowed { EditedFate::AsksHook } else { EditedFate::Made }
    }

    fn ask_hook(&mut self, call: String, event: HookEvent, actions: &mut Vec<LoopAction>) {
        self.running.insert(call.clone());
        actions.push(LoopAction::AskHook { call, event });
    }

    /// Takes what a hook says. It is recorded before it counts.
    fn hooked(&mut self, id: &str, verdict: HookVerdict, actions: &mut Vec<LoopAction>) {
        if !self.running.remove(id) {
            return;
        }
        if id == END {
            return self.end_checked(verdict, actions);
        }
        let Some(record) = self.transcript.call(id) else { return };
        let (call, edited) =
            (record.call.clone(), record.edited.as_ref().map(|edited| edited.arguments.clone()));
        match (self.held.remove(id), verdict) {
            // What a person has approved is called, or nothing.
            (None, HookVerdict::Arguments(wanted))
                if edited.as_ref().is_some_and(|edited| *edited != wanted) =>
            {
                let reason = "It wants other arguments than those that a person has approved.";
                self.finish(&call, ToolResult::error(prompts::hook_denied(&call.name, reason)), actions);
            }
            (None, HookVerdict::Deny(reason)) => {
                self.finish(&call, ToolResult::error(prompts::hook_denied(&call.name, &reason)), actions);
            }
            (None, verdict) => {
                let arguments = match verdict {
                    HookVerdict::Arguments(arguments) => Some(arguments),
                    _ => None,
                };
                self.record(TranscriptRecord::Checked { call: call.id, arguments }, actions);
            }
            (Some((_, _, took)), HookVerdict::Deny(reason)) => {
                let withheld = ToolResult::error(prompts::hook_withheld(&call.name, &reason));
                self.take_result(&call, withheld, Vec::new(), took, actions);
            }
            (Some((result, _, took)), HookVerdict::Result(text)) => {
                let replaced = ToolResult { text, media: Vec::new(), ..result };
                self.take_result(&call, replaced, Vec::new(), took, actions);
            }
            (Some((result, artifacts, took)), HookVerdict::Allow | HookVerdict::Arguments(_)) => {
                self.take_result(&call, result, artifacts, took, actions);
            }
        }
        self.advance(actions);
    }

    /// Takes what a hook says of the end of the turn. A denial asks the model again, a few times.
    fn end_checked(&mut self, verdict: HookVerdict, actions: &mut Vec<LoopAction>) {
        let HookVerdict::Deny(reason) = verdict else {
            self.record(TranscriptRecord::EndChecked { denied: None }, actions);
            return self.advance(actions);
        };
        let message = format!("a hook has denied the end of the turn: {reason}");
        actions.push(LoopAction::Report(Progress::Status { message }));
        let denied = Some(prompts::hook_denied_end(&reason));
        self.record(TranscriptRecord::EndChecked { denied }, actions);
        let times = self.transcript.refused_in_a_row();
        if times > MAX_REPAIRS {
            let reason = format!("a hook has denied the end of the turn {times} times in a row: {reason}");
            return actions.push(LoopAction::End(LoopEnd::Turn(TurnEnd::Failed { reason })));
        }
        self.advance(actions);
    }

    fn start(&mut self, server: usize, name: String, call: &ToolCall, actions: &mut Vec<LoopAction>) {
        self.running.insert(call.id.clone());
        let message = format!("calls {}", call.name);
        actions.push(LoopAction::Report(Progress::Status { message }));
        actions.push(LoopAction::CallTool { server, name, call: call.clone() });
    }

    /// Asks a person or another agent at the end of the turn, if it has not asked too much.
    fn ask_others(
        &mut self,
        call: &ToolCall,
        ask: LoopAction,
        actions: &mut Vec<LoopAction>,
        asks: &mut Vec<LoopAction>,
    ) {
        if self.asked + asks.len() < MAX_REQUESTS {
            return asks.push(ask);
        }
        self.finish(call, ToolResult::error(prompts::too_many_requests(MAX_REQUESTS)), actions);
    }

    fn take_up_mesh(&mut self, call: &ToolCall, actions: &mut Vec<LoopAction>, asks: &mut Vec<LoopAction>) {
        if let Some(answer) = self.answers.get(&call.id).filter(|_| waits(call)) {
            let is_from_person = call.name == ASK_PERSON;
            let text = fenced(&answer_text(answer));
            let media = media::of_artifacts(answer.artifacts.iter());
            let result = ToolResult { text, is_error: !answer.ok, is_from_person, media };
            return self.finish(call, result, actions);
        }
        if call.name == WAIT
            && let Some(result) = self.wait_result()
        {
            return self.finish(call, result, actions);
        }
        let tool = MeshTool::named(&call.name);
        let is_message = tool.is_some_and(MeshTool::is_message);
        if let Some(problem) = is_message.then(|| self.refused_message(call)).flatten() {
            return self.finish(call, ToolResult::error(problem), actions);
        }
        match tool.map(|tool| tool.run(call, &self.artifacts)) {
            Some(MeshOutcome::Ask(progress)) if !waits(call) && self.asked + asks.len() < MAX_REQUESTS => {
                self.asked += 1;
                actions.push(LoopAction::Report(progress));
                self.finish(call, ToolResult::text(prompts::asked_without_waiting()), actions);
            }
            Some(MeshOutcome::Ask(progress)) => {
                self.ask_others(call, LoopAction::Report(progress), actions, asks);
            }
            Some(MeshOutcome::End(end)) => asks.push(LoopAction::End(LoopEnd::Turn(end))),
            Some(MeshOutcome::Report(mut progress, mut result)) => {
                if let Err(problem) = self.leave_out_unreached(&mut progress, &mut result) {
                    return self.finish(call, ToolResult::error(problem), actions);
                }
                let most = self.limits.signal_bytes;
                if let Some(problem) = engine::oversized_signal(std::slice::from_ref(&progress), most) {
                    return self.finish(call, ToolResult::error(problem), actions);
                }
                self.sent += usize::from(is_message);
                actions.push(LoopAction::Report(progress));
                self.finish(call, result, actions);
            }
            Some(MeshOutcome::Read(query)) => {
                self.running.insert(call.id.clone());
                actions.push(LoopAction::ReadSignals { call: call.clone(), query });
            }
            Some(MeshOutcome::Result(mut result)) => {
                result.media = self.media_read(call, &result);
                self.finish(call, result, actions);
            }
            None => self.finish(call, ToolResult::error(prompts::unknown_tool(&call.name)), actions),
        }
    }

    /// The images and files of the artifact that a call has read from its beginning.
    fn media_read(&self, call: &ToolCall, result: &ToolResult) -> Vec<MediaRef> {
        let offset = call.arguments.get("offset").and_then(Value::as_u64).unwrap_or_default();
        let is_read = call.name == READ_ARTIFACT && !result.is_error && offset == 0;
        let artifact = call.arguments.get("artifact").and_then(Value::as_str).filter(|_| is_read);
        artifact.and_then(|id| self.media.get(id)).cloned().unwrap_or_default()
    }

    /// What a model reads that waits: an answer has come, or none will; `None` if it has to wait.
    fn wait_result(&mut self) -> Option<ToolResult> {
        if std::mem::take(&mut self.has_news) {
            return Some(ToolResult::text(prompts::answer_came()));
        }
        let has_answer = |call: &ToolCall| self.transcript.notes.contains(&format!("answer-{}", call.id));
        let is_awaited = self.transcript.calls().any(|known| !waits(&known.call) && !has_answer(&known.call));
        (!is_awaited).then(|| ToolResult::error(prompts::nothing_to_wait_for()))
    }

    /// Leaves out of a message whom it does not reach, and says so in its result. The error says why it reaches nobody.
    fn leave_out_unreached(&self, report: &mut Progress, result: &mut ToolResult) -> Result<(), String> {
        let Progress::Say { to, .. } = report else { return Ok(()) };
        let unreached = seat::unreached(self.input.as_ref(), to);
        if unreached.is_empty() {
            return Ok(());
        }
        let why: Vec<_> = unreached.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        let why = why.join("; ");
        to.retain(|name| unreached.iter().all(|(other, _)| other != name));
        if to.is_empty() {
            return Err(format!("not sent: {why}"));
        }
        result.text = format!("to {}: {}. Not to {why}", to.join(", "), result.text);
        Ok(())
    }

    /// Why a message to another seat is not sent, if it would be one too many, or too long.
    fn refused_message(&self, call: &ToolCall) -> Option<String> {
        if self.sent >= MAX_SAYS as usize {
            return Some(format!("not sent: {MAX_SAYS} messages were sent in this turn, which is the most"));
        }
        let bytes = call.arguments.get("text").and_then(Value::as_str).map_or(0, str::len);
        (bytes > MAX_SAY_BYTES).then(|| format!("not sent: {bytes} bytes are more than {MAX_SAY_BYTES}"))
    }

    /// Records that a call was made without a result. Each time that it was made was reported when it failed.
    fn give_up(&mut self, call: &ToolCall, mut result: ToolResult, actions: &mut Vec<LoopAction>) {
        self.name_edit(call, &mut result);
        self.record(TranscriptRecord::Finished { call: call.id.clone(), result }, actions);
    }

    /// Tells the model with which arguments a call was made that a person has changed.
    fn name_edit(&self, call: &ToolCall, result: &mut ToolResult) {
        if let Some(edited) = self.transcript.call(&call.id).and_then(|call| call.edited.as_ref()) {
            result.text = prompts::edited(&edited.arguments, &result.text);
        }
    }

    /// Records the result of a call that this turn has not timed.
    fn finish(&mut self, call: &ToolCall, result: ToolResult, actions: &mut Vec<LoopAction>) {
        self.finish_after(call, result, None, actions);
    }

    /// Records the result of a call. A large one becomes an artifact, of which the model reads the beginning.
    fn finish_after(
        &mut self,
        call: &ToolCall,
        mut result: ToolResult,
        took: Option<Duration>,
        actions: &mut Vec<LoopAction>,
    ) {
        let error = result.is_error.then_some(TOOL_ERROR);
        self.name_edit(call, &mut result);
        actions.push(LoopAction::Report(self.tool_use(call, took, error)));
        // Pieces of artifacts and pages of signals are bounded already.
        let is_bounded = [READ_ARTIFACT, READ_SIGNALS].contains(&call.name.as_str());
        if result.text.len() > MAX_RESULT && !is_bounded {
            let id = format!("{}-{}", call.name, call.id);
            let kept = prompts::beginning(&result.text, MAX_KEPT_RESULT).to_owned();
            let artifact = Artifact::text(&id, "text/plain", kept.clone());
            actions.push(LoopAction::Report(Progress::Artifact {
                artifact,
                append: false,
                last_chunk: true,
            }));
            let whole = result.text.len();
            result.text = prompts::large_result(prompts::beginning(&kept, RESULT_HEAD), kept.len(), &id);
            if kept.len() < whole {
                result.text.push_str(&prompts::cut_result(whole, kept.len()));
                let message = format!(
                    "the result of {} has {whole} bytes; only the first {} are kept",
                    call.name,
                    kept.len()
                );
                actions.push(LoopAction::Report(Progress::Status { message }));
            }
            self.artifacts.insert(id, kept);
        }
        self.record(TranscriptRecord::Finished { call: call.id.clone(), result }, actions);
    }

    /// The report of a call that has ended. A name that is no tool's is the model's own text.
    fn tool_use(&self, call: &ToolCall, took: Option<Duration>, error: Option<&str>) -> Progress {
        let name = if self.tools.contains_key(&call.name) { call.name.clone() } else { "unknown".to_owned() };
        let duration_ms = took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        Progress::Tool(ToolUse { id: call.id.clone(), name, duration_ms, error: error.map(str::to_owned) })
    }

    fn called(&mut self, id: &str, outcome: CallOutcome, took: Duration, actions: &mut Vec<LoopAction>) {
        if !self.running.remove(id) {
            return;
        }
        let Some(call) = self.transcript.call(id).map(|call| call.call.clone()) else { return };
        match outcome {
            CallOutcome::Answered(result, artifacts) => match self.hook_after(&call, &result) {
                Some(event) => {
                    self.held.insert(id.to_owned(), (result, artifacts, took));
                    self.ask_hook(id.to_owned(), event, actions);
                }
                None => self.take_result(&call, result, artifacts, took, actions),
            },
            CallOutcome::Interrupted(reason) => {
                actions.push(LoopAction::Report(self.tool_use(&call, Some(took), Some("interrupted"))));
                let message = format!("{} was interrupted: {reason}", call.name);
                actions.push(LoopAction::Report(Progress::Status { message }));
            }
        }
        self.advance(actions);
    }

    /// What a hook is asked about the result of a call of a tool server, if there is one.
    fn hook_after(&self, call: &ToolCall, result: &ToolResult) -> Option<HookEvent> {
        let tool = self.tools.get(&call.name).filter(|_| self.limits.hooks.after);
        let Some(LoopToolKind::Server { server, name, .. }) = tool.map(|tool| &tool.kind) else {
            return None;
        };
        let call = self.transcript.call(&call.id)?.made();
        let (text, is_error) = (result.text.clone(), result.is_error);
        Some(HookEvent::After { server: *server, tool: name.clone(), call, text, is_error })
    }

    /// Takes the result of a call, with further artifacts.
    fn take_result(
        &mut self,
        call: &ToolCall,
        mut result: ToolResult,
        artifacts: Vec<Artifact>,
        took: Duration,
        actions: &mut Vec<LoopAction>,
    ) {
        for mut artifact in artifacts {
            artifact.artifact_id = format!("{}-{}-{}", call.name, call.id, artifact.artifact_id);
            self.artifacts.insert(artifact.artifact_id.clone(), prompts::readable(&artifact));
            let media = media::of_artifacts(std::iter::once(&artifact));
            result.media.extend(media.iter().cloned());
            self.media.insert(artifact.artifact_id.clone(), media);
            let report = Progress::Artifact { artifact, append: false, last_chunk: true };
            actions.push(LoopAction::Report(report));
        }
        self.finish_after(call, result, Some(took), actions);
    }

    fn ask(&mut self, model: usize, actions: &mut Vec<LoopAction>) {
        if self.transcript.answers_of_turn() >= self.limits.rounds {
            let reason = format!("no result after {} answers of the model (`rounds`)", self.limits.rounds);
            return actions.push(LoopAction::End(LoopEnd::Turn(TurnEnd::LastingFailure { reason })));
        }
        let circle = circles::circle(&self.transcript.rounds).map(|circle| {
            let is_poll = circle.tools.iter().any(|name| self.is_poll(name));
            (circle, is_poll)
        });
        if let Some((Circle { tools, times }, false)) = &circle
            && *times >= circles::FAILS
        {
            let reason = format!(
                "loop: the model has called {} {times} times in a row, with the same arguments and the same result",
                tools.join(" and ")
            );
            return actions.push(LoopAction::End(LoopEnd::Turn(TurnEnd::LastingFailure { reason })));
        }
        if let Some(tokens) = self.limits.context
            && self.context_bytes() > tokens.saturating_mul(TOKEN)
        {
            // Far below the limit, so that it does not happen again at once.
            let target = (tokens.saturating_mul(TOKEN) / 2).saturating_sub(self.fixed_bytes());
            let oldest = self.transcript.rounds_to_sum_up(target);
            if self.transcript.begun.is_some() && oldest > 0 && !self.has_no_summary {
                return self.ask_for_summary(model, oldest, actions);
            }
            self.compact(target, actions);
        }
        let task = (self.first.as_str(), self.repeatable_first.as_str());
        let (mut messages, place) = self.transcript.messages(task, &self.first_media);
        if let Some((Circle { tools, times }, is_poll)) = &circle {
            messages.push(ModelMessage::User(prompts::circle(tools, *times, *is_poll)));
        }
        let budget_note = self.budget_note();
        let has_budget_note = budget_note.is_some();
        messages.extend(budget_note.map(ModelMessage::User));
        let output_schema = self.output.as_ref().map(|output| output.schema().clone());
        self.call_model(
            model,
            ModelRequest { output_schema, has_budget_note, ..self.request(model, messages, place) },
            actions,
        );
    }

    /// Whether a tool looks for something that takes time.
    fn is_poll(&self, name: &str) -> bool {
        let kind = self.tools.get(name).map(|tool| &tool.kind);
        matches!(kind, Some(LoopToolKind::Server { is_poll: true, .. }))
    }

    /// A request with these messages, of which the one at `place` says what the turn is about.
    fn request(&self, model: usize, messages: Vec<ModelMessage>, place: usize) -> ModelRequest {
        ModelRequest {
            system: self.system.clone(),
            messages,
            tools: self
                .tools
                .values()
                .filter(|tool| !tool.is_denied())
                .map(|tool| tool.spec.clone())
                .collect(),
            output_schema: None,
            repeatable: (place, self.repeatable_first.clone()),
            has_budget_note: false,
            media: BTreeMap::new(),
            silence: (model + 1 < self.limits.models.len()).then_some(self.limits.silence),
        }
    }

    fn call_model(&mut self, model: usize, request: ModelRequest, actions: &mut Vec<LoopAction>) {
        self.asking = Some((model, CallMeter::new(&request)));
        self.asked_bytes = request.bytes();
        self.stream.begin();
        actions.push(LoopAction::AskModel { model, request: Arc::new(request) });
    }

    /// Has the model sum up the oldest rounds of its context.
    fn ask_for_summary(&mut self, model: usize, oldest: usize, actions: &mut Vec<LoopAction>) {
        let task = (self.first.as_str(), self.repeatable_first.as_str());
        let (mut messages, place) = self.transcript.oldest(oldest).messages(task, &self.first_media);
        messages.push(ModelMessage::User(prompts::sum_up()));
        self.summing = Some(oldest);
        let message = "sums up its earlier turns".to_owned();
        actions.push(LoopAction::Report(Progress::Status { message }));
        self.call_model(model, self.request(model, messages, place), actions);
    }

    /// Puts the summary in the place of what it is of. Without one the oldest content is dropped.
    fn take_summary(&mut self, oldest: usize, text: &str, actions: &mut Vec<LoopAction>) {
        let mut transcript = self.transcript.clone();
        let dropped = match text.trim() {
            "" => {
                self.has_no_summary = true;
                transcript.compact(self.transcript.bytes() / 2)
            }
            summary => {
                transcript.sum_up(oldest, summary.to_owned());
                vec![format!("the oldest {oldest} steps, of which a summary is kept")]
            }
        };
        self.record(TranscriptRecord::Compacted { transcript, dropped }, actions);
        self.ask(0, actions);
    }

    /// What the model is told when less than a fifth of a budget is left.
    fn budget_note(&self) -> Option<String> {
        let LoopBudget { used, left } = &self.budget;
        let tokens = left.tokens.zip(self.left.tokens);
        let tokens =
            tokens.filter(|(begin, now)| now.saturating_mul(5) < begin.saturating_add(used.tokens()));
        let cost = left.cost.zip(self.left.cost).map(|(begin, now)| (begin.get(), now.get()));
        let cost = cost.filter(|(begin, now)| now * 5.0 < begin + used.cost.get());
        let tokens = tokens.map(|(_, now)| format!("{now} tokens"));
        tokens.or(cost.map(|(_, now)| format!("a cost of {now:.4}"))).map(|left| prompts::budget(&left))
    }

    /// The bytes of every request that compaction can't change.
    fn fixed_bytes(&self) -> usize {
        let tools = self.tools.values().filter(|tool| !tool.is_denied()).map(|tool| tool.spec.bytes());
        let first = self.first.len() + self.first_media.len() * MEDIUM_BYTES;
        self.system.len() + first + tools.sum::<usize>()
    }

    fn context_bytes(&self) -> usize {
        self.fixed_bytes() + self.transcript.bytes()
    }

    /// Whether anything could be dropped. What was dropped is recorded and reported.
    fn compact(&mut self, bytes: usize, actions: &mut Vec<LoopAction>) -> bool {
        let mut transcript = self.transcript.clone();
        let dropped = transcript.compact(bytes);
        if dropped.is_empty() {
            return false;
        }
        let message = format!("the conversation is too long; dropped {}", dropped.join(", "));
        self.record(TranscriptRecord::Compacted { transcript, dropped }, actions);
        actions.push(LoopAction::Report(Progress::Status { message }));
        true
    }

    fn failed(&mut self, error: ModelError, actions: &mut Vec<LoopAction>) {
        let Some((model, meter)) = self.asking.take() else { return };
        self.has_no_summary |= self.summing.take().is_some();
        // The provider counts an answer that breaks off, too.
        let usage = meter.used_by_failed();
        actions.push(LoopAction::Usage { model, usage, end: Err(error.code()) });
        if error.kind == ModelErrorKind::Cassette {
            let reason = error.message;
            return actions.push(LoopAction::End(LoopEnd::Turn(TurnEnd::Failed { reason })));
        }
        if error.kind == ModelErrorKind::ContextTooLong {
            let target = self.transcript.bytes() / 2;
            if self.compact(target, actions) {
                return self.ask(model, actions);
            }
        }
        self.failures.push(error);
        if model + 1 < self.limits.models.len() {
            let message = format!("{}; asks {}", self.last_failure(), self.limits.models[model + 1]);
            actions.push(LoopAction::Report(Progress::Status { message }));
            return self.ask(model + 1, actions);
        }
        let failures = std::mem::take(&mut self.failures);
        let reasons: Vec<_> = failures.iter().map(ToString::to_string).collect();
        let reason = reasons.join("; ");
        let passing = failures.iter().filter(|error| error.kind == ModelErrorKind::Transient);
        let pause = FIRST_PAUSE.saturating_mul(1 << self.transcript.pauses.min(16)).min(MAX_PAUSE);
        let Some(after) = passing.map(|error| error.retry_after.unwrap_or(pause)).min() else {
            return actions.push(LoopAction::End(LoopEnd::Turn(TurnEnd::LastingFailure { reason })));
        };
        // An answer that breaks off is paid for.
        if failures.iter().any(|error| error.has_begun) {
            self.record(TranscriptRecord::BrokeOff, actions);
            let count = self.transcript.broken;
            if count >= MAX_BROKEN {
                let reason =
                    format!("{reason}; {count} answers in a row broke off, so that it is not asked again");
                return actions.push(LoopAction::End(LoopEnd::Turn(TurnEnd::LastingFailure { reason })));
            }
        }
        self.record(TranscriptRecord::Paused, actions);
        actions.push(LoopAction::End(LoopEnd::Pause { after, reason }));
    }

    fn last_failure(&self) -> String {
        self.failures.last().map(ToString::to_string).unwrap_or_default()
    }

    fn answered(&mut self, answer: ModelAnswer, actions: &mut Vec<LoopAction>) {
        let Some((model, meter)) = self.asking.take() else { return };
        self.failures.clear();
        let number = self.transcript.answers() + 1;
        let before = self.transcript.refused_in_a_row();
        let ModelAnswer { mut text, mut calls, stop, usage: _, kept } = answer;
        // A budget must hold for a provider that does not count, too.
        let usage = meter.used();
        let end = if calls.is_empty() { stop.word() } else { "tool_call" };
        actions.push(LoopAction::Usage { model, usage, end: Ok(end) });
        if let Some(oldest) = self.summing.take() {
            return self.take_summary(oldest, &text, actions);
        }
        self.note_silent_cut(model, usage, actions);
        let mut notes = Vec::new();
        let mut is_refused = false;
        let is_result = self.output.as_ref().is_some_and(|output| output.check(&text).is_ok());
        let written = Some(&text).filter(|_| calls.is_empty() && stop == StopReason::Complete && !is_result);
        let written = written.and_then(|text| text_call::call_in(text, &self.tools));
        let is_taken = self.limits.text_calls.get(model) == Some(&true);
        let untaken = written.as_ref().filter(|_| !is_taken).map(|call| prompts::text_call(&call.name));
        let has_text_call = untaken.is_some();
        if let Some(call) = written.filter(|_| is_taken) {
            text.clear();
            calls.push(call);
        } else if let Some(note) = untaken {
            notes.push(note);
            is_refused = true;
        } else if calls.is_empty() {
            notes.extend(self.problem_with(&text, stop));
            is_refused = !notes.is_empty();
        }
        let why_cut = match stop {
            StopReason::Complete => None,
            StopReason::Length => Some("the answer was cut at the largest number of tokens, `maxTokens`"),
            StopReason::Refused => {
                Some("the answer was cut, because the model or its provider refused to go on")
            }
        };
        if calls.len() > MAX_CALLS {
            let message = format!(
                "the model calls {} tools at once; only {MAX_CALLS} of these calls are made",
                calls.len()
            );
            actions.push(LoopAction::Report(Progress::Status { message }));
        }
        let mut known = self.transcript.provider_ids();
        let calls = calls.into_iter().enumerate().map(|(at, mut call)| {
            // Providers repeat ids, or send none.
            call.id = format!("c{number}_{at}");
            call.provider_id = call.provider_id.filter(|id| known.insert(id.clone()));
            // What an answer that was cut would have called is not known.
            if let Some(why) = why_cut {
                call.invalid.get_or_insert_with(|| why.to_owned());
            }
            let problem = call.invalid.as_deref().map(prompts::invalid_arguments);
            is_refused |= problem.is_some();
            let problem = problem.or_else(|| (at >= MAX_CALLS).then(|| prompts::too_many_calls(MAX_CALLS)));
            let starts = u32::from(problem.is_none() && self.starts_at_once(&call));
            CallRecord { call, checked: None, edited: None, starts, result: problem.map(ToolResult::error) }
        });
        let calls: Vec<_> = calls.collect();
        let starting: Vec<_> =
            calls.iter().filter(|call| call.starts > 0).map(|call| call.call.clone()).collect();
        let has_invalid_call = calls.iter().any(|call| call.call.invalid.is_some());
        let problem = why_cut.map(str::to_owned);
        let problem = problem.or_else(|| calls.iter().find_map(|call| call.call.invalid.clone()));
        let problem = problem.or(notes.first().cloned());
        let (said, next) = (Vec::new(), Vec::new());
        let round = Round { text, calls, stop, notes, said, is_refused, next, kept, is_allowed: false };
        self.record(TranscriptRecord::Answered { round: Box::new(round) }, actions);
        // Arguments that can't be read go back once, an unacceptable answer twice.
        let most = if has_invalid_call || has_text_call { 1 } else { MAX_REPAIRS };
        if is_refused && before >= most {
            let name = &self.limits.models[model];
            let reason = match has_text_call {
                true => format!(
                    "{name} writes calls of tools as text: its server lacks a parser for them (vLLM: --enable-auto-tool-choice and --tool-call-parser; llama.cpp: --jinja), or `textCalls: true` of its provider's file takes them"
                ),
                false => format!("{name} did not repair its answer: {}", problem.unwrap_or_default()),
            };
            let end = match has_text_call {
                true => TurnEnd::LastingFailure { reason },
                false => TurnEnd::Failed { reason },
            };
            return actions.push(LoopAction::End(LoopEnd::Turn(end)));
        }
        for call in starting {
            if let Some(LoopToolKind::Server { server, name, .. }) =
                self.tools.get(&call.name).map(|tool| tool.kind.clone())
            {
                self.start(server, name, &call, actions);
            }
        }
        self.advance(actions);
    }

    /// Warns once if the server counts no more although more is sent: it cuts the conversation without a word.
    fn note_silent_cut(&mut self, model: usize, usage: CallUsage, actions: &mut Vec<LoopAction>) {
        let (bytes, tokens) = (self.asked_bytes, usage.tokens.input);
        let before = self.counted.filter(|before| before.model == model);
        let grown = before.map_or(0, |before| bytes.saturating_sub(before.bytes));
        let is_still = before.is_some_and(|before| tokens <= before.tokens.saturating_add(SAME_TOKENS));
        let still = before.map_or(0, |before| before.still);
        let still = match (usage.is_estimated, is_still && grown >= GROWN_BYTES) {
            (true, _) | (false, false) => 0,
            (false, true) => still + 1,
        };
        // What is added in small pieces is compared with where it began.
        let bytes = if is_still && still == 0 { before.map_or(bytes, |before| before.bytes) } else { bytes };
        self.counted = Some(CountedRequest { model, bytes, tokens, still });
        if still == MAX_STILL && !std::mem::replace(&mut self.has_warned_of_cut, true) {
            let name = &self.limits.models[model];
            let message = format!(
                "{name}: its server counts {tokens} tokens however much is sent: it cuts the conversation. Give it a longer context (Ollama: OLLAMA_CONTEXT_LENGTH), or set `context`"
            );
            actions.push(LoopAction::Report(Progress::Status { message }));
        }
    }

    /// Whether a call begins with the record of the answer: its intent is in that record.
    fn starts_at_once(&self, call: &ToolCall) -> bool {
        let kind = self.tools.get(&call.name).map(|tool| &tool.kind);
        !self.limits.hooks.before
            && matches!(kind, Some(LoopToolKind::Server { permission: ToolPermission::Allowed, .. }))
    }

    /// What the model is told about an answer without calls that is no result.
    fn problem_with(&self, text: &str, stop: StopReason) -> Option<String> {
        if stop == StopReason::Refused {
            return None;
        }
        if stop == StopReason::Length {
            return Some(prompts::cut_answer());
        }
        if let Some(output) = &self.output {
            return output.check(text).err().map(|problem| prompts::invalid_answer(&problem));
        }
        (text.trim().is_empty() && self.subject != LoopSubject::Signal).then(prompts::empty_answer)
    }

    /// The newest answer is the result. After a crash it is reported again, under the same artifact.
    fn end(&mut self, actions: &mut Vec<LoopAction>) {
        let Some(round) = self.transcript.rounds.last() else { return };
        let text = round.text.trim().to_owned();
        if round.stop == StopReason::Refused {
            let reason = format!("the model refused to answer: {}", prompts::beginning(&text, 500));
            return actions.push(LoopAction::End(LoopEnd::Turn(TurnEnd::Failed { reason })));
        }
        let mut message = None;
        match (&self.output, self.subject) {
            (Some(output), LoopSubject::Task | LoopSubject::Chat | LoopSubject::Seat { .. }) => {
                let data = output.check(&text).unwrap_or(Value::Null);
                actions.push(LoopAction::Report(super::output::artifact(ANSWER, data)));
            }
            (None, LoopSubject::Task | LoopSubject::Chat) => {
                actions.push(LoopAction::Report(self.stream.end(&text)))
            }
            (None, LoopSubject::Seat { .. }) if text.len() > MAX_WORDS => {
                message = Some(format!("{}…", prompts::beginning(&text, MAX_WORDS_SHOWN)));
                actions.push(LoopAction::Report(self.stream.end(&text)));
            }
            (None, LoopSubject::Seat { .. }) | (_, LoopSubject::Help { .. }) => message = Some(text),
            (_, LoopSubject::Signal) => message = Some(text).filter(|text| !text.is_empty()),
        }
        actions.push(LoopAction::End(LoopEnd::Turn(TurnEnd::Done { message })));
    }
}

/// Whether the model waits for the answer to this call.
fn waits(call: &ToolCall) -> bool {
    ![DELEGATE, ASK_HELP].contains(&call.name.as_str())
        || call.arguments.get("wait") != Some(&Value::Bool(false))
}

/// What another agent or a person has answered, as text.
fn answer_text(answer: &RequestResult) -> String {
    let artifacts = answer
        .artifacts
        .iter()
        .map(|artifact| format!("\n\nArtifact {}:\n{}", artifact.artifact_id, prompts::readable(artifact)));
    std::iter::once(answer.text.clone()).chain(artifacts).collect()
}

#[cfg(test)]
mod tests;
