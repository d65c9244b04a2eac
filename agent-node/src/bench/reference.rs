//! What the mesh is compared with: the same server library with the same settings, that parses the same JSON and answers
//! the same bytes, and nothing else; or that also commits one row a request.
//!
//! The row goes through the mesh's own embedded store (SQLite, `synchronous=FULL`, one writer, group commit): what is
//! compared is what a message costs beyond its one row, not one SQLite wrapper with another.

use super::child::{Ready, parent_spoke, say};
use actix_web::{App, HttpResponse, HttpServer, error::ErrorInternalServerError, http::header, web};
use blackboard::store::{Batch, Key, Lane, Shared, Write, embedded};
use bytes::Bytes;
use protocol::routes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// A bare server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Bare {
    /// What it answers.
    pub(super) answer: String,
    /// Where it commits one row a request, if it does.
    pub(super) rows: Option<PathBuf>,
}

struct Desk {
    answer: Bytes,
    rows: Option<(Shared, Key)>,
}

async fn take(desk: web::Data<Desk>, body: web::Bytes) -> actix_web::Result<HttpResponse> {
    let read: Value = serde_json::from_slice(&body)?;
    std::hint::black_box(&read);
    if let Some((store, key)) = &desk.rows {
        let batch = Batch { writes: vec![Write::Append(key.clone(), body)], expectations: Vec::new() };
        store.commit(Lane::Progress, batch).await.map_err(ErrorInternalServerError)?;
    }
    Ok(HttpResponse::Accepted()
        .insert_header((header::CONTENT_TYPE, "application/json"))
        .body(desk.answer.clone()))
}

/// Serves until the parent is gone.
pub(super) async fn serve(bare: Bare) -> anyhow::Result<()> {
    let rows = match bare.rows {
        Some(dir) => {
            Some((embedded::open(&dir, embedded::Options::default())?, Key::new(&["bench", "row", "1"])))
        }
        None => None,
    };
    let desk = web::Data::new(Desk { answer: Bytes::from(bare.answer), rows });
    let server = HttpServer::new(move || {
        App::new().app_data(desk.clone()).route(routes::MESSAGES, web::post().to(take))
    })
    .workers(super::WORKERS)
    .disable_signals()
    .bind(("127.0.0.1", 0))?;
    let address = server.addrs().first().copied().ok_or_else(|| anyhow::anyhow!("no address"))?;
    let server = server.run();
    let handle = server.handle();
    let served = actix::spawn(server);
    say(&Ready { address })?;
    while parent_spoke().await {}
    handle.stop(false).await;
    Ok(served.await??)
}
