//! `mesh space export` and `import`: a space as a file with one JSON object a line, first the space, then its entries, the
//! oldest first.

use super::{SpaceClient, done, parsed};
use crate::cli::{
    CommonArgs,
    client::encoded,
    exit::{CliError, Exit},
    output,
};
use protocol::{problem::Reason, spaces::Entry};
use serde_json::{Value, json};
use std::{fmt::Write as _, path::Path};

/// Bytes of entries in one request; a body has at most 256 KiB.
const BATCH_BYTES: usize = 128 * 1024;
/// Entries in one request.
const BATCH_ENTRIES: usize = 100;

pub(super) async fn export(of: &SpaceClient, file: Option<&Path>) -> Result<(), CliError> {
    let space: Value = of.get("").await?;
    let mut text = format!("{}\n", json!({ "space": space }));
    let (mut after, mut count) = (String::new(), 0);
    loop {
        let page: Value = of.get(&format!("/entries?order=oldest&limit=1000{after}")).await?;
        for entry in page["entries"].as_array().into_iter().flatten() {
            // A vault does not travel, the exporter's own neither.
            if entry["scope"] == "own" {
                continue;
            }
            count += 1;
            let _ = writeln!(text, "{}", json!({ "entry": entry }));
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", encoded(next)),
            None => break,
        }
    }
    match file {
        None => output::bytes(text.as_bytes()),
        Some(file) => {
            std::fs::write(file, text).map_err(|error| {
                CliError::new(Exit::Failed, format!("{} can't be written: {error}", file.display()))
            })?;
            output::note(&format!("{count} entries in {}", file.display()));
            Ok(())
        }
    }
}

pub(super) async fn import(common: &CommonArgs, of: &SpaceClient, file: &Path) -> Result<(), CliError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| CliError::new(Exit::Usage, format!("{} can't be read: {error}", file.display())))?;
    let (mut entries, mut space) = (Vec::new(), None);
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let wrong = |why: String| {
            CliError::new(
                Exit::Usage,
                format!("{} line {number}: {why}; nothing is imported", file.display()),
            )
        };
        let mut value: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        if value["entry"].is_object() {
            let entry = value["entry"].take();
            serde_json::from_value::<Entry>(entry.clone()).map_err(|error| wrong(error.to_string()))?;
            entries.push(entry);
        } else if value["space"].is_object() {
            space = Some(value["space"].take());
        } else {
            return Err(wrong("neither a space nor an entry".to_owned()));
        }
    }
    let known: Result<Value, CliError> = of.get("").await;
    match (known, space) {
        (Err(failure), Some(mut space)) if failure.reason == Some(Reason::SpaceNotFound) => {
            if let Some(members) = space.as_object_mut() {
                members.retain(|name, _| !["id", "version"].contains(&name.as_str()));
            }
            of.client.put(&of.board, &of.path, &space).await?;
        }
        (known, _) => drop(known?),
    }
    let (mut imported, mut present, mut different) = (0, 0, Vec::new());
    let mut rest = &entries[..];
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(BATCH_ENTRIES).take_while(|entry| {
            bytes += entry.to_string().len();
            bytes <= BATCH_BYTES
        });
        let (batch, later) = rest.split_at(fits.count().max(1));
        let body = json!({ "entries": batch });
        let answer = of.client.post(&of.board, &format!("{}/import", of.path), &body).await?;
        imported += answer["imported"].as_u64().unwrap_or_default();
        present += answer["present"].as_u64().unwrap_or_default();
        different.extend(parsed::<Vec<String>>(answer["different"].clone())?);
        rest = later;
    }
    let answer = json!({ "imported": imported, "present": present, "different": different });
    done(common, &answer, &format!("{imported} entries imported, {present} were there"))?;
    match different.is_empty() {
        true => Ok(()),
        false => Err(CliError::new(
            Exit::Refused,
            format!(
                "left out, because the space has another entry with this id or slug: {}",
                different.join(", ")
            ),
        )),
    }
}
