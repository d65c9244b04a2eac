//! Spaces and entries by the handle of the blackboard: of this process, or over HTTP.

use super::{Blackboard, BoardBackend, remote::RemoteBoard};
use crate::board::BriefView;
use crate::spaces::{EntryChange, EntryOutcome, EntryPage, EntryQuery, FindingsOf};
use eventsource_stream::Eventsource as _;
use futures_util::{Stream, StreamExt as _, stream};
use protocol::{
    ids::{AgentId, EntryId, SpaceId, TaskId},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    routes,
    spaces::{Entry, EntryDraft, Reader, Space, request::SessionScope},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use std::{future::ready, pin::Pin};
use transport::http_client::ClientRequest;

/// A stream that has an item for each change.
pub type BoardChanges = Pin<Box<dyn Stream<Item = ()> + Send>>;

/// The answer of `GET /board/spaces`.
#[derive(Deserialize)]
struct SpaceListAnswer {
    spaces: Vec<Space>,
}

/// An agent or a service of this process; its calls to another process are signed.
pub(super) fn reader(by: &Principal) -> Reader {
    Reader { principal: by.clone(), proof: SenderProof::Credential }
}

impl Blackboard {
    /// The space `id`; `space_not_found` if `by` is no member.
    pub async fn space(&self, by: &Principal, id: &SpaceId) -> Result<Space, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.spaces().space(&reader(by), id).await,
            BoardBackend::Remote(remote) => remote.get_space_json(by, id, "").await,
        }
    }

    /// The spaces that `by` is a member of.
    pub async fn spaces(&self, by: &Principal) -> Result<Vec<Space>, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.spaces().spaces(&reader(by)).await,
            BoardBackend::Remote(remote) => {
                let base = remote.base.url().await?;
                let url = format!("{base}{}", routes::SPACES);
                let list: SpaceListAnswer =
                    remote.json(by, &base, ClientRequest::get(&url, super::remote::RECIPIENT)).await?;
                Ok(list.spaces)
            }
        }
    }

    /// The brief of `agent` as `by` may see it, with the findings of `session`.
    pub async fn brief_of(
        &self,
        by: &Principal,
        space: &SpaceId,
        agent: &AgentId,
        session: Option<TaskId>,
    ) -> Result<BriefView, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => {
                let scope = SessionScope { session, ..SessionScope::default() };
                board.spaces().brief(&reader(by), space, agent, (scope, None)).await
            }
            BoardBackend::Remote(remote) => {
                let session = session.map(|session| format!("&session={session}")).unwrap_or_default();
                remote.get_space_json(by, space, &format!("/brief?for={agent}{session}")).await
            }
        }
    }

    /// Wakes with each change of entries of `space` that `by` may see, until the stream is lost.
    pub async fn entry_changes(&self, by: &Principal, space: &SpaceId) -> Result<BoardChanges, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => {
                let follower = board.spaces().follow(&reader(by), space, EntryQuery::default(), None).await?;
                Ok(Box::pin(stream::unfold(follower, |mut follower| async {
                    follower.next().await.ok().map(|_| ((), follower))
                })))
            }
            BoardBackend::Remote(remote) => remote.entry_changes(by, space).await,
        }
    }

    /// Posts an entry. With an id of its own in the draft, a repeat returns what the first left.
    pub async fn post_entry(
        &self,
        by: &Principal,
        space: &SpaceId,
        draft: &EntryDraft,
    ) -> Result<EntryOutcome, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.spaces().post(&reader(by), space, draft).await,
            BoardBackend::Remote(remote) => {
                remote.post_space_json(by, space, "/entries", crate::signals::json(draft)?).await
            }
        }
    }

    /// The entry, if `by` may see it.
    pub async fn entry(&self, by: &Principal, space: &SpaceId, id: &EntryId) -> Result<Entry, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.spaces().entry(&reader(by), space, id).await,
            BoardBackend::Remote(remote) => remote.get_space_json(by, space, &format!("/entries/{id}")).await,
        }
    }

    /// A page of at most `limit` entries that `by` may see.
    pub async fn entries(
        &self,
        by: &Principal,
        space: &SpaceId,
        query: EntryQuery,
        limit: usize,
    ) -> Result<EntryPage, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.spaces().entries(&reader(by), space, query, limit).await,
            BoardBackend::Remote(remote) => {
                let path = format!("/entries?{}&limit={limit}", query.to_query_string()?);
                remote.get_space_json(by, space, &path).await
            }
        }
    }

    /// Changes the state of an entry.
    pub async fn change_entry(
        &self,
        by: &Principal,
        space: &SpaceId,
        id: &EntryId,
        change: EntryChange,
    ) -> Result<EntryOutcome, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.spaces().change(&reader(by), space, id, &change).await,
            BoardBackend::Remote(remote) => {
                let path = format!("/entries/{id}/{}", change.name());
                let body = match change {
                    EntryChange::Merge { version, reason } => json!({ "version": version, "reason": reason }),
                    EntryChange::Archive { reason }
                    | EntryChange::Withdraw { reason }
                    | EntryChange::Accept { reason } => json!({ "reason": reason }),
                    EntryChange::Reject { reason } => json!({ "reason": reason }),
                    EntryChange::Supersede { by, reason } => json!({ "by": by, "reason": reason }),
                };
                remote.post_space_json(by, space, &path, body.to_string().into_bytes()).await
            }
        }
    }
}

impl EntryQuery {
    /// The query string of `GET …/entries`.
    fn to_query_string(&self) -> Result<String, Problem> {
        let order = match self.order {
            crate::spaces::EntryOrder::Newest => "newest",
            crate::spaces::EntryOrder::Oldest => "oldest",
            crate::spaces::EntryOrder::Importance => "importance",
        };
        let mut pairs = vec![("order", order.to_owned())];
        pairs.extend(self.kinds.iter().map(|kind| ("kind", kind.to_string())));
        pairs.extend(self.states.iter().map(|state| ("status", state.to_string())));
        pairs.extend(self.types.iter().map(|kind| ("type", kind.to_string())));
        pairs.extend(self.tags.iter().map(|tag| ("tag", tag.clone())));
        pairs.extend(self.author.iter().map(|author| ("author", author.to_string())));
        pairs.extend(self.text.iter().map(|text| ("text", text.clone())));
        if let FindingsOf::Session(session) = &self.findings {
            pairs.push(("session", session.to_string()));
        }
        pairs.extend(self.sealed.iter().map(|session| ("sealed", session.to_string())));
        pairs.extend(self.after.iter().map(|after| ("after", after.clone())));
        let url = reqwest::Url::parse_with_params("http://board/", pairs)
            .map_err(|error| Problem::new(Reason::Internal, error.to_string()))?;
        Ok(url.query().unwrap_or_default().to_owned())
    }
}

impl RemoteBoard {
    pub(super) async fn get_space_json<T: DeserializeOwned>(
        &self,
        by: &Principal,
        space: &SpaceId,
        path: &str,
    ) -> Result<T, Problem> {
        let base = self.base.url().await?;
        let url = format!("{base}{}/{space}{path}", routes::SPACES);
        self.json(by, &base, ClientRequest::get(&url, super::remote::RECIPIENT)).await
    }

    async fn entry_changes(&self, by: &Principal, space: &SpaceId) -> Result<BoardChanges, Problem> {
        let base = self.base.url().await?;
        let url = format!("{base}{}/{space}/entries/stream", routes::SPACES);
        let events = self.events(by, &base, ClientRequest::get(&url, super::remote::RECIPIENT)).await?;
        let changes = events.eventsource().take_while(|event| ready(event.is_ok()));
        Ok(Box::pin(changes.map(drop)))
    }

    pub(super) async fn post_space_json<T: DeserializeOwned>(
        &self,
        by: &Principal,
        space: &SpaceId,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, Problem> {
        let base = self.base.url().await?;
        let url = format!("{base}{}/{space}{path}", routes::SPACES);
        self.json(by, &base, ClientRequest::post(&url, super::remote::RECIPIENT, body.into())).await
    }
}
