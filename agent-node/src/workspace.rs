//! Repositories that sessions work in (DESIGN §14): the clone of a turn, the commit at its end, and what the host of the session does
//! with commits.

mod git;
mod nested;

use crate::{os_user::OsUser, private_dir};
use git::{Committer, Repository};
use patterns::{
    session::{
        names::SESSION,
        seat::SeatWorkspace,
        workspace::{WorkspaceOutcome, WorkspacePart, WorkspaceWork},
    },
    turn::TurnEnd,
};
use protocol::{
    artifact::{Artifact, PartContent},
    file_name,
    ids::{AgentId, ConversationId, Digest, TaskId},
    time::WallTime,
};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{DirBuilderExt as _, lchown},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Where the clones of an agent are, and whose they are.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceRights {
    /// The data of the node.
    pub data: PathBuf,
    /// The user of the brain, if that is another one.
    pub user: Option<OsUser>,
    /// Whether there may be clones.
    has_clones: Arc<AtomicBool>,
}

/// The clone of a turn.
#[derive(Debug)]
pub struct TurnWorkspace {
    pub dir: PathBuf,
    repository: Repository,
    seat: SeatWorkspace,
}

impl WorkspaceRights {
    /// The clones of `agent`, whose node has its data in `data`, and whose brain runs as `user`.
    pub fn new(agent: &AgentId, data: PathBuf, user: Option<OsUser>) -> Self {
        let has_clones = user.is_some() || data.join("brains").join(agent.as_str()).join("work").exists();
        Self { data, user, has_clones: Arc::new(AtomicBool::new(has_clones)) }
    }

    /// Whether there may be clones to remove.
    pub fn has_clones(&self) -> bool {
        self.has_clones.load(Ordering::Relaxed)
    }

    /// The clone of the conversation's turns, which is made if it is not there: a turn that begins again finds its files.
    pub async fn prepare(
        &self,
        agent: &AgentId,
        conversation: &ConversationId,
        seat: SeatWorkspace,
    ) -> Result<TurnWorkspace, String> {
        let repository = Repository::of_session(Path::new(&seat.source), &seat.key)?;
        git::check_version().await?;
        self.has_clones.store(true, Ordering::Relaxed);
        let dir = self.dir(agent, conversation)?;
        if !dir.join(".git").exists() {
            let new = dir.with_extension("new");
            let _ = fs::remove_dir_all(&new);
            repository.clone_to(&seat.base, &new).await?;
            if let Some(user) = &self.user {
                give(&new, user).map_err(|error| format!("{}: {error}", new.display()))?;
            }
            fs::rename(&new, &dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        }
        Ok(TurnWorkspace { dir, repository, seat })
    }

    /// Removes the clone when the conversation has ended.
    pub fn release(&self, agent: &AgentId, conversation: &ConversationId) {
        if let Ok(dir) = self.dir(agent, conversation) {
            remove(&dir);
        }
    }

    fn dir(&self, agent: &AgentId, conversation: &ConversationId) -> Result<PathBuf, String> {
        let work = private_dir::prepare(agent, &self.data, self.user.as_ref())?.join("work");
        fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
        if let Some(user) = &self.user {
            lchown(&work, Some(user.uid), Some(user.gid)).map_err(|error| error.to_string())?;
        }
        Ok(work.join(conversation.as_str()))
    }
}

/// Removes a directory with all in it, if it is there.
fn remove(dir: &Path) {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(dir = %dir.display(), %error, "a directory of a session's repository stays");
        }
        _ => {}
    }
}

/// Gives a directory and all in it to a user.
fn give(path: &Path, user: &OsUser) -> std::io::Result<()> {
    lchown(path, Some(user.uid), Some(user.gid))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

impl TurnWorkspace {
    /// Commits what the turn has done, if it has ended its work: the files of the clone, and those that it has handed over. Returns
    /// the artifact that names the commit; the session takes it out of the result.
    pub async fn commit(
        &self,
        (agent, now): (&AgentId, WallTime),
        end: &TurnEnd,
        made: &[Artifact],
    ) -> Result<Option<Artifact>, String> {
        let said = match end {
            TurnEnd::Done { message } | TurnEnd::Seat { message, .. } => {
                message.as_deref().unwrap_or_default()
            }
            TurnEnd::Message { text } => text,
            TurnEnd::Failed { .. }
            | TurnEnd::LastingFailure { .. }
            | TurnEnd::Rejected { .. }
            | TurnEnd::Waiting
            | TurnEnd::Handoff(_)
            | TurnEnd::WaitingFor { .. }
            | TurnEnd::Pause { .. } => {
                return Ok(None);
            }
        };
        if !self.seat.commits {
            return Ok(None);
        }
        let given = made.iter().filter_map(|made| self.write(made).transpose());
        let given: Vec<&str> = given.collect::<Result<_, _>>()?;
        let by = Committer { name: agent.to_string(), at: now.0 / 1_000 };
        let subject: String = said.lines().next().unwrap_or_default().chars().take(72).collect();
        let subject = if subject.trim().is_empty() { format!("Work of {agent}") } else { subject };
        let message = format!("{subject}\n\nSession: {}", self.seat.session);
        let commit = self.repository.commit((&self.dir, &self.seat.base), &given, &by, &message).await?;
        let Some(commit) = commit else { return Ok(None) };
        let files = self.repository.files(&self.seat.base, &commit).await?;
        let mut artifact = Artifact::text("commit", "text/plain", format!("{commit}\n{}", files.join("\n")));
        artifact.metadata.insert(SESSION.to_owned(), serde_json::json!({ "commit": commit }));
        Ok(Some(artifact))
    }

    /// Writes a file that was handed over into the clone, and returns its name. It never follows a link.
    fn write<'a>(&self, made: &'a Artifact) -> Result<Option<&'a str>, String> {
        let Some(part) = made.parts.first() else { return Ok(None) };
        let Some(name) = part.filename.as_deref() else { return Ok(None) };
        file_name::check(name)?;
        let content = match &part.content {
            PartContent::Text(text) => text.clone().into_bytes(),
            PartContent::Data(data) => serde_json::to_vec_pretty(data).unwrap_or_default(),
            PartContent::Raw(raw) => {
                use base64::Engine as _;
                base64::engine::general_purpose::STANDARD
                    .decode(raw)
                    .map_err(|error| format!("{name}: {error}"))?
            }
            PartContent::Url(_) => return Ok(None),
        };
        let mut path = self.dir.clone();
        for component in Path::new(name).components() {
            path.push(component);
            if path.is_symlink() {
                return Err(format!("{name}: {} is a link: nothing is written through it", path.display()));
            }
        }
        let failed = |error: std::io::Error| format!("{name}: {error}");
        fs::create_dir_all(path.parent().unwrap_or(&self.dir)).map_err(failed)?;
        fs::write(&path, content).map_err(failed)?;
        Ok(Some(name))
    }
}

/// What the host of sessions does with repositories.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceHost {
    /// The repositories of its file, by name.
    pub repositories: BTreeMap<String, PathBuf>,
    /// Where the repositories of its sessions are.
    pub dir: PathBuf,
}

impl WorkspaceHost {
    /// Does what a session decides.
    pub async fn work(&self, session: &TaskId, work: WorkspaceWork) -> Result<WorkspaceOutcome, String> {
        let own = self.dir.join(name_of(session));
        match work {
            WorkspaceWork::Open { name } => {
                let opened = self.open(&name, &own).await;
                // The session ends.
                opened.inspect_err(|_| remove(&own))
            }
            WorkspaceWork::Integrate { base, parts } => {
                let repository = Repository::own(&own);
                integrate(&repository, base, &parts).await
            }
            // It is removed when the branch is there, so a crash came before that was recorded.
            WorkspaceWork::Publish { name, .. } if !own.exists() => {
                let id = name_of(session);
                let text = format!("The repository of the session has gone: see branch mesh/{id} in {name}");
                Ok(WorkspaceOutcome::Published { text })
            }
            WorkspaceWork::Publish { name, base, branch, parts, is_approved } => {
                let text = self.publish((session, &own), (&name, &base, branch), &parts, is_approved).await;
                let text = text.map_err(|why| {
                    let commits: Vec<&str> = parts.iter().map(|part| part.commit.as_str()).collect();
                    format!("{why}. Its commits stay in {}: {}", own.display(), commits.join(", "))
                })?;
                // What is of use is in the repository of the user.
                remove(&own);
                Ok(WorkspaceOutcome::Published { text })
            }
        }
    }

    /// The repository of this name in the file of the host.
    async fn find(&self, name: &str, own: &Path) -> Result<(&PathBuf, Repository), String> {
        let path = self.repositories.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.repositories.keys().map(String::as_str).collect();
            format!(
                "the file of the host names no such repository in `workspaces`; it has {}",
                known.join(", ")
            )
        })?;
        Ok((path, Repository::of_user(path, &own.join("trust")).await?))
    }

    async fn open(&self, name: &str, own: &Path) -> Result<WorkspaceOutcome, String> {
        git::check_version().await?;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(own);
        made.map_err(|error| format!("{}: {error}", own.display()))?;
        let (path, theirs) = self.find(name, own).await?;
        let (repository, key) = Repository::init(own, &theirs).await?;
        let base = match repository.commit_of("refs/mesh/base").await? {
            Some(base) => base,
            None => {
                let base = theirs.commit_of("HEAD").await?;
                let base = base.ok_or_else(|| format!("{} has no commit yet", path.display()))?;
                repository.fetch(&theirs, &base, "refs/mesh/base").await?;
                base
            }
        };
        let source = own.to_string_lossy().into_owned();
        Ok(WorkspaceOutcome::Opened { source, key, base, branch: theirs.branch().await? })
    }

    /// Makes the branch of the session in the repository of the user, and lets the branch that was checked out follow, if a person
    /// has approved. Returns what was done, for people.
    async fn publish(
        &self,
        (session, own): (&TaskId, &Path),
        (name, base, branch): (&str, &str, Option<String>),
        parts: &[WorkspacePart],
        is_approved: bool,
    ) -> Result<String, String> {
        let repository = &Repository::own(own);
        let (path, theirs) = self.find(name, own).await?;
        let id = name_of(session);
        let commit = match integrate(repository, base.to_owned(), parts).await? {
            WorkspaceOutcome::Integrated { commit, .. } => commit,
            _ => {
                let mut names = Vec::new();
                for (number, part) in (1..).zip(parts) {
                    let branch =
                        branch_of(&theirs, repository, &part.commit, &format!("{id}.{number}")).await?;
                    names.push(format!("{branch} ({})", part.stage));
                }
                return Ok(format!(
                    "The parts do not fit together. Branches in {name}: {}",
                    names.join(", ")
                ));
            }
        };
        let own = branch_of(&theirs, repository, &commit, &id).await?;
        let left = match branch.as_deref().filter(|_| is_approved) {
            Some(branch) => match theirs.fast_forward((path, branch), (base, &commit)).await {
                Ok(None) => return Ok(format!("Branch {own} in {name}; {branch} is there, too")),
                Ok(Some(why)) | Err(why) => format!("; {branch} is left: {why}"),
            },
            None => String::new(),
        };
        Ok(format!("Branch {own} in {name}{left}"))
    }
}

/// Makes a branch in the repository of the user, and returns its name: the first that is free and that git takes. A branch `mesh`
/// leaves no room for `mesh/NAME`.
async fn branch_of(
    theirs: &Repository,
    own: &Repository,
    commit: &str,
    name: &str,
) -> Result<String, String> {
    let mut failed = String::new();
    for branch in [
        format!("mesh/{name}"),
        format!("mesh-{name}"),
        format!("mesh-{name}-{}", commit.get(..12).unwrap_or(commit)),
    ] {
        match theirs.fetch(own, commit, &format!("refs/heads/{branch}")).await {
            Ok(()) => return Ok(branch),
            Err(why) => failed = why,
        }
    }
    Err(failed)
}

/// The name of a session for directories and branches: its id, if that is one.
fn name_of(session: &TaskId) -> String {
    let id = session.as_str();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    match id.chars().all(is_plain) {
        true => id.to_owned(),
        false => {
            let plain: String = id.chars().filter(|letter| is_plain(*letter)).take(40).collect();
            format!(
                "s-{plain}-{}",
                &Digest::of(id.as_bytes()).to_string().trim_start_matches("sha256:")[..12]
            )
        }
    }
}

/// Merges parts into `base`, in their order.
async fn integrate(
    repository: &Repository,
    base: String,
    parts: &[WorkspacePart],
) -> Result<WorkspaceOutcome, String> {
    let mut head = base.clone();
    for WorkspacePart { stage, commit, favor } in parts {
        let message = format!("Merge {stage}");
        match repository.merge((&head, commit), favor.as_deref(), &message).await? {
            Ok(merged) => head = merged,
            Err(conflict) => {
                let ours = repository.diff(&base, &head, &conflict.files).await?;
                let theirs = repository.diff(&base, commit, &conflict.files).await?;
                let (stage, files) = (stage.clone(), conflict.files);
                return Ok(WorkspaceOutcome::Conflict { stage, head, files, ours, theirs });
            }
        }
    }
    let diff = repository.diff(&base, &head, &[]).await?;
    Ok(WorkspaceOutcome::Integrated { commit: head, diff })
}

#[cfg(test)]
mod tests;
