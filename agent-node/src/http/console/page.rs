//! What everybody may load: the frame of the page, which holds no data, and its files.

use super::{html, secured};
use crate::http::node_state::NodeState;
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use console::{assets, shell};
use protocol::problem::{Problem, Reason};
use transport::refusal::Refusal;

/// Whether the caller is a browser, which is shown the page, or a program, which is told what this is.
fn wants_html(request: &HttpRequest) -> bool {
    let accepts = request.headers().get_all(header::ACCEPT).filter_map(|accept| accept.to_str().ok());
    accepts.flat_map(|accept| accept.split(',')).any(|kind| kind.trim_start().starts_with("text/html"))
}

/// Returns the page to a browser, and a short text to a program.
pub(super) async fn get(request: HttpRequest, node: web::Data<NodeState>) -> HttpResponse {
    let name = node.agent_of_port(&request).map_or("Agent Mesh", |local| local.id.as_str());
    if wants_html(&request) {
        return html(shell::page(name).into_string());
    }
    secured(HttpResponse::Ok())
        .insert_header((header::VARY, "Accept"))
        .content_type("text/plain; charset=utf-8")
        .body(shell::text(name))
}

/// Returns a file of the page. Its URL changes with its content.
pub(super) async fn asset(name: web::Path<String>) -> Result<HttpResponse, Refusal> {
    let unknown = || Problem::new(Reason::RouteNotFound, "the console has no such file");
    let asset = assets::find(&name).ok_or_else(unknown)?;
    Ok(secured(HttpResponse::Ok())
        .insert_header((header::CACHE_CONTROL, "public, max-age=31536000, immutable"))
        .content_type(asset.media_type)
        .body(asset.content))
}
