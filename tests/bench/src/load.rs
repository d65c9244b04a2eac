//! Load generator: two threads send prepared requests over persistent connections and read only as much of a response as
//! they need to find its end.

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use std::{
    net::SocketAddr,
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const THREADS: usize = 2;

/// Requests in the order they are sent.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Requests {
    /// Adds a POST of JSON.
    pub(crate) fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &str) {
        let head = format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n");
        self.bytes.extend_from_slice(head.as_bytes());
        for (name, value) in headers {
            self.bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        self.bytes.extend_from_slice(format!("content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        self.ends.push(self.bytes.len());
    }

    /// The request with this number, counted from 0.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.bytes.get(start..*self.ends.get(index)?)
    }
}

/// The result of one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    /// Requests answered a second.
    pub(crate) rate: f64,
    pub(crate) p50: Duration,
    /// The 99th percentile of the latency.
    pub(crate) p99: Duration,
}

/// Sends all of `requests` over so many connections, each sending its next once its last is answered. Anything but a
/// 2xx is an error.
pub(crate) fn round(address: SocketAddr, connections: usize, requests: &Requests) -> anyhow::Result<Round> {
    let count = requests.ends.len();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtimes = (0..THREADS).map(|_| runtime()).collect::<Result<Vec<_>, _>>()?;
    let (next, begin) = (AtomicUsize::new(0), Barrier::new(THREADS + 1));
    let (mut took, elapsed) = std::thread::scope(|scope| {
        let running: Vec<_> = runtimes
            .into_iter()
            .enumerate()
            .map(|(thread, runtime)| {
                let own = (connections + thread) / THREADS;
                let (next, begin) = (&next, &begin);
                scope.spawn(move || {
                    let opened = runtime.block_on(try_join_all((0..own).map(|_| Connection::open(address))));
                    begin.wait();
                    let sending = opened?.into_iter().map(|connection| send_some(connection, requests, next));
                    anyhow::Ok(runtime.block_on(try_join_all(sending))?.concat())
                })
            })
            .collect();
        begin.wait();
        let started = Instant::now();
        let took: anyhow::Result<Vec<_>> = running
            .into_iter()
            .map(|one| one.join().map_err(|_| anyhow::anyhow!("the generator panicked"))?)
            .collect();
        anyhow::Ok((took?.concat(), started.elapsed()))
    })?;
    took.sort_unstable();
    let (p50, p99) = (quantile(&took, 0.5), quantile(&took, 0.99));
    Ok(Round { rate: count as f64 / elapsed.as_secs_f64(), p50, p99 })
}

async fn send_some(
    mut connection: Connection,
    requests: &Requests,
    next: &AtomicUsize,
) -> anyhow::Result<Vec<Duration>> {
    let mut took = Vec::new();
    while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
        let sent = Instant::now();
        let (status, _) = connection.send(request).await?;
        ensure!((200..300).contains(&status), "answered {status}: {}", connection.text());
        took.push(sent.elapsed());
    }
    Ok(took)
}

/// The value below which this share of `sorted` lies.
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or_default()
}

/// One persistent connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    body: std::ops::Range<usize>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream =
            TcpStream::connect(address).await.with_context(|| format!("nothing answers at {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096), body: 0..0 })
    }

    /// Sends `request`; returns the answer's status and body.
    pub(crate) async fn send(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        self.buffer.clear();
        self.stream.write_all(request).await?;
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the connection ended within an answer");
            let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = self.buffer.get(..end).unwrap_or_default();
            let length = length(head).context("an answer without a content-length")?;
            self.body = end + 4..end + 4 + length;
            if self.buffer.len() >= self.body.end {
                break;
            }
        }
        let status = self.buffer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        Ok((
            status.context("an answer without a status")?,
            self.buffer.get(self.body.clone()).unwrap_or_default(),
        ))
    }

    /// The body of the last answer.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.buffer.get(self.body.clone()).unwrap_or_default()).into_owned()
    }
}

fn length(head: &[u8]) -> Option<usize> {
    let mut lines = head.split(|byte| *byte == b'\n');
    lines.find_map(|line| {
        let (name, value) = line.split_at_checked(15)?;
        name.eq_ignore_ascii_case(b"content-length:")
            .then(|| std::str::from_utf8(value).ok()?.trim().parse().ok())?
    })
}
