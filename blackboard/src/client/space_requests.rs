//! What an agent's conversations and turns ask of spaces.

use super::{Blackboard, BoardBackend, spaces::reader};
use crate::{
    board::{BriefView, CurationOutcome, EndedRun},
    spaces::{EntryOrder, EntryQuery, FindingsOf},
};
use protocol::{
    deputy::{Deputy, MeshOperation},
    ids::SpaceId,
    principal::Principal,
    problem::{Problem, Reason},
    spaces::{
        Entry, EntryKind, EntryState, Grade, Space, SpaceVerb,
        brief::{Brief, found_text},
        request::{
            EntrySearch, MAX_FOUND, MAX_FOUND_BYTES, SessionScope, SpaceAction, SpaceAnswer, SpaceRequest,
        },
    },
};
use serde_json::json;
use std::{cmp::Reverse, collections::BTreeSet};

impl Blackboard {
    /// The brief of the agent `deputy` for work of which `root` is the root. Refused if either may not read the space; of the root the
    /// refusal has it as `root`.
    pub async fn brief(
        &self,
        deputy: &Deputy,
        space: &SpaceId,
        scope: &SessionScope,
    ) -> Result<Brief, Problem> {
        let (me, by) = (&deputy.agent, Principal::Agent(deputy.agent.clone()));
        // The board takes the agent's word for the root, and one of an earlier version does not know it.
        let known = self.space(&by, space).await?;
        deputy.may(MeshOperation::InSpace(SpaceVerb::Read, None, &known))?;
        let view: BriefView = match &self.0 {
            BoardBackend::Local(board) => {
                let seen = (scope.clone(), Some(deputy.root.clone()));
                board.spaces().brief(&reader(&by), space, me, seen).await?
            }
            BoardBackend::Remote(remote) => {
                let named = [("session", &scope.session), ("sealed", &scope.sealed)];
                let named =
                    named.into_iter().filter_map(|(name, id)| Some(format!("{name}={}", id.as_ref()?)));
                let scoped = format!("/brief?{}", named.collect::<Vec<_>>().join("&"));
                match remote.get_space_json(&by, space, &format!("{scoped}&{}", root_query(deputy))).await {
                    // A board of an earlier version knows no roots, nor has it entries with one.
                    Err(Problem { reason: Reason::InvalidField, .. }) => {
                        remote.get_space_json(&by, space, &scoped).await?
                    }
                    view => view?,
                }
            }
        };
        Ok(view.brief)
    }

    /// Answers a request of a conversation of `by`.
    pub async fn ask_space(&self, by: &Principal, request: &SpaceRequest) -> Result<SpaceAnswer, Problem> {
        let SpaceRequest { space, root, action } = request;
        let deputy = match (by.agent(), root) {
            (Some(agent), Some(root)) => Some(Deputy { agent: agent.clone(), root: root.clone() }),
            _ => None,
        };
        let refused = |problem: &Problem| Ok(SpaceAnswer::refused(problem));
        match action {
            SpaceAction::Post { entry } => {
                if let Some(deputy) = &deputy {
                    let known = self.space(by, space).await?;
                    let post = MeshOperation::InSpace(SpaceVerb::Post(entry.kind), None, &known);
                    if let Err(problem) = deputy.may(post) {
                        return refused(&problem);
                    }
                }
                let posted = self.post_entry(by, space, entry).await?;
                Ok(SpaceAnswer::Posted { id: posted.id, version: posted.version })
            }
            SpaceAction::Find(query) => {
                let known = match &deputy {
                    Some(_) => Some(self.space(by, space).await?),
                    None => None,
                };
                let deputy = deputy.as_ref().zip(known.as_ref());
                let read = |space| MeshOperation::InSpace(SpaceVerb::Read, None, space);
                if let Some(Err(problem)) = deputy.map(|(deputy, space)| deputy.may(read(space))) {
                    return refused(&problem);
                }
                let found = self.search(by, (space, deputy), query).await?;
                let (text, count) = found_text(&found, root.as_ref(), MAX_FOUND_BYTES);
                Ok(SpaceAnswer::Found { text, count })
            }
            SpaceAction::Curate { task, session, declined } => {
                let run = EndedRun { task: task.clone(), session: *session, declined: declined.clone() };
                let CurationOutcome { merged, rejected, waiting } = match &self.0 {
                    BoardBackend::Local(board) => board.spaces().curate(&reader(by), space, &run).await?,
                    BoardBackend::Remote(remote) => {
                        let body = json!(run).to_string().into_bytes();
                        remote.post_space_json(by, space, "/curate", body).await?
                    }
                };
                Ok(SpaceAnswer::Curated { merged, rejected, waiting })
            }
            SpaceAction::AwaitTask { task, after } => {
                self.task_end((by, deputy.as_ref()), task, after.clone()).await
            }
            SpaceAction::Release(wanted) => match &self.0 {
                BoardBackend::Local(board) => board.spaces().release(&reader(by), space, wanted).await,
                BoardBackend::Remote(remote) => {
                    remote.post_space_json(by, space, "/release", crate::signals::json(wanted)?).await
                }
            },
        }
    }

    /// What a search finds. If it is for some kinds of the entries of others, it is made of two: one for these kinds, and one for
    /// what `by` has posted.
    async fn search(
        &self,
        by: &Principal,
        of: SearchedSpace<'_>,
        query: &EntrySearch,
    ) -> Result<Vec<Entry>, Problem> {
        let wanted = selection(query);
        let mut sealed = match &query.scope.sealed {
            Some(session) => {
                let own = EntryQuery { sealed: Some(session.clone()), ..wanted.clone() };
                self.readable_entries(by, of, own).await?
            }
            None => Vec::new(),
        };
        let found = self.search_open(by, of, query, wanted).await?;
        sealed.extend(found);
        sealed.truncate(MAX_FOUND);
        Ok(sealed)
    }

    async fn search_open(
        &self,
        by: &Principal,
        of: SearchedSpace<'_>,
        query: &EntrySearch,
        wanted: EntryQuery,
    ) -> Result<Vec<Entry>, Problem> {
        let Some(of_others) = &query.of_others else {
            return self.readable_entries(by, of, wanted).await;
        };
        let own = EntryQuery { author: Some(by.clone()), ..wanted.clone() };
        let mut found = self.readable_entries(by, of, own).await?;
        let is_wanted = |kind: &EntryKind| query.kind.is_none_or(|wanted| wanted == *kind);
        let kinds: BTreeSet<EntryKind> = of_others.iter().copied().filter(is_wanted).collect();
        // A query without kinds is for all.
        if !kinds.is_empty() {
            found.extend(self.readable_entries(by, of, EntryQuery { kinds, ..wanted }).await?);
        }
        found.sort_by_key(|entry| {
            Reverse((entry.importance.unwrap_or(Grade::Medium), entry.at, entry.id.clone()))
        });
        found.dedup_by(|one, other| one.id == other.id);
        found.truncate(MAX_FOUND);
        Ok(found)
    }

    /// The first entries that `by` may read, and the principal for whom it searches, at most [`MAX_FOUND`].
    async fn readable_entries(
        &self,
        by: &Principal,
        (space, deputy): SearchedSpace<'_>,
        mut query: EntryQuery,
    ) -> Result<Vec<Entry>, Problem> {
        let is_readable = |entry: &Entry| {
            deputy.is_none_or(|(deputy, space)| {
                deputy.may(MeshOperation::InSpace(SpaceVerb::Read, Some(entry), space)).is_ok()
            })
        };
        let mut found = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.entries(by, space, query.clone(), MAX_FOUND).await?;
            found.extend(page.entries.into_iter().filter(is_readable));
            query.after = page.next;
            if found.len() >= MAX_FOUND || query.after.is_none() {
                break;
            }
        }
        found.truncate(MAX_FOUND);
        Ok(found)
    }
}

/// The space that is searched, and who searches for whom, with the space as it knows it.
type SearchedSpace<'a> = (&'a SpaceId, Option<(&'a Deputy, &'a Space)>);

/// The most pages that a search reads to find what the one may read for whom it searches.
const MAX_PAGES: usize = 100;

/// The query that names the root of a brief.
fn root_query(deputy: &Deputy) -> String {
    let proof = json!(deputy.root.proof);
    let proof = proof.as_str().map(|proof| format!("&rootProof={proof}")).unwrap_or_default();
    format!("root={}{proof}", deputy.root.principal)
}

/// What a search selects: what is in force or waits, not what was rejected, replaced or merged.
fn selection(query: &EntrySearch) -> EntryQuery {
    let states =
        [EntryState::Sealed, EntryState::Open, EntryState::Pending, EntryState::Active, EntryState::Posted];
    EntryQuery {
        kinds: query.kind.into_iter().collect(),
        states: BTreeSet::from(states),
        tags: query.tag.iter().cloned().collect(),
        text: query.text.clone(),
        findings: query.scope.session.clone().map_or(FindingsOf::All, FindingsOf::Session),
        order: EntryOrder::Importance,
        ..EntryQuery::default()
    }
}
