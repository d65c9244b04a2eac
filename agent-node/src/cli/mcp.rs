//! `mesh mcp`: the mesh as an MCP server on standard input and output, for a client on this machine.

use super::{
    CommonArgs,
    client::MeshClient,
    endpoints::AtArgs,
    exit::{CliError, Exit},
};
use crate::mcp::{ApiReach, MeshApi, MeshServer};
use clap::Args;
use std::sync::Arc;

/// `mesh mcp`.
#[derive(Debug, Args)]
pub(super) struct McpArgs {
    #[command(flatten)]
    at: AtArgs,
}

/// Serves until standard input ends.
pub(super) async fn mcp(common: &CommonArgs, args: McpArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let (base, reach) = match args.at.base() {
        Some(at) => (at.clone(), ApiReach::Node(Arc::from([at]))),
        None => (client.url.clone(), ApiReach::Mesh),
    };
    let wire = MeshApi::client().map_err(|problem| CliError::of(&problem, &base))?;
    let signer = client.clone();
    let person = Arc::new(move |base: String| {
        let signer = signer.clone();
        Box::pin(async move { signer.person(&base).await }) as _
    });
    let lookup = Arc::new(move |base: String| {
        let client = client.clone();
        Box::pin(async move {
            client.credential(&base).await.map(|value| ("authorization", value)).into_iter().collect()
        }) as _
    });
    let server = MeshServer::for_caller(MeshApi::new(wire, base, lookup, reach).signing_as(person));
    let failed = |error: &dyn std::fmt::Display| {
        CliError::new(Exit::Failed, format!("MCP on standard input: {error}"))
    };
    let running = rmcp::serve_server(server, (tokio::io::stdin(), tokio::io::stdout()));
    let running = match running.await {
        Ok(running) => running,
        // A client that ends before it has said anything is no failure.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(failed(&error)),
    };
    running.waiting().await.map(drop).map_err(|error| failed(&error))
}
