//! Spaces and entries: nothing is lost or overwritten, and what a reader may not see does not exist for it.

use super::*;
use crate::{
    spaces::{EntryChange, EntryOrder, EntryQuery},
    store::{SharedStore, embedded},
};
use protocol::{
    ids::SpaceId,
    principal::SenderProof,
    spaces::{
        Entry, EntryDraft, EntryKind, EntryLink, EntryState, EntryType, Importance, MemberId, MemoryScope,
        Reader, Space, SpaceRole,
    },
};

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

fn memory(content: &str, scope: MemoryScope, importance: Importance) -> EntryDraft {
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
    let merge = EntryChange::Merge { reason: None };
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
        ("low auth", Importance::Low),
        ("high auth one", Importance::High),
        ("medium auth", Importance::Medium),
        ("high auth two", Importance::High),
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
    let vault = memory("secret", MemoryScope::Own, Importance::High);
    spaces.post(&reader("b"), &default, &vault).await.unwrap();
    spaces.change(&person(), &default, &posted.id, &EntryChange::Merge { reason: None }).await.unwrap();
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
    let refused = spaces.put_space(&reader("a"), shop.clone()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::SpaceNotFound, "an agent makes no space");
    let made = spaces.put_space(&person(), shop).await.unwrap();
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
    assert_eq!(spaces.put_space(&person(), stale).await.unwrap_err().reason, Reason::SpaceChanged);
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
    let merge = EntryChange::Merge { reason: Some("good".into()) };
    first.spaces().change(&person(), &default, &pending[0].id, &merge).await.unwrap();
    let entries = all(&first, &person(), EntryQuery::default()).await;
    let refused = second.spaces().import(&reader("a"), &default, entries.clone()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Forbidden);
    for (imported, present) in [(3, 0), (0, 3)] {
        let outcome = second.spaces().import(&person(), &default, entries.clone()).await.unwrap();
        assert_eq!((outcome.imported, outcome.present, outcome.different.len()), (imported, present, 0));
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
    spaces.post(&by, &default, &memory("active", MemoryScope::Own, Importance::Low)).await.unwrap();
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
