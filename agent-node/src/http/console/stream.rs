//! Tells a page what has changed, so that it asks again for what it shows. A lost event costs one reload.

use super::{
    agent_views, elsewhere::Elsewhere, inbox_view, scope::ConsoleScope, space_view, task_list, task_verb,
    viewer_board::ViewerBoard,
};
use crate::http::{
    edge::console_cookie,
    events::HEARTBEAT,
    headers::CONSOLE_KEY,
    listener::ListenerAddress,
    node_state::{HostedAgent, NodeState},
};
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use blackboard::client::BoardChanges;
use bytes::Bytes;
use console::{
    location::{ConsoleLocation, ViewName},
    views::bulk::BulkRun,
};
use engine::{
    content,
    records::{TaskRow, keys},
};
use futures_util::{StreamExt as _, future::select_all, stream};
use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    signal::Selector,
};
use registry::entry::SentCounts;
use serde_json::json;
use std::{collections::BTreeSet, convert::Infallible, future::ready, pin::Pin, sync::Arc, time::Duration};
use store::{Filter, Key, Record, StoreWatch};
use tokio::{sync::watch, time::Instant};
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
    let closed = closed(&request, &node);
    let elsewhere = Elsewhere::of(&request, &node, &scope).await?;
    let changes = PageChanges::watch(scope, (node.into_inner(), elsewhere), &at).await?;
    let body = stream::unfold((changes, closed), |(mut changes, mut closed)| async {
        let bytes = tokio::select! {
            () = &mut closed => return None,
            bytes = changes.next() => bytes?,
        };
        Some((Ok::<_, Infallible>(bytes), (changes, closed)))
    });
    Ok(HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(body.boxed_local()))
}

/// Waits until the session of the page has ended; for ever without one.
fn closed(request: &HttpRequest, node: &NodeState) -> Pin<Box<dyn Future<Output = ()>>> {
    let port = request.conn_data::<ListenerAddress>().map(|ListenerAddress(address)| address.port());
    let key = request.headers().get(&CONSOLE_KEY).and_then(|key| key.to_str().ok()).map(str::to_owned);
    let cookie = port.and_then(|port| console_cookie(request.headers(), port)).map(str::to_owned);
    let sessions = node.console.clone();
    match (port, key, cookie) {
        (Some(port), Some(key), Some(cookie)) => {
            Box::pin(async move { sessions.closed(&cookie, &key, port).await })
        }
        _ => Box::pin(std::future::pending()),
    }
}

/// What a change concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ChangeKind {
    Tasks,
    /// The task of the page.
    Task,
    /// What tasks of the viewer produce.
    Pieces,
    Agents,
    Signals,
    /// The entries of the space of the page.
    Entries,
    /// The bulk action of the page.
    Bulk,
}

impl ChangeKind {
    fn word(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Task | Self::Pieces => "task",
            Self::Agents => "agents",
            Self::Signals => "signals",
            Self::Entries => "entries",
            Self::Bulk => "bulk",
        }
    }
}

/// Records of an agent that are watched.
struct PageWatch {
    kind: ChangeKind,
    watch: StoreWatch,
    local: HostedAgent,
}

impl PageWatch {
    fn new(kind: ChangeKind, local: &HostedAgent, of: Filter) -> Result<Self, Problem> {
        let watch = local.store.watch(of, local.store.head()).map_err(Problem::from)?;
        Ok(Self { kind, watch, local: local.clone() })
    }

    /// Waits for a change of what the viewer may see. Cancellation safe: a lost one costs one reload.
    async fn next(&mut self, scope: &ConsoleScope) -> Result<ChangeKind, Problem> {
        loop {
            let records = self.watch.next().await.map_err(Problem::from)?;
            let is_seen = |record: &Record| match self.kind {
                ChangeKind::Tasks => self.is_seen(scope, record),
                ChangeKind::Pieces => keys::owner_of_chunk(&record.key) == Some(scope.by.to_string()),
                _ => true,
            };
            if records.iter().any(is_seen) {
                return Ok(self.kind);
            }
        }
    }

    fn is_seen(&self, scope: &ConsoleScope, record: &Record) -> bool {
        let row: Result<TaskRow, _> =
            content::decode(&self.local.id, self.local.store.as_ref(), &record.value);
        row.is_ok_and(|row| task_list::is_shown(scope, &row.task))
    }
}

/// What of the board is followed.
struct BoardFeed(Option<(ChangeKind, BoardChanges)>);

impl BoardFeed {
    /// What of the board the page at `at` shows. What can't be followed is read when the page is loaded.
    async fn open(scope: &ConsoleScope, node: &NodeState, at: &ConsoleLocation) -> Self {
        let board = ViewerBoard::find(scope, node).filter(|_| at.before.is_empty());
        Self(match board {
            Some(board) => Self::changes(&board, at).await.unwrap_or_default(),
            None => None,
        })
    }

    async fn changes(
        board: &ViewerBoard,
        at: &ConsoleLocation,
    ) -> Result<Option<(ChangeKind, BoardChanges)>, Problem> {
        Ok(match at.view {
            ViewName::Board => {
                let signals = board.signals().subscribe(board.by(), Selector::default(), None).await?;
                let changes = signals.take_while(|signal| ready(signal.is_ok())).map(drop);
                Some((ChangeKind::Signals, Box::pin(changes)))
            }
            ViewName::Space | ViewName::Brief => {
                let space = space_view::space_id(&at.id)?;
                Some((ChangeKind::Entries, board.spaces()?.entry_changes(board.by(), &space).await?))
            }
            _ => None,
        })
    }

    /// Waits for a change; for ever once there are no more. Cancellation safe.
    async fn next(&mut self) -> ChangeKind {
        if let Some((kind, changes)) = &mut self.0
            && changes.next().await.is_some()
        {
            return *kind;
        }
        self.0 = None;
        std::future::pending().await
    }
}

/// What a page shows of which nothing here tells: the proposals that wait, of other processes the questions, and of lists of tasks the
/// newest.
async fn look_further(
    (scope, node): (&ConsoleScope, &NodeState),
    elsewhere: Option<&mut Elsewhere>,
    view: ViewName,
) -> Vec<String> {
    let proposals = space_view::proposals(scope, node).await;
    let mut there: Vec<_> =
        proposals.iter().map(|line| format!("{} {}", line.entry.id, line.entry.version)).collect();
    if let Some(elsewhere) = elsewhere {
        elsewhere.refresh().await;
        there.extend(elsewhere.questions().await.into_iter().map(|asked| asked.question.id));
        if view == ViewName::Tasks {
            there.extend(elsewhere.newest().await);
        }
    }
    there.sort();
    there
}

/// What the agents were when they were looked at.
#[derive(Default, PartialEq)]
struct LookedAtAgents {
    /// Where each is, and how many tasks it runs.
    load: Vec<(String, u32)>,
    /// What they have sent each other, if the page shows that.
    sent: Vec<(AgentId, SentCounts)>,
}

/// The changes of what one page shows.
struct PageChanges {
    scope: ConsoleScope,
    node: Arc<NodeState>,
    elsewhere: Option<Elsewhere>,
    view: ViewName,
    /// What nothing here tells of when it was looked at last, and when that was.
    there: Vec<String>,
    looked: Instant,
    watches: Vec<PageWatch>,
    board: BoardFeed,
    /// The bulk action of the page.
    run: Option<watch::Receiver<BulkRun>>,
    /// What the agents were when they were looked at last.
    agents: LookedAtAgents,
    watches_agents: bool,
    is_first: bool,
}

impl PageChanges {
    async fn watch(
        scope: ConsoleScope,
        (node, elsewhere): (Arc<NodeState>, Option<Elsewhere>),
        at: &ConsoleLocation,
    ) -> Result<Self, Problem> {
        let mut watches = Vec::new();
        for local in &scope.agents {
            let all = Filter::Below(Key::new(&[local.id.as_str(), "task"]));
            watches.push(PageWatch::new(ChangeKind::Tasks, local, all)?);
        }
        // The answer of a chat comes in pieces.
        if at.view == ViewName::Chat
            && let Ok(local) = scope.agent(&at.agent)
        {
            watches.push(PageWatch::new(
                ChangeKind::Pieces,
                local,
                Filter::Below(keys::chunks_of_all(&local.id)),
            )?);
        }
        // The page of a task that the viewer may not see says so; nothing of it changes.
        let of_task = [ViewName::Task, ViewName::Session].contains(&at.view);
        if let Some((local, row)) = of_task.then(|| scope.task(&at.agent, &at.id).ok()).flatten() {
            let journal = Filter::Exactly(keys::journal(&local.id, &row.task.conversation));
            let chunks = Filter::Below(keys::chunks(&local.id, &row.task.spec.task_id, &row.task.owner));
            for filter in [journal, chunks] {
                watches.push(PageWatch::new(ChangeKind::Task, local, filter)?);
            }
        }
        let watches_agents =
            [ViewName::Agents, ViewName::Agent, ViewName::Mesh, ViewName::Health].contains(&at.view);
        let board = BoardFeed::open(&scope, &node, at).await;
        let run = (at.view == ViewName::Bulk).then(|| task_verb::run(&scope, &node, at).ok()).flatten();
        Ok(Self {
            scope,
            node,
            elsewhere,
            view: at.view,
            there: Vec::new(),
            looked: Instant::now(),
            watches,
            board,
            run,
            agents: LookedAtAgents::default(),
            watches_agents,
            is_first: true,
        })
    }

    /// The next event, or a heartbeat; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_first {
            self.is_first = false;
            self.agents = self.look_at_agents().await;
            self.there = look_further((&self.scope, &self.node), self.elsewhere.as_mut(), self.view).await;
            return Some(self.event(&BTreeSet::new()).await);
        }
        let first = match tokio::time::timeout(HEARTBEAT, self.change()).await {
            Err(_) => return Some(Bytes::from_static(b": alive\n\n")),
            Ok(Err(problem)) => {
                tracing::warn!(%problem, "the stream of a page ends early");
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
    async fn change(&mut self) -> Result<ChangeKind, Problem> {
        loop {
            let scope = &self.scope;
            let watched: Vec<_> = self.watches.iter_mut().map(|watch| Box::pin(watch.next(scope))).collect();
            let stored = async {
                match watched.is_empty() {
                    true => std::future::pending().await,
                    false => select_all(watched).await.0,
                }
            };
            let ran = async {
                let has_changed = match &mut self.run {
                    Some(run) => run.changed().await.is_ok(),
                    None => false,
                };
                if !has_changed {
                    std::future::pending().await
                }
            };
            let has_proposals =
                self.scope.is_signed_in() && ViewerBoard::find(&self.scope, &self.node).is_some();
            let looks_often = self.watches_agents || self.elsewhere.is_some() || has_proposals;
            let pause = if looks_often { AGENTS } else { HEARTBEAT * 2 };
            // What changes here does not put it off.
            let next_look = self.looked + pause;
            let there = async {
                tokio::time::sleep_until(next_look).await;
                look_further((&self.scope, &self.node), self.elsewhere.as_mut(), self.view).await
            };
            let there = tokio::select! {
                changed = stored => return changed,
                kind = self.board.next() => return Ok(kind),
                () = ran => return Ok(ChangeKind::Bulk),
                there = there => there,
            };
            self.looked = Instant::now();
            let agents = self.look_at_agents().await;
            let (has_agents, has_tasks) = (agents != self.agents, there != self.there);
            (self.agents, self.there) = (agents, there);
            match (has_agents, has_tasks) {
                (_, true) => return Ok(ChangeKind::Tasks),
                (true, false) => return Ok(ChangeKind::Agents),
                (false, false) => {}
            }
        }
    }

    async fn look_at_agents(&self) -> LookedAtAgents {
        let cards = self.node.peers.cards();
        let load = cards.iter().map(|card| {
            let place = format!("{} {:?}", card.agent_id, self.node.peers.locate(&card.agent_id));
            (place, self.node.peers.running(&card.agent_id))
        });
        let sent = match self.view {
            ViewName::Mesh => agent_views::sent(&self.scope, &self.node).await.unwrap_or_default(),
            _ => Vec::new(),
        };
        LookedAtAgents { load: load.collect(), sent }
    }

    async fn event(&mut self, kinds: &BTreeSet<ChangeKind>) -> Bytes {
        let of: Vec<_> = kinds.iter().map(|kind| kind.word()).collect();
        let waiting = inbox_view::waiting(&self.scope, &self.node, self.elsewhere.as_mut()).await;
        let waiting = waiting.map(|items| items.len()).ok();
        Bytes::from(format!("data: {}\n\n", json!({ "of": of, "waiting": waiting })))
    }
}
