//! Briefs: what a space knows for one of its agents.

use super::SpaceStore;
use crate::{
    feed::run_blocking,
    spaces::{EntryOrder, EntryQuery, FindingsOf, entry_writes::permitted, rows},
};
use protocol::{
    deputy::{Deputy, MeshOperation},
    ids::{AgentId, SpaceId},
    principal::{Principal, SenderProof, TaskRoot},
    problem::Problem,
    spaces::{
        Entry, EntryKind, EntryState, EntryType, MemoryScope, Reader, SpaceVerb,
        brief::{Brief, BriefBudget, BriefExplanation, MAX_OMITTED, explained_brief},
        entry_draft::CROSS_TEAM,
        may,
        may::may_read_brief,
        request::SessionScope,
        task_history,
    },
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The most decisions that a brief reads, the newest.
const MAX_DECISIONS: usize = 1_000;
/// The most teammates whose expertise is read.
const MAX_TEAMMATES: usize = 256;
/// The most memories of a vault that are counted.
const MAX_VAULT: usize = 1_000;

/// A brief, as somebody sees it who may read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BriefView {
    #[serde(flatten)]
    pub brief: Brief,
    /// The number of memories in the agent's vault that the brief is shown without; at most 1,000 are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault_entries: Option<usize>,
    /// Why each part of it is there; for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<BriefExplanation>,
}

impl SpaceStore {
    /// The brief of `agent`, for itself or for a person. A person is shown it without the agent's vault.
    /// `scope` says which findings are in it. With `root` it is that for work of which this is the root; refused if that may not read
    /// the space.
    pub async fn brief(
        &self,
        by: &Reader,
        space: &SpaceId,
        agent: &AgentId,
        (scope, root): (SessionScope, Option<TaskRoot>),
    ) -> Result<BriefView, Problem> {
        self.configure().await?;
        let cursors = self.cursor_key().await?;
        let (store, by, space, agent) = (self.0.store.clone(), by.clone(), space.clone(), agent.clone());
        run_blocking(move || {
            let space = permitted(store.as_ref(), &by, SpaceVerb::Read, &space)?;
            may_read_brief(&by, &agent, &space)?;
            let principal = Principal::Agent(agent);
            let reader = Reader { principal, proof: SenderProof::Credential };
            // A space in which the agent is no member has no brief for it.
            may(&reader, SpaceVerb::Read, None, &space)?;
            if let (Some(root), Some(agent)) = (&root, reader.principal.agent()) {
                let deputy = Deputy { agent: agent.clone(), root: root.clone() };
                deputy.may(MeshOperation::InSpace(SpaceVerb::Read, None, &space))?;
            }
            let read = |query: EntryQuery, limit| {
                let query = EntryQuery { root: root.clone(), is_accepted: true, ..query };
                let page = query.page(store.as_ref(), &cursors, &reader, &space, limit)?;
                Ok::<_, Problem>(page.entries)
            };
            let budget = BriefBudget::default();
            let mut entries = Vec::new();
            for (query, limit) in
                layers(budget, &scope, &reader).into_iter().chain([tasks(&reader.principal)])
            {
                entries.extend(read(query, limit)?);
            }
            // One for all teams may be in a layer of its own, too.
            let mut ids = BTreeSet::new();
            entries.retain(|entry| ids.insert(entry.id.clone()));
            // Nobody else sees what is sealed.
            let is_of_agent = matches!(by.principal, Principal::Agent(_) | Principal::Brain(_));
            if let Some(session) = scope.sealed.as_ref().filter(|_| is_of_agent) {
                let (query, of) = (EntryQuery::default(), (&space, session));
                let mut sealed = query.sealed_page(store.as_ref(), &reader, of, budget.findings)?;
                sealed.retain(|entry| root.as_ref().is_none_or(|root| entry.is_for(root)));
                entries.splice(0..0, sealed);
            }
            let is_shown = |entry: &&Entry| may(&by, SpaceVerb::Read, Some(entry), &space).is_ok();
            let shown = entries.iter().filter(is_shown);
            let teammates = rows::find_expertise(store.as_ref(), &space.id, root.as_ref(), MAX_TEAMMATES)?;
            let of = (&reader, root.as_ref());
            let (brief, explanation) = explained_brief(of, &space, shown, &teammates, budget);
            let vault_entries = match is_of_agent {
                true => None,
                false => {
                    let own = EntryQuery { author: Some(reader.principal.clone()), ..memory([]) };
                    let memories = read(own, MAX_VAULT)?;
                    Some(memories.iter().filter(|entry| entry.scope == Some(MemoryScope::Own)).count())
                }
            };
            Ok(BriefView { brief, vault_entries, explained: (!is_of_agent).then_some(explanation) })
        })
        .await
    }
}

/// What is read for a brief: of each layer what it can hold, and what it may name as left out.
fn layers(budget: BriefBudget, scope: &SessionScope, reader: &Reader) -> [(EntryQuery, usize); 5] {
    let memories = budget.items + MAX_OMITTED;
    let decisions = EntryQuery {
        kinds: BTreeSet::from([EntryKind::Decision]),
        states: BTreeSet::from([EntryState::Active]),
        types: BTreeSet::from([EntryType::Architectural, EntryType::Scope]),
        ..EntryQuery::default()
    };
    let findings = EntryQuery {
        kinds: BTreeSet::from([EntryKind::Finding]),
        states: BTreeSet::from([EntryState::Open, EntryState::Sealed]),
        findings: scope.session.clone().map_or(FindingsOf::NoSession, FindingsOf::Session),
        // A sealed seat sees its own.
        author: scope.sealed.as_ref().map(|_| reader.principal.clone()),
        ..EntryQuery::default()
    };
    let cross_team = EntryQuery { tags: BTreeSet::from([CROSS_TEAM.to_owned()]), ..memory([]) };
    [
        (decisions, MAX_DECISIONS),
        (cross_team, memories),
        (memory([EntryType::CoreContext]), memories),
        (memory([EntryType::Learning, EntryType::Pattern]), memories),
        (findings, budget.findings),
    ]
}

/// What the agent `own` remembers of its tasks, the newest first.
fn tasks(own: &Principal) -> (EntryQuery, usize) {
    let (author, tags) = (Some(own.clone()), BTreeSet::from([task_history::TAG.to_owned()]));
    let order = EntryOrder::Newest;
    (EntryQuery { author, tags, order, ..memory([EntryType::Update]) }, task_history::IN_BRIEF)
}

/// Active memories of these types, the most important first.
fn memory<const N: usize>(types: [EntryType; N]) -> EntryQuery {
    EntryQuery {
        kinds: BTreeSet::from([EntryKind::Memory]),
        states: BTreeSet::from([EntryState::Active]),
        types: BTreeSet::from(types),
        order: EntryOrder::Importance,
        ..EntryQuery::default()
    }
}
