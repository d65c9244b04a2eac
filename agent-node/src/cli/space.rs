//! `mesh space`: what a team knows. Lists spaces and entries, posts, proposes and decides, exports and imports.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    exit::{CliError, Exit},
    output::{self, Colour},
};
use clap::{Args, Subcommand, ValueEnum};
use protocol::{
    problem::Reason,
    routes,
    spaces::{
        Entry, EntryKind, EntryLink, EntryState, Space, SpaceId, brief::short_id, space::DEFAULT_SPACE,
    },
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

mod transfer;

/// How often `mesh space set` begins again when others change the space at the same time.
const MAX_SETS: u32 = 20;

#[derive(Debug, Args)]
pub(super) struct SpaceArgs {
    /// The space; `default` if absent, and for `import` that of the file.
    #[arg(long, global = true, value_name = "NAME")]
    space: Option<SpaceId>,
    #[command(subcommand)]
    verb: Option<SpaceCliVerb>,
}

#[derive(Debug, Subcommand)]
enum SpaceCliVerb {
    /// List the spaces you are a member of.
    #[command(visible_alias = "list")]
    Ls,
    /// Show a space: members, routing, what is merged without a person.
    Show,
    /// Create a space or change it: members and their roles.
    Set(SetArgs),
    /// List entries, the newest first.
    Entries(EntriesArgs),
    /// Post a finding, a memory or a decision.
    Post(PostArgs),
    /// Propose something to decide or to remember.
    Propose(ProposeArgs),
    /// Make a proposal a decision or a memory, as its type says.
    Merge(MergeArgs),
    /// Refuse a proposal; it is kept.
    Reject(RejectArgs),
    /// Replace a decision by another one.
    Supersede(SupersedeArgs),
    /// Take a decision or a memory out of use.
    Archive(DecideArgs),
    /// Take a finding back: briefs and searches no longer have it.
    /// With --of all that one principal has caused, by itself or by agents, goes out of use.
    Withdraw(WithdrawArgs),
    /// Let an entry into briefs that comes from below `member`.
    Accept(DecideArgs),
    /// Write a space and its entries to a file, one JSON object a line.
    Export(ExportArgs),
    /// Read the entries of such a file into a space.
    Import(ImportArgs),
}

#[derive(Debug, Args)]
struct SetArgs {
    /// A member and its role (owner, curator, member, observer): an agent, or user:NAME.
    #[arg(long = "member", value_name = "ID=ROLE", value_parser = member)]
    members: Vec<(String, String)>,
    /// A member to remove.
    #[arg(long, value_name = "ID")]
    remove: Vec<String>,
    /// A type of proposals that the curator merges by itself: learning, pattern or update.
    #[arg(long, value_name = "TYPE")]
    auto_merge: Vec<String>,
}

#[derive(Debug, Args)]
struct EntriesArgs {
    /// Only this kind: finding, proposal, decision, memory, message or artifact.
    #[arg(long)]
    kind: Vec<String>,
    /// Only this state, such as pending or active.
    #[arg(long)]
    status: Vec<String>,
    /// Only this type, such as architectural or learning.
    #[arg(long = "type")]
    types: Vec<String>,
    /// Only entries of this agent, or of user:NAME.
    #[arg(long)]
    author: Option<String>,
    /// Only entries with this tag.
    #[arg(long)]
    tag: Vec<String>,
    /// Of findings only those of this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only entries with all these words; the most important first.
    #[arg(long)]
    text: Option<String>,
    /// At most so many.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Then print changes as they happen.
    #[arg(long)]
    follow: bool,
}

/// What [`PostArgs`] can post.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PostedKind {
    Finding,
    Memory,
    Decision,
}

#[derive(Debug, Args)]
struct PostArgs {
    /// What it is.
    kind: PostedKind,
    /// The text.
    text: String,
    /// low, medium or high; of a finding.
    #[arg(long)]
    severity: Option<String>,
    /// own or team; of a memory.
    #[arg(long)]
    scope: Option<String>,
    #[command(flatten)]
    about: AboutArgs,
}

#[derive(Debug, Args)]
struct ProposeArgs {
    /// Its name: lower-case words joined by `-`.
    slug: String,
    /// The text.
    text: String,
    #[command(flatten)]
    about: AboutArgs,
}

/// What every post may have.
#[derive(Debug, Args)]
struct AboutArgs {
    /// A decision: architectural, scope, process, technical; a memory: core-context, learning, pattern, update.
    #[arg(long = "type")]
    entry_type: Option<String>,
    /// A title.
    #[arg(long)]
    title: Option<String>,
    /// low, medium or high; of a memory or a proposal.
    #[arg(long)]
    importance: Option<String>,
    /// A word to find it by.
    #[arg(long)]
    tag: Vec<String>,
}

#[derive(Debug, Args)]
struct MergeArgs {
    #[command(flatten)]
    decide: DecideArgs,
    /// The version that you decide on; refused if its author has changed it since.
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

#[derive(Debug, Args)]
struct DecideArgs {
    /// The entry's id, the short one of a brief, or the slug of its proposal.
    id: String,
    /// Why.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
struct WithdrawArgs {
    /// The finding's id, or the short one of a brief.
    #[arg(required_unless_present = "of", conflicts_with = "of")]
    id: Option<String>,
    /// All that this principal has caused: user:NAME, or an agent.
    #[arg(long, value_name = "PRINCIPAL")]
    of: Option<String>,
    /// Why.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
struct RejectArgs {
    /// The entry's id, or the slug of a pending proposal.
    id: String,
    /// Why.
    reason: String,
}

#[derive(Debug, Args)]
struct SupersedeArgs {
    /// The decision that is replaced: its id, or the slug of its proposal.
    id: String,
    /// The decision in force, likewise.
    #[arg(long, value_name = "ID|SLUG")]
    by: String,
    /// Why.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// The file; standard output if absent.
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ImportArgs {
    /// A file that `mesh space export` has written.
    file: PathBuf,
}

fn member(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(id, role)| (id.to_owned(), role.to_owned()));
    pair.ok_or_else(|| format!("{text:?} is no member and role; one like planner-01=curator is wanted"))
}

#[derive(Debug, Clone, Copy)]
enum Slugged {
    /// The proposal; a pending one if there is one.
    Proposal,
    /// What a merged proposal became.
    Result,
}

/// A mesh's board, and a space there.
struct SpaceClient {
    client: MeshClient,
    board: String,
    path: String,
}

/// The spaces that the caller may see.
#[derive(Deserialize)]
pub(super) struct SpaceList {
    pub(super) spaces: Vec<Space>,
}

pub(super) async fn space(common: &CommonArgs, args: SpaceArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let board = client.board().await?;
    let named = args.space.as_ref();
    let is_named = named.is_some();
    let path = format!("{}/{}", routes::SPACES, named.map_or(DEFAULT_SPACE, SpaceId::as_str));
    let of = SpaceClient { client, board, path };
    match args.verb.unwrap_or(SpaceCliVerb::Ls) {
        SpaceCliVerb::Ls => of.ls(common).await,
        SpaceCliVerb::Show => of.show(common).await,
        SpaceCliVerb::Set(set) => of.set(common, set).await,
        SpaceCliVerb::Entries(entries) => of.entries(common, entries).await,
        SpaceCliVerb::Post(post) => of.post(common, post).await,
        SpaceCliVerb::Propose(propose) => of.propose(common, propose).await,
        SpaceCliVerb::Merge(MergeArgs { decide, if_version }) => {
            let mut body = reason(decide.reason);
            body.extend(if_version.map(|version| ("version".to_owned(), json!(version))));
            of.decide(common, ("merge", Slugged::Proposal), &decide.id, body).await
        }
        SpaceCliVerb::Archive(args) => {
            of.decide(common, ("archive", Slugged::Result), &args.id, reason(args.reason)).await
        }
        SpaceCliVerb::Withdraw(args) => {
            let WithdrawArgs { id, of: principal, reason: why } = args;
            match (id, principal) {
                (_, Some(principal)) => of.withdraw_all(common, &principal, reason(why)).await,
                (id, None) => {
                    let id = id.unwrap_or_default();
                    of.decide(common, ("withdraw", Slugged::Result), &id, reason(why)).await
                }
            }
        }
        SpaceCliVerb::Accept(args) => {
            of.decide(common, ("accept", Slugged::Proposal), &args.id, reason(args.reason)).await
        }
        SpaceCliVerb::Reject(args) => {
            of.decide(common, ("reject", Slugged::Proposal), &args.id, reason(Some(args.reason))).await
        }
        SpaceCliVerb::Supersede(args) => {
            let mut body = reason(args.reason);
            body.insert("by".to_owned(), json!(args.by));
            of.decide(common, ("supersede", Slugged::Result), &args.id, body).await
        }
        SpaceCliVerb::Export(args) => transfer::export(&of, args.file.as_deref()).await,
        SpaceCliVerb::Import(args) => transfer::import(common, of, is_named, &args.file).await,
    }
}

fn reason(reason: Option<String>) -> Map<String, Value> {
    reason.map(|reason| ("reason".to_owned(), json!(reason))).into_iter().collect()
}

impl SpaceClient {
    fn choose(&mut self, named: &SpaceId) {
        self.path = format!("{}/{named}", routes::SPACES);
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        self.client.get(&self.board, &format!("{}{path}", self.path)).await
    }

    async fn ls(&self, common: &CommonArgs) -> Result<(), CliError> {
        let list: Value = self.client.get(&self.board, routes::SPACES).await?;
        if common.json {
            return output::json(&list);
        }
        let SpaceList { spaces } = parsed(list)?;
        let rows = spaces.iter().map(|space| {
            let members = match (space.is_default(), space.members.len()) {
                (true, 0) => "every agent and user".to_owned(),
                (true, named) => format!("every agent and user, {named} by name"),
                (false, members) => members.to_string(),
            };
            vec![space.id.as_str().into(), members.into(), space.version.to_string().into()]
        });
        output::line(&output::table(&["space", "members", "version"], rows))
    }

    async fn show(&self, common: &CommonArgs) -> Result<(), CliError> {
        let shown: Value = self.get("").await?;
        if common.json {
            return output::json(&shown);
        }
        let space: Space = parsed(shown.clone())?;
        let text = |name: &str| shown[name].as_str().unwrap_or_default().to_owned();
        let types: Vec<String> = space.auto_merge.iter().map(ToString::to_string).collect();
        output::line(&format!("{}: version {}, routing {}", space.id, space.version, text("routing")))?;
        output::line(&format!(
            "may be merged without a person: {}",
            if types.is_empty() { "nothing".to_owned() } else { types.join(", ") }
        ))?;
        if space.is_default() {
            output::line("every agent and every user with a credential is a member")?;
        }
        let rows =
            space.members.iter().map(|(id, role)| vec![id.to_string().into(), role.to_string().into()]);
        if space.members.is_empty() {
            Ok(())
        } else {
            output::line(&output::table(&["member", "role"], rows))
        }
    }

    /// Changes the space as it is now; if it was changed at the same time, the space as it is then.
    async fn set(&self, common: &CommonArgs, args: SetArgs) -> Result<(), CliError> {
        for _ in 0..MAX_SETS {
            let known: Result<Value, CliError> = self.get("").await;
            let mut space = match known {
                Ok(space) => space,
                Err(failure) if failure.reason == Some(Reason::SpaceNotFound) => {
                    json!({ "members": {}, "version": 0 })
                }
                Err(failure) => return Err(failure),
            };
            if let Some(members) = space["members"].as_object_mut() {
                args.remove.iter().for_each(|id| drop(members.remove(id)));
                members.extend(args.members.iter().map(|(id, role)| (id.clone(), json!(role))));
            }
            if !args.auto_merge.is_empty() {
                space["autoMerge"] = json!(args.auto_merge);
            }
            match self.client.put(&self.board, &self.path, &space).await {
                Err(failure) if failure.reason == Some(Reason::SpaceChanged) => {}
                answer => {
                    let answer = answer?;
                    let text = format!("{} has version {}", field(&answer, "id"), answer["version"]);
                    return done(common, &answer, &text);
                }
            }
        }
        let why = format!("the space was changed by others {MAX_SETS} times meanwhile; try again");
        Err(CliError::new(Exit::Refused, why))
    }

    async fn entries(&self, common: &CommonArgs, args: EntriesArgs) -> Result<(), CliError> {
        let mut query = Vec::new();
        for (name, values) in
            [("kind", &args.kind), ("status", &args.status), ("type", &args.types), ("tag", &args.tag)]
        {
            query.extend(values.iter().map(|value| format!("{name}={}", encoded(value))));
        }
        query.extend(args.author.iter().map(|author| format!("author={}", encoded(author))));
        query.extend(args.session.iter().map(|session| format!("session={}", encoded(session))));
        let selected = query.join("&");
        query.extend(args.text.iter().map(|text| format!("text={}", encoded(text))));
        query.push(format!("limit={}", args.limit));
        let page: Value = self.get(&format!("/entries?{}", query.join("&"))).await?;
        let entries: Vec<Entry> = parsed(page["entries"].clone())?;
        match (common.json, args.follow) {
            (true, false) => return output::json(&page),
            (true, true) => entries.iter().try_for_each(output::json_line)?,
            (false, _) if entries.is_empty() && !args.follow => return output::line("no entries"),
            (false, true) => entries.iter().rev().try_for_each(print)?,
            (false, false) => entries.iter().try_for_each(print)?,
        }
        if args.follow {
            return self.follow(common, &selected, page["cursor"].as_str().unwrap_or_default()).await;
        }
        if page["next"].is_string() {
            output::note("…and more: --limit shows up to 1000")
        }
        Ok(())
    }

    async fn follow(&self, common: &CommonArgs, query: &str, cursor: &str) -> Result<(), CliError> {
        use futures_util::StreamExt;
        let mut last = cursor.to_owned();
        loop {
            let path = format!("{}/entries/stream?{query}", self.path);
            let mut events = match self.client.follow(&self.board, &path, Some(&last)).await {
                Err(failure) if failure.exit == Exit::Unreachable => {
                    tokio::time::sleep(super::board::RESUME_PAUSE).await;
                    continue;
                }
                events => events?,
            };
            while let Some(Ok(event)) = events.next().await {
                if !event.id.is_empty() {
                    last = event.id;
                }
                if let Some(message) = event.data["error"]["message"].as_str() {
                    output::note(&format!("mesh: the board ended the stream: {}", output::plain(message)));
                } else if event.data.is_object() {
                    match common.json {
                        true => output::json_line(&event.data)?,
                        false => print(&parsed(event.data)?)?,
                    }
                }
            }
            tokio::time::sleep(super::board::RESUME_PAUSE).await;
        }
    }

    async fn post(&self, common: &CommonArgs, args: PostArgs) -> Result<(), CliError> {
        let mut draft = draft(args.about, &args.text);
        let kind = match args.kind {
            PostedKind::Finding => EntryKind::Finding,
            PostedKind::Memory => EntryKind::Memory,
            PostedKind::Decision => EntryKind::Decision,
        };
        draft.insert("kind".to_owned(), json!(kind));
        draft.extend(args.severity.map(|severity| ("severity".to_owned(), json!(severity))));
        draft.extend(args.scope.map(|scope| ("scope".to_owned(), json!(scope))));
        let answer =
            self.client.post(&self.board, &format!("{}/entries", self.path), &Value::Object(draft)).await?;
        done(common, &answer, &format!("posted {}", field(&answer, "id")))
    }

    async fn propose(&self, common: &CommonArgs, args: ProposeArgs) -> Result<(), CliError> {
        let mut draft = draft(args.about, &args.text);
        draft.insert("kind".to_owned(), json!(EntryKind::Proposal));
        draft.insert("slug".to_owned(), json!(args.slug));
        let answer =
            self.client.post(&self.board, &format!("{}/entries", self.path), &Value::Object(draft)).await?;
        let (slug, id) = (field(&answer, "slug"), field(&answer, "id"));
        let text = format!("proposed {slug}, version {} ({id})", answer["version"]);
        done(common, &answer, &text)
    }

    async fn decide(
        &self,
        common: &CommonArgs,
        (action, slugged): (&str, Slugged),
        id: &str,
        body: Map<String, Value>,
    ) -> Result<(), CliError> {
        let path = |id: &str| format!("{}/entries/{}/{action}", self.path, encoded(id));
        let mut body = Value::Object(body);
        let answer = match self.client.post(&self.board, &path(id), &body).await {
            Err(failure) if failure.reason == Some(Reason::EntryNotFound) => {
                let found = match self.with_short_id(id).await? {
                    Some(found) => Some(found),
                    None => self.with_slug(id, slugged).await?,
                };
                let by = match body["by"].as_str() {
                    Some(by) => self.with_slug(by, slugged).await?,
                    None => None,
                };
                if found.is_none() && by.is_none() {
                    return Err(failure);
                }
                if let Some(by) = by {
                    body["by"] = json!(by);
                }
                self.client.post(&self.board, &path(found.as_deref().unwrap_or(id)), &body).await?
            }
            answer => answer?,
        };
        let became = answer["became"].as_str().map(|id| format!("; it became {}", output::plain(id)));
        let text =
            format!("{} is {}{}", field(&answer, "id"), field(&answer, "state"), became.unwrap_or_default());
        done(common, &answer, &text)
    }

    async fn withdraw_all(
        &self,
        common: &CommonArgs,
        principal: &str,
        mut body: Map<String, Value>,
    ) -> Result<(), CliError> {
        let principal = match principal.contains(':') {
            true => principal.to_owned(),
            false => format!("agent:{principal}"),
        };
        body.insert("principal".to_owned(), json!(principal));
        let path = format!("{}/withdraw", self.path);
        let answer = self.client.post(&self.board, &path, &Value::Object(body)).await?;
        let text = format!("{} entries of {principal} are out of use", answer["withdrawn"]);
        done(common, &answer, &text)
    }

    /// The id of the entry that has this short id in briefs, if there is one.
    async fn with_short_id(&self, short: &str) -> Result<Option<String>, CliError> {
        let page: Value = self.get(&format!("/entries?limit=100&text={}", encoded(short))).await?;
        let entries: Vec<Entry> = parsed(page["entries"].clone())?;
        let found = entries.into_iter().find(|entry| short_id(&entry.id) == short);
        Ok(found.map(|entry| entry.id.to_string()))
    }

    /// The id of the entry that this slug names, if there is one.
    async fn with_slug(&self, slug: &str, slugged: Slugged) -> Result<Option<String>, CliError> {
        let result = |entry: &Entry| entry.links.get(&EntryLink::Became).cloned();
        let is_meant = |entry: &Entry| match slugged {
            Slugged::Proposal => entry.state == EntryState::Pending,
            Slugged::Result => result(entry).is_some(),
        };
        let mut after = String::new();
        let mut found: Option<Entry> = None;
        loop {
            let page: Value = self.get(&format!("/entries?kind=proposal&limit=1000{after}")).await?;
            let entries: Vec<Entry> = parsed(page["entries"].clone())?;
            let is_it = |entry: &Entry| entry.slug.as_ref().is_some_and(|of| of.as_str() == slug);
            for entry in entries.into_iter().filter(is_it) {
                if found.is_none() || is_meant(&entry) {
                    found = Some(entry);
                }
            }
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", encoded(next)),
                None => {
                    let id = |entry: Entry| match slugged {
                        Slugged::Proposal => entry.id,
                        Slugged::Result => result(&entry).unwrap_or(entry.id),
                    };
                    return Ok(found.map(|entry| id(entry).to_string()));
                }
            }
        }
    }
}

fn draft(about: AboutArgs, text: &str) -> Map<String, Value> {
    let AboutArgs { entry_type, title, importance, tag } = about;
    let mut draft = Map::from_iter([("content".to_owned(), json!(text))]);
    let members = [("type", entry_type), ("title", title), ("importance", importance)];
    draft.extend(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))));
    if !tag.is_empty() {
        draft.insert("tags".to_owned(), json!(tag));
    }
    draft
}

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, CliError> {
    serde_json::from_value(value)
        .map_err(|error| CliError::new(Exit::Failed, format!("the board's answer can't be read: {error}")))
}

fn field(answer: &Value, name: &str) -> String {
    output::plain(answer[name].as_str().unwrap_or("-"))
}

fn done(common: &CommonArgs, answer: &Value, text: &str) -> Result<(), CliError> {
    if common.json { output::json(answer) } else { output::line(text) }
}

fn colour_of(state: EntryState) -> Colour {
    match state {
        EntryState::Pending | EntryState::Sealed => Colour::Yellow,
        EntryState::Active | EntryState::Open | EntryState::Posted => Colour::Green,
        EntryState::Merged | EntryState::Superseded | EntryState::Archived | EntryState::Withdrawn => {
            Colour::Grey
        }
        EntryState::Rejected => Colour::Red,
    }
}

/// Prints an entry: a line about it, then its text.
fn print(entry: &Entry) -> Result<(), CliError> {
    let mut about = vec![entry.author.to_string()];
    about.extend(entry.root.as_ref().map(|root| format!("for={root}")));
    about.extend(entry.is_unaccepted.then(|| "unaccepted".to_owned()));
    about.extend(entry.entry_type.map(|of| of.to_string()));
    about.extend(entry.severity.map(|of| format!("severity={of}")));
    about.extend(entry.importance.map(|of| format!("importance={of}")));
    about.extend(entry.slug.as_ref().map(|slug| format!("slug={slug}")));
    about.extend(entry.task.as_ref().map(|task| format!("task={task}")));
    about.extend(entry.tags.iter().map(|tag| format!("#{}", output::plain(tag))));
    about.extend(entry.links.iter().map(|(link, id)| {
        format!(
            "{}={id}",
            serde_json::to_value(link)
                .ok()
                .and_then(|name| name.as_str().map(str::to_owned))
                .unwrap_or_default()
        )
    }));
    output::line(&format!(
        "{} {} {} {} {}",
        output::paint(&format!("{:<8}", entry.kind.to_string()), Colour::Cyan),
        output::paint(&format!("{:<8}", entry.state.to_string()), colour_of(entry.state)),
        entry.at,
        output::paint(entry.id.as_str(), Colour::Grey),
        about.join(" ")
    ))?;
    let title = Some(&entry.title).filter(|title| !title.is_empty());
    let title = title.filter(|title| entry.slug.as_ref().is_none_or(|slug| slug.as_str() != *title));
    if let Some(title) = title {
        output::line(&format!("  {}", output::plain(title)))?;
    }
    output::line(&format!("  {}", output::plain(&entry.content)))?;
    match &entry.reason {
        Some(reason) => output::line(&format!("  {}: {}", entry.state, output::plain(reason))),
        None => Ok(()),
    }
}
