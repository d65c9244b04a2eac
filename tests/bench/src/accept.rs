//! Accepting peer messages: `task-update`s for open conversations.

use crate::{
    Figure, Options,
    child::{Child, Role},
    load::{self, Connection, Round},
    millis,
    nodes::{HOLDER, SECRET, SENDER, TaskNode},
    traffic::{self, Conversation, Sender},
};
use agent_node::signing_keys::SigningKeys;
use anyhow::{Context as _, ensure};
use protocol::{ids::AgentId, signature::Secret};
use serde_json::Value;
use transport::http_client::Signer;
use transport::key_ring::KeyRing;

/// The store of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Memory,
    Embedded,
}

/// The sender, the store and the number of open conversations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptCase {
    pub(crate) store: StoreKind,
    pub(crate) signed: bool,
    pub(crate) conversations: usize,
}

impl AcceptCase {
    fn name(self) -> String {
        let store = if self.store == StoreKind::Memory { "memory" } else { "embedded" };
        let proof = if self.signed { "signed" } else { "unsigned" };
        format!("accept, {store}, {proof}, {} conversations", self.conversations)
    }
}

/// Runs `case`; the figure is the rate of the median round.
pub(crate) fn measure(options: &Options, case: AcceptCase) -> anyhow::Result<Figure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let dir = tempfile::tempdir_in(&options.dir)?;
    let store = (case.store == StoreKind::Embedded).then(|| dir.path().join("store"));
    let key_files = dir.path().join("keys");
    let node = Child::start(&Role::TaskNode(TaskNode { store, keys: key_files.clone() }))?;
    let recipient = AgentId::parse(HOLDER)?;
    let sender = match case.signed {
        true => {
            // The keys that the node has made.
            let (files, keys) = (SigningKeys::at(Some(key_files)), KeyRing::new(Secret::new(&SECRET)?, None));
            let me = AgentId::parse(SENDER)?;
            keys.set_own(files.identity(&me)?);
            keys.set_pinned(files.identity(&recipient)?.public().clone(), 1);
            Sender::Agent(Signer { keys, me })
        }
        false => Sender::LocalUser,
    };
    let open = runtime.block_on(open(&node, &sender, &recipient, case.conversations))?;
    let (requests, mut sent) = (options.requests as usize, 0);
    let mut round = |count: usize| -> anyhow::Result<Round> {
        let updates = traffic::updates(&sender, &recipient, &open, sent, count);
        sent += count;
        load::round(node.address, options.connections.into(), &updates)
    };
    round((requests / 4).max(1))?;
    let before = node.processor_seconds();
    let mut rounds = (0..options.rounds).map(|_| round(requests)).collect::<Result<Vec<_>, _>>()?;
    let used = node.processor_seconds() - before;
    rounds.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let each = used / (requests * rounds.len()) as f64 * 1e6;
    let median = rounds.get(rounds.len() / 2).context("no round was run")?;
    let (p50, p99) = (millis(median.p50), millis(median.p99));
    let detail = format!("p50 {p50:.2} ms, p99 {p99:.2} ms; processor {each:.0} µs each");
    Ok(Figure { name: case.name(), value: median.rate, unit: "messages/s", detail })
}

/// Opens tasks and returns their conversations.
async fn open(
    node: &Child,
    sender: &Sender,
    recipient: &AgentId,
    conversations: usize,
) -> anyhow::Result<Vec<Conversation>> {
    let mut connection = Connection::open(node.address).await?;
    let mut open = Vec::new();
    for number in 0..conversations.max(1) {
        let task = format!("held-{number}");
        let requests = traffic::request(sender, recipient, &task);
        let (status, body) = connection.send(requests.get(0).unwrap_or_default()).await?;
        let answer: Value = serde_json::from_slice(body)?;
        ensure!(status == 202, "opening a task was answered {status}: {answer}");
        let id = answer["conversationId"].as_str().context("an answer without a conversation")?.to_owned();
        open.push(Conversation { task, id });
    }
    Ok(open)
}
