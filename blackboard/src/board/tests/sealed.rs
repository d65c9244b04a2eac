//! Entries of sealed stages and of sessions, and vaults.

use super::*;
use crate::spaces::{EntryQuery, FindingsOf};
use protocol::{
    ids::{EntryId, SpaceId, StageId, TaskId},
    principal::SenderProof,
    spaces::{
        Entry, EntryDraft, EntryKind, EntryState, EntryType, MemoryScope, Reader,
        entry_draft::SealedStage,
        request::{SessionScope, SpaceAnswer},
        sealed::EntryRelease,
        vault::VaultChange,
    },
};

fn reader(id: &str) -> Reader {
    Reader { principal: agent(id), proof: SenderProof::Credential }
}

fn person() -> Reader {
    Reader { principal: Principal::local_user(), proof: SenderProof::Credential }
}

fn default() -> SpaceId {
    SpaceId::parse("default").unwrap()
}

fn session() -> TaskId {
    TaskId::parse("s-1").unwrap()
}

fn sealed(number: u32, kind: EntryKind, content: &str) -> EntryDraft {
    let of = SealedStage {
        host: AgentId::parse("host").unwrap(),
        session: session(),
        stage: StageId::parse("ideas").unwrap(),
        iteration: 1,
    };
    let is_proposal = kind == EntryKind::Proposal;
    EntryDraft {
        id: Some(format!("t:{number}")),
        session: (!is_proposal).then(session),
        entry_type: is_proposal.then_some(EntryType::Learning),
        slug: is_proposal.then(|| "use-jwt".to_owned()),
        sealed: Some(Box::new(of)),
        ..EntryDraft::new(kind, content)
    }
}

fn release(stage: Option<&str>) -> EntryRelease {
    EntryRelease { session: session(), stage: stage.map(|id| StageId::parse(id).unwrap()), iteration: 1 }
}

async fn all(board: &Board, by: &Reader, query: EntryQuery) -> Vec<Entry> {
    board.spaces().entries(by, &default(), query, 1_000).await.unwrap().entries
}

#[actix::test]
async fn what_is_sealed_exists_for_its_author_alone_until_one_commit_releases_it() {
    let store = memory::new();
    let board = Board::start(store.clone(), BoardConfig::fast(), BoardClock::system()).unwrap();
    let spaces = board.spaces();
    for (author, number) in [("b", 1), ("a", 1), ("b", 2)] {
        let draft = sealed(number, EntryKind::Finding, &format!("idea {number} of {author}"));
        spaces.post(&reader(author), &default(), &draft).await.unwrap();
        assert!(spaces.post(&reader(author), &default(), &draft).await.unwrap().duplicate, "a repeat");
    }
    for author in ["a", "b"] {
        let draft = sealed(9, EntryKind::Proposal, &format!("of {author}"));
        spaces.post(&reader(author), &default(), &draft).await.unwrap();
    }
    for by in [person(), reader("a"), reader("c"), reader("host")] {
        assert_eq!(all(&board, &by, EntryQuery::default()).await, [], "{by:?}");
    }
    let own = || EntryQuery { sealed: Some(session()), ..EntryQuery::default() };
    let found = all(&board, &reader("b"), EntryQuery { text: Some("idea".into()), ..own() }).await;
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|entry| entry.state == EntryState::Sealed && entry.author == agent("b")));
    assert_eq!(all(&board, &person(), own()).await, [], "not even the person");
    let scope = SessionScope { session: Some(session()), sealed: Some(session()) };
    let brief = async |by: &Reader| {
        let me = AgentId::parse("a").unwrap();
        spaces.brief(by, &default(), &me, (scope.clone(), None)).await.unwrap().brief.text
    };
    let text = brief(&reader("a")).await;
    assert!(text.contains("idea 1 of a") && !text.contains("of b"), "{text}");
    assert_eq!(brief(&person()).await, "");

    let by_another = spaces.release(&reader("c"), &default(), &release(Some("ideas"))).await.unwrap();
    assert_eq!(by_another, SpaceAnswer::Released { count: 0, refused: vec![] }, "only its host releases it");
    let answer = spaces.release(&reader("host"), &default(), &release(Some("ideas"))).await.unwrap();
    assert_eq!(answer, SpaceAnswer::Released { count: 5, refused: vec![] });
    let query = EntryQuery { findings: FindingsOf::Session(session()), ..EntryQuery::default() };
    let mut released = all(&board, &reader("c"), query).await;
    released.reverse();
    let contents: Vec<_> = released.iter().map(|entry| entry.content.as_str()).collect();
    let expected = ["idea 1 of a", "of a", "idea 1 of b", "idea 2 of b", "of b"];
    assert_eq!(contents, expected, "by author, then by time");
    assert!(released.iter().all(|entry| entry.at == released[0].at && entry.version == 1));
    let slugs: Vec<_> =
        released.iter().filter_map(|entry| entry.slug.as_ref()).map(ToString::to_string).collect();
    assert_eq!(slugs, ["use-jwt", "use-jwt--b"], "names are settled at the release");
    let again = spaces.release(&reader("host"), &default(), &release(None)).await.unwrap();
    assert_eq!(again, SpaceAnswer::Released { count: 0, refused: vec![] });
    // What comes late is not sealed any more.
    spaces.post(&reader("a"), &default(), &sealed(7, EntryKind::Finding, "late")).await.unwrap();
    assert!(
        all(&board, &reader("c"), EntryQuery::default()).await.iter().any(|entry| entry.content == "late")
    );
    let brain = Reader { principal: Principal::Brain(AgentId::parse("a").unwrap()), ..reader("a") };
    let refused = spaces.post(&brain, &default(), &sealed(8, EntryKind::Finding, "x")).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Forbidden);
}

#[actix::test]
async fn the_findings_of_a_session_are_its_own_and_end_with_it() {
    let config = BoardConfig { keep_session_entries_ms: 0, tidy_ms: 10, keep_ms: 40, ..BoardConfig::fast() };
    let board = Board::start(memory::new(), config, BoardClock::system()).unwrap();
    let spaces = board.spaces();
    let finding = |content: &str| EntryDraft::new(EntryKind::Finding, content);
    let of_session = EntryDraft { session: Some(session()), ..finding("in the session") };
    spaces.post(&reader("a"), &default(), &of_session).await.unwrap();
    spaces.post(&reader("a"), &default(), &finding("outside")).await.unwrap();
    let brief = async |session: Option<TaskId>| {
        let (me, scope) = (AgentId::parse("b").unwrap(), SessionScope { session, sealed: None });
        spaces.brief(&reader("b"), &default(), &me, (scope, None)).await.unwrap().brief.text
    };
    let (inside, outside) = (brief(Some(session())).await, brief(None).await);
    assert!(inside.contains("in the session") && !inside.contains("outside"), "{inside}");
    assert!(outside.contains("outside") && !outside.contains("in the session"), "{outside}");
    assert_eq!(all(&board, &reader("b"), EntryQuery::default()).await.len(), 2, "a list has all");
    spaces.release(&reader("host"), &default(), &release(None)).await.unwrap();
    let started = std::time::Instant::now();
    loop {
        let left = all(&board, &person(), EntryQuery::default()).await;
        if left.len() == 1 {
            assert_eq!(left[0].content, "outside");
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{left:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[actix::test]
async fn only_the_person_opens_and_mends_a_vault() {
    let board = board();
    let (spaces, owner) = (board.spaces(), AgentId::parse("a").unwrap());
    let memory = EntryDraft {
        entry_type: Some(EntryType::Learning),
        scope: Some(MemoryScope::Own),
        expertise: [("rust".to_owned(), 2)].into(),
        files: ["src/main.rs".to_owned(), "src/lib.rs".to_owned()].into(),
        ..EntryDraft::new(EntryKind::Memory, "the port is 80")
    };
    let id = spaces.post(&reader("a"), &default(), &memory).await.unwrap().id;
    for by in [reader("a"), reader("b"), Reader { principal: Principal::Brain(owner.clone()), ..reader("a") }]
    {
        let refused = spaces.vault(&by, &default(), &owner).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Forbidden, "{by:?}");
    }
    let vault = spaces.vault(&person(), &default(), &owner).await.unwrap();
    assert_eq!((vault.entries.len(), vault.knowledge.files.len(), vault.knowledge.areas["rust"]), (1, 2, 2));
    let mend = async |change: VaultChange| spaces.change_vault(&person(), &default(), &owner, &change).await;
    let edited = mend(VaultChange::Edit { id: id.clone(), content: "the port is 81".into() }).await.unwrap();
    let entry = &edited.entries[0];
    assert_eq!((entry.content.as_str(), entry.version, &entry.author), ("the port is 81", 2, &agent("a")));
    assert_eq!(entry.changed_by, Some(Principal::local_user()), "the change carries the person's name");
    let known = mend(VaultChange::Expertise { areas: [("rust".to_owned(), 0), ("c".to_owned(), 3)].into() });
    assert_eq!(known.await.unwrap().knowledge.areas, [("c".to_owned(), 3)].into());
    let files = mend(VaultChange::Files { forget: ["src/lib.rs".to_owned()].into() }).await.unwrap();
    assert_eq!(files.knowledge.files, ["src/main.rs".to_owned()].into());
    let other = VaultChange::Edit { id: EntryId::parse("agent:b:x").unwrap(), content: "x".into() };
    assert_eq!(mend(other).await.unwrap_err().reason, Reason::EntryNotFound);
    let archived = mend(VaultChange::Archive { id, reason: None }).await.unwrap();
    assert_eq!(archived.entries, []);
}
