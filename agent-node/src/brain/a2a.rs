//! A foreign A2A agent as a brain. A turn is an A2A message, and the events of its task become reports. So the foreign agent
//! bids, streams, asks and is cancelled like any agent of the mesh.

mod coalesce;

use super::{Brain, TurnFuture, TurnHandle, TurnRequest};
use crate::outbox::{
    a2a::{
        RemoteAgent,
        callbacks::CallbackRegistry,
        card_fetch::{self, CardRefresh, Freshness},
        credentials::{Keyring, SchemeCredentials, restrict_to_host},
        remote_memory::RemoteMemory,
        remote_task_runner::{RemoteRecords, cancel_in_background, run},
        remote_task_store::RemoteTaskStore,
    },
    outbound_client::OutboundClient,
};
use patterns::turn::{Progress, TurnEnd, TurnSubject};
use protocol::{
    a2a::{
        card_validation::ValidatedCard,
        credential::{CredentialStatus, standing},
        interaction::InteractionMode,
        message::{Message, Role},
        remote_task::{RemoteTask, RemoteTaskEnd, RemoteTaskEvent, RemoteTaskLimits, RemoteTaskOutcome},
    },
    artifact::{Part, PartContent},
    card::{MAX_MODE, MAX_PER_SKILL, MAX_SKILLS, MAX_TEXT, Skill},
    ids::{Capability, ConversationId, EffectId},
    question::Question,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, mpsc};
use transport::http_client::redact_url;

/// How long a stale card is used after a refresh has failed.
const GRACE: Duration = Duration::from_secs(30);

/// The time for a turn beside its task: fetching the card and reporting the end.
pub(super) const OVERHEAD: Duration = Duration::from_secs(30);

/// A foreign A2A agent.
// The doc comments are descriptions in the published JSON Schema.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct A2aBrainConfig {
    /// The URL of its card; of a host, its well-known place is meant.
    pub card: String,
    /// How its work is followed; the best its card offers if absent.
    pub mode: Option<InteractionMode>,
    /// Credentials by the names of the card's security schemes; best as `${VARIABLE}`.
    #[serde(default)]
    pub credentials: SchemeCredentials,
    /// How long its work is pursued.
    #[serde(default)]
    pub bounds: RemoteTaskLimits,
}

/// Sends turns to a foreign agent.
pub struct A2aBrain {
    config: A2aBrainConfig,
    client: OutboundClient,
    keyring: Keyring,
    store: Option<RemoteTaskStore>,
    callbacks: Option<CallbackRegistry>,
    skill: Option<String>,
    /// For the seat of a session: what its context belongs to, and what came before.
    session: Option<(String, Vec<String>)>,
    /// How long a task takes there, if its file says so.
    eta: Option<Duration>,
    cache: Mutex<Option<CachedAgent>>,
}

/// The client of an agent whose card was fetched.
struct CachedAgent {
    remote: RemoteAgent,
    freshness: Freshness,
    fresh_until: Instant,
}

impl CachedAgent {
    fn new(remote: RemoteAgent, freshness: Freshness) -> Self {
        Self { remote, fresh_until: Instant::now() + freshness.lifetime, freshness }
    }
}

impl A2aBrain {
    /// A brain for the agent of `config`. With `store` its tasks survive a restart; with `callbacks` it can push.
    pub fn new(
        config: A2aBrainConfig,
        client: OutboundClient,
        store: Option<RemoteTaskStore>,
        callbacks: Option<CallbackRegistry>,
    ) -> Self {
        let (keyring, cache) = (Keyring::default(), Mutex::default());
        Self { config, client, keyring, store, callbacks, skill: None, session: None, eta: None, cache }
    }

    /// Asks for this skill of the card only.
    #[must_use]
    pub fn with_skill(self, skill: Option<String>) -> Self {
        Self { skill, ..self }
    }

    /// Goes on in the context of `ours` or, without one, in that of the last of `earlier`.
    #[must_use]
    pub fn in_session(self, ours: String, earlier: Vec<String>) -> Self {
        Self { session: Some((ours, earlier)), ..self }
    }

    /// Takes this as the time of a task. Without it the last tasks tell.
    #[must_use]
    pub fn with_eta(self, eta: Option<Duration>) -> Self {
        Self { eta, ..self }
    }

    /// Uses the credentials of `keyring` if the configuration of the agent has none.
    #[must_use]
    pub fn with_keyring(self, keyring: Keyring) -> Self {
        Self { keyring, ..self }
    }

    /// Caches a card that was fetched before. Fails if the credentials are for another host than its interfaces have.
    pub async fn cache_card(&self, card: ValidatedCard, freshness: Freshness) -> Result<(), String> {
        *self.cache.lock().await = Some(CachedAgent::new(self.remote_agent(card)?, freshness));
        Ok(())
    }

    fn remote_agent(&self, card: ValidatedCard) -> Result<RemoteAgent, String> {
        let own = &self.config.credentials;
        if own.0.is_empty() {
            let credentials = self.keyring.for_agent(&card);
            return Ok(RemoteAgent::new(self.client.clone(), card, credentials));
        }
        let card = restrict_to_host(card, &self.config.card)?;
        Ok(RemoteAgent::new(self.client.clone(), card, Arc::new(own.clone())))
    }

    /// The client of the agent. Refreshes a stale card, and uses it if the refresh fails.
    async fn agent(&self) -> Result<RemoteAgent, String> {
        let mut cache = self.cache.lock().await;
        if let Some(cached) = cache.as_ref().filter(|cached| Instant::now() < cached.fresh_until) {
            return Ok(cached.remote.clone());
        }
        let cached = match self.refresh(cache.as_ref()).await {
            Ok(cached) => cached,
            Err(why) => {
                let Some(cached) = cache.as_mut() else {
                    return Err(format!(
                        "its card at {} can't be used: {why}",
                        redact_url(&self.config.card)
                    ));
                };
                cached.fresh_until = Instant::now() + GRACE;
                return Ok(cached.remote.clone());
            }
        };
        Ok(cache.insert(cached).remote.clone())
    }

    async fn refresh(&self, old: Option<&CachedAgent>) -> Result<CachedAgent, String> {
        let known = old.and_then(|old| Some((old, old.freshness.found_at.as_deref()?)));
        let fetched = match known {
            Some((old, url)) => match card_fetch::refetch(&self.client, url, &old.freshness).await? {
                CardRefresh::Unchanged(freshness) => {
                    return Ok(CachedAgent::new(old.remote.clone(), freshness));
                }
                CardRefresh::Changed(fetched) => *fetched,
            },
            None => card_fetch::fetch(&self.client, &self.config.card).await?,
        };
        let card = fetched.validate(&self.client).map_err(|reasons| reasons.join("; "))?;
        Ok(CachedAgent::new(self.remote_agent(card)?, fetched.freshness))
    }

    /// What is remembered of the agent, for the task of a turn: a seat goes on where its earlier turns and sessions were, another
    /// task where the earlier tasks of its context were.
    fn memory(&self, request: &TurnRequest, card: &ValidatedCard) -> Option<RemoteMemory> {
        let task = request.prompt.about.task()?;
        let (ours, earlier) = match &self.session {
            Some(ours) => ours.clone(),
            None => {
                let earlier = request.prompt.history.iter().map(|past| past.task_id.to_string());
                (task.task_id.to_string(), earlier.collect())
            }
        };
        Some(self.store.as_ref()?.memory(card, ours, earlier))
    }

    async fn prepare(
        &self,
        request: &TurnRequest,
    ) -> Result<(RemoteAgent, RemoteTask, Option<RemoteMemory>), String> {
        let remote = self.agent().await?.with_trace(request.trace.clone());
        let card = &remote.card().card;
        let skill = self.skill.as_ref().map(|id| {
            let known = || card.skills.iter().map(|skill| skill.id.as_str()).collect::<Vec<_>>().join(", ");
            remote.card().skill(id).ok_or_else(|| format!("its card has no skill {id:?}; it has {}", known()))
        });
        if let CredentialStatus::Missing { schemes } = standing(card, skill.transpose()?, &remote.schemes()) {
            return Err(format!("no credential for its {}", schemes.join(", ")));
        }
        let memory = self.memory(request, remote.card());
        let expected = self.eta.or_else(|| memory.as_ref()?.expected());
        let can_be_called = self.callbacks.as_ref().is_some_and(CallbackRegistry::is_reachable);
        let mode = InteractionMode::choose(self.config.mode, &card.capabilities, can_be_called, expected)?;
        let is_streamed = mode.is_streamed(self.config.mode, &card.capabilities);
        let message = message(request)?;
        let (bounds, has_runner_up) = (self.config.bounds, request.has_runner_up);
        let accepted_modes = Vec::new();
        Ok((remote, RemoteTask { message, accepted_modes, mode, is_streamed, bounds, has_runner_up }, memory))
    }

    async fn turn(&self, request: TurnRequest, report: TurnHandle) -> TurnEnd {
        let (remote, mut task, memory) = match self.prepare(&request).await {
            Ok(task) => task,
            Err(reason) => return TurnEnd::Failed { reason },
        };
        if let Some(access) = report.access() {
            // A foreign agent gets the files themselves.
            for part in &mut task.message.parts {
                if let Err(problem) = access.fill_part(part).await {
                    return TurnEnd::Failed { reason: format!("a file can't be sent: {problem}") };
                }
            }
        }
        let name = remote.card().card.name.clone();
        let conversation = EffectId::parse(&request.key).map(|effect| effect.conversation);
        let tasks = self.store.as_ref().zip(conversation).map(|(store, id)| store.for_conversation(&id));
        let records = RemoteRecords { tasks, memory };
        let (event_sender, mut events) = mpsc::channel(64);
        let (progress_sender, reports) = mpsc::channel(1);
        let name_of = &name;
        let convert = async move {
            while let Some(event) = events.recv().await {
                if let Some(progress) = progress(event, name_of) {
                    drop(progress_sender.send(progress).await);
                }
            }
            drop(progress_sender);
        };
        let (end, (), ()) = tokio::join!(
            run(remote, request.key.clone(), task, records, self.callbacks.clone(), event_sender),
            convert,
            coalesce::forward_coalesced(reports, report.clone())
        );
        match end {
            RemoteTaskEnd { how: RemoteTaskOutcome::Completed, text, .. } => TurnEnd::Done { message: text },
            RemoteTaskEnd {
                how: how @ (RemoteTaskOutcome::InputRequired | RemoteTaskOutcome::AuthRequired),
                text,
                task_id: Some(id),
                ..
            } => {
                let text = text.unwrap_or_else(|| format!("{name} waits, and does not say for what"));
                let question = if how == RemoteTaskOutcome::AuthRequired {
                    Question::credential(id, text)
                } else {
                    Question::new(id, text)
                };
                report.send(Progress::Question(question)).await;
                TurnEnd::Waiting
            }
            RemoteTaskEnd { how, text, task_id, .. } => {
                let task = task_id.map(|task| format!(" (its task {task})")).unwrap_or_default();
                let why = text.map(|text| format!(": {text}")).unwrap_or_default();
                let reason = format!("{name} says {}{task}{why}", how.word());
                let is_rejected = how == RemoteTaskOutcome::Rejected;
                if is_rejected { TurnEnd::Rejected { reason } } else { TurnEnd::Failed { reason } }
            }
        }
    }
}

/// The report for an event of the task; `name` is that of the agent.
fn progress(event: RemoteTaskEvent, name: &str) -> Option<Progress> {
    match event {
        RemoteTaskEvent::Began { task_id, .. } => {
            Some(Progress::Status { message: format!("{name} has it as task {task_id}") })
        }
        RemoteTaskEvent::Status { state, text } if !state.is_terminal() => {
            Some(Progress::Status { message: text.unwrap_or_else(|| format!("{name}: {}", state.word())) })
        }
        RemoteTaskEvent::Status { .. } | RemoteTaskEvent::Polled => None,
        RemoteTaskEvent::Artifact { artifact, append, last_chunk } => {
            Some(Progress::Artifact { artifact, append, last_chunk })
        }
    }
}

/// The message of the turn: the task with what its owner has said since, or the answer to a question of an earlier turn.
fn message(request: &TurnRequest) -> Result<Message, String> {
    if let Some(reply) = request.prompt.new_answers().last() {
        let answer = Message::text(request.key.clone(), Role::User, reply.text.clone());
        return Ok(Message { task_id: Some(reply.id.clone()), ..answer });
    }
    let (text, input, artifacts) = match &request.prompt.about {
        TurnSubject::Task(task) => (&task.description, task.input.as_ref(), &task.artifacts),
        TurnSubject::Help(asked) => (&asked.question, None, &asked.artifacts),
        TurnSubject::Signal(_) => return Err("a foreign agent hears no signals".to_owned()),
        TurnSubject::Check { .. } => return Err("a foreign agent checks no results".to_owned()),
    };
    let mut message = Message::text(request.key.clone(), Role::User, text.clone());
    message.parts.extend(input.map(|input| Part::new(PartContent::Data(input.clone()))));
    message.parts.extend(artifacts.iter().flat_map(|artifact| artifact.parts.clone()));
    message.parts.extend(request.prompt.new_messages().flat_map(|said| said.parts.clone()));
    if let Some(task) = request.prompt.about.task() {
        let extension =
            json!({ "taskId": task.task_id, "capability": task.capability, "agent": request.agent });
        message.metadata.insert(protocol::task::EXTENSION.to_owned(), extension);
    }
    Ok(message)
}

impl Brain for Arc<A2aBrain> {
    fn is_unmetered(&self) -> bool {
        true
    }

    fn think(&self, request: TurnRequest, report: TurnHandle) -> TurnFuture {
        let this = self.clone();
        Box::pin(async move { Ok(this.turn(request, report).await) })
    }

    fn release(&self, conversation: &ConversationId) {
        let Some(store) = self.store.as_ref().map(|store| store.for_conversation(conversation)) else {
            return;
        };
        let this = self.clone();
        store.clone().with_all(move |tasks| {
            let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
            if tasks.is_empty() {
                return;
            }
            drop(runtime.spawn(async move {
                match this.agent().await {
                    Ok(remote) => tasks.into_iter().for_each(|task| {
                        cancel_in_background(remote.clone(), Some(store.clone()), task.task_id)
                    }),
                    Err(why) => tracing::warn!(why, "foreign tasks are ended at the next start"),
                }
            }));
        });
    }

    fn turn_timeout(&self, _request: &TurnRequest) -> Option<Duration> {
        Some(self.config.bounds.whole().saturating_add(OVERHEAD))
    }

    fn name(&self) -> &'static str {
        "a2a"
    }
}

/// The skills of a card as skills of the mesh, within the limits of the registry.
pub fn skills_from_card(card: &ValidatedCard) -> Vec<Skill> {
    let capability = |text: &str| Capability::parse(text).or_else(|_| Capability::parse(&slug(text))).ok();
    let skill = |skill: &protocol::a2a::card::AgentSkill| {
        let modes = card.output_modes(Some(skill)).iter().filter(|mode| mode.len() <= MAX_MODE);
        Some(Skill {
            id: capability(&skill.id)?,
            name: truncate(&skill.name),
            description: truncate(&skill.description),
            tags: skill.tags.iter().filter_map(|tag| capability(tag)).take(MAX_PER_SKILL).collect(),
            examples: skill.examples.iter().take(MAX_PER_SKILL).map(|example| truncate(example)).collect(),
            output_modes: modes.take(MAX_PER_SKILL).cloned().collect(),
        })
    };
    let mut ids = BTreeSet::new();
    let mut all: Vec<_> = card.card.skills.iter().filter_map(skill).collect();
    all.retain(|skill| ids.insert(skill.id.clone()));
    all.truncate(MAX_SKILLS);
    all
}

/// The beginning of `text`, at most [`MAX_TEXT`] bytes.
pub fn truncate(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// Converts `text` to the grammar of ids: `Weather Forecast!` becomes `weather-forecast`.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') => slug.push(c.to_ascii_lowercase()),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(64);
    slug.trim_end_matches('-').trim_start_matches(['.', '_']).to_owned()
}
