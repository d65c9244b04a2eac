//! One signal to many readers of the board's stream.

use crate::{
    child::{Child, ChildAddress, Role, report, wait_for_parent},
    load::{Connection, Requests, quantile},
    nodes,
};
use agent_node::node;
use anyhow::{Context as _, ensure};
use patterns::contract_net::Auction;
use protocol::routes;
use serde_json::json;
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

const KIND: &str = "bench.tick";
/// The time limit for a signal to reach all readers.
const DEADLINE: Duration = Duration::from_secs(10);

/// Times from the publication of a signal to its arrival at a reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FanOutTimes {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// The server's memory for one idle reader, bytes.
    pub(crate) bytes_per_reader: u64,
}

/// Publishes `signals` signals, one after the other, to so many readers.
pub(crate) fn measure(readers: usize, signals: usize) -> anyhow::Result<FanOutTimes> {
    let child = Child::start(&Role::Board)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tokio::task::LocalSet::new().run_until(deliver(&child, readers, signals)))
}

async fn deliver(child: &Child, readers: usize, signals: usize) -> anyhow::Result<FanOutTimes> {
    let (heard, mut arrivals) = mpsc::channel(readers.max(1) * 2);
    let mut publisher = Connection::open(child.address).await?;
    // The first readers make the server allocate what all readers share; they are left out of the memory per reader.
    for _ in 0..8 {
        follow(child.address, heard.clone()).await?;
    }
    publish(&mut publisher, 0).await?;
    wait_for_arrivals(&mut arrivals, 8, 0).await?;
    let before = child.resident()?;
    for _ in 8..readers {
        follow(child.address, heard.clone()).await?;
    }
    let after = child.resident()?;
    let mut took = Vec::with_capacity(readers * signals);
    for number in 1..=signals {
        let sent = Instant::now();
        publish(&mut publisher, number).await?;
        took.extend(wait_for_arrivals(&mut arrivals, readers, number).await?.into_iter().map(|at| at - sent));
    }
    took.sort_unstable();
    let more = u64::try_from(readers.saturating_sub(8).max(1))?;
    Ok(FanOutTimes {
        p50: quantile(&took, 0.5),
        p99: quantile(&took, 0.99),
        bytes_per_reader: after.saturating_sub(before) / more,
    })
}

async fn publish(connection: &mut Connection, number: usize) -> anyhow::Result<()> {
    let body = json!({ "type": KIND, "subject": subject(number) });
    let mut requests = Requests::default();
    requests.post(routes::SIGNALS, &[], &body.to_string());
    let (status, _) = connection.send(requests.get(0).unwrap_or_default()).await?;
    ensure!(status == 201, "the board answered {status}: {}", connection.text());
    Ok(())
}

fn subject(number: usize) -> String {
    format!("tick-{number:06}")
}

async fn wait_for_arrivals(
    arrivals: &mut mpsc::Receiver<(usize, Instant)>,
    readers: usize,
    number: usize,
) -> anyhow::Result<Vec<Instant>> {
    let mut at = Vec::with_capacity(readers);
    while at.len() < readers {
        let (heard, when) = tokio::time::timeout(DEADLINE, arrivals.recv())
            .await
            .with_context(|| format!("{} of {readers} readers had signal {number} in time", at.len()))?
            .context("no reader is left")?;
        if heard == number {
            at.push(when);
        }
    }
    Ok(at)
}

/// Opens a stream and reads it; returns once it is open.
async fn follow(address: SocketAddr, heard: mpsc::Sender<(usize, Instant)>) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let path = format!("{}/stream?type={KIND}", routes::SIGNALS);
    let head = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut buffer = Vec::with_capacity(1024);
    while !buffer.windows(6).any(|part| part == b": open") {
        ensure!(
            stream.read_buf(&mut buffer).await? > 0,
            "the stream ended: {}",
            String::from_utf8_lossy(&buffer)
        );
    }
    tokio::task::spawn_local(async move {
        loop {
            buffer.clear();
            match stream.read_buf(&mut buffer).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
            let when = Instant::now();
            let at = buffer.windows(5).position(|part| part == b"tick-");
            let number =
                at.and_then(|at| std::str::from_utf8(buffer.get(at + 5..at + 11)?).ok()?.parse().ok());
            if let Some(number) = number
                && heard.send((number, when)).await.is_err()
            {
                return;
            }
        }
    });
    Ok(())
}

/// Serves until the parent ends.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let setup = nodes::setup(Vec::new(), nodes::store(None)?, Auction::default())?;
    let running = node::start(setup).await?;
    report(&ChildAddress { address: running.services.context("the board has no address")? })?;
    while wait_for_parent().await {}
    running.stop(Duration::ZERO).await;
    Ok(())
}
