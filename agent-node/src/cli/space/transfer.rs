//! `mesh space export` and `import`: a space as a file with one JSON object a line, first the space, then its entries, the
//! oldest first.

use super::{SpaceClient, done, parsed};
use crate::cli::{
    CommonArgs,
    client::encoded,
    exit::{CliError, Exit},
    output,
};
use protocol::{ids::SpaceId, problem::Reason};
use serde_json::{Value, json};
use std::{fmt::Write as _, path::Path};

/// Bytes of entries in one request; a body has at most 256 KiB.
const BATCH_BYTES: usize = 128 * 1024;
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

/// Imports into the space of `of` if the user has named it, and else into that of the file.
pub(super) async fn import(
    common: &CommonArgs,
    mut of: SpaceClient,
    is_named: bool,
    file: &Path,
) -> Result<(), CliError> {
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
            entries.push((number, value["entry"].take()));
        } else if value["space"].is_object() {
            space = Some(value["space"].take());
        } else {
            return Err(wrong("neither a space nor an entry".to_owned()));
        }
    }
    let of_file = space.as_ref().and_then(|space| SpaceId::parse(space["id"].as_str()?).ok());
    if let Some(named) = of_file.filter(|_| !is_named) {
        of.choose(&named);
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
    let (mut imported, mut present, mut different, mut refused) = (0, 0, Vec::new(), Vec::new());
    let mut rest = &entries[..];
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(BATCH_ENTRIES).take_while(|(_, entry)| {
            bytes += entry.to_string().len();
            bytes <= BATCH_BYTES
        });
        let (batch, later) = rest.split_at(fits.count().max(1));
        let body = json!({ "entries": batch.iter().map(|(_, entry)| entry).collect::<Vec<_>>() });
        let answer = of.client.post(&of.board, &format!("{}/import", of.path), &body).await?;
        imported += answer["imported"].as_u64().unwrap_or_default();
        present += answer["present"].as_u64().unwrap_or_default();
        different.extend(parsed::<Vec<String>>(answer["different"].clone())?);
        for entry in answer["refused"].as_array().into_iter().flatten() {
            let place = entry["index"].as_u64().and_then(|index| batch.get(usize::try_from(index).ok()?));
            let line = place.map(|(number, _)| *number);
            let message = entry["message"].as_str().unwrap_or_default();
            refused.push(json!({ "line": line, "id": entry["id"], "message": message }));
        }
        rest = later;
    }
    for entry in &refused {
        let (line, message) = (&entry["line"], output::plain(entry["message"].as_str().unwrap_or_default()));
        output::note(&format!("{} line {line}: {message}", file.display()));
    }
    let mut answer = json!({ "imported": imported, "present": present, "different": different });
    if !refused.is_empty() {
        answer["refused"] = json!(refused);
    }
    done(common, &answer, &format!("{imported} entries imported, {present} were there"))?;
    let mut left_out = Vec::new();
    if !refused.is_empty() {
        left_out.push(format!("{} entries were refused", refused.len()));
    }
    if !different.is_empty() {
        let ids = different.join(", ");
        left_out.push(format!("left out, because the space has another entry with this id or slug: {ids}"));
    }
    match left_out.is_empty() {
        true => Ok(()),
        false => Err(CliError::new(Exit::Refused, left_out.join("; "))),
    }
}
