//! A foreign A2A agent as a brain: what it is asked goes out as an A2A message, what it says comes back as reports. So it
//! bids, streams, asks and is cancelled like any agent of the mesh.

mod gather;

use super::{Ask, Brain, Turn};
use crate::outbox::{
    a2a::{
        Remote,
        card::{self, Again, Freshness},
        credentials::{Credentials, Keyring, at_home},
        errand::{give_up, run},
        hooks::Hooks,
        notes::Notes,
    },
    outside::Outside,
};
use blackboard::wire::shown;
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
    patterns::turn::{Progress, TurnEnd, TurnSubject},
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, mpsc};

/// How long an old card is good enough after its host was asked for a newer one in vain.
const GRACE: Duration = Duration::from_secs(30);

/// What a turn takes beside the errand: reading the card, and saying how it ended.
pub(super) const BESIDE: Duration = Duration::from_secs(30);

/// Where a foreign agent is and how it is worked with.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignConfig {
    /// The URL of its card, or of its host.
    pub card: String,
    /// How its work is followed; the best its card offers if nobody says.
    pub mode: Option<InteractionMode>,
    /// What it is shown as proof of who calls.
    pub credentials: Credentials,
    /// How long its work is pursued.
    pub bounds: RemoteTaskLimits,
}

/// The brain.
pub struct Foreign {
    config: ForeignConfig,
    outside: Outside,
    keyring: Keyring,
    notes: Option<Notes>,
    hooks: Option<Hooks>,
    met: Mutex<Option<Known>>,
}

/// An agent by a card that was read.
struct Known {
    remote: Remote,
    freshness: Freshness,
    until: Instant,
}

impl Known {
    fn new(remote: Remote, freshness: Freshness) -> Self {
        Self { remote, until: Instant::now() + freshness.lasts, freshness }
    }
}

impl Foreign {
    /// The agent that `config` tells of; `notes` outlive a restart, `hooks` are where it may call back.
    pub fn new(config: ForeignConfig, outside: Outside, notes: Option<Notes>, hooks: Option<Hooks>) -> Self {
        Self { config, outside, keyring: Keyring::default(), notes, hooks, met: Mutex::default() }
    }

    /// The same, shown what `keyring` has for its hosts if it has no credentials of its own.
    #[must_use]
    pub fn with_keyring(self, keyring: Keyring) -> Self {
        Self { keyring, ..self }
    }

    /// Takes a card that was read before, for as long as nobody has read a newer one.
    ///
    /// # Errors
    /// If its credentials are for another host than it works at.
    pub async fn know(&self, vetted: ValidatedCard, freshness: Freshness) -> Result<(), String> {
        *self.met.lock().await = Some(Known::new(self.remote(vetted)?, freshness));
        Ok(())
    }

    fn remote(&self, vetted: ValidatedCard) -> Result<Remote, String> {
        let own = &self.config.credentials;
        if own.0.is_empty() {
            let credentials = self.keyring.of(&vetted);
            return Ok(Remote::new(self.outside.clone(), vetted, credentials));
        }
        let vetted = at_home(vetted, &self.config.card)?;
        Ok(Remote::new(self.outside.clone(), vetted, Arc::new(own.clone())))
    }

    /// The agent by its card, which is read again when it is old; an old one is better than none.
    async fn meet(&self) -> Result<Remote, String> {
        let mut met = self.met.lock().await;
        if let Some(known) = met.as_ref().filter(|known| Instant::now() < known.until) {
            return Ok(known.remote.clone());
        }
        let known = match self.read_again(met.as_ref()).await {
            Ok(known) => known,
            Err(why) => {
                let Some(known) = met.as_mut() else {
                    return Err(format!("its card at {} can't be used: {why}", shown(&self.config.card)));
                };
                known.until = Instant::now() + GRACE;
                return Ok(known.remote.clone());
            }
        };
        Ok(met.insert(known).remote.clone())
    }

    async fn read_again(&self, old: Option<&Known>) -> Result<Known, String> {
        let said = old.map(|old| &old.freshness);
        match (card::fetch_again(&self.outside, &self.config.card, said).await?, old) {
            (Again::Same(freshness), Some(old)) => Ok(Known::new(old.remote.clone(), freshness)),
            (Again::Same(_), None) => Err("it is said to be the same, and none is known".to_owned()),
            (Again::Changed(found), _) => {
                let vetted = found.vetted(&self.outside).map_err(|against| against.join("; "))?;
                Ok(Known::new(self.remote(vetted)?, found.freshness))
            }
        }
    }

    async fn errand(&self, ask: &Ask) -> Result<(Remote, RemoteTask), String> {
        let remote = self.meet().await?.traced(ask.trace.clone());
        let card = &remote.vetted().card;
        if let CredentialStatus::Missing { schemes } = standing(card, None, &remote.schemes()) {
            return Err(format!("no credential for its {}", schemes.join(", ")));
        }
        let mode = InteractionMode::choose(
            self.config.mode,
            &card.capabilities,
            self.hooks.as_ref().is_some_and(Hooks::can_be_called),
        )?;
        let message = message(ask)?;
        let (bounds, has_runner_up) = (self.config.bounds, ask.has_runner_up);
        Ok((remote, RemoteTask { message, accepted_modes: Vec::new(), mode, bounds, has_runner_up }))
    }

    async fn turn(&self, ask: Ask, report: mpsc::Sender<Progress>) -> TurnEnd {
        let (remote, errand) = match self.errand(&ask).await {
            Ok(errand) => errand,
            Err(reason) => return TurnEnd::Failed { reason },
        };
        let name = remote.vetted().card.name.clone();
        let conversation = EffectId::parse(&ask.key).map(|effect| effect.conversation);
        let page = self.notes.as_ref().zip(conversation).map(|(notes, id)| notes.of(&id));
        let (heard, mut news) = mpsc::channel(64);
        let (tell, told) = mpsc::channel(1);
        let name_of = &name;
        let listen = async move {
            while let Some(news) = news.recv().await {
                if let Some(progress) = progress(news, name_of) {
                    drop(tell.send(progress).await);
                }
            }
            drop(tell);
        };
        let (end, (), ()) = tokio::join!(
            run(remote, ask.key.clone(), errand, page, self.hooks.clone(), heard),
            listen,
            gather::pass_on(told, report.clone())
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
                drop(
                    report
                        .send(Progress::Question { id, text, auth: how == RemoteTaskOutcome::AuthRequired })
                        .await,
                );
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

fn progress(news: RemoteTaskEvent, name: &str) -> Option<Progress> {
    match news {
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

/// What is said to it: the task, or the answer to what it asked in an earlier turn.
fn message(ask: &Ask) -> Result<Message, String> {
    if let Some(reply) = ask.prompt.answers.last() {
        let answer = Message::text(ask.key.clone(), Role::User, reply.text.clone());
        return Ok(Message { task_id: Some(reply.id.clone()), ..answer });
    }
    let (text, input, artifacts) = match &ask.prompt.about {
        TurnSubject::Task { description, input, artifacts, .. } => (description, input.as_ref(), artifacts),
        TurnSubject::Help { question, artifacts, .. } => (question, None, artifacts),
        TurnSubject::Signal(_) => return Err("a foreign agent hears no signals".to_owned()),
    };
    let mut message = Message::text(ask.key.clone(), Role::User, text.clone());
    message.parts.extend(input.map(|input| Part::new(PartContent::Data(input.clone()))));
    message.parts.extend(artifacts.iter().flat_map(|artifact| artifact.parts.clone()));
    if let TurnSubject::Task { task_id, capability, .. } = &ask.prompt.about {
        let ours = json!({ "taskId": task_id, "capability": capability, "agent": ask.agent });
        message.metadata.insert(protocol::task::EXTENSION.to_owned(), ours);
    }
    Ok(message)
}

impl Brain for Arc<Foreign> {
    fn think(&self, ask: Ask, report: mpsc::Sender<Progress>) -> Turn {
        let this = self.clone();
        Box::pin(async move { Ok(this.turn(ask, report).await) })
    }

    fn over(&self, conversation: &ConversationId) {
        let Some(page) = self.notes.as_ref().map(|notes| notes.of(conversation)) else { return };
        let this = self.clone();
        page.clone().each(move |left| {
            let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
            if left.is_empty() {
                return;
            }
            drop(runtime.spawn(async move {
                match this.meet().await {
                    Ok(remote) => left
                        .into_iter()
                        .for_each(|note| give_up(remote.clone(), Some(page.clone()), note.task_id)),
                    Err(why) => tracing::warn!(why, "foreign tasks are ended at the next start"),
                }
            }));
        });
    }

    fn patience(&self, _ask: &Ask) -> Option<Duration> {
        Some(self.config.bounds.whole().saturating_add(BESIDE))
    }

    fn name(&self) -> &'static str {
        "a2a"
    }
}

/// A card's skills as capabilities of the mesh, within what the registry takes.
pub fn capabilities(vetted: &ValidatedCard) -> Vec<Skill> {
    let named = |text: &str| Capability::parse(text).or_else(|_| Capability::parse(&plain(text))).ok();
    let skill = |skill: &protocol::a2a::card::AgentSkill| {
        let modes = vetted.output_modes(Some(skill)).iter().filter(|mode| mode.len() <= MAX_MODE);
        Some(Skill {
            id: named(&skill.id)?,
            name: clipped(&skill.name),
            description: clipped(&skill.description),
            tags: skill.tags.iter().filter_map(|tag| named(tag)).take(MAX_PER_SKILL).collect(),
            examples: skill.examples.iter().take(MAX_PER_SKILL).map(|example| clipped(example)).collect(),
            output_modes: modes.take(MAX_PER_SKILL).cloned().collect(),
        })
    };
    let mut seen = BTreeSet::new();
    let mut all: Vec<_> = vetted.card.skills.iter().filter_map(skill).collect();
    all.retain(|skill| seen.insert(skill.id.clone()));
    all.truncate(MAX_SKILLS);
    all
}

/// The beginning of `text`, as long as a card's text may be.
pub fn clipped(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// `text` within the grammar of ids: `Weather Forecast!` becomes `weather-forecast`.
pub fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') => plain.push(c.to_ascii_lowercase()),
            _ if plain.ends_with('-') || plain.is_empty() => {}
            _ => plain.push('-'),
        }
    }
    plain.truncate(64);
    plain.trim_end_matches('-').trim_start_matches(['.', '_']).to_owned()
}
