//! A round table: processor of the whole mesh per turn, early and late in a session of 180 turns with messages of equal size.

use crate::{
    Options,
    brief::processor,
    load::{Connection, Requests},
    nodes,
};
use agent_node::{
    brain::{Brain, TurnFuture, TurnHandle, TurnRequest},
    node::{self, AgentSpec},
};
use anyhow::{Context as _, ensure};
use patterns::{contract_net::Auction, turn::TurnEnd};
use protocol::{answer::SeatEnd, routes};
use serde_json::json;
use std::{
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};
use store::embedded;

const SEATS: usize = 6;
const ROUNDS: usize = 30;
/// Some turns from the twelfth on, which is the first that is given as many messages as a turn can be given, and the last ones.
const EARLY: Range<usize> = 12..30;
const LATE: Range<usize> = SEATS * ROUNDS - 19..SEATS * ROUNDS - 1;

/// Says a kilobyte, and notes what the process has used by then.
struct Speaker(Arc<Mutex<Vec<Duration>>>);

impl Brain for Speaker {
    fn think(&self, _: TurnRequest, _: TurnHandle) -> TurnFuture {
        let turn = self.0.lock().map(|mut used| {
            used.push(processor().unwrap_or_default());
            used.len()
        });
        let message = turn.map(|turn| format!("{turn:0>1000}")).ok();
        let seat = SeatEnd { passed: true, ..SeatEnd::default() };
        Box::pin(async { Ok(TurnEnd::Seat { message, seat }) })
    }

    fn name(&self) -> &'static str {
        "speaker"
    }
}

/// The processor of a turn, early and late.
pub(crate) fn measure(options: &Options) -> anyhow::Result<(Duration, Duration)> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let used = Arc::new(Mutex::new(Vec::new()));
    let names: Vec<_> = (0..SEATS).map(|seat| format!("seat-{seat}")).collect();
    let agents: anyhow::Result<Vec<AgentSpec>> =
        names.iter().map(|name| nodes::seat(name, Arc::new(Speaker(used.clone())))).collect();
    let agents = agents?;
    actix::System::new().block_on(async {
        let store = embedded::open(dir.path(), embedded::StoreOptions::default())?;
        let running = node::start(nodes::setup(agents, store, Auction::default())?).await?;
        let (_, address) = running.agents.iter().next().context("no agent has an address")?;
        let request = json!({
            "messageId": "m-1", "fromAgentId": "me", "toAgentId": "seat-0", "type": "task-request",
            "payload": {
                "taskId": "t-1", "description": "talk", "capability": "session",
                "input": { "seats": names },
            },
        });
        let mut requests = Requests::default();
        requests.post(routes::MESSAGES, &[], &request.to_string());
        let mut connection = Connection::open(*address).await?;
        let (status, answer) = connection.send(requests.get(0).unwrap_or_default()).await?;
        ensure!((200..300).contains(&status), "{status} {}", String::from_utf8_lossy(answer));
        let turns = SEATS * ROUNDS;
        for _ in 0..1_200 {
            let known = used.lock().map(|used| used.len()).unwrap_or_default();
            if known == turns {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        running.stop(Duration::ZERO).await;
        anyhow::Ok(())
    })?;
    let used = used.lock().map(|used| used.clone()).unwrap_or_default();
    ensure!(used.len() == SEATS * ROUNDS, "{} turns were given", used.len());
    Ok((per_turn(&used, EARLY)?, per_turn(&used, LATE)?))
}

fn per_turn(used: &[Duration], turns: Range<usize>) -> anyhow::Result<Duration> {
    let count = u32::try_from(turns.len())?;
    let [Some(begun), Some(ended)] = [turns.start, turns.end].map(|turn| used.get(turn)) else {
        anyhow::bail!("no such turns");
    };
    Ok(ended.saturating_sub(*begun) / count)
}
