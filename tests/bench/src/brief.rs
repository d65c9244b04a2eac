//! Briefs of an agent in small and large spaces: processor of one brief from a store that was just opened. The agent sees the same
//! entries in both; the others are memory of another agent's vault.

use crate::Options;
use anyhow::Context as _;
use blackboard::board::{Board, BoardClock, BoardConfig};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use protocol::{
    ids::{AgentId, SpaceId},
    principal::{Principal, SenderProof},
    spaces::{EntryDraft, EntryKind, EntryType, MemoryScope, Reader},
};
use std::{path::Path, time::Duration};
use store::embedded;

/// Entries that the agent sees.
const VISIBLE: usize = 300;
/// Posts at once.
const AT_ONCE: usize = 200;
/// Briefs, each from a store that was just opened; the lowest counts.
const ROUNDS: usize = 10;

/// The processor of a brief in a space of `entries` entries.
pub(crate) fn measure(options: &Options, entries: usize) -> anyhow::Result<Duration> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    actix::System::new().block_on(async {
        let board = open(dir.path())?;
        let posts = (0..entries).map(|number| post(&board, number));
        stream::iter(posts).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await
    })?;
    let rounds = (0..ROUNDS).map(|_| {
        actix::System::new().block_on(async {
            let board = open(dir.path())?;
            let before = processor()?;
            let agent = id("reader-01")?;
            let brief = board.spaces().brief(&reader(&agent), &space()?, &agent, Default::default()).await?;
            anyhow::ensure!(
                brief.brief.included.len() > 20,
                "{} entries are in the brief",
                brief.brief.included.len()
            );
            Ok(processor()? - before)
        })
    });
    rounds.collect::<anyhow::Result<Vec<_>>>()?.into_iter().min().context("there was no round")
}

fn open(dir: &Path) -> anyhow::Result<Board> {
    let config = BoardConfig { max_in_flight: AT_ONCE, ..BoardConfig::default() };
    let store = embedded::open(dir, embedded::StoreOptions::default())?;
    Ok(Board::start(store, config, BoardClock::system())?)
}

async fn post(board: &Board, number: usize) -> anyhow::Result<()> {
    let (author, scope) = match number < VISIBLE {
        true => ("reader-01", MemoryScope::Team),
        false => ("other-01", MemoryScope::Own),
    };
    let of_type = if number.is_multiple_of(2) { EntryType::Learning } else { EntryType::CoreContext };
    let content = format!("number {number}: the reader of the log checks each record before it is shown");
    let draft = match number < VISIBLE && number.is_multiple_of(3) {
        true => EntryDraft::new(EntryKind::Finding, &content),
        false => EntryDraft {
            entry_type: Some(of_type),
            scope: Some(scope),
            ..EntryDraft::new(EntryKind::Memory, &content)
        },
    };
    board.spaces().post(&reader(&id(author)?), &space()?, &draft).await?;
    Ok(())
}

fn id(text: &str) -> anyhow::Result<AgentId> {
    Ok(AgentId::parse(text)?)
}

fn space() -> anyhow::Result<SpaceId> {
    Ok(SpaceId::parse("default")?)
}

fn reader(agent: &AgentId) -> Reader {
    Reader { principal: Principal::Agent(agent.clone()), proof: SenderProof::Credential }
}

/// What this process has used of the processor.
pub(crate) fn processor() -> anyhow::Result<Duration> {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::new(used.tv_sec.try_into()?, used.tv_nsec.try_into()?))
}
