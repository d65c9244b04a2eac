//! What an agent's conversations and turns ask of spaces.

use super::{Blackboard, BoardBackend, spaces::reader};
use crate::{
    board::{BriefView, CurationOutcome, EndedRun},
    spaces::{EntryOrder, EntryQuery, FindingsOf},
};
use protocol::{
    ids::{AgentId, SpaceId},
    principal::Principal,
    problem::Problem,
    spaces::{
        Entry, EntryKind, EntryState, Grade,
        brief::{Brief, found_text},
        request::{
            EntrySearch, MAX_FOUND, MAX_FOUND_BYTES, SessionScope, SpaceAction, SpaceAnswer, SpaceRequest,
        },
    },
};
use serde_json::json;
use std::{cmp::Reverse, collections::BTreeSet};

impl Blackboard {
    /// The brief of the agent `me`, as itself.
    pub async fn brief(&self, me: &AgentId, space: &SpaceId, scope: &SessionScope) -> Result<Brief, Problem> {
        let by = Principal::Agent(me.clone());
        let view: BriefView = match &self.0 {
            BoardBackend::Local(board) => {
                board.spaces().brief(&reader(&by), space, me, scope.clone()).await?
            }
            BoardBackend::Remote(remote) => {
                let named = [("session", &scope.session), ("sealed", &scope.sealed)];
                let named =
                    named.into_iter().filter_map(|(name, id)| Some(format!("{name}={}", id.as_ref()?)));
                let path = format!("/brief?{}", named.collect::<Vec<_>>().join("&"));
                remote.get_space_json(&by, space, &path).await?
            }
        };
        Ok(view.brief)
    }

    /// Answers a request of a conversation of `by`.
    pub async fn ask_space(&self, by: &Principal, request: &SpaceRequest) -> Result<SpaceAnswer, Problem> {
        let SpaceRequest { space, action } = request;
        match action {
            SpaceAction::Post { entry } => {
                let posted = self.post_entry(by, space, entry).await?;
                Ok(SpaceAnswer::Posted { id: posted.id, version: posted.version })
            }
            SpaceAction::Find(query) => {
                let found = self.search(by, space, query).await?;
                let (text, count) = found_text(&found, MAX_FOUND_BYTES);
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
            SpaceAction::AwaitTask { task, after } => self.task_end(by, task, after.clone()).await,
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
        space: &SpaceId,
        query: &EntrySearch,
    ) -> Result<Vec<Entry>, Problem> {
        let wanted = selection(query);
        let mut sealed = match &query.scope.sealed {
            Some(session) => {
                let own = EntryQuery { sealed: Some(session.clone()), ..wanted.clone() };
                self.entries(by, space, own, MAX_FOUND).await?.entries
            }
            None => Vec::new(),
        };
        let found = self.search_open(by, space, query, wanted).await?;
        sealed.extend(found);
        sealed.truncate(MAX_FOUND);
        Ok(sealed)
    }

    async fn search_open(
        &self,
        by: &Principal,
        space: &SpaceId,
        query: &EntrySearch,
        wanted: EntryQuery,
    ) -> Result<Vec<Entry>, Problem> {
        let Some(of_others) = &query.of_others else {
            return Ok(self.entries(by, space, wanted, MAX_FOUND).await?.entries);
        };
        let own = EntryQuery { author: Some(by.clone()), ..wanted.clone() };
        let mut found = self.entries(by, space, own, MAX_FOUND).await?.entries;
        let is_wanted = |kind: &EntryKind| query.kind.is_none_or(|wanted| wanted == *kind);
        let kinds: BTreeSet<EntryKind> = of_others.iter().copied().filter(is_wanted).collect();
        // A query without kinds is for all.
        if !kinds.is_empty() {
            let page = self.entries(by, space, EntryQuery { kinds, ..wanted }, MAX_FOUND).await?;
            found.extend(page.entries);
        }
        found.sort_by_key(|entry| {
            Reverse((entry.importance.unwrap_or(Grade::Medium), entry.at, entry.id.clone()))
        });
        found.dedup_by(|one, other| one.id == other.id);
        found.truncate(MAX_FOUND);
        Ok(found)
    }
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
