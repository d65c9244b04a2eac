//! A language model as a brain: instructions, tools of MCP servers, and the mesh's own tools.
//!
//! `agent_loop` decides, without I/O; `loop_tool` are its tools, `transcript` is what it remembers; this file performs. `model` is the one interface to
//! models: over `http_model`, with `chat`, `responses` and `messages` as formats, which `request_form` puts by the rules of the
//! `provider` and by what `server_memory` knows its server to refuse. `cassette` records and replays calls; `tool_server` speaks MCP; `skill_folder` reads skills;
//! `media` are the images and PDFs that models see, and `media_store` has their content; `prompts` has the texts; `bid_answer` makes
//! bids, `match_answer` chooses agents, both by `json_answer`.

mod agent_loop;
mod bid_answer;
mod call_meter;
pub mod cassette;
mod chat;
mod circles;
mod dialect;
mod http_model;
mod json_answer;
mod loop_tool;
mod match_answer;
mod media;
mod media_store;
mod mesh_tools;
mod messages;
pub mod model;
mod model_lines;
mod on_behalf_of;
pub mod output;
mod prompts;
pub mod provider;
mod request_form;
mod responses;
mod server_memory;
pub mod skill_folder;
mod text_call;
mod text_stream;
pub mod tool_hook;
mod tool_list;
pub mod tool_permission;
mod tool_schema;
pub mod tool_server;
mod transcript;

use super::{
    Brain, BrainError, TurnFuture, TurnHandle, TurnRequest,
    bidding::{BidFuture, BidRequest},
    brain_tools::BrainTools,
    exec::BrainRights,
    matching::{MatchFuture, MatchQuestion},
};
use agent_loop::{AgentLoop, LoopAction, LoopBudget, LoopEnd, LoopEvent, LoopLimits, LoopStart};
use call_meter::CallUsage;
use cassette::Cassette;
use futures_util::{
    Stream, StreamExt, stream,
    stream::{FuturesUnordered, SelectAll},
};
use http_model::HttpModel;
use loop_tool::{CallOutcome, LoopSubject};
use model::ModelClient;
pub use model_lines::{TurnNote, model_lines};
use output::OutputSchema;
use patterns::{
    session::seat,
    turn::{Checkpoint, PastTurn, Progress, TurnEnd, TurnSubject},
};
use protocol::{
    acceptance::{is_review_input, verdict_schema},
    bid::Cost,
    ids::Capability,
    principal::TaskRoot,
    problem::{Problem, Reason},
    question::{Decision, Question},
    usage::ModelUsage,
};
use provider::ModelConfig;
use serde::Deserialize;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tool_hook::{HookEvent, ToolHooks};
use tool_list::tools_of;
use tool_server::{ToolOffer, ToolServer, ToolServerConfig, ToolServerError, ToolServerTransport};
use transcript::{ToolResult, TranscriptRecord};

/// A brain with a model, as the configuration describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmConfig {
    /// One sentence about the agent.
    pub description: String,
    /// The agent's own instructions.
    pub instructions: String,
    /// The models, in the order in which they are asked.
    pub models: Vec<ModelConfig>,
    pub tools: Vec<ToolServerConfig>,
    /// The most answers of models in a task.
    pub rounds: u32,
    /// About how many tokens a conversation may have.
    pub context: usize,
    /// What the results of its skills must look like.
    pub outputs: BTreeMap<Capability, OutputSchema>,
    /// Commands that decide on its calls, their results and its answers.
    pub hooks: ToolHooks,
}

/// A language model that works with tools.
#[derive(Clone)]
pub struct LlmBrain {
    config: Arc<LlmConfig>,
    models: Arc<[Arc<dyn ModelClient>]>,
    servers: Arc<[Arc<ToolServer>]>,
    /// What its hooks may do on their machine.
    rights: BrainRights,
}

/// The longest time without a report, unless the agent's bounds say otherwise.
const IDLE: Duration = Duration::from_secs(120);
/// After this time what has arrived of an answer is reported, however little it is.
const QUIET: Duration = Duration::from_secs(1);
/// How long an agent waits for a tool server that can't be reached.
const SERVER_PAUSE: Duration = Duration::from_secs(10);
/// How long a tool server may take to list its tools at the start of a turn, with all starts and repeats.
const FIRST_LIST: Duration = Duration::from_secs(360);
/// How long it may take to list them again.
const NEXT_LIST: Duration = Duration::from_secs(10);
/// How often in a row the command of a tool server may fail to start before the task fails.
const MAX_SERVER_FAILURES: usize = 5;
/// How often a task asks its user to log in at a server.
const MAX_LOGINS: usize = 5;
/// The largest schema of arguments that a question carries, bytes. Without it any object is taken, and the tool says what is wrong.
const MAX_SHOWN_SCHEMA: usize = 16 << 10;
/// The code of a call of a model that was stopped before its end.
const CUT: &str = "cut";

type LoopEvents = SelectAll<Pin<Box<dyn Stream<Item = LoopEvent> + Send>>>;

impl LlmBrain {
    /// The brain of `config`, whose models `cassette` records or replaces. Tool servers are started by the first turn.
    pub fn new(
        config: LlmConfig,
        rights: &BrainRights,
        cassette: Option<&Cassette>,
    ) -> Result<Self, BrainError> {
        let clients = HttpModel::clients().map_err(|error| BrainError::NotStarted {
            what: format!("no HTTP client: {error}"),
            source: None,
        })?;
        let models = config.models.iter().map(|model| {
            let model: Arc<dyn ModelClient> = Arc::new(HttpModel::new(model.clone(), &clients));
            cassette.map_or_else(|| model.clone(), |cassette| cassette.wrap(model.clone()))
        });
        let server =
            |server: &ToolServerConfig| Arc::new(ToolServer::new(server.clone(), rights, clients.clone()));
        let servers = config.tools.iter().map(server).collect();
        Ok(Self { models: models.collect(), servers, rights: rights.clone(), config: Arc::new(config) })
    }

    /// The same brain, whose tool servers work in the clone of a turn.
    fn in_workspace(&self, workspace: &Path) -> Self {
        let servers = self.servers.iter().map(|server| Arc::new(server.in_workspace(workspace))).collect();
        Self { servers, ..self.clone() }
    }

    /// The same brain for a task of `root`, whose tokens are sent to the tool servers that take a user's.
    fn for_root(self, root: Option<&TaskRoot>) -> Self {
        if !self.servers.iter().any(|server| server.is_of_user()) {
            return self;
        }
        let of_task = |server: &Arc<ToolServer>| match server.is_of_user() {
            true => Arc::new(server.for_root(root)),
            false => server.clone(),
        };
        Self { servers: self.servers.iter().map(of_task).collect(), ..self }
    }

    async fn turn(&self, mut request: TurnRequest, turn: TurnHandle) -> Result<TurnEnd, BrainError> {
        let records = match records(&request) {
            Ok(records) => records,
            Err(reason) => return Ok(TurnEnd::Failed { reason }),
        };
        let sees_any = self.config.models.iter().any(|model| model.rules.sees.iter().flatten().count() > 0);
        if let Some(access) = turn.access() {
            media_store::prepare(&mut request, access, sees_any).await;
        }
        let idle = request.prompt.remaining.idle_ms.map_or(IDLE, Duration::from_millis);
        let all = self.servers.iter().map(Arc::as_ref).enumerate();
        let offered = self.offered(all, FIRST_LIST, idle, &turn).await;
        let mut servers = Vec::new();
        for (server, offered) in self.servers.iter().zip(offered.into_values()) {
            match offered {
                Ok(offer) => {
                    for (tool, why) in offer.left_out {
                        let message = format!("the tool {tool} of {} is left out: {why}", server.config.name);
                        turn.send(Progress::Status { message }).await;
                    }
                    servers.push((server.config.clone(), offer.tools));
                }
                Err(error) if error.needs_login && server.is_of_user() => {
                    return Ok(ask_for_login(server, &error, &request, &turn).await);
                }
                Err(error) if error.is_transient => return Ok(retry(server, &error, &records, &turn).await),
                Err(error) => return Ok(TurnEnd::Failed { reason: error.to_string() }),
            }
        }
        let signal_bytes = turn.access().map_or(usize::MAX, |access| access.max_signal_bytes);
        let start = self.start(&request, records, &servers, (signal_bytes, idle / 2));
        let subject = start.subject;
        let (mut state, mut actions) = AgentLoop::begin(start);
        let mut changed = BTreeSet::new();
        let mut events = LoopEvents::new();
        // An answer that comes slowly is reported well before `idle`. A call of a tool has a timeout of its own.
        let mut reported = Instant::now();
        let mut asked = reported;
        loop {
            for action in actions {
                reported = Instant::now();
                if let Some(end) = self.perform(action, &mut events, &mut asked, (&request, &turn)).await {
                    return Ok(end);
                }
            }
            if let Some((model, usage)) = state.call_under_way() {
                turn.set_call_under_way(
                    self.usage(model, usage, Err(CUT.to_owned()), asked.elapsed()),
                    asked,
                );
            }
            let event = tokio::select! {
                event = events.next() => event,
                () = tokio::time::sleep(idle / 3), if state.runs_tools() => {
                    turn.log("waits for a tool").await;
                    actions = Vec::new();
                    continue;
                }
            };
            let Some(event) = event else {
                return Err(BrainError::NoResult { stderr: String::new() });
            };
            let is_called = matches!(event, LoopEvent::Called { .. });
            if is_called && self.take_changes(&mut servers, &mut changed, idle, &turn).await {
                state.offer(tools_of(subject, &servers));
            }
            actions = state.on(event, &turn.remaining());
            if actions.is_empty() && reported.elapsed() > (idle / 3).min(QUIET) {
                actions = state.on(LoopEvent::Quiet, &turn.remaining());
            }
        }
    }

    /// Lists the tools of those `servers` again that say that theirs have changed. One whose list can't be read keeps its tools and
    /// stays in `changed`. Returns whether there is another list.
    async fn take_changes(
        &self,
        servers: &mut [(ToolServerConfig, Vec<rmcp::model::Tool>)],
        changed: &mut BTreeSet<usize>,
        idle: Duration,
        turn: &TurnHandle,
    ) -> bool {
        for (at, server) in self.servers.iter().enumerate() {
            if server.take_has_other_tools().await {
                changed.insert(at);
            }
        }
        let asked = changed.iter().map(|at| (*at, self.servers[*at].as_ref()));
        let mut has_any = false;
        for (at, listed) in self.offered(asked, NEXT_LIST, idle, turn).await {
            match listed {
                Ok(offer) => {
                    servers[at].1 = offer.tools;
                    changed.remove(&at);
                    has_any = true;
                }
                Err(error) => {
                    let (agent, server) = (self.servers[at].agent(), servers[at].0.name.as_str());
                    tracing::warn!(target: "brain", agent, server, "tools have changed, but {error}");
                    let message = format!("the tools of {server} have changed, but {error}");
                    turn.send(Progress::Status { message }).await;
                }
            }
        }
        has_any
    }

    /// What tool servers offer, each by its position and within `limit`. The wait is reported.
    async fn offered<'a>(
        &self,
        asked: impl Iterator<Item = (usize, &'a ToolServer)>,
        limit: Duration,
        idle: Duration,
        turn: &TurnHandle,
    ) -> BTreeMap<usize, Result<ToolOffer, ToolServerError>> {
        let mut silent: BTreeMap<_, _> = asked.map(|(at, server)| (at, server.name())).collect();
        let asked = silent.keys().copied();
        let mut asked: FuturesUnordered<_> =
            asked.map(|at| async move { (at, self.servers[at].tools_within(limit).await) }).collect();
        let mut offered = BTreeMap::new();
        loop {
            tokio::select! {
                answer = asked.next() => match answer {
                    Some((at, tools)) => {
                        silent.remove(&at);
                        offered.insert(at, tools);
                    }
                    None => return offered,
                },
                () = tokio::time::sleep(idle / 3) => {
                    let names: Vec<_> = silent.values().map(String::as_str).collect();
                    let message = format!("waits for the tool server {}", names.join(", "));
                    turn.send(Progress::Status { message }).await;
                }
            }
        }
    }

    /// What a turn begins with.
    fn start(
        &self,
        request: &TurnRequest,
        records: Vec<TranscriptRecord>,
        servers: &[(ToolServerConfig, Vec<rmcp::model::Tool>)],
        (signal_bytes, silence): (usize, Duration),
    ) -> LoopStart {
        let mut verdict = None;
        let (subject, capability) = match &request.prompt.about {
            TurnSubject::Task(task) => {
                if is_review_input(task.input.as_ref()) {
                    verdict = OutputSchema::new(verdict_schema()).ok();
                }
                let role = prompts::role_of_seat(request);
                let is_sealed = seat::is_sealed_input(task.input.as_ref());
                let is_chat = request.prompt.context.is_some();
                let alone = if is_chat { LoopSubject::Chat } else { LoopSubject::Task };
                let subject = role.map_or(alone, |role| LoopSubject::Seat { role, is_sealed });
                (subject, task.capability.as_ref())
            }
            TurnSubject::Help(asked) => {
                let asks_agents = !asked.path.contains(&request.agent);
                (LoopSubject::Help { asks_agents }, None)
            }
            TurnSubject::Signal(_) | TurnSubject::Check { .. } => (LoopSubject::Signal, None),
        };
        let output =
            capability.and_then(|capability| self.config.outputs.get(capability)).cloned().or(verdict);
        let (subject_text, whole_subject) = prompts::subject(request);
        let first = [subject_text, prompts::earlier_turns(request), prompts::brief(request)].concat();
        let turn_of_context = request.prompt.context.as_ref().and(request.prompt.about.task_id());
        let mut artifacts = mesh_tools::texts(request.prompt.artifacts());
        let media = request
            .prompt
            .artifacts()
            .map(|artifact| (artifact.artifact_id.clone(), media::of_artifacts(std::iter::once(artifact))));
        artifacts.extend(whole_subject.map(|text| (prompts::SUBJECT.to_owned(), text)));
        let limits = LoopLimits {
            rounds: self.config.rounds,
            context: Some(self.config.context),
            models: self.config.models.iter().map(|model| model.model.clone()).collect(),
            text_calls: self.config.models.iter().map(|model| model.rules.text_calls == Some(true)).collect(),
            signal_bytes,
            silence,
            hooks: self.config.hooks.stages(),
        };
        LoopStart {
            limits,
            subject,
            system: prompts::system(
                request.agent.as_str(),
                &self.config.description,
                &self.config.instructions,
                output.as_ref().map(OutputSchema::schema),
            ),
            first,
            repeatable_first: prompts::repeatable_subject(request),
            tools: tools_of(subject, servers),
            output,
            answers: request.prompt.answers.clone(),
            turn: request.prompt.turn,
            artifacts,
            first_media: prompts::subject_media(request),
            media: media.collect(),
            sent: request.prompt.produced.iter().filter(|artifact| seat::is_message(artifact)).count(),
            input: request.prompt.about.task().and_then(|task| task.input.clone()),
            records,
            turn_of_context: turn_of_context.map(ToString::to_string),
            messages: prompts::new_messages(request),
            budget: LoopBudget { used: request.prompt.used, left: request.prompt.remaining },
        }
    }

    /// What a call of the model at this position has used, why its answer ended or why there is none, and how long it took.
    fn usage(&self, model: usize, usage: CallUsage, end: Result<&str, String>, took: Duration) -> ModelUsage {
        let ModelConfig { model, provider, price, .. } = &self.config.models[model];
        ModelUsage {
            model: model.clone(),
            input_tokens: usage.tokens.input,
            output_tokens: usage.tokens.output,
            estimated: usage.is_estimated,
            cost: price.and_then(|price| Cost::new(price.cost(usage.tokens))),
            provider: Some(provider.clone()),
            duration_ms: u64::try_from(took.as_millis()).ok(),
            finish_reason: end.as_ref().ok().map(|reason| (*reason).to_owned()),
            error: end.err(),
        }
    }

    /// Performs an action. Returns the end of the turn if this is it. `asked` is when the last call of a model began.
    async fn perform(
        &self,
        action: LoopAction,
        events: &mut LoopEvents,
        asked: &mut Instant,
        (request, turn): (&TurnRequest, &TurnHandle),
    ) -> Option<TurnEnd> {
        match action {
            LoopAction::Record(record) => {
                let checkpoint = record.into_checkpoint();
                if let Err(stopped) = turn.checkpoint(checkpoint).await {
                    return Some(TurnEnd::Failed { reason: stopped.to_string() });
                }
            }
            LoopAction::Report(progress) => turn.send(progress).await,
            LoopAction::Approve { id, text, call, schema } => {
                let call = json!({ "name": call.name, "args": call.arguments });
                let editable = schema.is_some();
                let schema = schema.filter(|schema| schema.to_string().len() <= MAX_SHOWN_SCHEMA);
                let question = Question { editable, schema, ..Question::approval(id, text, call) };
                turn.send(Progress::Question(question)).await;
            }
            LoopAction::Usage { model, usage, end } => {
                let end = end.as_ref().map(|reason| *reason).map_err(Clone::clone);
                turn.usage(self.usage(model, usage, end, asked.elapsed())).await;
            }
            LoopAction::AskModel { model, request: of_model } => {
                *asked = Instant::now();
                let rules = &self.config.models[model].rules;
                let of_model = media_store::with_content(of_model, rules, turn.access()).await;
                let deltas = self.models[model].ask(of_model).map(|delta| match delta {
                    Ok(delta) => LoopEvent::Delta(delta),
                    Err(error) => LoopEvent::Failed(error),
                });
                events.push(deltas.boxed());
            }
            LoopAction::CallTool { server, name, call } => {
                let (this, turn) = (self.clone(), turn.clone());
                let access = this.rights.access.get();
                let token = access.and_then(|access| this.servers[server].config.token_for(access, request));
                let called = async move {
                    let begun = Instant::now();
                    let outcome = this.servers[server].call(name, call.arguments, token, &turn).await;
                    if let (CallOutcome::Answered(_, files), Some(access)) = (&outcome, turn.access()) {
                        media_store::keep(files.iter().flat_map(|file| &file.parts), access).await;
                    }
                    LoopEvent::Called { call: call.id, outcome, took: begun.elapsed() }
                };
                events.push(stream::once(called).boxed());
            }
            LoopAction::AskHook { call, event } => {
                let (this, request, turn) = (self.clone(), request.clone(), turn.clone());
                let hooked = async move {
                    let name = match &event {
                        HookEvent::Before { server, .. } | HookEvent::After { server, .. } => {
                            this.servers[*server].config.name.clone()
                        }
                        HookEvent::End { .. } => String::new(),
                    };
                    let place = (&this.config.hooks, &this.rights);
                    let verdict = tool_hook::ask(place, &event, &name, &request, &turn).await;
                    LoopEvent::Hooked { call, verdict }
                };
                events.push(stream::once(hooked).boxed());
            }
            LoopAction::ReadSignals { call, query } => {
                let access = turn.access().cloned();
                let read = async move {
                    let begun = Instant::now();
                    let page = match &access {
                        Some(access) => access.signals(&query.selector, query.after, query.limit).await,
                        None => {
                            Err(Problem::new(Reason::BlackboardUnavailable, "this turn has no blackboard"))
                        }
                    };
                    let result = match page {
                        Ok(page) => mesh_tools::signals(page),
                        Err(problem) => ToolResult::error(problem.to_string()),
                    };
                    let outcome = CallOutcome::Answered(result, Vec::new());
                    LoopEvent::Called { call: call.id, outcome, took: begun.elapsed() }
                };
                events.push(stream::once(read).boxed());
            }
            LoopAction::End(LoopEnd::Turn(end)) => return Some(end),
            LoopAction::End(LoopEnd::Pause { after, reason }) => return Some(pause(after, reason)),
        }
        None
    }
}

/// Asks the user of the task to log in. The answer says only that it was done: the token goes another way.
async fn ask_for_login(
    server: &ToolServer,
    error: &ToolServerError,
    request: &TurnRequest,
    turn: &TurnHandle,
) -> TurnEnd {
    let prefix = format!("login-{}-", server.config.name);
    let earlier = request.prompt.answers.iter().filter(|answer| answer.id.starts_with(&prefix));
    let earlier: Vec<_> = earlier.collect();
    let is_denied = earlier.iter().any(|answer| answer.decision == Some(Decision::Deny));
    if is_denied || earlier.len() >= MAX_LOGINS {
        return TurnEnd::Failed { reason: error.to_string() };
    }
    let text =
        format!("{error}. Log in, then answer that it is done; never answer with a password or a token.");
    let question = Question::credential(format!("{prefix}{}", request.prompt.turn), text);
    turn.send(Progress::Question(question)).await;
    TurnEnd::Waiting
}

/// The turn is tried again after a pause. A URL is waited for as long as the task lives, a command is tried a few times.
async fn retry(
    server: &ToolServer,
    error: &ToolServerError,
    records: &[TranscriptRecord],
    turn: &TurnHandle,
) -> TurnEnd {
    if matches!(server.config.transport, ToolServerTransport::Stdio { .. }) {
        let is_failure = |record: &&TranscriptRecord| matches!(record, TranscriptRecord::ServerFailed);
        let failures = records.iter().rev().take_while(is_failure).count() + 1;
        if failures >= MAX_SERVER_FAILURES {
            return TurnEnd::Failed { reason: format!("{error}; it was tried {failures} times") };
        }
        let data = serde_json::to_value(TranscriptRecord::ServerFailed).unwrap_or_default();
        if let Err(stopped) = turn.checkpoint(Checkpoint { data, replace: false, summary: None }).await {
            return TurnEnd::Failed { reason: stopped.to_string() };
        }
    }
    pause(SERVER_PAUSE, error.to_string())
}

fn pause(after: Duration, reason: String) -> TurnEnd {
    TurnEnd::Pause { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX), reason }
}

/// The records of this turn before it was interrupted, and of earlier ones, those of its context included.
fn records(request: &TurnRequest) -> Result<Vec<TranscriptRecord>, String> {
    let own = request.prompt.checkpoints.iter().map(TranscriptRecord::deserialize);
    let own = own.collect::<Result<Vec<_>, _>>().map_err(|error| {
        format!("the task was begun by another version, whose records can't be read: {error}; send it again")
    })?;
    let earlier = request.prompt.context.iter().flat_map(|context| &context.turns);
    Ok(earlier.flat_map(records_of_earlier).chain(own).collect())
}

/// The records of an earlier turn. One that another brain has done, or another version, is told in words.
fn records_of_earlier(turn: &PastTurn) -> Vec<TranscriptRecord> {
    let records = turn.checkpoints.iter().map(TranscriptRecord::deserialize);
    match records.collect::<Result<Vec<_>, _>>() {
        Ok(mut records) if !records.is_empty() => {
            records.extend(turn.by.as_ref().map(|by| {
                let (id, text) =
                    (format!("{}-by", turn.task_id), prompts::answer_of_other(turn, by.as_str()));
                TranscriptRecord::Noted { id, text, media: Vec::new() }
            }));
            records
        }
        Ok(_) | Err(_) => {
            let (id, text, media) = (turn.task_id.to_string(), prompts::earlier_turn(turn), Vec::new());
            vec![TranscriptRecord::Began { id, text, media }]
        }
    }
}

impl Brain for LlmBrain {
    fn think(&self, request: TurnRequest, turn: TurnHandle) -> TurnFuture {
        let this = match &request.workspace {
            Some(workspace) => self.in_workspace(workspace),
            None => self.clone(),
        };
        let this = this.for_root(request.root.as_ref());
        Box::pin(async move { this.turn(request, turn).await })
    }

    fn match_parts(&self, question: MatchQuestion, turn: TurnHandle) -> Option<MatchFuture> {
        let this = self.clone();
        Some(Box::pin(async move { this.parts_of(question, turn).await }))
    }

    fn bid(&self, request: BidRequest, turn: TurnHandle) -> BidFuture {
        let this = self.clone();
        Box::pin(async move { this.terms_for(request, turn).await })
    }

    fn tools(&self) -> BrainTools {
        let servers = self.servers.iter().map(|server| server.report());
        BrainTools { servers: servers.collect(), built_in: mesh_tools::all() }
    }

    fn name(&self) -> &'static str {
        "llm"
    }
}

#[cfg(test)]
mod tests;
