//! `mesh follow`: one log of what a team does: who found, said, asked, decided, learnt. Of a space or of one session.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    convene::session_lines,
    endpoints::{self, AtArgs},
    exit::{CliError, Exit},
    located_task,
    output::{self, Colour},
    watch::{status_of, text_of},
};
use clap::Args;
use futures_util::StreamExt;
use patterns::session::names::SESSION;
use protocol::{
    routes,
    spaces::{Entry, EntryKind, EntryState, SpaceId},
    task::{EXTENSION, TaskState},
};
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};
use tokio::sync::mpsc;

/// The space of tasks that name none.
const DEFAULT_SPACE: &str = "default";
/// How often new tasks are looked for.
const LOOK: Duration = Duration::from_secs(1);
/// The pause before a broken stream is resumed.
const RESUME: Duration = Duration::from_secs(1);
/// With `--all`: what comes before a pause of this length is sorted by its time.
const QUIET: Duration = Duration::from_millis(500);
/// The longest that it is awaited.
const PAST: Duration = Duration::from_secs(5);
/// Lines that may wait to be printed.
const WAITING: usize = 256;

#[derive(Debug, Args)]
pub(super) struct FollowArgs {
    /// A session, by its task, or a space; the space `default` if absent.
    #[arg(value_name = "SESSION|SPACE")]
    what: Option<String>,
    /// The space in which a session runs, if its task does not tell.
    #[arg(long, value_name = "NAME", default_value = "default")]
    space: SpaceId,
    /// Begin with what there is, not with what comes.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    at: AtArgs,
}

/// One thing that somebody did.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct LogLine {
    at: String,
    who: String,
    /// `found`, `said`, `asked`, `answered`, `proposed`, `decided`, `learnt`, and what became of such.
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    text: String,
    /// The task or the entry.
    id: String,
}

impl LogLine {
    fn print(&self, common: &CommonArgs) -> Result<(), CliError> {
        if common.json {
            return output::json_line(self);
        }
        let colour = match self.what {
            "found" | "learnt" => Colour::Green,
            "asked" | "proposed" => Colour::Yellow,
            "decided" | "merged" => Colour::Cyan,
            "failed" | "rejected" | "withdrew" => Colour::Red,
            _ => Colour::Grey,
        };
        let to = self.to.as_ref().map(|to| format!(" {}", output::plain(to))).unwrap_or_default();
        let time = self.at.get(11..19).unwrap_or(&self.at);
        let (who, what) = (output::plain(&self.who), output::paint(self.what, colour));
        output::line(&format!("{time} {who} {what}{to}: {}", output::plain(&self.text)))
    }
}

type Lines = mpsc::Sender<Result<LogLine, CliError>>;

pub(super) async fn follow(common: &CommonArgs, args: FollowArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let board = client.board().await?;
    let agents = args.at.endpoints(&client).await?;
    let named = args.what.as_deref();
    let session = match named {
        Some(name) => {
            let found = located_task::find(&client, &agents, name).await.ok();
            // Every agent of a process answers for the tasks of all; a list has those of one.
            let lists = endpoints::get_each(&client, &agents, &format!("{}?limit=100", routes::TASKS)).await;
            let has_it =
                |list: &Value| list["tasks"].as_array().into_iter().flatten().any(|task| task["id"] == name);
            let whose = lists.iter().find(|(_, list)| list.as_ref().is_ok_and(has_it));
            let whose = whose.map(|(agent, _)| agent.agent.to_string());
            found.map(|found| {
                let ours = &found.task["metadata"][EXTENSION];
                let agent = whose.clone().unwrap_or_else(|| found.endpoint.clone());
                let space = ours["space"].as_str().and_then(|space| SpaceId::parse(space).ok());
                (found.id(), found.endpoint, agent, space)
            })
        }
        None => None,
    };
    let space = match (&session, named) {
        (None, Some(name)) => SpaceId::parse(name).map_err(|bad| {
            CliError::new(Exit::Usage, format!("{name} is no task of yours, and no space: {bad}"))
        })?,
        (Some((.., Some(space))), _) => space.clone(),
        _ => args.space.clone(),
    };
    let (lines, mut come) = mpsc::channel(WAITING);
    let query = session.as_ref().map(|(task, ..)| format!("session={}", encoded(task))).unwrap_or_default();
    let path = format!("{}/{}/entries", routes::SPACES, encoded(space.as_str()));
    let after = match args.all {
        true => "start".to_owned(),
        false => {
            let page: Value = client.get(&board, &format!("{path}?limit=1")).await?;
            page["cursor"].as_str().unwrap_or_default().to_owned()
        }
    };
    let only_session = session.as_ref().map(|(task, ..)| task.clone());
    let entries = Entries { client: client.clone(), board, path, query, after, session: only_session };
    let entries = actix::spawn(entries.follow(lines.clone()));
    match session {
        Some((task, endpoint, agent, _)) => {
            actix::spawn(async move {
                let followed = follow_task(&client, (&endpoint, &agent), &task, &lines).await;
                if let Err(failure) = followed {
                    let _ = lines.send(Err(failure)).await;
                }
                // What was released at its end is still to come.
                tokio::time::sleep(RESUME).await;
                entries.abort();
            });
        }
        None => {
            let in_space = named.map(|_| space.clone());
            actix::spawn(follow_tasks(client, args.at, args.all, in_space, lines));
        }
    }
    if args.all {
        // What there is comes from several streams.
        let mut past = Vec::new();
        let latest = tokio::time::Instant::now() + PAST;
        while let Ok(Some(line)) =
            tokio::time::timeout_at(latest.min(tokio::time::Instant::now() + QUIET), come.recv()).await
        {
            past.push(line?);
        }
        past.sort_by(|one, other| one.at.cmp(&other.at));
        past.iter().try_for_each(|line| line.print(common))?;
    }
    while let Some(line) = come.recv().await {
        line?.print(common)?;
    }
    Ok(())
}

/// The changes of entries.
struct Entries {
    client: MeshClient,
    board: String,
    path: String,
    query: String,
    after: String,
    /// Only what belongs to this session.
    session: Option<String>,
}

impl Entries {
    async fn follow(mut self, lines: Lines) {
        loop {
            let path = format!("{}/stream?{}", self.path, self.query);
            let path = if self.after == "start" { format!("{path}&after=start") } else { path };
            let last = Some(self.after.clone()).filter(|after| after != "start");
            match self.client.follow(&self.board, &path, last.as_deref()).await {
                Ok(mut events) => {
                    while let Some(Ok(event)) = events.next().await {
                        if !event.id.is_empty() {
                            self.after = event.id;
                        }
                        let entry = serde_json::from_value::<Entry>(event.data).ok();
                        let entry = entry.filter(|entry| self.is_wanted(entry));
                        if let Some(line) = entry.as_ref().and_then(of_entry)
                            && lines.send(Ok(line)).await.is_err()
                        {
                            return;
                        }
                    }
                }
                Err(failure) if failure.exit == Exit::Unreachable => {}
                Err(failure) => return drop(lines.send(Err(failure)).await),
            }
            tokio::time::sleep(RESUME).await;
        }
    }

    /// Of a session its findings, and what its seats and their tasks propose, decide and learn meanwhile.
    fn is_wanted(&self, entry: &Entry) -> bool {
        let session = entry.session.as_ref().map(|session| session.as_str());
        self.session.is_none() || entry.kind != EntryKind::Finding || session == self.session.as_deref()
    }
}

/// What the change of an entry is to a reader of the log.
fn of_entry(entry: &Entry) -> Option<LogLine> {
    let what = match (entry.kind, entry.state) {
        (EntryKind::Finding, EntryState::Open) => "found",
        (_, EntryState::Withdrawn) => "withdrew",
        (EntryKind::Proposal, EntryState::Pending) => "proposed",
        (_, EntryState::Merged) => "merged",
        (_, EntryState::Rejected) => "rejected",
        (EntryKind::Decision, EntryState::Active) => "decided",
        (EntryKind::Memory, EntryState::Active) => "learnt",
        (_, EntryState::Superseded | EntryState::Archived) => "archived",
        _ => return None,
    };
    let who = entry.changed_by.as_ref().unwrap_or(&entry.author).to_string();
    let who = who.strip_prefix("agent:").map_or(who.clone(), str::to_owned);
    let title = Some(entry.title.as_str()).filter(|title| !title.is_empty());
    let text = title.map_or_else(|| entry.content.clone(), |title| format!("{title}: {}", entry.content));
    let (at, id) = (entry.changed_at.to_string(), entry.id.to_string());
    Some(LogLine { at, who, what, to: None, text, id })
}

/// Follows the person's tasks: those that begin, and with `all` those that there are.
async fn follow_tasks(client: MeshClient, at: AtArgs, all: bool, in_space: Option<SpaceId>, lines: Lines) {
    let mut known = BTreeSet::new();
    let mut is_first = true;
    while !lines.is_closed() {
        let agents = at.endpoints(&client).await.unwrap_or_default();
        let path = format!("{}?limit=100", routes::TASKS);
        for (agent, answer) in endpoints::get_each(&client, &agents, &path).await {
            let found = answer.unwrap_or_default();
            for task in found["tasks"].as_array().into_iter().flatten() {
                let Some(id) = task["id"].as_str().map(str::to_owned) else { continue };
                let ours = &task["metadata"][EXTENSION];
                // What agents give each other, and themselves, is told by the task of a person.
                let is_part = ours["path"].as_array().is_some_and(|path| !path.is_empty())
                    || !ours["owner"].as_str().is_some_and(|owner| owner.starts_with("user:"))
                    || in_space.as_ref().is_some_and(|space| {
                        ours["space"].as_str().unwrap_or(DEFAULT_SPACE) != space.as_str()
                    });
                let (state, _) = status_of(&task["status"]);
                let has_ended = state.is_some_and(TaskState::is_terminal);
                let is_old = is_first && has_ended && !all;
                if is_part || !known.insert(id.clone()) || is_old {
                    continue;
                }
                let (client, lines, name) = (client.clone(), lines.clone(), agent.agent.to_string());
                let (endpoint, asked) = (agent.endpoint.clone(), ours["description"].clone());
                let created = ours["createdAt"].as_str().map(str::to_owned);
                actix::spawn(async move {
                    let at = created.unwrap_or_else(|| crate::clock::wall_time().to_string());
                    let text = asked.as_str().unwrap_or_default().to_owned();
                    let line = LogLine {
                        at,
                        who: "you".into(),
                        what: "said",
                        to: Some(name.clone()),
                        text,
                        id: id.clone(),
                    };
                    if lines.send(Ok(line)).await.is_ok() {
                        let _ = follow_task(&client, (&endpoint, &name), &id, &lines).await;
                    }
                });
            }
        }
        is_first = false;
        tokio::time::sleep(LOOK).await;
    }
}

/// Follows one task of `agent` to its end.
async fn follow_task(
    client: &MeshClient,
    (endpoint, agent): (&str, &str),
    task: &str,
    lines: &Lines,
) -> Result<(), CliError> {
    let path = format!("{}/{}/events", routes::TASKS, encoded(task));
    let mut last: Option<String> = None;
    let mut said = String::new();
    loop {
        let mut events = match client.follow(endpoint, &path, last.as_deref()).await {
            Ok(events) => events,
            Err(failure) if failure.exit == Exit::Unreachable => {
                tokio::time::sleep(RESUME).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        while let Some(Ok(event)) = events.next().await {
            if !event.id.is_empty() {
                last = Some(event.id);
            }
            let (line, has_ended) = of_event(&event.data, (agent, task), &mut said);
            if let Some(line) = line
                && lines.send(Ok(line)).await.is_err()
            {
                return Ok(());
            }
            if has_ended {
                return Ok(());
            }
        }
        tokio::time::sleep(RESUME).await;
    }
}

/// What an event of a task is to a reader of the log, and whether the task has ended. `said` is its last status that was shown.
fn of_event(data: &Value, (agent, task): (&str, &str), said: &mut String) -> (Option<LogLine>, bool) {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |at: &Value, who: String, what, to: Option<String>, text: String| {
        Some(LogLine { at: word(at), who, what, to, text, id: task.to_owned() })
    };
    let activity = &data["activity"];
    match activity["kind"].as_str() {
        Some("asked") => {
            let to = Some(word(&activity["to"]));
            return (
                line(&activity["timestamp"], agent.to_owned(), "asked", to, word(&activity["text"])),
                false,
            );
        }
        Some("answered") => {
            let text = [word(&activity["state"]), word(&activity["text"])];
            let text = text.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
            let (who, to) = (word(&activity["by"]), Some(agent.to_owned()));
            return (line(&activity["timestamp"], who, "answered", to, text), false);
        }
        Some(_) | None => {}
    }
    if let Some(speech) = session_lines::speech(&data["artifactUpdate"]["artifact"]) {
        let at = &data["artifactUpdate"]["artifact"]["metadata"][SESSION]["at"];
        let (head, text) = speech.split_once(": ").unwrap_or(("", &speech));
        let (_, who) = head.split_once("] ").unwrap_or(("", head));
        return (line(at, who.to_owned(), "said", None, text.to_owned()), false);
    }
    let status = match (&data["task"]["status"], &data["statusUpdate"]["status"]) {
        (Value::Null, status) | (status, _) => status,
    };
    let (Some(state), _) = status_of(status) else { return (None, false) };
    let text = text_of(status);
    let is_shown = state.is_terminal() || state.is_interrupted();
    if !is_shown || *said == text && !state.is_terminal() {
        return (None, false);
    }
    said.clone_from(&text);
    let (what, to) = match state {
        TaskState::Completed => ("said", Some("you".to_owned())),
        _ if state.is_interrupted() => ("asked", Some("you".to_owned())),
        _ => ("failed", None),
    };
    (line(&status["timestamp"], agent.to_owned(), what, to, text), state.is_terminal())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_events_of_a_task_say_who_asked_answered_and_said() {
        let mut said = String::new();
        let mut of = |data: Value| {
            let (line, has_ended) = of_event(&data, ("oracle", "t-1"), &mut said);
            (line.map(|line| (line.who, line.what, line.to, line.text)), has_ended)
        };
        let asked = json!({ "activity": { "kind": "asked", "to": "guardian", "text": "why?" } });
        let to = |name: &str| Some(name.to_owned());
        assert_eq!(of(asked).0, Some(("oracle".into(), "asked", to("guardian"), "why?".into())));
        let answered = json!({ "activity": { "kind": "answered", "by": "guardian", "state": "completed" } });
        assert_eq!(of(answered).0, Some(("guardian".into(), "answered", to("oracle"), "completed".into())));
        let status = |state: &str, text: &str| {
            json!({ "statusUpdate": { "status": { "state": state,
                "message": { "parts": [{ "text": text }] } } } })
        };
        assert_eq!(of(status("TASK_STATE_WORKING", "at work")), (None, false));
        let done = of(status("TASK_STATE_COMPLETED", "found it"));
        assert_eq!(done, (Some(("oracle".into(), "said", to("you"), "found it".into())), true));
    }
}
