//! Reads a store from end to end, and gives up what a damaged write-ahead log has lost.

use super::super::checksum;
use super::lock::DataDirLock;
use super::schema::{self, StoreFile, meta_crc};
use super::wal::LostCommits;
use super::{OpenError, StoreOptions, list_entries};
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The most faults that are named.
const MAX_FAULTS: usize = 100;

/// What [`check`] has found.
#[derive(Debug, Clone, Default)]
pub struct StoreCheck {
    /// The number of records.
    pub records: u64,
    /// What does not match its checksum, its index or the format of SQLite; at most 100 of it.
    pub faults: Vec<String>,
    /// What was given up.
    pub lost: Option<GivenUp>,
}

/// Commits that were given up.
#[derive(Debug, Clone)]
pub struct GivenUp {
    /// What was dropped.
    pub commits: LostCommits,
    /// Copies of the files as they were.
    pub copies: Vec<PathBuf>,
}

/// Checks the store in `dir`, which nobody has opened: each record against its checksum, each list entry and index against the
/// records. A write-ahead log that has lost commits is an error, unless `accepts_loss`: then they are given up, copies of the
/// files stay, and the store has a new generation, so that cursors and epochs of lost commits are recognised.
///
/// # Errors
/// [`OpenError`], as for a start.
pub fn check(dir: &Path, accepts_loss: bool) -> Result<StoreCheck, OpenError> {
    let _lock = DataDirLock::acquire(dir)?;
    let lost = match schema::lost_of(dir)? {
        Some(lost) if !accepts_loss => return Err(OpenError::LostCommits { dir: dir.to_owned(), lost }),
        Some(commits) => {
            let copies = copy_files(dir).map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
            Some(GivenUp { commits, copies })
        }
        None => None,
    };
    let file = schema::open_recovering(dir, &StoreOptions::default())?;
    let damaged = |why: rusqlite::Error| OpenError::Damaged { dir: dir.to_owned(), why: why.to_string() };
    if lost.is_some() {
        renew_generation(&file).map_err(damaged)?;
    }
    let (records, faults) = read_all(&file.connection).map_err(damaged)?;
    Ok(StoreCheck { records, faults, lost })
}

/// Copies the file and its write-ahead log beside them.
fn copy_files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let [file, log, _] = schema::files(dir);
    [file, log]
        .into_iter()
        .map(|from| {
            let mut copy = from.clone().into_os_string();
            copy.push(format!(".damaged-{seconds}"));
            std::fs::copy(&from, &copy).map(|_| PathBuf::from(copy))
        })
        .collect()
}

fn renew_generation(file: &StoreFile) -> rusqlite::Result<()> {
    let generation = uuid::Uuid::now_v7().simple().to_string();
    let crc = meta_crc(file.revision, &generation);
    file.connection.execute("UPDATE meta SET generation = ?, crc = ?", params![generation, crc]).map(drop)
}

/// The number of records, and what is wrong.
fn read_all(on: &Connection) -> rusqlite::Result<(u64, Vec<String>)> {
    let mut faults: Vec<String> = Vec::new();
    let mut integrity = on.prepare("PRAGMA integrity_check(20)")?;
    let found = integrity.query_map([], |row| row.get::<_, String>(0))?;
    for fault in found {
        faults.extend(Some(fault?).filter(|fault| fault != "ok"));
    }
    let mut records = 0;
    let mut is_listed =
        on.prepare("SELECT 1 FROM lists WHERE list = ? AND part = ? AND at = ? AND id = ? AND group_id = ?")?;
    let mut entries_of_records = 0;
    let mut rows = on.prepare(
        "SELECT key, rev, value, crc, NULL, 0 FROM log UNION ALL SELECT key, rev, value, crc, entries, id FROM state",
    )?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        records += 1;
        let mut read = || -> rusqlite::Result<bool> {
            let (key, entries) = (row.get_ref(0)?.as_str()?, row.get_ref(4)?.as_blob_or_null()?);
            let entries = entries.unwrap_or_default();
            let crc = checksum::crc_of(key, row.get(1)?, row.get_ref(2)?.as_blob()?);
            let mut is_intact = crc == row.get::<_, u32>(3)? && list_entries::is_intact(key, entries);
            for (list, part, at, group) in list_entries::decode(entries) {
                entries_of_records += 1;
                is_intact &= is_listed.exists(params![list, part, at, row.get::<_, i64>(5)?, group])?;
            }
            Ok(is_intact)
        };
        // A value of another type is damage, too.
        if !read().unwrap_or(false) && faults.len() < MAX_FAULTS {
            let key = row.get_ref(0)?.as_bytes().map(String::from_utf8_lossy).unwrap_or_default();
            let revision = row.get::<_, i64>(1).unwrap_or_default();
            faults.push(format!("the record at revision {revision} under {key}, or its place in a list"));
        }
    }
    let mut floors = on.prepare("SELECT key, floor, crc FROM floors")?;
    let mut floors = floors.query([])?;
    while let Some(row) = floors.next()? {
        let (key, crc) = (row.get_ref(0)?.as_str()?, row.get::<_, Option<u32>>(2)?);
        if crc.is_some_and(|crc| row.get(1).is_ok_and(|floor| crc != schema::floor_crc(key, floor)))
            && faults.len() < MAX_FAULTS
        {
            faults.push(format!("the floor of {key}"));
        }
    }
    let listed: u64 = on.query_row("SELECT count(*) FROM lists", [], |row| row.get(0))?;
    if listed != entries_of_records {
        faults.push(format!("the lists have {listed} entries, the records {entries_of_records}"));
    }
    Ok((records, faults))
}
