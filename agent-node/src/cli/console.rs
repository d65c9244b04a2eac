//! `mesh console`: opens the console in a browser, signed in.

use super::{
    CommonArgs,
    client::MeshClient,
    endpoints::{AtArgs, recipient},
    exit::CliError,
    output,
};
use crate::console_paths;
use clap::Args;
use serde_json::json;
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// The programs that open a URL, the usual one of each system first.
const OPENERS: [&str; 4] = ["xdg-open", "open", "wslview", "sensible-browser"];

/// `mesh console`.
#[derive(Debug, Args)]
pub(super) struct ConsoleArgs {
    /// The agent whose console is opened; if not given, that of all agents of the process at the URL.
    agent: Option<String>,
    /// Print the link and open nothing.
    #[arg(long)]
    no_open: bool,
    /// End all of your sessions there instead.
    #[arg(long, conflicts_with = "no_open")]
    sign_out: bool,
    #[command(flatten)]
    at: AtArgs,
}

pub(super) async fn console(common: &CommonArgs, args: ConsoleArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let base = match (args.at.base(), &args.agent) {
        (Some(at), None) => at,
        (None, None) => client.url.clone(),
        (_, Some(agent)) => recipient(&client, &args.at, Some(agent.as_str())).await?.endpoint,
    };
    if args.sign_out {
        let ended = client.delete_for(&base, console_paths::SESSIONS).await?;
        return match common.json {
            true => output::json(&ended),
            false => output::line(&format!("{} sessions ended", ended["ended"])),
        };
    }
    let made = client.post(&base, console_paths::LINKS, &json!({})).await?;
    let code = made["code"].as_str().unwrap_or_default();
    // Browsers keep what follows `#` to themselves: no server and no log sees the code.
    let link = format!("{}/#code={code}", base.trim_end_matches('/'));
    if common.json {
        return output::json(&json!({ "url": link }));
    }
    output::line(&link)?;
    if !args.no_open {
        match open(&link) {
            true => output::note("the link is opened in your browser; it signs in once, within two minutes"),
            false => output::note("no browser was found: open the link yourself, within two minutes"),
        }
    }
    Ok(())
}

/// Opens `link` by the first program of this machine that opens URLs; whether there is one.
fn open(link: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |name: &str| std::env::split_paths(&path).any(|folder| Path::new(&folder).join(name).is_file());
    let browser = std::env::var("BROWSER").ok().filter(|browser| !browser.is_empty());
    let program = browser.or_else(|| OPENERS.into_iter().find(|name| is_there(name)).map(str::to_owned));
    let Some(program) = program else { return false };
    let mut command = Command::new(program);
    command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
