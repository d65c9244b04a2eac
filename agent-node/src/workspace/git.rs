//! Runs git for a session's repository. Only the node does, never a brain: with the hooks, filters, attributes and configuration of
//! users and repositories off, and without a terminal.

use super::nested;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};
use tokio::process::Command;

/// The first version that merges without a work tree.
const MIN_VERSION: (u32, u32) = (2, 38);
/// How long one command may take.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The most bytes of a diff that are shown.
const MAX_DIFF: usize = 48 * 1024;
/// The most files of a commit that are named.
const MAX_FILES: usize = 200;

/// The file in a session's repository that says whose it is. Other nodes work only in directories that have it.
const MARKER: &str = "mesh-session";

/// What is off in every call.
const OFF: [&str; 11] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "protocol.allow=never",
    "protocol.file.allow=always",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "merge.verifySignatures=false",
    "core.alternateRefsCommand=true",
    "core.quotePath=false",
];

/// A repository, by its git directory.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    git_dir: PathBuf,
    /// Settings that are off beside [`OFF`].
    off: Vec<String>,
    /// The file of git settings by which git reads it, whoever its owner is.
    trust: Option<PathBuf>,
}

/// Who commits, and when.
#[derive(Debug, Clone)]
pub(super) struct Committer {
    pub(super) name: String,
    /// Seconds since 1970.
    pub(super) at: i64,
}

/// Merging a part has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MergeConflict {
    pub(super) files: Vec<String>,
}

fn command() -> Command {
    let mut command = Command::new("git");
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    let set = [
        ("HOME", "/nonexistent"),
        ("LC_ALL", "C"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_LITERAL_PATHSPECS", "1"),
    ];
    command.envs(set).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    command
}

async fn output(mut command: Command, what: &str) -> Result<Output, String> {
    match tokio::time::timeout(TIMEOUT, command.output()).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            Err("git is not installed: a session works in a repository with git 2.38 or later".to_owned())
        }
        Ok(Err(error)) => Err(format!("git {what}: {error}")),
        Err(_) => Err(format!("git {what} took more than {} s", TIMEOUT.as_secs())),
    }
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim_end().to_owned()
}

/// Fails without git, or with one that is too old.
pub(super) async fn check_version() -> Result<(), String> {
    let mut version = command();
    version.arg("--version");
    let said = text(&output(version, "--version").await?.stdout);
    let numbers: Vec<u32> = said
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    match numbers.as_slice() {
        [major, minor, ..] if (*major, *minor) >= MIN_VERSION => Ok(()),
        _ => Err(format!("{said:?}: a session works in a repository with git 2.38 or later")),
    }
}

impl Repository {
    fn at(git_dir: PathBuf) -> Self {
        Self { git_dir, off: Vec::new(), trust: None }
    }

    /// The repository of the user at `path`, who need not own it: the file of the host names it. `trust` is the file in which the node
    /// tells git so; a command line would not reach the process that sends what is fetched. The filters of the repository are off, too.
    /// Fails if a session can't work in it.
    pub(super) async fn of_user(path: &Path, trust: &Path) -> Result<Self, String> {
        let found = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        let _ = std::fs::remove_file(trust);
        let trusts = async |dir: &Path| {
            let mut add = command();
            add.args(["config", "--file"]).arg(trust).args(["--add", "safe.directory"]).arg(dir);
            checked(add, &["config"]).await
        };
        trusts(&found).await?;
        let mut find = command();
        find.arg("-C").arg(&found).args(OFF.iter().flat_map(|off| ["-c", off]));
        find.args(["rev-parse", "--absolute-git-dir"]).env("GIT_CONFIG_GLOBAL", trust);
        let named = output(find, "rev-parse").await?;
        if !named.status.success() {
            return Err(format!("{} is no git repository: {}", path.display(), text(&named.stderr)));
        }
        let mut repository = Self::at(PathBuf::from(text(&named.stdout)));
        trusts(&repository.git_dir).await?;
        repository.trust = Some(trust.to_owned());
        if repository
            .holds(&["config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$"])
            .await?
        {
            return Err(format!(
                "{} is a partial clone: files may be missing in it. Clone it without `--filter`",
                path.display()
            ));
        }
        let filters = repository.try_run(&["config", "--name-only", "--get-regexp", r"^filter\."]).await?;
        let named = text(&filters.stdout);
        let filters: BTreeSet<&str> =
            named.lines().filter_map(|key| key.rsplit_once('.').map(|(filter, _)| filter)).collect();
        let off = |filter: &&str| {
            ["clean=", "smudge=", "process=", "required=false"].map(|key| format!("{filter}.{key}"))
        };
        repository.off = filters.iter().flat_map(off).collect();
        Ok(repository)
    }

    /// The repository of a session, which some node has made at `dir`. Only who was given its key finds it.
    pub(super) fn of_session(dir: &Path, key: &str) -> Result<Self, String> {
        match std::fs::read_to_string(dir.join(MARKER)) {
            Ok(of) if of == key => Ok(Self::at(dir.to_owned())),
            Ok(_) => Err(format!("{} is of another session", dir.display())),
            Err(_) => Err(
                "the repository of the session is not on this machine: its doers work where its host does"
                    .to_owned(),
            ),
        }
    }

    /// Makes the repository of a session in `of` at `dir`, if it is not there, and returns it with its key.
    pub(super) async fn init(dir: &Path, of: &Self) -> Result<(Self, String), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        std::fs::create_dir_all(dir).map_err(failed)?;
        let this = Self::at(dir.to_owned());
        this.run(&["init", "-q", "--bare", "--template=", &of.object_format().await?]).await?;
        let key = match std::fs::read_to_string(dir.join(MARKER)) {
            Ok(key) => key,
            Err(_) => uuid::Uuid::new_v4().simple().to_string(),
        };
        std::fs::write(dir.join(MARKER), &key).map_err(failed)?;
        Ok((this, key))
    }

    /// The repository that [`Self::init`] has made at `dir`.
    pub(super) fn own(dir: &Path) -> Self {
        Self::at(dir.to_owned())
    }

    /// The option that makes a repository with the same hashes.
    async fn object_format(&self) -> Result<String, String> {
        Ok(format!("--object-format={}", self.run(&["rev-parse", "--show-object-format"]).await?))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command();
        command.arg("--git-dir").arg(&self.git_dir);
        command
            .args(OFF.iter().copied().chain(self.off.iter().map(String::as_str)).flat_map(|off| ["-c", off]));
        command.args(args);
        command
    }

    async fn try_run(&self, args: &[&str]) -> Result<Output, String> {
        output(self.command(args), args.first().copied().unwrap_or_default()).await
    }

    async fn run(&self, args: &[&str]) -> Result<String, String> {
        checked(self.command(args), args).await
    }

    async fn holds(&self, args: &[&str]) -> Result<bool, String> {
        Ok(self.try_run(args).await?.status.success())
    }

    /// The commit that a name stands for; `None` if there is none.
    pub(super) async fn commit_of(&self, name: &str) -> Result<Option<String>, String> {
        let found = self.try_run(&["rev-parse", "-q", "--verify", &format!("{name}^{{commit}}")]).await?;
        Ok(found.status.success().then(|| text(&found.stdout)))
    }

    /// The branch that is checked out, if one is.
    pub(super) async fn branch(&self) -> Result<Option<String>, String> {
        let found = self.try_run(&["symbolic-ref", "-q", "--short", "HEAD"]).await?;
        Ok(found.status.success().then(|| text(&found.stdout)))
    }

    /// Takes a commit of `from` over, under the name `to`. Fails if that is the name of a commit that this one does not build on.
    pub(super) async fn fetch(&self, from: &Self, what: &str, to: &str) -> Result<(), String> {
        let source = from.git_dir.to_string_lossy().into_owned();
        let spec = format!("{what}:{to}");
        let fetch = [
            "fetch",
            "-q",
            "--update-shallow",
            "--upload-pack=git-upload-pack",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
        ];
        let args = [&fetch[..], &[&source, &spec]].concat();
        let mut command = self.command(&args);
        command.envs(from.trust.iter().map(|trust| ("GIT_CONFIG_GLOBAL", trust)));
        checked(command, &args).await.map(drop)
    }

    /// Makes a clone of `commit` at `dir`, for a brain. It shares no file with this repository.
    pub(super) async fn clone_to(&self, commit: &str, dir: &Path) -> Result<(), String> {
        let git_dir = dir.join(".git");
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        std::fs::create_dir_all(dir).map_err(failed)?;
        let clone = Self::at(git_dir);
        let mut init = command();
        init.args(["init", "-q", "--template=", "-b", "work", &self.object_format().await?]).arg(dir);
        checked(init, &["init"]).await?;
        clone.fetch(self, commit, "refs/mesh/base").await?;
        let mut checkout = clone.command(&[]);
        checkout.arg("--work-tree").arg(dir).args(["reset", "-q", "--hard", "refs/mesh/base"]);
        checked(checkout, &["reset"]).await.map(drop)
    }

    /// Commits what is in the directory `work` on top of `base`, also the files `given` if they are ignored; `None` if nothing is
    /// changed. What a brain has done to the clone's own git directory has no effect.
    pub(super) async fn commit(
        &self,
        (work, base): (&Path, &str),
        given: &[&str],
        by: &Committer,
        message: &str,
    ) -> Result<Option<String>, String> {
        let links = self.links(base).await?;
        nested::remove(work, &links.iter().map(|(path, _)| PathBuf::from(path)).collect())?;
        let index = work.with_extension("index");
        let _ = std::fs::remove_file(&index);
        let tree = self.tree((work, base), &index, given).await;
        let _ = std::fs::remove_file(&index);
        let tree = tree?;
        if let Some((path, _)) = self.links(&tree).await?.difference(&links).next() {
            return Err(format!("{path} is a git repository of its own: its commit can't be taken over"));
        }
        if self.run(&["rev-parse", &format!("{base}^{{tree}}")]).await? == tree {
            return Ok(None);
        }
        self.commit_tree(&tree, &[base], by, message).await.map(Some)
    }

    async fn tree(
        &self,
        (work, base): (&Path, &str),
        index: &Path,
        given: &[&str],
    ) -> Result<String, String> {
        let in_work = async |args: &[&str]| {
            let mut command = self.command(&[]);
            command.arg("--work-tree").arg(work).args(args);
            command.env("GIT_INDEX_FILE", index).current_dir(work);
            checked(command, args).await
        };
        in_work(&["read-tree", base]).await?;
        in_work(&["add", "-A", "."]).await?;
        if !given.is_empty() {
            in_work(&[&["add", "-f", "--"][..], given].concat()).await?;
        }
        in_work(&["write-tree"]).await
    }

    /// The submodules of a commit or tree: their paths, and their commits.
    async fn links(&self, tree: &str) -> Result<BTreeSet<(String, String)>, String> {
        let entries = self.run(&["ls-tree", "-r", "-z", tree]).await?;
        let link = |entry: &str| {
            let (commit, path) = entry.strip_prefix("160000 commit ")?.split_once('\t')?;
            Some((path.to_owned(), commit.to_owned()))
        };
        Ok(entries.split('\0').filter_map(link).collect())
    }

    async fn commit_tree(
        &self,
        tree: &str,
        parents: &[&str],
        by: &Committer,
        message: &str,
    ) -> Result<String, String> {
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        let args: Vec<&str> = ["commit-tree", tree, "-m", message].into_iter().chain(parents).collect();
        let mut command = self.command(&args);
        let (mail, at) = (format!("{}@mesh.invalid", by.name), format!("@{} +0000", by.at));
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), &by.name).env(format!("GIT_{who}_EMAIL"), &mail);
            command.env(format!("GIT_{who}_DATE"), &at);
        }
        let commit = checked(command, &args).await?;
        // Nothing removes what has a name.
        self.run(&["update-ref", &format!("refs/mesh/commits/{commit}"), &commit]).await?;
        Ok(commit)
    }

    /// Merges `commit` into `head`; the same merge gives the same commit. `favor` is whose side wins in a conflict.
    pub(super) async fn merge(
        &self,
        (head, commit): (&str, &str),
        favor: Option<&str>,
        message: &str,
    ) -> Result<Result<String, MergeConflict>, String> {
        if self.holds(&["merge-base", "--is-ancestor", commit, head]).await? {
            return Ok(Ok(head.to_owned()));
        }
        if self.holds(&["merge-base", "--is-ancestor", head, commit]).await? {
            return Ok(Ok(commit.to_owned()));
        }
        let favor: Vec<&str> = favor.into_iter().flat_map(|side| ["-X", side]).collect();
        let args = [
            &["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"][..],
            &favor,
            &[head, commit],
        ]
        .concat();
        let merged = self.try_run(&args).await?;
        let said = text(&merged.stdout);
        let mut names = said.split('\0');
        let tree = names.next().unwrap_or_default().to_owned();
        match merged.status.code() {
            Some(0) => {
                let at = self.run(&["show", "-s", "--format=%ct", commit]).await?.parse().unwrap_or_default();
                let by = Committer { name: "mesh".to_owned(), at };
                self.commit_tree(&tree, &[head, commit], &by, message).await.map(Ok)
            }
            Some(1) => {
                let files = names.take_while(|name| !name.is_empty()).map(str::to_owned).collect();
                Ok(Err(MergeConflict { files }))
            }
            _ => Err(format!("git merge-tree: {}", text(&merged.stderr))),
        }
    }

    /// What lies between two commits, in these files or in all: the beginning, if it is long.
    pub(super) async fn diff(&self, from: &str, to: &str, files: &[String]) -> Result<String, String> {
        let range = format!("{from}..{to}");
        let plain =
            ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--stat=120", "--patch", &range, "--"];
        let args: Vec<&str> = plain.into_iter().chain(files.iter().map(String::as_str)).collect();
        let diff = self.run(&args).await?;
        let shown = &diff[..diff.floor_char_boundary(MAX_DIFF)];
        let cut =
            if shown.len() < diff.len() { format!("\n[{} bytes in all]", diff.len()) } else { String::new() };
        Ok(format!("{shown}{cut}"))
    }

    /// The names of the files that a commit changes.
    pub(super) async fn files(&self, from: &str, to: &str) -> Result<Vec<String>, String> {
        let named = self.run(&["diff-tree", "-r", "-z", "--name-only", "--no-commit-id", from, to]).await?;
        Ok(named.split_terminator('\0').take(MAX_FILES).map(str::to_owned).collect())
    }

    /// Moves the branch that is checked out at `path` to `commit`, if it is `branch`, still at `base`, and nothing is changed there.
    /// Returns why it is left.
    pub(super) async fn fast_forward(
        &self,
        (path, branch): (&Path, &str),
        (base, commit): (&str, &str),
    ) -> Result<Option<String>, String> {
        if self.branch().await?.as_deref() != Some(branch) {
            return Ok(Some(format!("{branch} is not checked out any more")));
        }
        if self.commit_of("HEAD").await?.as_deref() != Some(base) {
            return Ok(Some(format!("{branch} has moved since")));
        }
        let there = async |args: &[&str]| {
            let mut command = self.command(&[]);
            command.arg("--work-tree").arg(path).args(args).current_dir(path);
            checked(command, args).await
        };
        if !there(&["status", "--porcelain", "--ignore-submodules=none"]).await?.is_empty() {
            return Ok(Some(format!("there are changes in {}", path.display())));
        }
        there(&["merge", "-q", "--ff-only", "--no-stat", commit]).await?;
        Ok(None)
    }
}

async fn checked(command: Command, args: &[&str]) -> Result<String, String> {
    let what = args.first().copied().unwrap_or_default();
    let output = output(command, what).await?;
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("git {what}: {}", text(&output.stderr))),
    }
}
