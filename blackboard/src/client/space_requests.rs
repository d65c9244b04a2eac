//! What an agent's conversations and turns ask of spaces.

use super::{Blackboard, BoardBackend, spaces::reader};
use crate::{
    board::{BriefView, CurationOutcome},
    spaces::{EntryOrder, EntryQuery},
};
use protocol::{
    ids::{AgentId, SpaceId},
    patterns::space_request::{self, MAX_FOUND, MAX_FOUND_BYTES, SpaceAction, SpaceAnswer, SpaceRequest},
    principal::Principal,
    problem::Problem,
    spaces::{
        EntryState,
        brief::{Brief, found_text},
    },
};
use serde_json::json;
use std::collections::BTreeSet;

impl Blackboard {
    /// The brief of the agent `me`, as itself.
    pub async fn brief(&self, me: &AgentId, space: &SpaceId) -> Result<Brief, Problem> {
        let by = Principal::Agent(me.clone());
        let view: BriefView = match &self.0 {
            BoardBackend::Local(board) => board.spaces().brief(&reader(&by), space, me).await?,
            BoardBackend::Remote(remote) => remote.get_space_json(&by, space, "/brief").await?,
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
                let found = self.entries(by, space, selection(query), MAX_FOUND).await?;
                let (text, count) = found_text(&found.entries, MAX_FOUND_BYTES);
                Ok(SpaceAnswer::Found { text, count })
            }
            SpaceAction::Curate { task } => {
                let CurationOutcome { merged, waiting } = match &self.0 {
                    BoardBackend::Local(board) => board.spaces().curate(&reader(by), space, task).await?,
                    BoardBackend::Remote(remote) => {
                        let body = json!({ "task": task }).to_string().into_bytes();
                        remote.post_space_json(by, space, "/curate", body).await?
                    }
                };
                Ok(SpaceAnswer::Curated { merged, waiting })
            }
        }
    }
}

/// What a search selects: what is in force or waits, not what was rejected, replaced or merged.
fn selection(query: &space_request::EntrySearch) -> EntryQuery {
    let states =
        [EntryState::Sealed, EntryState::Open, EntryState::Pending, EntryState::Active, EntryState::Posted];
    EntryQuery {
        kinds: query.kind.into_iter().collect(),
        states: BTreeSet::from(states),
        tags: query.tag.iter().cloned().collect(),
        text: query.text.clone(),
        order: EntryOrder::Importance,
        ..EntryQuery::default()
    }
}
