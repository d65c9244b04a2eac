//! `mesh up`: how soon it answers, and what it rests at.

use super::{child::resident, load::Connection, scratch::Scratch};
use anyhow::{Context as _, ensure};
use protocol::routes;
use serde::Deserialize;
use std::{
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// How often it is started.
const STARTS: usize = 5;
/// How often it is looked whether it has written down its address.
const KNOCK: Duration = Duration::from_millis(1);
/// How long a start may take before the measure is given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it is left alone before its memory is read.
const REST: Duration = Duration::from_secs(2);

/// What starting it came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Up {
    /// From the start of the process to its first answer, the median.
    pub(super) first_answer: Duration,
    /// The memory it rests at, bytes.
    pub(super) resident: u64,
}

/// Starts `program` with the demo team and fresh data, several times.
pub(super) fn measure(program: &Path, dir: &Path) -> anyhow::Result<Up> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut answers, mut rests) = (Vec::new(), Vec::new());
    for start in 0..STARTS {
        let scratch = Scratch::new(dir)?;
        let data = scratch.path().join("data");
        let started = Instant::now();
        let mut process = Command::new(program)
            .args(["up", "--port", "0", "--data"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{} can't be started", program.display()))?;
        let answered = runtime.block_on(first_answer(&data.join("run.json"))).map(|()| started.elapsed());
        if start + 1 == STARTS && answered.is_ok() {
            std::thread::sleep(REST);
            rests.push(resident(process.id()));
        }
        drop(process.kill());
        drop(process.wait());
        answers.push(answered?);
    }
    answers.sort_unstable();
    Ok(Up {
        first_answer: super::load::quantile(&answers, 0.5),
        resident: rests.pop().context("nothing was started")??,
    })
}

/// Asks it at the address that it has written down.
async fn first_answer(written: &Path) -> anyhow::Result<()> {
    let asked = format!("GET {} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", routes::HEALTH);
    let answer = async {
        let address = loop {
            match std::fs::read(written) {
                Ok(text) => break serde_json::from_slice::<Written>(&text)?.address()?,
                Err(_) => tokio::time::sleep(KNOCK).await,
            }
        };
        let mut connection = Connection::open(address).await?;
        let (status, _) = connection.send(asked.as_bytes()).await?;
        ensure!(status == 200, "{} answered {status}", routes::HEALTH);
        Ok(())
    };
    tokio::time::timeout(PATIENCE, answer).await.context("it did not answer")?
}

#[derive(Deserialize)]
struct Written {
    url: String,
}

impl Written {
    fn address(&self) -> anyhow::Result<SocketAddr> {
        let address = self.url.strip_prefix("http://").context("its address is no URL")?;
        Ok(address.parse()?)
    }
}
