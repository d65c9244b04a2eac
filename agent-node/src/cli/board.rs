//! `mesh board tail`: prints stored signals and follows new ones.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    exit::{CliError, Exit},
    output::{self, Colour},
};
use clap::{Args, Subcommand};
use futures_util::StreamExt;
use protocol::{
    problem::Reason,
    routes,
    signal::{Cursor, SignalRecord},
};
use serde_json::Value;
use std::{pin::pin, time::Duration};
use transport::http_client::redact_url;

#[derive(Debug, Subcommand)]
pub(super) enum BoardVerb {
    /// Print signals and follow new ones.
    Tail(TailArgs),
}

#[derive(Debug, Args)]
pub(super) struct TailArgs {
    /// Only these types; a `*` at the end stands for the rest (`task.*`).
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only signals that speak to one of these capabilities.
    #[arg(long, value_name = "NAME")]
    capability: Vec<String>,
    /// Only signals about this task.
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Only signals after this revision or cursor, or `now`: new ones only; from the first one kept if absent.
    #[arg(long, value_name = "REVISION")]
    after: Option<String>,
    /// Print what is there and return.
    #[arg(long)]
    no_follow: bool,
}

/// The pause before a broken stream is resumed.
pub(super) const RESUME_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn tail(common: &CommonArgs, mut tail: TailArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let board = client.board().await?;
    let explain = |failure: CliError| match failure.exit == Exit::Unreachable && board != client.url {
        true => CliError {
            message: format!(
                "{}; {} named it, say another address of the board with --url",
                failure.message,
                redact_url(&client.url)
            ),
            ..failure
        },
        false => failure,
    };
    let mut query: Vec<_> = tail.types.iter().map(|kind| format!("type={}", encoded(kind))).collect();
    query.extend(tail.capability.iter().map(|name| format!("capability={}", encoded(name))));
    query.extend(tail.task.iter().map(|id| format!("taskId={}", encoded(id))));
    if tail.after.as_deref() == Some("now") {
        let head: Value =
            client.get(&board, &format!("{}?limit=0", routes::SIGNALS)).await.map_err(explain)?;
        tail.after = serde_json::from_value::<Cursor>(head["next"].clone()).ok().map(|next| next.to_string());
    }
    if tail.no_follow {
        return print_pages(common, &client, &board, &query, tail.after).await.map_err(explain);
    }
    query.push(format!("after={}", encoded(tail.after.as_deref().unwrap_or("0"))));
    let path = format!("{}/stream?{}", routes::SIGNALS, query.join("&"));
    let mut last: Option<String> = None;
    let mut is_first = true;
    loop {
        let stream = match client.follow(&board, &path, last.as_deref()).await {
            Err(failure) if failure.reason == Some(Reason::GenerationChanged) && last.is_some() => {
                output::note(&format!("mesh: the board has lost its signals: {}", failure.message));
                last = Some("0".to_owned());
                continue;
            }
            Err(failure) if is_first || failure.exit != Exit::Unreachable => return Err(explain(failure)),
            Err(_) => None,
            Ok(stream) => Some(stream),
        };
        is_first = false;
        if let Some(stream) = stream {
            let mut events = pin!(stream);
            while let Some(Ok(event)) = events.next().await {
                if !event.id.is_empty() {
                    last = Some(event.id);
                }
                if event.data["revision"].is_u64() {
                    print(common, &event.data)?;
                } else if let Some(message) = event.data["error"]["message"].as_str() {
                    output::note(&format!("mesh: the board ended the stream: {}", output::plain(message)));
                }
            }
        }
        tokio::time::sleep(RESUME_PAUSE).await;
    }
}

async fn print_pages(
    common: &CommonArgs,
    client: &MeshClient,
    board: &str,
    query: &[String],
    mut after: Option<String>,
) -> Result<(), CliError> {
    loop {
        let cursor = after.as_ref().map(|cursor| format!("after={}", encoded(cursor)));
        let query: Vec<_> = query.iter().cloned().chain(cursor).chain(["limit=500".to_owned()]).collect();
        let page: Value = client.get(board, &format!("{}?{}", routes::SIGNALS, query.join("&"))).await?;
        let signals = page["signals"].as_array().cloned().unwrap_or_default();
        for signal in &signals {
            print(common, signal)?;
        }
        let next = serde_json::from_value::<Cursor>(page["next"].clone()).ok().map(|next| next.to_string());
        if signals.is_empty() || next.is_none() || next == after {
            return Ok(());
        }
        after = next;
    }
}

fn print(common: &CommonArgs, signal: &Value) -> Result<(), CliError> {
    if common.json {
        return output::json_line(signal);
    }
    let Ok(SignalRecord { revision, signal }) = serde_json::from_value(signal.clone()) else {
        return output::line(&output::plain(&signal.to_string()));
    };
    let kind = format!("{:<18}", signal.kind.as_str());
    let mut about = vec![signal.from.to_string()];
    about.extend(signal.task_id.iter().map(|id| format!("task={id}")));
    about.extend(signal.capability.iter().map(|name| format!("capability={name}")));
    about.extend(signal.subject.iter().map(|text| format!("subject={}", output::plain(text))));
    about.extend(signal.refs.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{}={}", output::plain(name), output::plain(&text))
    }));
    output::line(&format!(
        "{} {} {} {}",
        output::paint(&format!("{revision:>6}"), Colour::Grey),
        signal.at,
        output::paint(&kind, Colour::Cyan),
        about.join(" ")
    ))
}
