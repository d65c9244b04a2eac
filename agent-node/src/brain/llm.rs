//! A language model as a brain: instructions, tools of MCP servers, and the mesh's own tools.
//!
//! `agent_loop` decides, without I/O; `transcript` is what it remembers; this file performs. `model` is the one interface to
//! models, with `openai` and `anthropic` as formats over `http_model`; `tool_server` speaks MCP; `prompts` has the texts.

mod agent_loop;
mod anthropic;
mod dialect;
mod http_model;
mod mesh_tools;
pub mod model;
mod openai;
pub mod output;
mod prompts;
pub mod provider;
mod text_stream;
mod tool_list;
pub mod tool_server;
mod transcript;

use super::{Brain, BrainError, TurnFuture, TurnRequest, exec::BrainRights};
use agent_loop::{AgentLoop, LoopAction, LoopEnd, LoopEvent, LoopLimits, LoopStart, LoopSubject};
use futures_util::{Stream, StreamExt, future::join_all, stream, stream::SelectAll};
use http_model::HttpModel;
use model::ModelClient;
use output::OutputSchema;
use protocol::{
    ids::Capability,
    patterns::turn::{Progress, TurnEnd, TurnSubject},
};
use provider::ModelConfig;
use std::{collections::BTreeMap, pin::Pin, sync::Arc};
use tokio::sync::mpsc;
use tool_list::tools_of;
use tool_server::{ToolServer, ToolServerConfig};

/// A brain with a model, as the configuration describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmConfig {
    /// One sentence about the agent.
    pub description: String,
    /// The agent's own instructions.
    pub instructions: String,
    /// The models, in the order in which they are asked.
    pub models: Vec<ModelConfig>,
    /// Its tool servers.
    pub tools: Vec<ToolServerConfig>,
    /// The most answers of models in a task.
    pub rounds: u32,
    /// About how many tokens a conversation may have.
    pub context: usize,
    /// What the results of its skills must look like.
    pub outputs: BTreeMap<Capability, OutputSchema>,
}

/// A language model that works with tools.
#[derive(Clone)]
pub struct LlmBrain {
    config: Arc<LlmConfig>,
    models: Arc<[Arc<dyn ModelClient>]>,
    servers: Arc<[ToolServer]>,
}

type LoopEvents = SelectAll<Pin<Box<dyn Stream<Item = LoopEvent> + Send>>>;

impl LlmBrain {
    /// The brain of `config`. Tool servers are started by the first turn.
    pub fn new(config: LlmConfig, rights: &BrainRights) -> Result<Self, BrainError> {
        let client = HttpModel::client().map_err(|error| BrainError::NotStarted {
            what: format!("no HTTP client: {error}"),
            source: None,
        })?;
        let models = config
            .models
            .iter()
            .map(|model| Arc::new(HttpModel::new(model.clone(), client.clone())) as Arc<dyn ModelClient>);
        let servers = config
            .tools
            .iter()
            .map(|server| ToolServer::new(server.clone(), rights.home.clone(), client.clone()));
        Ok(Self { models: models.collect(), servers: servers.collect(), config: Arc::new(config) })
    }

    async fn turn(
        &self,
        request: TurnRequest,
        report: mpsc::Sender<Progress>,
    ) -> Result<TurnEnd, BrainError> {
        let offered = join_all(self.servers.iter().map(ToolServer::tools)).await;
        let mut servers = Vec::new();
        for (server, offered) in self.servers.iter().zip(offered) {
            match offered {
                Ok(tools) => servers.push((server.config.clone(), tools)),
                Err(error) => return Ok(TurnEnd::Failed { reason: error.to_string() }),
            }
        }
        let (mut state, mut actions) = AgentLoop::begin(self.start(&request, &servers));
        let mut events = LoopEvents::new();
        loop {
            for action in actions {
                if let Some(end) = self.perform(action, &mut events, &report).await {
                    return Ok(end);
                }
            }
            let Some(event) = events.next().await else {
                return Err(BrainError::NoResult { stderr: String::new() });
            };
            actions = state.on(event);
        }
    }

    /// What a turn begins with.
    fn start(
        &self,
        request: &TurnRequest,
        servers: &[(ToolServerConfig, Vec<rmcp::model::Tool>)],
    ) -> LoopStart {
        let (subject, capability, artifacts) = match &request.prompt.about {
            TurnSubject::Task { capability, artifacts, .. } => {
                (LoopSubject::Task, capability.as_ref(), artifacts.as_slice())
            }
            TurnSubject::Help { artifacts, .. } => (LoopSubject::Help, None, artifacts.as_slice()),
            TurnSubject::Signal(_) => (LoopSubject::Signal, None, [].as_slice()),
        };
        let output = capability.and_then(|capability| self.config.outputs.get(capability)).cloned();
        let answered = request.prompt.answers.iter().flat_map(|answer| &answer.artifacts);
        let known = artifacts.iter().chain(answered).chain(&request.prompt.produced);
        let limits = LoopLimits {
            rounds: self.config.rounds,
            context: Some(self.config.context),
            models: self.config.models.iter().map(|model| model.model.clone()).collect(),
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
            first: prompts::subject(request),
            tools: tools_of(subject == LoopSubject::Task, servers),
            output,
            answers: request.prompt.answers.clone(),
            artifacts: mesh_tools::texts(known),
            records: Vec::new(),
        }
    }

    /// Performs an action. Returns the end of the turn if this is it.
    async fn perform(
        &self,
        action: LoopAction,
        events: &mut LoopEvents,
        report: &mpsc::Sender<Progress>,
    ) -> Option<TurnEnd> {
        match action {
            LoopAction::Record(_) => {}
            LoopAction::Report(progress) => drop(report.send(progress).await),
            LoopAction::Approve { id, text, .. } => {
                drop(report.send(Progress::Question { id, text, auth: false }).await);
            }
            LoopAction::Usage { .. } => {}
            LoopAction::AskModel { model, request } => {
                if let Some(model) = self.models.get(model) {
                    let deltas = model.ask(request).map(|delta| match delta {
                        Ok(delta) => LoopEvent::Delta(delta),
                        Err(error) => LoopEvent::Failed(error),
                    });
                    events.push(deltas.boxed());
                }
            }
            LoopAction::CallTool { server, name, call } => {
                let this = self.clone();
                let called = async move {
                    let outcome = this.servers[server].call(name, call.arguments).await;
                    LoopEvent::Called { call: call.id, outcome }
                };
                events.push(stream::once(called).boxed());
            }
            LoopAction::End(LoopEnd::Turn(end)) => return Some(end),
            LoopAction::End(LoopEnd::Pause { reason, .. }) => return Some(TurnEnd::Failed { reason }),
        }
        None
    }
}

impl Brain for LlmBrain {
    fn think(&self, request: TurnRequest, report: mpsc::Sender<Progress>) -> TurnFuture {
        let this = self.clone();
        Box::pin(async move { this.turn(request, report).await })
    }

    fn name(&self) -> &'static str {
        "llm"
    }
}
