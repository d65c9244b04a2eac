//! Counts the instructions that SQLite runs for reads, for the tests of what reads cost.

use rusqlite::Connection;
use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// The instructions of all reads of this thread so far.
pub(crate) fn counted() -> u64 {
    STEPS.get()
}

/// `connection`, whose instructions are counted.
pub(super) fn counting(mut connection: Connection) -> rusqlite::Result<Connection> {
    let each = || {
        STEPS.set(STEPS.get() + 1);
        false
    };
    connection.progress_handler(1, Some(each))?;
    Ok(connection)
}
