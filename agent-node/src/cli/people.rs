//! `mesh inbox` lists the questions and proposals that wait for you, and your tasks that have failed; `mesh answer` answers one.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    endpoints::{self, AgentEndpoint, AtArgs},
    exit::{CliError, Exit},
    live_view::{self, LiveLine, LiveView},
    located_task::{find, list_path, of_answer},
    output, prompt,
    questions::{open_questions, prove},
    space::SpaceList,
    watch::status_of,
};
use crate::{
    clock::wall_time,
    tasks::search::{ME, TaskSearch},
};
use clap::Args;
use console::views::task_line::{TaskLine, failures};
use protocol::{
    problem::Reason,
    question::{Question, QuestionKind},
    routes,
    spaces::Entry,
    time::WallTime,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{cmp::Reverse, collections::BTreeMap};

#[derive(Debug, Args)]
pub(super) struct InboxArgs {
    /// Go on: redraw the questions on a terminal and ring its bell for a new one; in a pipe print a line when one opens or closes.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    at: AtArgs,
}

#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    /// The task's id.
    task: String,
    /// The answer: a text, or one of the options.
    #[arg(required_unless_present_any = ["approve", "deny", "values"], conflicts_with_all = ["approve", "deny", "values"])]
    text: Option<String>,
    /// The question's id, as `mesh inbox` shows it; the task's only open question if absent.
    #[arg(long, value_name = "ID")]
    question: Option<String>,
    /// Approve what the question asks. Needs the person's token.
    #[arg(long, conflicts_with = "deny")]
    approve: bool,
    /// Deny it, or decline to answer.
    #[arg(long)]
    deny: bool,
    /// Why, beside `--approve` or `--deny`.
    #[arg(long, conflicts_with = "text")]
    reason: Option<String>,
    /// The values of a form, as a JSON object; beside `--approve` the arguments in place of those of the call.
    #[arg(long, value_name = "JSON", conflicts_with = "deny", value_parser = object)]
    values: Option<Map<String, Value>>,
    #[command(flatten)]
    at: AtArgs,
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("must be a JSON object: {error}"))
}

/// What waits for the person.
struct WaitingItems {
    questions: Vec<Value>,
    proposals: Vec<Entry>,
    /// The tasks of the last 7 days that have failed and were not sent again, the newest first.
    failed: Vec<TaskLine>,
    /// What could not be looked at, and why.
    left_out: Vec<String>,
}

impl WaitingItems {
    async fn look(client: &MeshClient, at: &AtArgs) -> Result<Self, CliError> {
        let endpoints = at.endpoints(client).await?;
        let mut left_out = Vec::new();
        // The agents of one process give the same answer.
        let mut items = BTreeMap::new();
        for (_, answer) in endpoints::get_all(client, &endpoints, routes::INBOX).await? {
            for item in answer["items"].as_array().into_iter().flatten() {
                items.insert(item["question"]["id"].to_string(), item.clone());
            }
        }
        if at.base().is_none()
            && let Some(gone) = endpoints::not_asked(client).await
        {
            left_out.push(format!("{gone}; their questions are not listed"));
        }
        let mut questions: Vec<Value> = items.into_values().collect();
        questions.sort_by_key(|item| {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let expires = text(&item["question"]["expiresAt"]);
            (expires.is_none(), expires, Reverse(text(&item["since"])))
        });
        let proposals = proposals(client).await.unwrap_or_else(|failure| {
            left_out.push(format!("proposals in spaces are not shown: {}", failure.message));
            Vec::new()
        });
        let failed = failed(client, &endpoints).await;
        Ok(Self { questions, proposals, failed, left_out })
    }

    /// All of it as text.
    fn shown(&self) -> String {
        let mut parts = Vec::new();
        if self.questions.is_empty() && self.proposals.is_empty() {
            parts.push("nothing waits for you".to_owned());
        }
        if !self.questions.is_empty() {
            parts.push(self.questions.iter().map(whole_question).collect::<Vec<_>>().join("\n\n"));
        }
        if !self.proposals.is_empty() {
            let rows = self.proposals.iter().map(|proposal| {
                let text = |value: Option<String>| output::plain(value.as_deref().unwrap_or("-")).into();
                vec![
                    text(Some(proposal.space.to_string())),
                    text(proposal.slug.as_ref().map(ToString::to_string)),
                    text(Some(proposal.version.to_string())),
                    text(proposal.entry_type.map(|of| of.to_string())),
                    text(Some(proposal.author.to_string())),
                    text(Some(proposal.content.chars().take(60).collect())),
                ]
            });
            parts.push(output::table(&["space", "proposal", "version", "type", "by", "proposes"], rows));
        }
        if !self.failed.is_empty() {
            let rows = self.failed.iter().map(|task| {
                let text = |text: &str| output::plain(&text.chars().take(60).collect::<String>()).into();
                vec![text(&task.id), text(&task.agent), text(&task.description), text(&task.message)]
            });
            parts.push(output::table(&["failed", "agent", "task", "why"], rows));
        }
        parts.join("\n")
    }

    /// All of it as a view that is followed.
    fn view(&self, is_json: bool) -> LiveView {
        let json =
            |change: &str, what: &str, value: Value| json!({ "change": change, what: value }).to_string();
        let mut lines = BTreeMap::new();
        for item in &self.questions {
            let text = |value: &Value| output::plain(value.as_str().unwrap_or("-"));
            let [task, agent, id, asks] =
                [&item["taskId"], &item["agentId"], &item["question"]["id"], &item["question"]["text"]]
                    .map(text);
            let line = |change: &str| match is_json {
                true => json(change, "item", item.clone()),
                false => format!("{change} {id} of task {task} at {agent}: {asks}"),
            };
            let line = LiveLine { text: line("opened"), at_end: Some(line("closed")) };
            lines.insert(format!("question {task} {id}"), line);
        }
        for proposal in &self.proposals {
            let line = |change: &str| match is_json {
                true => json(change, "proposal", json!(proposal)),
                false => {
                    let content: String = proposal.content.chars().take(60).collect();
                    let (by, content) = (proposal.author.to_string(), output::plain(&content));
                    format!("{change} proposal {} in {} by {by}: {content}", proposal.id, proposal.space)
                }
            };
            let line = LiveLine { text: line("opened"), at_end: Some(line("closed")) };
            lines.insert(format!("proposal {}", proposal.id), line);
        }
        let left_out = self.left_out.iter().map(|why| format!("\nmesh: {why}")).collect::<String>();
        LiveView { screen: self.shown() + &left_out, lines, rings: true }
    }
}

pub(super) async fn inbox(common: &CommonArgs, args: InboxArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    if args.watch {
        let look = async || Ok(WaitingItems::look(&client, &args.at).await?.view(common.json));
        return live_view::follow(look).await;
    }
    let items = WaitingItems::look(&client, &args.at).await?;
    for why in &items.left_out {
        output::note(&format!("mesh: {why}"));
    }
    if common.json {
        let failed = items.failed.iter().map(|task| {
            json!({ "agentId": task.agent, "taskId": task.id, "description": task.description, "why": task.message, "at": task.changed })
        });
        let failed: Vec<_> = failed.collect();
        return output::json(
            &json!({ "items": items.questions, "proposals": items.proposals, "failed": failed }),
        );
    }
    output::line(&items.shown())?;
    if !items.proposals.is_empty() {
        output::note(
            "decide with `mesh space merge PROPOSAL --space SPACE --if-version VERSION` or `mesh space reject PROPOSAL REASON --space SPACE`",
        );
    }
    if !items.failed.is_empty() {
        output::note("`mesh tasks retry TASK` sends a failed task again");
    }
    Ok(())
}

/// The most of the person's failed tasks at each agent, and of the last ones among which it is looked whether they were sent again.
const MOST_FAILED: usize = 50;
const MOST_TASKS: usize = 500;
/// For how long a failed task is listed.
const FAILED_SINCE_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// The person's tasks that have failed lately and were not sent again, the newest first.
async fn failed(client: &MeshClient, endpoints: &[AgentEndpoint]) -> Vec<TaskLine> {
    let since = WallTime(wall_time().0 - FAILED_SINCE_MS).to_string();
    let all = TaskSearch { requester: ME.to_owned(), since, ..TaskSearch::newest(MOST_TASKS) };
    let failed =
        TaskSearch { state: "failed".to_owned(), limit: Some(MOST_FAILED.to_string()), ..all.clone() };
    // Who does not answer was named when the questions were asked for.
    let mut answers = endpoints::get_each(client, endpoints, &list_path(&failed)).await;
    let has_tasks = |answer: &Value| answer["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty());
    // Usually there is none, and it need not be known what was sent again.
    if answers.iter().any(|(_, answer)| answer.as_ref().is_ok_and(has_tasks)) {
        answers.extend(endpoints::get_each(client, endpoints, &list_path(&all)).await);
    }
    let answers = answers.into_iter();
    let tasks = answers.filter_map(|(endpoint, answer)| Some(of_answer(&endpoint.agent, &answer.ok()?)));
    let lines = tasks
        .flatten()
        .filter_map(|(agent, task)| TaskLine::of_a2a(&agent, &serde_json::from_value(task).ok()?));
    failures(lines.collect())
}

/// The most proposals that are shown of a space, the oldest.
const MAX_PROPOSALS: usize = 100;

/// The pending proposals of all spaces of the person.
async fn proposals(client: &MeshClient) -> Result<Vec<Entry>, CliError> {
    let board = client.board().await?;
    let spaces: SpaceList = client.get(&board, routes::SPACES).await?;
    let mut proposals = Vec::new();
    for space in spaces.spaces {
        let query = format!("kind=proposal&status=pending&order=oldest&limit={MAX_PROPOSALS}");
        let path = format!("{}/{}/entries?{query}", routes::SPACES, encoded(space.id.as_str()));
        let page: ProposalPage = client.get(&board, &path).await?;
        proposals.extend(page.entries);
    }
    Ok(proposals)
}

#[derive(Deserialize)]
struct ProposalPage {
    entries: Vec<Entry>,
}

/// A question with the call, the options or the members that it is about.
fn whole_question(item: &Value) -> String {
    let text = |value: &Value| output::plain(value.as_str().unwrap_or("-"));
    let question = &item["question"];
    let asked = serde_json::from_value::<Question>(question.clone());
    let described = asked.map_or_else(|_| text(&question["text"]), |asked| prompt::describe_whole(&asked));
    let [task, agent, kind, id] =
        [&item["taskId"], &item["agentId"], &question["kind"], &question["id"]].map(text);
    format!("task {task} at {agent}, {kind} {id}\n{described}")
}

pub(super) async fn answer(common: &CommonArgs, args: AnswerArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let endpoints = args.at.endpoints(&client).await?;
    let AnswerArgs { task, text, question, approve, deny, reason, values, .. } = args;
    let found = find(&client, &endpoints, &task).await?;
    let task = found.id();
    let open = open_questions(&found.task);
    let mut body = match (text, values) {
        (Some(text), _) => json!({ "text": text }),
        (None, Some(values)) if approve => json!({ "decision": "approve", "values": values }),
        (None, Some(values)) => json!({ "values": values }),
        (None, None) => json!({ "decision": if approve && !deny { "approve" } else { "deny" } }),
    };
    let id = match (question, open.as_slice()) {
        (Some(id), _) => Some(id),
        (None, [only]) => Some(only.id.clone()),
        (None, []) => None,
        // The mesh finds the only one that takes a text.
        (None, _) if body.get("text").is_some() => None,
        (None, several) => {
            let ids: Vec<_> = several.iter().map(|asked| output::plain(&asked.id)).collect();
            let why =
                format!("task {task} asks several questions; name one by --question: {}", ids.join(", "));
            return Err(CliError::new(Exit::Usage, why));
        }
    };
    let asked = open.iter().find(|asked| Some(&asked.id) == id.as_ref());
    if let Some((asked, flag)) = asked.and_then(|asked| Some((asked, flag_for(asked, &body)?))) {
        let why = format!("{}\n{} takes {flag}", prompt::describe_whole(asked), output::plain(&asked.id));
        return Err(CliError::new(Exit::Usage, why));
    }
    if let (Some(asked), Some(text)) = (asked, body["text"].as_str())
        && asked.kind == QuestionKind::Choice
    {
        body["text"] = prompt::option(&asked.options, text).into();
    }
    if let Some(members) = body.as_object_mut() {
        members.extend(id.map(|id| ("questionId".to_owned(), id.into())));
        members.extend(reason.map(|reason| ("reason".to_owned(), reason.into())));
    }
    if approve && !is_confirmed(&found.task, &body).await? {
        return Err(CliError::new(Exit::Failed, "nothing is approved".to_owned()));
    }
    prove(&client, &found.endpoint, &found.task, &mut body).await;
    let path = format!("{}/{}/answer", routes::TASKS, encoded(&task));
    let after = match client.post(&found.endpoint, &path, &body).await {
        Err(mut failure)
            if failure.reason == Some(Reason::Forbidden)
                && client.person(&found.endpoint).await.is_none() =>
        {
            failure.message += "; no mesh in ~/.mesh is there: --token FILE names the token of that mesh (`token` in its data directory)";
            return Err(failure);
        }
        answered => answered?,
    };
    if common.json {
        return output::json(&after);
    }
    let state = status_of(&after["status"]).0;
    let state = state.ok_or_else(|| CliError::new(Exit::Failed, format!("{task} has no state")))?;
    output::line(&format!("{task} {}", output::paint(state.word(), output::colour_of(state))))
}

/// What answers `asked` on the command line, if `answer` is a text and the question takes none.
fn flag_for(asked: &Question, answer: &Value) -> Option<&'static str> {
    answer.get("text")?;
    match asked.kind {
        QuestionKind::Approval => Some("`--approve` or `--deny`"),
        QuestionKind::Form => Some("`--values JSON`"),
        QuestionKind::Text | QuestionKind::Choice | QuestionKind::Credential => None,
    }
}

/// Shows what `answer` approves, and asks for a yes if a person is at this terminal. A question that is not open is refused later.
async fn is_confirmed(task: &Value, answer: &Value) -> Result<bool, CliError> {
    let open = open_questions(task);
    let Some(asked) = open.iter().find(|asked| answer["questionId"] == asked.id.as_str()) else {
        return Ok(true);
    };
    output::note(&prompt::describe(asked));
    if !prompt::has_person() {
        return Ok(true);
    }
    prompt::confirm("approve? y or n: ").await
}
