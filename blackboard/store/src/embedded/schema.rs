//! The file: its tables, its format version, and how connections to it are set up.

use super::super::class::{self, TopicClass};
use super::super::{Error, Filter, Revision, checksum};
use super::StoreOptions;
use super::wal::{LostCommits, lost_commits};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, config::DbConfig, ffi};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// The format of this program. Formats 1 and 2 are the first version's, whose records have other meanings; 3 has no lists. Format 5
/// is that of 4 with words, and its records are those of rules 11 and later, which a program that reads format 4 does not read.
/// Format 6 has checksums of what is no record.
const FORMAT: u32 = OLDEST_FORMAT + UPGRADES.len() as u32;

/// The oldest format that is upgraded.
const OLDEST_FORMAT: u32 = 4;

/// The step from each format to the next, beginning with [`OLDEST_FORMAT`]. Each is one transaction: after a crash the file has
/// the one format or the other.
const UPGRADES: [&str; 2] = [WORDS, CHECKSUMS];

/// The size of a page, bytes. A commit writes a few rows in many places, and whole pages; small ones make it write less.
const PAGE_BYTES: u32 = 2048;

/// The writer copies the write-ahead log into the file whenever it has this many pages. A copy takes some milliseconds.
const CHECKPOINT_PAGES: u32 = 4000;

/// State rows are stored in insertion order, so that the rows of one commit share pages; only the index of keys is sorted.
/// `entries` has a row's list entries as bytes, so that its deletion finds them in `lists`.
const TABLES: &str = "
    CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, generation TEXT NOT NULL);
    CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, class INTEGER NOT NULL, floor INTEGER NOT NULL);
    CREATE TABLE log (rev INTEGER PRIMARY KEY, topic INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, crc INTEGER NOT NULL);
    CREATE INDEX log_topic ON log (topic);
    CREATE INDEX log_key ON log (key);
    CREATE TABLE floors (key TEXT PRIMARY KEY, floor INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE state (id INTEGER PRIMARY KEY, key TEXT NOT NULL, rev INTEGER NOT NULL, crc INTEGER NOT NULL, entries BLOB, value BLOB NOT NULL);
    CREATE UNIQUE INDEX state_key ON state (key);
    CREATE TABLE lists (list INTEGER NOT NULL, part INTEGER NOT NULL, at INTEGER NOT NULL, id INTEGER NOT NULL, group_id INTEGER NOT NULL, PRIMARY KEY (list, part, at, id)) WITHOUT ROWID;";

/// The words of the texts of state rows, for searches. Some stores of format 4 have them. Not FTS5: words are found as whole words
/// and beginnings only, which an index does, in both backends alike, and SQLite is built without it.
const WORDS: &str = "
    CREATE TABLE IF NOT EXISTS words (id INTEGER NOT NULL, word TEXT NOT NULL, PRIMARY KEY (id, word)) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS words_word ON words (word, id);";

/// The checksums of `meta`, `topics` and `floors`; those of records and of their list entries are in their rows. Without one, a row
/// is as format 5 wrote it.
const CHECKSUMS: &str = "
    ALTER TABLE meta ADD COLUMN crc INTEGER;
    ALTER TABLE topics ADD COLUMN crc INTEGER;
    ALTER TABLE floors ADD COLUMN crc INTEGER;";

/// An index that stores of every format have: another version keeps it up without knowing it.
const GROUPS: &str =
    "CREATE INDEX IF NOT EXISTS lists_group ON lists (list, part, group_id, at, id) WHERE group_id <> 0;";

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds it.
    #[error("the data directory {} is in use by process {pid}", dir.display())]
    Held {
        dir: PathBuf,
        /// The process that holds it.
        pid: String,
    },
    /// An older or a newer version wrote it.
    #[error(
        "the store in {} has format {found}, this version reads format {known}: {}",
        file(dir).display(),
        if found < known { "use another data directory, or empty this one with `mesh reset`" } else { "use the version that wrote it" }
    )]
    OtherFormat {
        dir: PathBuf,
        /// The format found there.
        found: u32,
        /// The format known here.
        known: u32,
    },
    /// Another program wrote it.
    #[error("{} is no store of a mesh: a SQLite file with user_version {found} and {why}", file.display())]
    Foreign {
        file: PathBuf,
        found: i32,
        /// Why it is not a store.
        why: String,
    },
    /// The file is not a store, or is damaged.
    #[error("the store in {} cannot be read: {why}", dir.display())]
    Damaged {
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The write-ahead log is damaged in front of commits that were acknowledged.
    #[error(
        "the write-ahead log of the store in {dir} is damaged at byte {}: {} commits from there on cannot be read. Put a copy of the \
         directory back, or give these commits up with `mesh store check --accept-loss --data {dir}`",
        lost.at, lost.commits, dir = dir.display()
    )]
    LostCommits {
        dir: PathBuf,
        /// What opening it would drop.
        lost: LostCommits,
    },
    /// The file system refuses access.
    #[error("the data directory {} cannot be used", dir.display())]
    Io {
        dir: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
}

/// A row of the table `topics`.
#[derive(Debug, Clone, Copy)]
pub(super) struct TopicRow {
    pub(super) id: i64,
    pub(super) class: TopicClass,
    /// The highest trimmed revision.
    pub(super) floor: Revision,
}

impl TopicRow {
    /// The class as it is in the file.
    pub(super) fn class_number(self) -> u8 {
        match self.class {
            TopicClass::Log => 0,
            TopicClass::State => 1,
        }
    }

    /// The checksum of the row of the topic `name`.
    pub(super) fn crc(self, name: &str) -> u32 {
        let id = self.id.to_le_bytes();
        checksum::crc_of(name, self.floor, &[&id[..], &[self.class_number()]].concat())
    }
}

/// The checksum of the row of `meta`.
pub(super) fn meta_crc(revision: Revision, generation: &str) -> u32 {
    checksum::crc_of("meta", revision, generation.as_bytes())
}

/// The checksum of a row of `floors`.
pub(super) fn floor_crc(key: &str, floor: Revision) -> u32 {
    checksum::crc_of(key, floor, b"floor")
}

/// The committed topics.
pub(super) struct Topics(RwLock<BTreeMap<String, TopicRow>>);

impl Topics {
    pub(super) fn new(topics: BTreeMap<String, TopicRow>) -> Self {
        Self(RwLock::new(topics))
    }

    pub(super) fn get(&self, name: &str) -> Option<TopicRow> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    pub(super) fn set(&self, name: &str, topic: TopicRow) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), topic);
    }

    /// Raises the floor of a topic.
    pub(super) fn raise(&self, name: &str, floor: Revision) {
        if let Some(topic) = self.0.write().unwrap_or_else(PoisonError::into_inner).get_mut(name) {
            topic.floor = topic.floor.max(floor);
        }
    }

    /// The topics whose keys `filter` can admit.
    pub(super) fn of(&self, filter: &Filter) -> Vec<(String, TopicRow)> {
        let topics = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if filter.key().as_str().contains('.') {
            return topics
                .get_key_value(filter.key().topic())
                .map(|(n, t)| (n.clone(), *t))
                .into_iter()
                .collect();
        }
        topics
            .iter()
            .filter(|(name, _)| class::may_admit_topic(filter, name))
            .map(|(n, t)| (n.clone(), *t))
            .collect()
    }
}

/// A store's file, opened for writing.
pub(super) struct StoreFile {
    pub(super) connection: Connection,
    pub(super) revision: Revision,
    pub(super) generation: String,
    pub(super) topics: BTreeMap<String, TopicRow>,
}

/// The path of the file.
fn file(dir: &Path) -> PathBuf {
    dir.join("store.sqlite")
}

/// The paths of all files of a store; some may not exist.
pub(super) fn files(dir: &Path) -> [PathBuf; 3] {
    ["store.sqlite", "store.sqlite-wal", "store.sqlite-shm"].map(|name| dir.join(name))
}

/// Opens the file for the writer, or creates it.
pub(super) fn open(dir: &Path, options: &StoreOptions) -> Result<StoreFile, OpenError> {
    if let Some(lost) = lost_of(dir)? {
        return Err(OpenError::LostCommits { dir: dir.to_owned(), lost });
    }
    open_recovering(dir, options)
}

/// The acknowledged commits that recovery of the write-ahead log in `dir` would drop. To be asked before SQLite opens the
/// store, which is then held.
pub(super) fn lost_of(dir: &Path) -> Result<Option<LostCommits>, OpenError> {
    let [_, log, _] = files(dir);
    let log = match std::fs::File::open(log) {
        Ok(log) => log,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(OpenError::Io { dir: dir.to_owned(), source }),
    };
    let lost = lost_commits(&mut std::io::BufReader::with_capacity(1 << 20, log), PAGE_BYTES);
    lost.map_err(|source| OpenError::Io { dir: dir.to_owned(), source })
}

/// As [`open`], with what recovery leaves of the write-ahead log.
pub(super) fn open_recovering(dir: &Path, options: &StoreOptions) -> Result<StoreFile, OpenError> {
    let damaged = |why: rusqlite::Error| match why.sqlite_error_code() {
        Some(
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::DiskFull,
        ) => OpenError::Io { dir: dir.to_owned(), source: std::io::Error::other(why) },
        _ => OpenError::Damaged { dir: dir.to_owned(), why: why.to_string() },
    };
    let is_new = !file(dir).exists();
    restrict_to_owner(&file(dir)).map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
    let connection = Connection::open(file(dir)).map_err(damaged)?;
    let version: i32 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(damaged)?;
    let foreign = |why: &str| OpenError::Foreign { file: file(dir), found: version, why: why.to_owned() };
    let found = u32::try_from(version).map_err(|_| foreign("no format is below 0"))?;
    let tables = tables(&connection).map_err(damaged)?;
    match found {
        0 if tables.is_empty() => {}
        0 => return Err(foreign(&format!("tables that are not ours ({})", tables.join(", ")))),
        1..=FORMAT if !tables.iter().any(|table| table == "meta") => {
            return Err(foreign("without our tables"));
        }
        OLDEST_FORMAT..=FORMAT => {}
        _ => return Err(OpenError::OtherFormat { dir: dir.to_owned(), found, known: FORMAT }),
    }
    let opened = prepare(connection, found, options).map_err(damaged)?;
    if is_new {
        let synced = std::fs::File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
    }
    Ok(opened)
}

/// Creates `file` if it is missing, and removes access by group and others; SQLite gives its other files the same mode.
/// A file that belongs to another user keeps its mode.
fn restrict_to_owner(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let handle = std::fs::File::options().create(true).truncate(false).write(true).mode(0o600).open(file)?;
    let mode = handle.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let restricted = handle.set_permissions(std::fs::Permissions::from_mode(mode & 0o700));
        let is_other_owner =
            |refused: &std::io::Error| refused.kind() == std::io::ErrorKind::PermissionDenied;
        return restricted.or_else(|refused| if is_other_owner(&refused) { Ok(()) } else { Err(refused) });
    }
    Ok(())
}

/// Names of up to 8 tables of the file; `meta` is the first if it exists.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut rows = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name != 'meta', name LIMIT 8",
    )?;
    let tables = rows.query_map([], |row| row.get(0))?;
    tables.collect()
}

fn prepare(connection: Connection, found: u32, options: &StoreOptions) -> rusqlite::Result<StoreFile> {
    keep_plans(&connection)?;
    if found == 0 {
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    truncate_log(&connection);
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "cache_size", -4096)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    if let Some(pages) = options.pages {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    if found == 0 {
        let generation = uuid::Uuid::now_v7().simple().to_string();
        connection.execute_batch("BEGIN IMMEDIATE")?;
        connection.execute_batch(TABLES)?;
        connection.execute("INSERT INTO meta (id, revision, generation) VALUES (1, 0, ?)", [generation])?;
        connection.pragma_update(None, "user_version", OLDEST_FORMAT)?;
        connection.execute_batch("COMMIT")?;
    }
    upgrade(&connection, found.max(OLDEST_FORMAT))?;
    if let Err(error) = connection.execute_batch(GROUPS) {
        // As on a full device: lists are complete without it.
        tracing::warn!(%error, "the index of groups was not made: pages of one group of a list are slow");
    }
    let meta = connection
        .query_row("SELECT revision, generation, crc FROM meta", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let (revision, generation, crc): (_, String, _) = meta.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    check_row("meta", crc, meta_crc(revision, &generation))?;
    let topics = topics(&connection)?;
    Ok(StoreFile { connection, revision, generation, topics })
}

/// Moves the write-ahead log into the file and empties it, so that no frame of a torn transaction stands behind those that are
/// written next: with a second torn one it would look like a loss ([`lost_commits`]). A log that stays is no fault: a full
/// device has no room for its pages.
fn truncate_log(connection: &Connection) {
    let blocked = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    match blocked {
        Ok(false) => {}
        Ok(true) => tracing::warn!("the write-ahead log is not emptied: another program reads the store"),
        Err(error) => tracing::warn!(%error, "the write-ahead log is not emptied"),
    }
}

/// Brings a file of format `found` to [`FORMAT`].
fn upgrade(connection: &Connection, found: u32) -> rusqlite::Result<()> {
    let steps = (OLDEST_FORMAT + 1..).zip(UPGRADES).filter(|(format, _)| *format > found);
    for (format, step) in steps {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        connection.execute_batch(step)?;
        connection.pragma_update(None, "user_version", format)?;
        connection.execute_batch("COMMIT")?;
    }
    Ok(())
}

fn topics(connection: &Connection) -> rusqlite::Result<BTreeMap<String, TopicRow>> {
    let mut rows = connection.prepare("SELECT name, id, class, floor, crc FROM topics")?;
    let topics = rows.query_map([], |row| {
        let class = if row.get::<_, i64>(2)? == 0 { TopicClass::Log } else { TopicClass::State };
        let (name, topic): (String, _) =
            (row.get(0)?, TopicRow { id: row.get(1)?, class, floor: row.get(3)? });
        check_row(&name, row.get(4)?, topic.crc(&name))?;
        Ok((name, topic))
    })?;
    topics.collect()
}

/// Fails if the row `what` has a checksum and it does not match.
fn check_row(what: &str, stored: Option<u32>, computed: u32) -> rusqlite::Result<()> {
    match stored.is_none_or(|crc| crc == computed) {
        true => Ok(()),
        false => Err(rusqlite::Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_CORRUPT),
            Some(format!("the row of {what} does not match its checksum")),
        )),
    }
}

/// Without it SQLite plans a statement again for each new value of a parameter that its plan might depend on.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Opens a connection that only reads.
pub(super) fn reader(dir: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file(dir), flags)?;
    keep_plans(&connection)?;
    connection.pragma_update(None, "cache_size", -1024)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    #[cfg(test)]
    let connection = super::steps::counting(connection)?;
    Ok(connection)
}

/// The store error for a failed read.
pub(super) fn read_error(error: &rusqlite::Error, what: &str) -> Error {
    let damaged = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch)
    );
    match (damaged, error.sqlite_error_code()) {
        (false, Some(_)) => Error::Closed(format!("it cannot be read: {error}")),
        _ => Error::Corrupt { revision: 0, key: what.to_owned() },
    }
}
