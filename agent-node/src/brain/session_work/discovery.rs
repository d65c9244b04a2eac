//! The stage that matches: it finds agents, by the cards or hosts that the session names or in the mesh, and plans who does
//! which part of the request: the model of the host chooses, if it has one, else words decide.

use super::SessionWork;
use crate::{
    brain::{PeerSummary, TurnHandle, TurnRequest, matching::MatchQuestion},
    outbox::a2a::card_fetch::{self, FetchedCard},
};
use futures_util::future::join_all;
use patterns::session::{
    graph::TeamTerms,
    team::{
        self, AdvertisedSkill, RECORD, TeamPlan, chosen,
        record::DelegationRecord,
        report::{ItemOrder, artifact},
    },
};
use protocol::{a2a::card::AgentSkill, artifact::Artifact, words::counted};
use serde_json::{Value, json};
use std::time::Duration;
use transport::http_client::redact_url;

/// How long a model is waited for.
const MODEL_ANSWERS: Duration = Duration::from_secs(30);

/// The search for the agents of one request.
struct TeamSearch<'a> {
    work: &'a SessionWork,
    terms: &'a TeamTerms,
    record: DelegationRecord,
    skills: Vec<AdvertisedSkill>,
}

/// Plans the request of a turn: the record so far, an order for each item, and a sentence about them.
pub(super) async fn plan(
    work: &SessionWork,
    request: &TurnRequest,
    terms: &TeamTerms,
    report: &TurnHandle,
) -> (Vec<Artifact>, String) {
    let text = request.prompt.about.task().map_or("", |task| &task.description);
    let mut record = DelegationRecord {
        input: text.to_owned(),
        normalized_input: text.split_whitespace().collect::<Vec<_>>().join(" "),
        session_id: format!("session-{}", request.key),
        ..DelegationRecord::default()
    };
    if let Some(why) = team::why_unusable(text) {
        record.refuse(&why);
        return (vec![artifact(RECORD, json!(record))], why);
    }
    record.audit("preprocess_request", "accepted", "");
    let mut search = TeamSearch { work, terms, record, skills: Vec::new() };
    search.discover(request).await;
    let (plan, by) = search.choose(request, text, report).await;
    let mut record = search.record;
    record.planned(plan);
    let mut said = vec![counted(record.delegation_plan.len(), "part", "parts") + &by];
    let mut orders = Vec::new();
    for item in &record.delegation_plan {
        said.push(format!("{} does {}: {}", item.agent, item.skill, item.reason));
        let is_foreign = record.remote_agents.get(&item.agent).is_some_and(|agent| agent["kind"] == "a2a");
        let card = is_foreign.then(|| record.validated_agent_cards.get(&item.agent).cloned()).flatten();
        let mut item = item.clone();
        item.mode = item.mode.or(terms.mode);
        let (alias, session_id) = (item.alias.clone(), record.session_id.clone());
        let (accepted_modes, bounds) = (terms.accepted_modes.clone(), terms.bounds);
        orders.push(artifact(&alias, json!(ItemOrder { item, card, session_id, accepted_modes, bounds })));
    }
    said.extend(record.unmatched.iter().map(|part| format!("nobody does {:?}: {}", part.text, part.reason)));
    let artifacts = std::iter::once(artifact(RECORD, json!(record))).chain(orders);
    (artifacts.collect(), said.join("\n"))
}

impl TeamSearch<'_> {
    /// Who does what, and a note about who has decided it if there is a model.
    async fn choose(&mut self, request: &TurnRequest, text: &str, report: &TurnHandle) -> (TeamPlan, String) {
        let by_words = || team::plan(text, self.terms, &self.skills);
        let idle = request.prompt.remaining.idle_ms.map_or(MODEL_ANSWERS, Duration::from_millis);
        let question = MatchQuestion {
            agent: request.agent.clone(),
            request: text.to_owned(),
            skills: self.skills.clone(),
            within: MODEL_ANSWERS.min(idle / 2),
        };
        let asked = match self.terms.items.is_empty() && !self.skills.is_empty() {
            true => self.work.brain.match_parts(question, report.clone()),
            false => None,
        };
        let Some(asked) = asked else {
            let plan = by_words();
            self.record.audit("match_skills", "by_words", "");
            return (plan, String::new());
        };
        let chosen = match asked.await {
            Ok(answer) => chosen::plan(text, &answer.parts, &self.skills)
                .map(|plan| (plan, answer.model.clone()))
                .map_err(|why| format!("{}: {why}", answer.model)),
            Err(why) => Err(why),
        };
        match chosen {
            Ok((plan, model)) => {
                self.record.audit("match_skills", "by_model", model.clone());
                (plan, format!(", matched by {model}"))
            }
            Err(why) => {
                let plan = by_words();
                self.record.audit("match_skills", "by_words", why.clone());
                (plan, format!(", matched by words; the model was of no use: {why}"))
            }
        }
    }

    /// Looks for agents as the terms say, and keeps those whose card can be used.
    async fn discover(&mut self, request: &TurnRequest) {
        let word = self.terms.mode_word();
        self.record.discovery_mode = word.to_owned();
        if self.terms.cards.is_empty() && self.terms.hosts.is_empty() {
            let me = self.work.me.get();
            let all = request.peers.iter().chain([me.as_ref()]);
            all.filter(|peer| !peer.skills.is_empty()).for_each(|peer| self.add_peer(peer));
            if self.skills.is_empty() {
                let known = counted(request.peers.len(), "other agent", "other agents");
                let why = format!("no agent of the mesh names a skill; the registry has told of {known}");
                self.record.errors.push(why);
            }
        }
        let work = self.work;
        let cards = join_all(self.terms.cards.iter().map(|card| given(work, card))).await;
        let hosts = join_all(self.terms.hosts.iter().map(|host| of_host(work, host))).await;
        for (place, card) in cards.into_iter().chain(hosts) {
            match card {
                Ok(found) => self.add_card(&place, &found),
                Err(why) => self.reject(&place, &[why]),
            }
        }
        let count = self.record.validated_agent_cards.len();
        let found = format!("{} can be asked", counted(count, "agent", "agents"));
        self.record.audit("discover_agent_cards", word, found);
    }

    fn add_peer(&mut self, peer: &PeerSummary) {
        let (name, card) = (peer.agent_id.to_string(), json!(peer));
        self.record.agent_cards.insert(name.clone(), card.clone());
        self.record.validated_agent_cards.insert(name.clone(), card);
        self.record.remote_agents.insert(name.clone(), json!({ "kind": "mesh" }));
        self.skills.extend(peer.skills.iter().map(|skill| AdvertisedSkill {
            agent: name.clone(),
            skill: skill.id.to_string(),
            name: match skill.name.is_empty() {
                true => skill.id.as_str().replace(['-', '_'], " "),
                false => skill.name.clone(),
            },
            description: skill.description.clone(),
            tags: skill.tags.iter().map(ToString::to_string).collect(),
            examples: skill.examples.clone(),
        }));
    }

    fn add_card(&mut self, place: &str, found: &FetchedCard) {
        let raw = found.raw.clone();
        let name = raw["name"].as_str().unwrap_or(place).to_owned();
        self.record.agent_cards.insert(name.clone(), raw.clone());
        match found.validate(&self.work.client) {
            Err(why) => self.reject(place, &why),
            Ok(_) if self.record.validated_agent_cards.contains_key(&name) => {
                self.reject(place, &[format!("another agent is called {name:?} too")]);
            }
            Ok(card) => {
                let what = format!("{place}: {}", found.signature);
                self.record.audit("validate_agent_cards", "accepted", what);
                let url = card.interfaces.first().map(|interface| interface.url.clone());
                self.record.remote_agents.insert(name.clone(), json!({ "kind": "a2a", "url": url }));
                self.record.validated_agent_cards.insert(name.clone(), raw);
                let skill = |skill: &AgentSkill| AdvertisedSkill {
                    agent: name.clone(),
                    skill: skill.id.clone(),
                    name: skill.name.clone(),
                    description: skill.description.clone(),
                    tags: skill.tags.clone(),
                    examples: skill.examples.clone(),
                };
                self.skills.extend(card.card.skills.iter().map(skill));
            }
        }
    }

    fn reject(&mut self, place: &str, why: &[String]) {
        let (place, why) = (redact_url(place), why.join("; "));
        self.record.errors.push(format!("the card of {place} is rejected: {why}"));
        self.record.audit("validate_agent_cards", "rejected", format!("{place}: {why}"));
    }
}

/// A card that the session holds or names.
async fn given(work: &SessionWork, card: &Value) -> (String, Result<FetchedCard, String>) {
    match card.as_str() {
        Some(url) => (url.to_owned(), card_fetch::fetch(&work.client, url).await),
        None => {
            let place = card["name"].as_str().unwrap_or("a card without a name").to_owned();
            (place, Ok(card_fetch::inline_card(&work.client, card.clone()).await))
        }
    }
}

async fn of_host(work: &SessionWork, host: &str) -> (String, Result<FetchedCard, String>) {
    (host.to_owned(), card_fetch::fetch_from_host(&work.client, host).await)
}
