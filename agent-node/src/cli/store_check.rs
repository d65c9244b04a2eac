//! `mesh store check`: reads the stores of a mesh that does not run, from end to end.

use super::{
    CommonArgs,
    data_dir_args::DataDirArgs,
    exit::{CliError, Exit},
    output::{self, Colour},
    processes, reset,
};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};
use store::embedded::{self, StoreCheck};

#[derive(Debug, Subcommand)]
pub(super) enum StoreVerb {
    /// Read every record, list and index against its checksum.
    Check(StoreCheckArgs),
}

#[derive(Debug, Args)]
pub(super) struct StoreCheckArgs {
    #[command(flatten)]
    place: DataDirArgs,
    /// Give up the commits that a damaged write-ahead log has lost: the store opens without them. Copies of its files stay.
    #[arg(long)]
    accept_loss: bool,
}

/// Checks each store of the mesh; [`Exit::Store`] if one has lost something.
pub(super) fn check(common: &CommonArgs, args: &StoreCheckArgs) -> Result<(), CliError> {
    let dir = args.place.dir().map_err(|error| CliError::new(Exit::Usage, format!("{error:#}")))?;
    if !dir.is_dir() {
        return Err(CliError::new(Exit::Usage, format!("{} does not exist", dir.display())));
    }
    let mut checks = Vec::new();
    for dir in reset::data_dirs(&dir)?.into_iter().filter(|dir| dir.join("store.sqlite").is_file()) {
        let found = embedded::check(&dir, args.accept_loss)
            .map_err(|error| CliError::new(processes::exit_of_open(&error), error.to_string()))?;
        checks.push((dir, found));
    }
    if common.json {
        let stores: Vec<_> = checks.iter().map(|(dir, found)| json_of(dir, found)).collect();
        output::json(&json!({ "stores": stores }))?;
    } else {
        let rows = checks.iter().map(|(dir, found)| {
            let (state, colour) =
                if found.faults.is_empty() { ("right", Colour::Green) } else { ("damaged", Colour::Red) };
            let what = std::iter::once(format!("{} records", found.records))
                .chain(given_up(found))
                .chain(found.faults.iter().cloned())
                .collect::<Vec<_>>()
                .join("; ");
            vec![dir.display().to_string().into(), output::cell(state, colour), output::plain(&what).into()]
        });
        output::line(&output::table(&["store", "state", "what"], rows))?;
    }
    match checks.iter().filter(|(_, found)| !found.faults.is_empty()).count() {
        0 => Ok(()),
        damaged => Err(CliError::new(
            Exit::Store,
            format!("{damaged} of {} stores are damaged: put a copy of their directories back", checks.len()),
        )),
    }
}

/// What was given up, in words.
fn given_up(found: &StoreCheck) -> Option<String> {
    let lost = found.lost.as_ref()?;
    let copies: Vec<_> = lost.copies.iter().map(|copy| copy.display().to_string()).collect();
    Some(format!(
        "{} commits are given up, the files as they were are {}",
        lost.commits.commits,
        copies.join(" and ")
    ))
}

fn json_of(dir: &Path, found: &StoreCheck) -> serde_json::Value {
    let lost = found.lost.as_ref();
    json!({
        "dir": dir,
        "records": found.records,
        "faults": found.faults,
        "givenUp": lost.map_or(0, |lost| lost.commits.commits),
        "copies": lost.map_or::<&[PathBuf], _>(&[], |lost| &lost.copies),
    })
}
