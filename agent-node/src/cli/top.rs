//! `mesh top`: what a mesh is doing now, on a full screen; once as tables or JSON for scripts.
//!
//! `overview` asks the mesh, `screen` draws what it has answered and is told which keys were pressed.

mod overview;
mod screen;

use super::{
    CommonArgs,
    client::MeshClient,
    endpoints::AtArgs,
    exit::{CliError, Exit},
    interrupt::InterruptSignals,
    live_view::LOOK_AGAIN,
    output,
};
use clap::Args;
use overview::MeshOverview;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEvent, KeyEventKind},
};
use screen::TopScreen;
use std::{io::IsTerminal, time::Duration};
use tokio::sync::mpsc;

/// How long the thread that reads keys waits: so much later it ends.
const KEY_WAIT: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(super) struct TopArgs {
    /// Print tables once, as `--json` prints JSON once.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    at: AtArgs,
}

pub(super) async fn top(common: &CommonArgs, args: TopArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let overview = MeshOverview::look(&client, &args.at).await?;
    if common.json {
        return output::json(&overview);
    }
    if args.once {
        return output::line(&overview.tables());
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(CliError::new(
            Exit::Usage,
            "there is no terminal; --once prints tables, --json prints JSON",
        ));
    }
    let mut signals = InterruptSignals::listen()?;
    let mut terminal = ratatui::try_init()?;
    let outcome = run(&mut terminal, overview, looks(client, args.at), &mut signals).await;
    ratatui::restore();
    outcome
}

/// Shows what `looks` brings, until the person leaves.
async fn run(
    terminal: &mut DefaultTerminal,
    mut overview: MeshOverview,
    mut looks: mpsc::Receiver<MeshOverview>,
    signals: &mut InterruptSignals,
) -> Result<(), CliError> {
    let mut screen = TopScreen::new(output::has_colours());
    let mut keys = keys();
    loop {
        terminal.draw(|frame| screen.draw(frame, &overview))?;
        tokio::select! {
            Some(look) = looks.recv() => overview = look,
            // A change of the size is drawn, too.
            key = keys.recv() => match key {
                // The terminal is gone.
                None => return Ok(()),
                Some(Some(key)) if !screen.press(key, &overview) => return Ok(()),
                Some(_) => {}
            },
            exit = signals.next() => return Err(CliError::new(exit, "")),
        }
    }
}

/// Looks at the mesh again and again. What fails is a problem of the overview.
fn looks(client: MeshClient, at: AtArgs) -> mpsc::Receiver<MeshOverview> {
    let (looks, receiver) = mpsc::channel(1);
    actix::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            let overview = MeshOverview::look(&client, &at).await.unwrap_or_else(MeshOverview::failed);
            if looks.send(overview).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// The keys that are pressed; `None` for another event of the terminal.
fn keys() -> mpsc::Receiver<Option<KeyEvent>> {
    let (keys, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !keys.is_closed() {
            match event::poll(KEY_WAIT) {
                Ok(true) => {}
                Ok(false) => continue,
                // It would fail at once again.
                Err(_) => return,
            }
            let key = match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Some(key),
                Ok(_) => None,
                Err(_) => return,
            };
            if keys.blocking_send(key).is_err() {
                return;
            }
        }
    });
    receiver
}
