//! A part of an artifact of a task, to be saved as a file.

use super::{scope::ConsoleScope, secured};
use crate::{artifacts::part_with_content, http::node_state::NodeState, tasks};
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use protocol::{
    artifact::{Part, PartContent},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::Deserialize;
use store::Revision;
use transport::refusal::Refusal;

/// Which part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedPart {
    #[serde(default)]
    agent: String,
    task: String,
    artifact: String,
    /// Its place, from 0.
    part: usize,
}

/// Returns the content of a part of an artifact that the viewer is shown.
pub(super) async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    let scope = ConsoleScope::of(&request, &node, &by)?;
    let wanted: SavedPart = serde_html_form::from_str(request.query_string())
        .map_err(|error| Problem::new(Reason::InvalidField, error.to_string()))?;
    let (local, row) = scope.task(&wanted.agent, &wanted.task)?;
    let store = local.store.as_ref();
    let shown = tasks::with_artifacts(store, &local.id, row, Revision::MAX).map_err(Problem::from)?;
    let mut artifacts = shown.task.artifacts.into_iter();
    let artifact = artifacts.find(|artifact| artifact.artifact_id == wanted.artifact);
    let part = artifact.and_then(|artifact| artifact.parts.into_iter().nth(wanted.part));
    let unknown = || Problem::new(Reason::ArtifactNotFound, "the task has no such artifact");
    let mut part = part.ok_or_else(unknown)?;
    part_with_content(store, &local.id, &mut part, u64::MAX).await?;
    let content = content(part)?;
    Ok(secured(HttpResponse::Ok())
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::CONTENT_DISPOSITION, "attachment"))
        .content_type("application/octet-stream")
        .body(content))
}

fn content(part: Part) -> Result<Vec<u8>, Problem> {
    match part.content {
        PartContent::Text(text) => Ok(text.into_bytes()),
        PartContent::Data(value) => Ok(format!("{value:#}\n").into_bytes()),
        PartContent::Raw(raw) => {
            BASE64.decode(raw).map_err(|error| Problem::new(Reason::Internal, format!("no base64: {error}")))
        }
        PartContent::Url(url) => {
            Err(Problem::new(Reason::ArtifactNotFound, format!("the file is elsewhere: {url}")))
        }
    }
}
