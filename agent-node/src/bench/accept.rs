//! Accepting peer messages: `task-update`s for open conversations, beside a bare server that is sent the same bytes.

use super::{
    Options,
    child::{Child, Role},
    load::{self, Connection, Round},
    reference::Bare,
    report::{Line, Wanted},
    scratch::Scratch,
    subject::{ASKER, HOLDER, Held},
    traffic::{self, Open, Speaker},
};
use anyhow::{Context as _, ensure};
use protocol::{
    ids::AgentId,
    signature::{Secret, Signer},
};
use serde_json::Value;
use std::path::PathBuf;

/// Where the mesh, or the reference's row, is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Memory,
    Embedded,
}

/// One measure: who speaks, into which store, to how many open conversations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) kept: Kept,
    pub(super) signed: bool,
    pub(super) conversations: usize,
}

impl Case {
    fn name(self) -> String {
        let store = if self.kept == Kept::Memory { "memory" } else { "embedded" };
        let proof = if self.signed { "signed" } else { "unsigned" };
        let to = match self.conversations {
            1 => "one conversation".to_owned(),
            many => format!("{many} conversations"),
        };
        format!("accept, {store}, {proof}, {to}")
    }

    /// Messages to many conversations at once touch many pages of a file; the reference's rows touch one.
    fn bound(self) -> Option<Wanted> {
        match (self.kept, self.conversations) {
            (Kept::Memory, _) => Some(Wanted::AtLeast(0.5)),
            (Kept::Embedded, 1) => Some(Wanted::AtLeast(0.7)),
            (Kept::Embedded, _) => None,
        }
    }
}

/// Runs `case` in alternating rounds; the line holds the median of the rounds' ratios.
pub(super) fn measure(options: &Options, secret: &[u8], case: Case) -> anyhow::Result<Line> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let scratch = Scratch::new(&options.dir)?;
    let place = |name: &str| (case.kept == Kept::Embedded).then(|| scratch.path().join(name));
    let node = node(options, secret, place("mesh"))?;
    let holder = AgentId::parse(HOLDER)?;
    let speaker = match case.signed {
        true => Speaker::Agent(Signer::new(Secret::new(secret)?, AgentId::parse(ASKER)?)),
        false => Speaker::User,
    };
    let (open, answer) = runtime.block_on(open(&node, &speaker, &holder, case.conversations))?;
    let bare = Child::start(&options.program, &Role::Reference(Bare { answer, rows: place("bare") }))?;

    let mut sent = 1;
    let mut round = |child: &Child, count: usize| -> anyhow::Result<Round> {
        let requests = traffic::updates(&speaker, &holder, &open, sent, count);
        sent += count;
        load::round(child.address, options.connections, &requests)
    };
    for child in [&bare, &node] {
        round(child, (options.requests / 4).max(1))?;
    }
    let (bare_used, mesh_used) = (bare.used(), node.used());
    let mut pairs = Vec::new();
    for _ in 0..options.rounds.max(1) {
        pairs.push((round(&bare, options.requests)?, round(&node, options.requests)?));
    }
    let each = |used: f64| used / (options.requests * pairs.len()).max(1) as f64 * 1e6;
    let (bare_used, mesh_used) = (each(bare.used() - bare_used), each(node.used() - mesh_used));
    pairs.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let middle = pairs.get(pairs.len() / 2).context("no round was run")?;
    let (bare, mesh) = middle;
    let ratios: Vec<_> = pairs.iter().map(|pair| format!("{:.2}", ratio(pair))).collect();
    let detail = format!(
        "{:.0}/s of {:.0}/s bare; p50 {:.2} ms, p99 {:.2} ms (bare {:.2}, {:.2}); processor {mesh_used:.0} µs each (bare {bare_used:.0}); rounds {}",
        mesh.rate,
        bare.rate,
        mesh.p50.as_secs_f64() * 1e3,
        mesh.p99.as_secs_f64() * 1e3,
        bare.p50.as_secs_f64() * 1e3,
        bare.p99.as_secs_f64() * 1e3,
        ratios.join(" ")
    );
    Ok(Line { what: case.name(), measured: ratio(middle), unit: "×", wanted: case.bound(), detail })
}

fn ratio((bare, mesh): &(Round, Round)) -> f64 {
    mesh.rate / bare.rate
}

fn node(options: &Options, secret: &[u8], store: Option<PathBuf>) -> anyhow::Result<Child> {
    Child::start(&options.program, &Role::Node(Held { store, secret: secret.to_vec() }))
}

/// Opens tasks; returns their conversations, and what an update is answered with.
async fn open(
    node: &Child,
    speaker: &Speaker,
    holder: &AgentId,
    conversations: usize,
) -> anyhow::Result<(Vec<Open>, String)> {
    let mut connection = Connection::open(node.address).await?;
    let mut open = Vec::new();
    for number in 0..conversations.max(1) {
        let task = format!("held-{number}");
        let requests = traffic::request(speaker, holder, &task);
        let (status, body) = connection.send(requests.get(0).unwrap_or_default()).await?;
        let answer: Value = serde_json::from_slice(body)?;
        ensure!(status == 202, "opening a task was answered {status}: {answer}");
        let conversation = answer["conversationId"].as_str().context("an answer without a conversation")?;
        open.push(Open { task, conversation: conversation.to_owned() });
    }
    let first = traffic::updates(speaker, holder, &open, 0, 1);
    let (status, _) = connection.send(first.get(0).unwrap_or_default()).await?;
    ensure!(status == 202, "an update was answered {status}: {}", connection.text());
    Ok((open, connection.text()))
}
