//! With the real git.

use super::*;
use std::process::Command;

fn run(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(dir).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

struct Bench {
    dir: tempfile::TempDir,
    host: WorkspaceHost,
    session: TaskId,
    source: String,
    key: String,
    base: String,
}

impl Bench {
    /// A repository with a file, of which a hook and a filter would tell.
    async fn new() -> Self {
        Self::of(|_| ()).await.unwrap()
    }

    /// One that is changed before the session opens it.
    async fn of(prepare: impl FnOnce(&Path)) -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).unwrap();
        run(&repo, &["init", "-q", "-b", "main"]);
        fs::write(repo.join("a.txt"), "one\ntwo\nthree\n").unwrap();
        fs::write(repo.join(".gitattributes"), "*.txt filter=tell\n").unwrap();
        let commit = ["-c", "user.name=u", "-c", "user.email=u@x", "commit", "-q", "-m", "first"];
        run(&repo, &["add", "."]);
        run(&repo, &commit);
        let told = dir.path().join("told").display().to_string();
        for key in ["filter.tell.clean", "filter.tell.smudge", "core.fsmonitor"] {
            run(&repo, &["config", key, &format!("sh -c 'touch {told}; cat'")]);
        }
        for hook in ["post-checkout", "post-merge", "reference-transaction"] {
            let path = repo.join(".git/hooks").join(hook);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("#!/bin/sh\ntouch {told}\n")).unwrap();
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        prepare(&repo);
        let repositories = BTreeMap::from([("shop".to_owned(), repo)]);
        let host = WorkspaceHost { repositories, dir: dir.path().join("data/workspaces") };
        let session = TaskId::parse("s-1").unwrap();
        let opened = host.work(&session, WorkspaceWork::Open { name: "shop".into() }).await?;
        let WorkspaceOutcome::Opened { source, key, base, branch } = opened else { panic!("{opened:?}") };
        assert_eq!(branch.as_deref(), Some("main"));
        Ok(Self { dir, host, session, source, key, base })
    }

    fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// A turn that changes the file, and hands another one over.
    async fn turn(&self, agent: &str, base: &str, content: &str, made: &[Artifact]) -> Option<String> {
        let change = |dir: &Path| fs::write(dir.join("a.txt"), content).unwrap();
        self.works(agent, base, change, made).await.unwrap()
    }

    /// A turn that works in its clone.
    async fn works(
        &self,
        agent: &str,
        base: &str,
        work: impl FnOnce(&Path),
        made: &[Artifact],
    ) -> Result<Option<String>, String> {
        let (agent, data) = (AgentId::parse(agent).unwrap(), self.dir.path().join("data"));
        let rights = WorkspaceRights::new(&agent, data, None);
        let conversation = ConversationId::parse(&format!("c-{agent}-{}", &base[..8])).unwrap();
        let seat = SeatWorkspace {
            source: self.source.clone(),
            key: self.key.clone(),
            session: self.session.clone(),
            base: base.to_owned(),
            commits: true,
        };
        let workspace = rights.prepare(&agent, &conversation, seat.clone()).await.unwrap();
        work(&workspace.dir);
        fs::write(workspace.dir.join(".git/mine"), "").unwrap();
        let again = rights.prepare(&agent, &conversation, seat).await.unwrap();
        assert!(again.dir.join(".git/mine").exists(), "uncommitted files stay");
        let end = TurnEnd::Done { message: Some(format!("done by {agent}")) };
        let named = again.commit((&agent, WallTime(5_000)), &end, made).await;
        rights.release(&agent, &conversation);
        assert_eq!(fs::read_dir(again.dir.parent().unwrap()).unwrap().count(), 0, "nothing is left of it");
        let commit = |named: Artifact| named.metadata[SESSION]["commit"].as_str().unwrap().to_owned();
        named.map(|named| named.map(commit))
    }

    async fn integrate(&self, parts: &[(&str, &str)]) -> WorkspaceOutcome {
        let work = WorkspaceWork::Integrate { base: self.base.clone(), parts: parts_of(parts) };
        self.host.work(&self.session, work).await.unwrap()
    }

    async fn publish(&self, parts: &[(&str, &str)], is_approved: bool) -> String {
        let work = WorkspaceWork::Publish {
            name: "shop".into(),
            base: self.base.clone(),
            branch: Some("main".into()),
            parts: parts_of(parts),
            is_approved,
        };
        match self.host.work(&self.session, work).await.unwrap() {
            WorkspaceOutcome::Published { text } => text,
            other => panic!("{other:?}"),
        }
    }
}

fn parts_of(parts: &[(&str, &str)]) -> Vec<WorkspacePart> {
    let one = |(stage, commit): &(&str, &str)| WorkspacePart {
        stage: (*stage).to_owned(),
        commit: (*commit).to_owned(),
        favor: None,
    };
    parts.iter().map(one).collect()
}

fn file(name: &str, content: &str) -> Artifact {
    let mut file = Artifact::text(name, "text/plain", content);
    file.parts[0].filename = Some(name.to_owned());
    file
}

#[tokio::test]
async fn parts_are_merged_in_order_and_the_branch_follows_when_it_is_approved() {
    let bench = Bench::new().await;
    let one =
        bench.turn("a-1", &bench.base, "ONE\ntwo\nthree\n", &[file("src/new.txt", "new\n")]).await.unwrap();
    let two = bench.turn("b-1", &bench.base, "one\ntwo\nTHREE\n", &[]).await.unwrap();
    assert_eq!(bench.turn("c-1", &bench.base, "one\ntwo\nthree\n", &[]).await, None, "nothing is changed");
    let parts = [("plan/a", one.as_str()), ("plan/b", two.as_str())];
    let WorkspaceOutcome::Integrated { commit, diff } = bench.integrate(&parts).await else { panic!() };
    assert!(diff.contains("+ONE") && diff.contains("+THREE") && diff.contains("src/new.txt"), "{diff}");
    assert_eq!(bench.integrate(&parts).await, WorkspaceOutcome::Integrated { commit: commit.clone(), diff });
    let text = bench.publish(&parts, true).await;
    assert_eq!(text, "Branch mesh/s-1 in shop; main is there, too");
    let again = bench.publish(&parts, true).await;
    let gone = "The repository of the session has gone: see branch mesh/s-1 in shop";
    assert_eq!(again, gone, "the node crashed before it had recorded the branch");
    assert_eq!(fs::read_to_string(bench.repo().join("a.txt")).unwrap(), "ONE\ntwo\nTHREE\n");
    assert_eq!(fs::read_to_string(bench.repo().join("src/new.txt")).unwrap(), "new\n");
    assert_eq!(run(&bench.repo(), &["rev-parse", "mesh/s-1"]), commit);
    assert!(run(&bench.repo(), &["log", "--format=%an %s"]).contains("a-1 done by a-1"));
    assert!(!bench.dir.path().join("told").exists(), "no hook, filter or monitor of the repository has run");
}

#[tokio::test]
async fn a_branch_that_has_changes_or_is_not_approved_is_left() {
    let bench = Bench::new().await;
    let one = bench.turn("a-1", &bench.base, "ONE\n", &[]).await.unwrap();
    fs::write(bench.repo().join("mine.txt"), "mine").unwrap();
    let text = bench.publish(&[("plan/a", &one)], true).await;
    assert!(text.starts_with("Branch mesh/s-1 in shop; main is left: there are changes in "), "{text}");
    assert_eq!(run(&bench.repo(), &["rev-parse", "main"]), bench.base);
    let bench = Bench::new().await;
    let one = bench.turn("a-1", &bench.base, "ONE\n", &[]).await.unwrap();
    assert_eq!(bench.publish(&[("plan/a", &one)], false).await, "Branch mesh/s-1 in shop");
    assert_eq!(run(&bench.repo(), &["rev-parse", "main"]), bench.base);
}

#[tokio::test]
async fn a_part_that_does_not_fit_is_told_with_both_sides_and_fits_when_it_is_done_again_on_top() {
    let bench = Bench::new().await;
    let one = bench.turn("a-1", &bench.base, "ONE\ntwo\nthree\n", &[]).await.unwrap();
    let two = bench.turn("b-1", &bench.base, "first\ntwo\nthree\n", &[]).await.unwrap();
    let parts = [("plan/a", one.as_str()), ("plan/b", two.as_str())];
    let WorkspaceOutcome::Conflict { stage, head, files, ours, theirs } = bench.integrate(&parts).await
    else {
        panic!()
    };
    assert_eq!((stage.as_str(), &head, files.as_slice()), ("plan/b", &one, &["a.txt".to_owned()][..]));
    assert!(ours.contains("+ONE") && theirs.contains("+first"), "{ours} {theirs}");
    let again = bench.turn("b-1", &head, "ONE and first\ntwo\nthree\n", &[]).await.unwrap();
    let fits = bench.integrate(&[("plan/a", &one), ("plan/b", &again)]).await;
    assert!(matches!(fits, WorkspaceOutcome::Integrated { commit, .. } if commit == again));
    let mut favored = parts_of(&parts);
    favored[1].favor = Some("theirs".to_owned());
    let work = WorkspaceWork::Integrate { base: bench.base.clone(), parts: favored };
    let WorkspaceOutcome::Integrated { diff, .. } = bench.host.work(&bench.session, work).await.unwrap()
    else {
        panic!()
    };
    assert!(diff.contains("+first") && !diff.contains("+ONE"), "{diff}");
}

#[tokio::test]
async fn only_the_repository_of_a_session_is_cloned_and_no_name_leads_out_of_it() {
    let bench = Bench::new().await;
    let agent = AgentId::parse("a-1").unwrap();
    let rights = WorkspaceRights::new(&agent, bench.dir.path().join("data"), None);
    let seat = |source: String, key: &str| SeatWorkspace {
        source,
        key: key.to_owned(),
        session: bench.session.clone(),
        base: bench.base.clone(),
        commits: true,
    };
    let conversation = ConversationId::parse("c-1").unwrap();
    let repo = bench.repo().join(".git").display().to_string();
    let why = rights.prepare(&agent, &conversation, seat(repo, &bench.key)).await.unwrap_err();
    assert!(why.contains("is not on this machine"), "{why}");
    let why = rights.prepare(&agent, &conversation, seat(bench.source.clone(), "guessed")).await.unwrap_err();
    assert!(why.contains("of another session"), "{why}");
    let workspace =
        rights.prepare(&agent, &conversation, seat(bench.source.clone(), &bench.key)).await.unwrap();
    std::os::unix::fs::symlink("/tmp", workspace.dir.join("link")).unwrap();
    let end = TurnEnd::Done { message: None };
    for bad in ["../x", ".git/config", "link/x"] {
        assert!(workspace.commit((&agent, WallTime(0)), &end, &[file(bad, "x")]).await.is_err(), "{bad}");
    }
    // What a brain has set in its clone has no effect on the node's commands.
    let told = bench.dir.path().join("told");
    run(&workspace.dir, &["config", "filter.tell.clean", &format!("touch {}", told.display())]);
    fs::write(workspace.dir.join("a.txt"), "x\n").unwrap();
    assert!(workspace.commit((&agent, WallTime(0)), &end, &[]).await.unwrap().is_some());
    assert!(!told.exists());
    let unknown = bench.host.work(&bench.session, WorkspaceWork::Open { name: "none".into() }).await;
    assert!(unknown.unwrap_err().contains("it has shop"));
}

const WHO: [&str; 4] = ["-c", "user.name=u", "-c", "user.email=u@x"];

fn commits(dir: &Path, message: &str) {
    run(dir, &["add", "."]);
    run(dir, &[&WHO[..], &["commit", "-q", "-m", message]].concat());
}

/// Makes a repository with a file.
fn makes(dir: &Path, is_committed: bool) {
    fs::create_dir_all(dir).unwrap();
    run(dir, &["init", "-q", "-b", "main"]);
    fs::write(dir.join("x.txt"), "x\n").unwrap();
    if is_committed {
        commits(dir, "theirs");
    }
}

fn names(repo: &Path, commit: &str) -> Vec<String> {
    let listed = run(repo, &["-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", commit]);
    listed.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_files_of_a_repository_that_a_brain_has_made_are_committed_and_no_link_is_followed() {
    let ignores = |repo: &Path| {
        fs::write(repo.join(".gitignore"), "modules/\n").unwrap();
        commits(repo, "ignores");
    };
    let bench = Bench::of(ignores).await.unwrap();
    let elsewhere = bench.dir.path().join("elsewhere");
    makes(&elsewhere, true);
    let work = |dir: &Path| {
        makes(&dir.join("sub"), true);
        makes(&dir.join("sub/deep/er"), true);
        makes(&dir.join("empty"), false);
        makes(&dir.join("modules/one"), true);
        std::os::unix::fs::symlink(&elsewhere, dir.join("link")).unwrap();
    };
    let one = bench.works("a-1", &bench.base, work, &[]).await.unwrap().unwrap();
    bench.publish(&[("plan/a", &one)], true).await;
    let there =
        [".gitattributes", ".gitignore", "a.txt", "empty/x.txt", "link", "sub/deep/er/x.txt", "sub/x.txt"];
    assert_eq!(names(&bench.repo(), "main"), there);
    assert!(elsewhere.join(".git/HEAD").exists());
}

#[tokio::test]
async fn work_in_a_submodule_fails_the_turn_and_is_not_lost_silently() {
    let link = |repo: &Path| {
        let theirs = repo.with_file_name("theirs");
        makes(&theirs, true);
        let theirs = theirs.display().to_string();
        run(repo, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &theirs, "vendor"]);
        commits(repo, "submodule");
    };
    let bench = Bench::of(link).await.unwrap();
    let theirs = bench.dir.path().join("theirs");
    assert!(
        bench.turn("a-1", &bench.base, "ONE\n", &[]).await.is_some(),
        "one that is left alone is no fault"
    );
    let writes = |dir: &Path| fs::write(dir.join("vendor/y.txt"), "y\n").unwrap();
    let why = bench.works("a-2", &bench.base, writes, &[]).await.unwrap_err();
    assert_eq!(why, "vendor is a submodule: files in it can't be committed");
    let commits_there = |dir: &Path| {
        run(dir, &["clone", "-q", &theirs.display().to_string(), "vendor"]);
        writes(dir);
        commits(&dir.join("vendor"), "more");
    };
    let why = bench.works("a-3", &bench.base, commits_there, &[]).await.unwrap_err();
    assert_eq!(why, "vendor is a git repository of its own: its commit can't be taken over");
}

#[tokio::test]
async fn a_branch_with_the_name_of_those_of_sessions_leaves_the_work_under_another_name() {
    let bench = Bench::of(|repo| drop(run(repo, &["branch", "mesh"]))).await.unwrap();
    let one = bench.turn("a-1", &bench.base, "ONE\n", &[]).await.unwrap();
    assert_eq!(bench.publish(&[("plan/a", &one)], true).await, "Branch mesh-s-1 in shop; main is there, too");
    assert_eq!(run(&bench.repo(), &["rev-parse", "mesh-s-1"]), one);
    let bench = Bench::of(|repo| {
        for branch in ["mesh/s-1", "mesh-s-1"] {
            run(repo, &["checkout", "-q", "-b", branch]);
            run(repo, &[&WHO[..], &["commit", "-q", "--allow-empty", "-m", branch]].concat());
        }
        run(repo, &["checkout", "-q", "main"]);
    });
    let bench = bench.await.unwrap();
    let taken = run(&bench.repo(), &["rev-parse", "mesh/s-1", "mesh-s-1"]);
    let one = bench.turn("a-1", &bench.base, "ONE\n", &[]).await.unwrap();
    let text = bench.publish(&[("plan/a", &one)], false).await;
    assert_eq!(text, format!("Branch mesh-s-1-{} in shop", &one[..12]));
    assert_eq!(run(&bench.repo(), &["rev-parse", "mesh/s-1", "mesh-s-1"]), taken, "no branch is moved");
}

#[tokio::test]
async fn a_branch_that_cannot_be_made_is_told_with_the_place_of_the_commits() {
    let bench = Bench::new().await;
    let one = bench.turn("a-1", &bench.base, "ONE\n", &[]).await.unwrap();
    fs::rename(bench.repo(), bench.dir.path().join("away")).unwrap();
    let work = WorkspaceWork::Publish {
        name: "shop".into(),
        base: bench.base.clone(),
        branch: None,
        parts: parts_of(&[("plan/a", &one)]),
        is_approved: false,
    };
    let why = bench.host.work(&bench.session, work).await.unwrap_err();
    assert!(why.ends_with(&format!("Its commits stay in {}: {one}", bench.source)), "{why}");
    assert_eq!(run(Path::new(&bench.source), &["cat-file", "-t", &one]), "commit");
}

#[tokio::test]
async fn a_file_that_was_handed_over_is_committed_even_if_it_is_ignored() {
    let bench = Bench::of(|repo| {
        fs::write(repo.join(".gitignore"), "dist/\n").unwrap();
        commits(repo, "ignores");
    });
    let bench = bench.await.unwrap();
    let builds = |dir: &Path| {
        fs::create_dir(dir.join("dist")).unwrap();
        fs::write(dir.join("dist/b.js"), "b").unwrap();
    };
    let made = [file("dist/report.html", "<p>"), file("[x]*.md", "x")];
    let one = bench.works("a-1", &bench.base, builds, &made).await.unwrap().unwrap();
    bench.publish(&[("plan/a", &one)], true).await;
    let there = [".gitattributes", ".gitignore", "[x]*.md", "a.txt", "dist/report.html"];
    assert_eq!(names(&bench.repo(), "main"), there);
}

#[tokio::test]
async fn a_repository_of_another_owner_is_worked_in_because_the_host_names_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let owner = OsUser { name: "another".to_owned(), uid: 12_345, gid: 12_345 };
    let bench = Bench::of(|repo| give(repo, &owner).unwrap()).await.unwrap();
    let one = bench.turn("a-1", &bench.base, "ONE\n", &[]).await.unwrap();
    assert_eq!(bench.publish(&[("plan/a", &one)], true).await, "Branch mesh/s-1 in shop; main is there, too");
    assert_eq!(fs::read_to_string(bench.repo().join("a.txt")).unwrap(), "ONE\n");
}

#[tokio::test]
async fn a_shallow_repository_and_one_with_longer_hashes_are_worked_in_and_a_partial_one_is_refused() {
    let clone = |repo: &Path, option: &str| {
        fs::write(repo.join("b.txt"), "b\n").unwrap();
        commits(repo, "second");
        let source = repo.with_file_name("source");
        fs::rename(repo, &source).unwrap();
        run(&source, &["config", "uploadpack.allowFilter", "true"]);
        let (from, to) = (format!("file://{}", source.display()), repo.display().to_string());
        run(&source, &["clone", "-q", option, &from, &to]);
    };
    let sha256 = |repo: &Path| {
        fs::remove_dir_all(repo.join(".git")).unwrap();
        run(repo, &["init", "-q", "-b", "main", "--object-format=sha256"]);
        commits(repo, "first");
    };
    let shallow = |repo: &Path| clone(repo, "--depth=1");
    for bench in [Bench::of(shallow).await.unwrap(), Bench::of(sha256).await.unwrap()] {
        let one = bench.turn("a-1", &bench.base, "ONE\ntwo\nthree\n", &[]).await.unwrap();
        let two = bench.turn("b-1", &bench.base, "one\ntwo\nTHREE\n", &[]).await.unwrap();
        let text = bench.publish(&[("plan/a", &one), ("plan/b", &two)], true).await;
        assert_eq!(text, "Branch mesh/s-1 in shop; main is there, too");
        assert_eq!(fs::read_to_string(bench.repo().join("a.txt")).unwrap(), "ONE\ntwo\nTHREE\n");
        run(&bench.repo(), &["fsck", "--strict"]);
    }
    let partial = Bench::of(|repo| clone(repo, "--filter=blob:none")).await.map(|_| ());
    let why = partial.unwrap_err();
    assert!(why.contains("is a partial clone"), "{why}");
}

#[tokio::test]
async fn a_part_that_does_not_fit_is_told_with_both_sides_whatever_the_name_of_its_file() {
    let name = ":ü\"*.md";
    let bench = Bench::new().await;
    let writes = |text: &'static str| move |dir: &Path| fs::write(dir.join(name), text).unwrap();
    let one = bench.works("a-1", &bench.base, writes("ONE\n"), &[]).await.unwrap().unwrap();
    let two = bench.works("b-1", &bench.base, writes("TWO\n"), &[]).await.unwrap().unwrap();
    let told = bench.integrate(&[("plan/a", &one), ("plan/b", &two)]).await;
    let WorkspaceOutcome::Conflict { files, ours, theirs, .. } = told else { panic!("{told:?}") };
    assert_eq!(files, [name]);
    assert!(ours.contains("+ONE") && theirs.contains("+TWO"), "{ours} {theirs}");
    let listed = Repository::own(Path::new(&bench.source)).files(&bench.base, &one).await.unwrap();
    assert_eq!(listed, [name]);
}

#[test]
fn the_name_of_a_session_is_one_for_directories_and_branches() {
    let name = |id: &str| name_of(&TaskId::parse(id).unwrap());
    assert_eq!(name("019a-b_C"), "019a-b_C");
    for odd in ["a..b", "a.lock"] {
        let name = name(odd);
        assert!(name.starts_with("s-") && !name.contains('.') && !name.contains('/'), "{name}");
    }
}
