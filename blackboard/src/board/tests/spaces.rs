//! Spaces and entries: nothing is lost or overwritten, and what a reader may not see does not exist for it.

use super::*;
use crate::{
    board::EndedRun,
    spaces::{EntryChange, EntryOrder, EntryQuery},
};
use protocol::{
    ids::{EntryId, SpaceId},
    principal::SenderProof,
    spaces::{
        Entry, EntryDraft, EntryKind, EntryLink, EntryState, EntryType, Grade, MemberId, MemoryScope, Reader,
        Space, SpaceRole,
    },
};
use store::{SharedStore, embedded};

fn space_id(id: &str) -> SpaceId {
    SpaceId::parse(id).unwrap()
}

fn reader(id: &str) -> Reader {
    Reader { principal: agent(id), proof: SenderProof::Credential }
}

fn person() -> Reader {
    Reader { principal: Principal::local_user(), proof: SenderProof::Credential }
}

fn proposal(slug: &str, content: &str) -> EntryDraft {
    let (entry_type, slug) = (Some(EntryType::Learning), Some(slug.to_owned()));
    EntryDraft { entry_type, slug, ..EntryDraft::new(EntryKind::Proposal, content) }
}

fn memory(content: &str, scope: MemoryScope, importance: Grade) -> EntryDraft {
    EntryDraft {
        entry_type: Some(EntryType::Learning),
        scope: Some(scope),
        importance: Some(importance),
        ..EntryDraft::new(EntryKind::Memory, content)
    }
}

async fn all(board: &Board, by: &Reader, query: EntryQuery) -> Vec<Entry> {
    board.spaces().entries(by, &space_id("default"), query, 1_000).await.unwrap().entries
}

fn of_kind(kind: EntryKind) -> EntryQuery {
    EntryQuery { kinds: [kind].into(), ..EntryQuery::default() }
}

#[actix::test]
async fn a_slug_is_its_first_authors_and_what_is_closed_stays_closed() {
    let (board, default) = (board(), space_id("default"));
    let spaces = board.spaces();
    let propose = async |by: &str, slug: &str| spaces.post(&reader(by), &default, &proposal(slug, "x")).await;
    let slug = |outcome: Result<crate::spaces::EntryOutcome, Problem>| {
        let outcome = outcome.unwrap();
        (outcome.slug.unwrap().to_string(), outcome.version)
    };
    assert_eq!(slug(propose("a", "use-jwt").await), ("use-jwt".into(), 1));
    assert_eq!(slug(propose("a", "use-jwt").await), ("use-jwt".into(), 2), "pending: a new version");
    assert_eq!(slug(propose("b.c", "use-jwt").await), ("use-jwt--b-c".into(), 1));
    assert_eq!(slug(propose("b-c", "use-jwt").await), ("use-jwt--b-c--2".into(), 1));
    assert_eq!(slug(propose("b-c", "use-jwt").await), ("use-jwt--b-c--2".into(), 2));
    let proposals = all(&board, &person(), of_kind(EntryKind::Proposal)).await;
    assert_eq!(proposals.len(), 3);
    let first = proposals.iter().find(|entry| entry.author == agent("a")).unwrap();
    let reject = EntryChange::Reject { reason: "we use sessions".into() };
    let rejected = spaces.change(&person(), &default, &first.id, &reject).await.unwrap();
    assert_eq!(rejected.state, EntryState::Rejected);
    assert_eq!(propose("a", "use-jwt").await.unwrap_err().reason, Reason::SlugClosed);
    let again = spaces.change(&person(), &default, &first.id, &reject).await.unwrap_err();
    assert_eq!(again.reason, Reason::EntryState);
    assert!(again.message.contains("rejected"), "{again}");
    let kept = spaces.entry(&reader("b-c"), &default, &first.id).await.unwrap();
    assert_eq!(kept.reason.as_deref(), Some("we use sessions"));
}

#[actix::test]
async fn a_merge_is_one_commit_and_links_both_ways() {
    let store = memory::new();
    let board = Board::start(store.clone(), BoardConfig::fast(), BoardClock::system()).unwrap();
    let (spaces, default) = (board.spaces(), space_id("default"));
    let posted = spaces.post(&reader("a"), &default, &proposal("keep", "keep it")).await.unwrap();
    let merge = EntryChange::Merge { version: None, reason: None };
    let refused = spaces.change(&reader("a"), &default, &posted.id, &merge).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Forbidden, "a member decides nothing");
    let before = store.head();
    let merges =
        join_all((0..20).map(|_| async { spaces.change(&person(), &default, &posted.id, &merge).await }));
    let (merged, refused): (Vec<_>, Vec<_>) = merges.await.into_iter().partition(Result::is_ok);
    assert_eq!((merged.len(), refused.len()), (1, 19), "of racing merges one wins");
    assert_eq!(store.head() - before, 4, "one commit: each entry and its record in the log");
    let became = merged.into_iter().next().unwrap().unwrap().became.unwrap();
    let result = spaces.entry(&reader("b"), &default, &became).await.unwrap();
    assert_eq!((result.kind, result.state), (EntryKind::Memory, EntryState::Active));
    assert_eq!(result.links.get(&EntryLink::MergedFrom), Some(&posted.id));
}

#[actix::test]
async fn a_repeat_of_a_post_with_its_own_id_changes_nothing() {
    let (board, default) = (board(), space_id("default"));
    let (spaces, by) = (board.spaces(), reader("a"));
    let with_id = |id: &str, draft: EntryDraft| EntryDraft { id: Some(id.into()), ..draft };
    let finding = with_id("t-1:0", EntryDraft::new(EntryKind::Finding, "first"));
    let first = spaces.post(&by, &default, &finding).await.unwrap();
    assert_eq!((first.id.as_str(), first.duplicate), ("agent:a:t-1:0", false));
    let other = with_id("t-1:0", EntryDraft::new(EntryKind::Finding, "second"));
    let repeat = spaces.post(&by, &default, &other).await.unwrap();
    assert_eq!((repeat.id, repeat.duplicate), (first.id.clone(), true));
    assert_eq!(spaces.entry(&by, &default, &first.id).await.unwrap().content, "first");
    let elsewhere = spaces.post(&reader("b"), &default, &finding).await.unwrap();
    assert!(!elsewhere.duplicate, "an id is its poster's own");
    for (id, version, duplicate) in [("p:0", 1, false), ("p:1", 2, false), ("p:1", 2, true), ("p:0", 2, true)]
    {
        let posted = spaces.post(&by, &default, &with_id(id, proposal("one", id))).await.unwrap();
        assert_eq!((posted.version, posted.duplicate), (version, duplicate), "{id}");
    }
}

#[actix::test]
async fn pages_join_and_filters_select() {
    let (board, default) = (board(), space_id("default"));
    let spaces = board.spaces();
    for number in 0..150 {
        let by = reader(if number % 3 == 0 { "a" } else { "b" });
        let tags = [if number % 2 == 0 { "even".to_owned() } else { "cross-team".to_owned() }].into();
        let draft = EntryDraft { tags, ..EntryDraft::new(EntryKind::Finding, format!("number {number}")) };
        spaces.post(&by, &default, &draft).await.unwrap();
    }
    let mut query = EntryQuery { order: EntryOrder::Oldest, ..EntryQuery::default() };
    let mut joined = Vec::new();
    loop {
        let page = spaces.entries(&reader("c"), &default, query.clone(), 7).await.unwrap();
        joined.extend(page.entries.into_iter().map(|entry| entry.content));
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert_eq!(joined, (0..150).map(|number| format!("number {number}")).collect::<Vec<_>>());
    let count = async |query: EntryQuery| all(&board, &reader("c"), query).await.len();
    assert_eq!(count(EntryQuery { author: Some(agent("a")), ..EntryQuery::default() }).await, 50);
    assert_eq!(count(EntryQuery { tags: ["even".to_owned()].into(), ..EntryQuery::default() }).await, 75);
    assert_eq!(count(EntryQuery { tags: ["team".to_owned()].into(), ..EntryQuery::default() }).await, 0);
    assert_eq!(count(of_kind(EntryKind::Memory)).await, 0);
    assert_eq!(count(EntryQuery { text: Some("NUMBER 77".into()), ..EntryQuery::default() }).await, 1);
    query.after = Some("AAAA".into());
    let refused = spaces.entries(&reader("c"), &default, query, 7).await.unwrap_err();
    assert_eq!(refused.reason, Reason::InvalidField);
}

#[actix::test]
async fn the_most_important_come_first_then_the_newest() {
    let (board, default) = (board(), space_id("default"));
    for (content, importance) in [
        ("low auth", Grade::Low),
        ("high auth one", Grade::High),
        ("medium auth", Grade::Medium),
        ("high auth two", Grade::High),
    ] {
        let draft = memory(content, MemoryScope::Team, importance);
        board.spaces().post(&reader("a"), &default, &draft).await.unwrap();
        // The time of an entry is in milliseconds.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let query = EntryQuery { text: Some("auth".into()), ..EntryQuery::default() };
    let found: Vec<_> =
        all(&board, &reader("b"), query).await.into_iter().map(|entry| entry.content).collect();
    assert_eq!(found, ["high auth two", "high auth one", "medium auth", "low auth"]);
}

#[actix::test]
async fn a_stream_goes_on_from_its_cursor_and_shows_each_change_once() {
    let (board, default) = (board(), space_id("default"));
    let (spaces, by) = (board.spaces(), reader("a"));
    let posted = spaces.post(&by, &default, &proposal("one", "x")).await.unwrap();
    let page = spaces.entries(&by, &default, EntryQuery::default(), 10).await.unwrap();
    let follow = async |after: Option<&str>, by: &Reader| {
        spaces.follow(by, &default, EntryQuery::default(), after).await.unwrap()
    };
    let mut stream = follow(Some(&page.cursor), &by).await;
    let vault = memory("secret", MemoryScope::Own, Grade::High);
    spaces.post(&reader("b"), &default, &vault).await.unwrap();
    spaces
        .change(&person(), &default, &posted.id, &EntryChange::Merge { version: None, reason: None })
        .await
        .unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(stream.next().await.unwrap());
    }
    let states: Vec<_> = seen.iter().map(|event| (event.entry.kind, event.entry.state)).collect();
    assert_eq!(
        states,
        [(EntryKind::Memory, EntryState::Active), (EntryKind::Proposal, EntryState::Merged)],
        "another's vault is not in the stream"
    );
    let mut resumed = follow(Some(&seen[0].cursor), &by).await;
    assert_eq!(resumed.next().await.unwrap()[0].entry, seen[1].entry);
    let mut whole = follow(Some("start"), &reader("b")).await;
    assert_eq!(whole.next().await.unwrap().len(), 4, "its own vault is");
    let refused = spaces.follow(&by, &default, EntryQuery::default(), Some("1")).await.err().unwrap();
    assert_eq!(refused.reason, Reason::InvalidField);
}

#[actix::test]
async fn a_space_exists_for_its_members_only() {
    let board = board();
    let spaces = board.spaces();
    let mut shop = Space::new(space_id("shop"));
    shop.members.insert(MemberId::Agent(AgentId::parse("a").unwrap()), SpaceRole::Member);
    let refused = spaces.put_space(&reader("a"), shop.clone(), None).await.unwrap_err();
    assert_eq!(refused.reason, Reason::SpaceNotFound, "an agent makes no space");
    let made = spaces.put_space(&person(), shop, None).await.unwrap();
    assert_eq!((made.version, made.members.len()), (1, 1), "the person owns it without being named");
    let finding = EntryDraft::new(EntryKind::Finding, "x");
    spaces.post(&reader("a"), &made.id, &finding).await.unwrap();
    let strangers = spaces.post(&reader("b"), &made.id, &finding).await.unwrap_err();
    let missing = spaces.post(&reader("b"), &space_id("other"), &finding).await.unwrap_err();
    assert_eq!((strangers.reason, missing.reason), (Reason::SpaceNotFound, Reason::SpaceNotFound));
    assert_eq!(strangers.message.replace("shop", "other"), missing.message);
    let names = async |by: &Reader| {
        let listed = spaces.spaces(by).await.unwrap();
        listed.into_iter().map(|space| space.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&reader("a")).await, names(&reader("b")).await),
        (vec!["default".to_owned(), "shop".to_owned()], vec!["default".to_owned()])
    );
    let stale = Space { version: 7, ..made };
    assert_eq!(spaces.put_space(&person(), stale, Some(7)).await.unwrap_err().reason, Reason::SpaceChanged);
    let local = Reader { proof: SenderProof::Address, ..person() };
    assert_eq!(spaces.spaces(&local).await.unwrap_err().reason, Reason::Unauthenticated);
}

#[actix::test]
async fn an_imported_space_is_equal() {
    let (first, second, default) = (board(), board(), space_id("default"));
    for by in ["a", "b"] {
        first.spaces().post(&reader(by), &default, &proposal("one", by)).await.unwrap();
    }
    let pending = all(&first, &person(), EntryQuery::default()).await;
    let merge = EntryChange::Merge { version: None, reason: Some("good".into()) };
    first.spaces().change(&person(), &default, &pending[0].id, &merge).await.unwrap();
    let entries = all(&first, &person(), EntryQuery::default()).await;
    let refused = second.spaces().import(&reader("a"), &default, to_import(&entries)).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Forbidden);
    for (imported, present) in [(3, 0), (0, 3)] {
        let outcome = second.spaces().import(&person(), &default, to_import(&entries)).await.unwrap();
        assert_eq!((outcome.imported, outcome.present, outcome.different.len()), (imported, present, 0));
        assert_eq!(outcome.refused, []);
    }
    let by_id = |mut entries: Vec<Entry>| {
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        entries
    };
    assert_eq!(by_id(all(&second, &person(), EntryQuery::default()).await), by_id(entries));
    let again = async |by: &str| second.spaces().post(&reader(by), &default, &proposal("one", "again")).await;
    assert_eq!(again("a").await.unwrap().version, 2, "it goes on where it was");
    assert_eq!(again("b").await.unwrap_err().reason, Reason::SlugClosed);
}

fn to_import(entries: &[Entry]) -> Vec<ImportedEntry> {
    entries.iter().cloned().map(ImportedEntry::from).collect()
}

#[actix::test]
async fn an_import_checks_each_entry_as_a_post_and_names_each_that_it_refuses() {
    let (first, second, default) = (board(), board(), space_id("default"));
    for draft in [
        EntryDraft::new(EntryKind::Finding, "good"),
        proposal("one", "good"),
        memory("good", MemoryScope::Team, Grade::High),
    ] {
        first.spaces().post(&reader("a"), &default, &draft).await.unwrap();
    }
    let query = EntryQuery { order: EntryOrder::Oldest, ..EntryQuery::default() };
    let [finding, proposal, memory] = <[Entry; 3]>::try_from(all(&first, &person(), query).await).unwrap();
    let large = "x".repeat(16 * 1024 + 1);
    let broken = [
        ("content", Entry { content: large, ..finding.clone() }),
        ("content", Entry { content: " ".into(), ..finding.clone() }),
        ("state", Entry { state: EntryState::Pending, ..finding.clone() }),
        ("severity", Entry { severity: None, ..finding.clone() }),
        ("slug", Entry { slug: None, ..proposal.clone() }),
        ("type", Entry { entry_type: Some(EntryType::CoreContext), ..proposal.clone() }),
        ("links", Entry { links: [(EntryLink::Became, finding.id.clone())].into(), ..proposal.clone() }),
        ("scope", Entry { scope: Some(MemoryScope::Own), ..memory.clone() }),
        ("importance", Entry { importance: None, ..memory.clone() }),
        ("tags", Entry { tags: ["a b".to_owned()].into(), ..memory.clone() }),
        ("version", Entry { version: 0, ..memory.clone() }),
        ("changedAt", Entry { changed_at: WallTime(i64::MAX), ..memory.clone() }),
        (
            "author",
            Entry { author: Principal::Service(protocol::principal::MeshService::Board), ..memory.clone() },
        ),
    ];
    let mut entries = vec![ImportedEntry::from(finding)];
    entries.extend(broken.iter().map(|(_, entry)| ImportedEntry::from(entry.clone())));
    entries.push(ImportedEntry::from(proposal));
    let outcome = second.spaces().import(&person(), &default, entries).await.unwrap();
    assert_eq!((outcome.imported, outcome.refused.len()), (2, broken.len()), "{outcome:?}");
    for ((index, (field, entry)), refused) in (1..).zip(&broken).zip(&outcome.refused) {
        assert_eq!((refused.index, refused.id.as_deref()), (index, Some(entry.id.as_str())), "{refused:?}");
        assert!(refused.message.starts_with(&format!("{field}:")), "{field}: {refused:?}");
    }
    assert_eq!(all(&second, &person(), EntryQuery::default()).await.len(), 2);
}

#[actix::test]
async fn an_author_has_a_bounded_number_of_entries_in_a_space() {
    let config = BoardConfig {
        max_entries_per_author: 3,
        keep_entries_ms: 0,
        tidy_ms: 10,
        keep_ms: 40,
        ..BoardConfig::fast()
    };
    let stores = memory::new();
    let board = Board::start(
        stores.clone(),
        BoardConfig { tidy_ms: 600_000, keep_ms: 3_600_000, ..config.clone() },
        BoardClock::system(),
    )
    .unwrap();
    let (spaces, default, by) = (board.spaces(), &space_id("default"), &reader("a"));
    let finding = EntryDraft::new(EntryKind::Finding, "x");
    let posts = join_all((0..10).map(|_| spaces.post(by, default, &finding))).await;
    let refused: Vec<_> = posts.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 7, "at once, too");
    let named = ["agent:a has 3 entries", "limits.maxEntriesPerAuthor", "limits.keepEntriesMs"];
    assert!(
        refused.iter().all(|refused| refused.reason == Reason::EntryQuota
            && named.iter().all(|part| refused.message.contains(part))),
        "{refused:?}"
    );
    assert!(refused.iter().all(|refused| refused.reason.status() == 409 && refused.retry_after.is_none()));
    spaces.post(&reader("b"), default, &finding).await.unwrap();
    spaces.post(&reader("b"), default, &memory("vault", MemoryScope::Own, Grade::Low)).await.unwrap();
    spaces.post(&reader("b"), default, &proposal("one", "first")).await.unwrap();
    let again = spaces.post(&reader("b"), default, &proposal("one", "second")).await.unwrap();
    assert_eq!(again.version, 2, "a new version is no new entry");
    assert_eq!(spaces.post(&reader("b"), default, &finding).await.unwrap_err().reason, Reason::EntryQuota);
    let imported = all(&board, &reader("b"), of_kind(EntryKind::Proposal)).await;
    let imported = Entry {
        id: EntryId::parse("e-1").unwrap(),
        slug: imported[0].slug.clone().map(|_| "two".to_owned().try_into().unwrap()),
        ..imported[0].clone()
    };
    let outcome = spaces.import(&person(), default, to_import(&[imported])).await.unwrap();
    assert_eq!(outcome.refused[0].reason, "entry_quota", "{outcome:?}");
    drop(board);
    // After a restart they are counted again, and what retention removes makes room.
    let board = Board::start(stores, config, BoardClock::system()).unwrap();
    let started = std::time::Instant::now();
    while let Err(refused) = board.spaces().post(by, default, &finding).await {
        assert!(
            refused.reason == Reason::EntryQuota && started.elapsed() < Duration::from_secs(30),
            "{refused}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[actix::test]
async fn of_first_puts_of_a_space_at_once_none_is_lost_silently() {
    let member = |id: &str| Space {
        members: [(MemberId::Agent(AgentId::parse(id).unwrap()), SpaceRole::Member)].into(),
        ..Space::new(space_id("shop"))
    };
    let first = &board();
    let puts = (0..10).map(|number| async move {
        let wanted = member(&format!("agent-{number}"));
        first.spaces().put_space(&person(), wanted, Some(0)).await
    });
    let (made, refused): (Vec<_>, Vec<_>) = join_all(puts).await.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (1, 9));
    assert!(refused.into_iter().all(|refused| refused.unwrap_err().reason == Reason::SpaceChanged));
    let kept = first.spaces().space(&person(), &space_id("shop")).await.unwrap();
    assert_eq!(kept, made.into_iter().next().unwrap().unwrap());

    // Without a version: another one is written between the decision and the commit.
    let store = Arc::new(WatchedStore::new(memory::new()));
    let shared: SharedStore = store.clone();
    let second = Board::start(shared, BoardConfig::fast(), BoardClock::system()).unwrap();
    for (wanted, is_refused) in [("b", true), ("a", false)] {
        let between = Space { version: 1, ..member("a") };
        let key = crate::spaces::rows::space_key(&between.id);
        let write = crate::spaces::rows::put(key, &between).unwrap();
        *store.first.lock().unwrap() = Some(store::Batch { writes: vec![write], expectations: Vec::new() });
        let outcome = second.spaces().put_space(&person(), member(wanted), None).await;
        let reason = outcome.err().map(|problem| problem.reason);
        assert_eq!(reason, is_refused.then_some(Reason::SpaceChanged), "{wanted}");
        let kept = second.spaces().space(&person(), &between.id).await.unwrap();
        assert_eq!(kept.members, between.members);
    }
}

#[actix::test]
async fn no_read_of_spaces_runs_on_a_thread_of_the_server() {
    let watched = Arc::new(WatchedStore::new(memory::new()));
    let stores = BoardStores { signals: memory::new(), spaces: watched.clone() };
    let config = BoardConfig { spaces: vec![Space::new(space_id("shop"))], ..BoardConfig::fast() };
    let board = Board::start(stores, config, BoardClock::system()).unwrap();
    let (spaces, default, by) = (board.spaces(), space_id("default"), person());
    *watched.forbidden.lock().unwrap() = Some(std::thread::current().id());
    let me = AgentId::parse("a").unwrap();
    let mut stream = spaces.follow(&by, &default, EntryQuery::default(), None).await.unwrap();
    let posted = spaces.post(&reader("a"), &default, &proposal("one", "x")).await.unwrap();
    spaces.curate(&reader("a"), &default, &ended_run("t-1", false)).await.unwrap();
    spaces
        .change(&by, &default, &posted.id, &EntryChange::Merge { version: None, reason: None })
        .await
        .unwrap();
    // Futures that are dropped lose no event.
    let mut seen = 0;
    while seen < 3 {
        tokio::select! {
            biased;
            events = stream.next() => seen += events.unwrap().len(),
            () = tokio::task::yield_now() => {}
        }
    }
    spaces.entry(&by, &default, &posted.id).await.unwrap();
    let page = spaces.entries(&by, &default, EntryQuery::default(), 10).await.unwrap();
    spaces.import(&by, &default, to_import(&page.entries)).await.unwrap();
    spaces.brief(&by, &default, &me, Default::default()).await.unwrap();
    spaces.put_space(&by, Space::new(space_id("other")), None).await.unwrap();
    spaces.space(&by, &space_id("other")).await.unwrap();
    assert_eq!(spaces.spaces(&by).await.unwrap().len(), 3);
    *watched.forbidden.lock().unwrap() = None;
}

#[actix::test]
async fn a_completed_session_merges_what_its_host_has_proposed_in_it_and_leaves_the_rest() {
    let (board, default) = (board(), space_id("default"));
    let (spaces, session) = (board.spaces(), TaskId::parse("s-1").unwrap());
    let propose = async |by: &str, slug: &str, entry_type, of: Option<&TaskId>| {
        let draft = EntryDraft { entry_type: Some(entry_type), session: of.cloned(), ..proposal(slug, slug) };
        spaces.post(&reader(by), &default, &draft).await.unwrap();
    };
    propose("host", "sqlite", EntryType::Architectural, Some(&session)).await;
    propose("host", "no-mail", EntryType::Scope, Some(&session)).await;
    propose("host", "earlier", EntryType::Scope, None).await;
    propose("host", "learnt", EntryType::Learning, Some(&session)).await;
    propose("seat", "postgres", EntryType::Architectural, Some(&session)).await;
    let brain = Reader { principal: Principal::Brain(AgentId::parse("host").unwrap()), ..reader("host") };
    let refused = spaces.curate(&brain, &default, &ended_run("s-1", true)).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Forbidden, "a brain is no host");
    let of_task = spaces.curate(&reader("host"), &default, &ended_run("s-1", false)).await.unwrap();
    assert_eq!((of_task.merged, of_task.waiting), (0, 0), "a task is no session");
    let of_seat = spaces.curate(&reader("seat"), &default, &ended_run("turn", true)).await.unwrap();
    assert_eq!((of_seat.merged, of_seat.waiting), (0, 0));
    let ended = spaces.curate(&reader("host"), &default, &ended_run("s-1", true)).await.unwrap();
    assert_eq!((ended.merged, ended.waiting), (2, 1));
    let mut decided: Vec<_> = all(&board, &person(), of_kind(EntryKind::Decision)).await;
    decided.sort_by_key(|entry| entry.content.clone());
    let contents: Vec<_> = decided.iter().map(|entry| entry.content.as_str()).collect();
    assert_eq!(contents, ["no-mail", "sqlite"]);
    assert!(decided.iter().all(|entry| entry.author == agent("host")), "{decided:?}");
    let again = spaces.curate(&reader("host"), &default, &ended_run("s-1", true)).await.unwrap();
    assert_eq!((again.merged, again.waiting), (0, 1), "a repeat finds none");
}

fn ended_run(task: &str, session: bool) -> EndedRun {
    EndedRun { task: TaskId::parse(task).unwrap(), session, declined: None }
}

/// A store that panics when it is read on one thread, and that commits another batch before the next one.
struct WatchedStore {
    store: SharedStore,
    forbidden: std::sync::Mutex<Option<std::thread::ThreadId>>,
    first: std::sync::Mutex<Option<store::Batch>>,
}

impl WatchedStore {
    fn new(store: SharedStore) -> Self {
        Self { store, forbidden: Default::default(), first: Default::default() }
    }

    fn read(&self) -> &SharedStore {
        let forbidden = *self.forbidden.lock().unwrap();
        assert_ne!(forbidden, Some(std::thread::current().id()), "a read blocks the server");
        &self.store
    }
}

impl store::Snapshot for WatchedStore {
    fn latest(&self, key: &store::Key) -> Result<Option<store::Record>, store::Error> {
        self.read().latest(key)
    }

    fn read(
        &self,
        filter: &store::Filter,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<store::Record>, store::Error> {
        self.read().read(filter, after, limit)
    }

    fn keys(
        &self,
        filter: &store::Filter,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<(Revision, store::Key)>, store::Error> {
        self.read().keys(filter, after, limit)
    }

    fn list(&self, query: &store::ListQuery, limit: usize) -> Result<Vec<store::ListedKey>, store::Error> {
        self.read().list(query, limit)
    }

    fn count(&self, query: &store::ListQuery) -> Result<u64, store::Error> {
        self.read().count(query)
    }

    fn head(&self) -> Revision {
        self.store.head()
    }
}

impl store::Store for WatchedStore {
    fn commit(&self, lane: store::Lane, batch: store::Batch) -> store::StoreFuture<Vec<Revision>> {
        let (store, first) = (self.store.clone(), self.first.lock().unwrap().take());
        Box::pin(async move {
            if let Some(first) = first {
                store.commit(lane, first).await?;
            }
            store.commit(lane, batch).await
        })
    }

    fn generation(&self) -> String {
        self.store.generation()
    }

    fn watch(&self, filter: store::Filter, after: Revision) -> Result<store::StoreWatch, store::Error> {
        self.read().watch(filter, after)
    }

    fn trim(&self, filter: store::Filter, before: Revision) -> store::StoreFuture<u64> {
        self.store.trim(filter, before)
    }

    fn blobs(&self) -> store::SharedBlobs {
        self.store.blobs()
    }
}

#[actix::test]
async fn retention_keeps_what_is_in_use() {
    let config = BoardConfig {
        keep_entries_ms: 0,
        keep_entry_changes_ms: 0,
        tidy_ms: 10,
        keep_ms: 40,
        ..BoardConfig::fast()
    };
    let store = memory::new();
    let board = Board::start(store.clone(), config, BoardClock::system()).unwrap();
    let (spaces, default) = (board.spaces(), space_id("default"));
    let by = reader("a");
    spaces.post(&by, &default, &EntryDraft::new(EntryKind::Finding, "old")).await.unwrap();
    spaces.post(&by, &default, &proposal("pending", "x")).await.unwrap();
    spaces.post(&by, &default, &memory("active", MemoryScope::Own, Grade::Low)).await.unwrap();
    let rejected = spaces.post(&by, &default, &proposal("rejected", "x")).await.unwrap();
    let reject = EntryChange::Reject { reason: "no".into() };
    spaces.change(&person(), &default, &rejected.id, &reject).await.unwrap();
    let started = std::time::Instant::now();
    let left = loop {
        let left = all(&board, &by, EntryQuery::default()).await;
        if left.len() <= 2 {
            break left;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{left:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let kinds: Vec<_> = left.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Memory, EntryKind::Proposal]);
    let again = spaces.post(&by, &default, &proposal("rejected", "again")).await.unwrap();
    assert_eq!((again.version, again.slug.unwrap().as_str()), (1, "rejected"), "it is forgotten");
}

/// Fifty authors propose one slug twenty times each, at once, on a store that writes to a device.
#[actix::test]
async fn fifty_authors_of_one_slug_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store: SharedStore = embedded::open(dir.path(), embedded::StoreOptions::default()).unwrap();
    let board = Board::start(store, BoardConfig::fast(), BoardClock::system()).unwrap();
    let (spaces, default) = (board.spaces(), &space_id("default"));
    join_all((0..50).map(|author| async move {
        for version in 0..20 {
            let by = reader(&format!("agent-{author}"));
            spaces.post(&by, default, &proposal("the-one", &version.to_string())).await.unwrap();
        }
    }))
    .await;
    let found = all(&board, &person(), of_kind(EntryKind::Proposal)).await;
    assert_eq!(found.len(), 50);
    assert!(found.iter().all(|entry| (entry.version, entry.content.as_str()) == (20, "19")), "{found:?}");
}
