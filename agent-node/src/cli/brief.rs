//! `mesh brief`: what a space knows for an agent, as its next turn is given it.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    exit::{CliError, Exit},
    output,
};
use blackboard::board::BriefView;
use clap::Args;
use comfy_table::Cell;
use protocol::{
    ids::{AgentId, TaskId},
    routes,
    spaces::{
        SpaceId,
        brief::{BriefExplanation, short_id},
    },
    words::counted,
};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Args)]
pub(super) struct BriefArgs {
    /// The agent.
    agent: AgentId,
    /// The space.
    #[arg(long, value_name = "NAME", default_value = "default")]
    space: SpaceId,
    /// As a seat of this session is given it: with the findings of the session, in place of those of no session.
    #[arg(long, value_name = "TASK")]
    session: Option<TaskId>,
    /// A table of its parts in place of the text: what each is, why it is there, and its tokens.
    #[arg(long)]
    why: bool,
}

pub(super) async fn brief(common: &CommonArgs, args: BriefArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let board = client.board().await?;
    let (space, agent) = (encoded(args.space.as_str()), encoded(args.agent.as_str()));
    let session = args.session.map(|session| format!("&session={}", encoded(session.as_str())));
    let path = format!("{}/{space}/brief?for={agent}{}", routes::SPACES, session.unwrap_or_default());
    let answer: Value = client.get(&board, &path).await?;
    let BriefView { brief, vault_entries, explained } = BriefView::deserialize(&answer)
        .map_err(|error| CliError::new(Exit::Failed, format!("the board's answer can't be read: {error}")))?;
    let unknown = client.card_of(args.agent.as_str()).await.err();
    // An agent that has left may have memories.
    let is_no_agent = |failure: &CliError| {
        failure.exit == Exit::Refused && failure.reason.is_none() && vault_entries.unwrap_or(0) == 0
    };
    let unknown = match unknown {
        Some(failure) if is_no_agent(&failure) => return Err(failure),
        unknown => unknown,
    };
    if common.json {
        return output::json(&answer);
    }
    match brief.text.is_empty() {
        false if args.why => output::line(&table(explained)?)?,
        true => output::line(&format!("the space {} knows nothing for {}", args.space, args.agent))?,
        false => output::line(brief.text.trim_end())?,
    }
    let entries = counted(brief.included.len(), "entry", "entries");
    let mut notes = vec![format!("{entries}, {}", counted(brief.tokens, "token", "tokens"))];
    notes.extend(
        vault_entries
            .filter(|entries| *entries > 0)
            .map(|entries| format!("not shown: {} of its vault", counted(entries, "memory", "memories"))),
    );
    notes.extend(brief.omitted.iter().map(|omitted| {
        format!("left out: {} {}: {}", omitted.entry.kind, omitted.entry.id, output::plain(&omitted.why))
    }));
    notes.extend(unknown.map(|failure| failure.message));
    notes.iter().for_each(|note| output::note(note));
    Ok(())
}

/// What is in a brief, and why.
fn table(explained: Option<BriefExplanation>) -> Result<String, CliError> {
    let explained = explained.ok_or_else(|| {
        let why = "the board is of a version that does not say why: update its process";
        CliError::new(Exit::Failed, why.to_owned())
    })?;
    let rows = explained.items.iter().map(|item| {
        let id = item.entry.as_ref().map(|entry| short_id(&entry.id)).unwrap_or_default();
        let tokens = item.tokens.to_string();
        [&tokens, &item.layer, &id, &item.title, &item.why]
            .map(|text| Cell::new(output::plain(text)))
            .to_vec()
    });
    let table = output::table(&["tokens", "layer", "id", "title", "why"], rows);
    let BriefExplanation { budget, left, .. } = &explained;
    Ok(format!("{table}\n\n{left} of {} tokens are left; decisions are beside them", budget.tokens))
}
