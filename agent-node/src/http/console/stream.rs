//! Tells a page what has changed, so that it asks again for what it shows. A lost event costs one reload.

use super::scope::ConsoleScope;
use crate::http::{events::HEARTBEAT, node_state::NodeState};
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use bytes::Bytes;
use console::location::{ConsoleLocation, ViewName};
use engine::records::keys;
use futures_util::{StreamExt as _, future::select_all, stream};
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
};
use serde_json::json;
use std::{collections::BTreeSet, convert::Infallible, time::Duration};
use store::{Error, Filter, Key, StoreWatch};
use tokio::time::Instant;
use transport::refusal::Refusal;

/// How long changes are joined to one event.
const JOINED: Duration = Duration::from_millis(500);
/// How often agents are looked at.
const AGENTS: Duration = Duration::from_secs(3);

/// Streams the changes that concern the page that the query names.
pub(super) async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    let scope = ConsoleScope::of(&request, &node, &by)?;
    let at = ConsoleLocation::parse(request.query_string()).map_err(|why| {
        Problem::new(Reason::InvalidField, format!("the address is none of the console: {why}"))
    })?;
    let changes = PageChanges::watch(scope, node.into_inner(), &at)?;
    let body = stream::unfold(changes, |mut changes| async {
        let bytes = changes.next().await?;
        Some((Ok::<_, Infallible>(bytes), changes))
    });
    Ok(HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(body.boxed_local()))
}

/// What a change concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ChangeKind {
    Tasks,
    /// The task of the page.
    Task,
    Agents,
}

impl ChangeKind {
    fn word(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Task => "task",
            Self::Agents => "agents",
        }
    }
}

/// The changes of what one page shows.
struct PageChanges {
    scope: ConsoleScope,
    node: std::sync::Arc<NodeState>,
    watches: Vec<(ChangeKind, StoreWatch)>,
    /// What the agents were when they were looked at last.
    agents: Vec<(String, u32)>,
    watches_agents: bool,
    is_first: bool,
}

impl PageChanges {
    fn watch(
        scope: ConsoleScope,
        node: std::sync::Arc<NodeState>,
        at: &ConsoleLocation,
    ) -> Result<Self, Problem> {
        let mut watches = Vec::new();
        for local in &scope.agents {
            let all = Filter::Below(Key::new(&[local.id.as_str(), "task"]));
            let watch = local.store.watch(all, local.store.head()).map_err(Problem::from)?;
            watches.push((ChangeKind::Tasks, watch));
        }
        if at.view == ViewName::Task {
            let (local, row) = scope.task(&at.agent, &at.id)?;
            let journal = Filter::Exactly(keys::journal(&local.id, &row.task.conversation));
            let chunks = Filter::Below(keys::chunks(&local.id, &row.task.spec.task_id, &row.task.owner));
            for filter in [journal, chunks] {
                let watch = local.store.watch(filter, local.store.head()).map_err(Problem::from)?;
                watches.push((ChangeKind::Task, watch));
            }
        }
        let watches_agents = at.view == ViewName::Agents;
        Ok(Self { scope, node, watches, agents: Vec::new(), watches_agents, is_first: true })
    }

    /// The next event, or a heartbeat; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_first {
            self.is_first = false;
            self.agents = self.look_at_agents();
            return Some(self.event(&BTreeSet::new()).await);
        }
        let first = match tokio::time::timeout(HEARTBEAT, self.change()).await {
            Err(_) => return Some(Bytes::from_static(b": alive\n\n")),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the stream of a page ends early");
                return None;
            }
            Ok(Ok(kind)) => kind,
        };
        let mut kinds = BTreeSet::from([first]);
        let end = Instant::now() + JOINED;
        while let Ok(Ok(kind)) = tokio::time::timeout_at(end, self.change()).await {
            kinds.insert(kind);
        }
        Some(self.event(&kinds).await)
    }

    /// Waits for a change. Cancellation safe.
    async fn change(&mut self) -> Result<ChangeKind, Error> {
        loop {
            let watched = self.watches.iter_mut().map(|(kind, watch)| {
                let kind = *kind;
                Box::pin(async move { watch.next().await.map(|_| kind) })
            });
            let watched: Vec<_> = watched.collect();
            let stored = async {
                match watched.is_empty() {
                    true => std::future::pending().await,
                    false => select_all(watched).await.0,
                }
            };
            let seconds = if self.watches_agents { AGENTS } else { HEARTBEAT * 2 };
            tokio::select! {
                changed = stored => return changed,
                () = tokio::time::sleep(seconds) => {}
            }
            let agents = self.look_at_agents();
            if agents != self.agents {
                self.agents = agents;
                return Ok(ChangeKind::Agents);
            }
        }
    }

    fn look_at_agents(&self) -> Vec<(String, u32)> {
        let cards = self.node.peers.cards();
        let agents = cards.iter().map(|card| {
            let place = format!("{} {:?}", card.agent_id, self.node.peers.locate(&card.agent_id));
            (place, self.node.peers.running(&card.agent_id))
        });
        agents.collect()
    }

    async fn event(&self, kinds: &BTreeSet<ChangeKind>) -> Bytes {
        let of: Vec<_> = kinds.iter().map(|kind| kind.word()).collect();
        let waiting = self.scope.read(ConsoleScope::questions).await.map(|questions| questions.len()).ok();
        Bytes::from(format!("data: {}\n\n", json!({ "of": of, "waiting": waiting })))
    }
}
