//! Two boards that differ only in entries that a reader may not see answer that reader alike on every route of the board, byte for
//! byte but for cursors. A cursor is encrypted under a nonce of its own, so that two of one position differ, too; all have one
//! length.

use super::*;
use crate::{
    board::{BoardStores, SpaceStore},
    spaces::EntryChange,
};
use actix_web::{http::Method, test};
use protocol::{
    ids::{EntryId, SpaceId},
    principal::SenderProof,
    spaces::{EntryDraft, EntryKind, EntryType, Grade, MemberId, MemoryScope, Reader, Space, SpaceRole},
    time::{NodeTime, WallTime},
};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

const READER: &str = "reader";
const OTHER: &str = "other";
/// A cursor in base64: the nonce, two numbers, the tag.
const CURSOR_CHARS: usize = 59;

fn by(id: &str) -> Reader {
    let id = AgentId::parse(id).unwrap();
    let principal = if id.as_str() == "local" { Principal::User(id) } else { Principal::Agent(id) };
    Reader { principal, proof: SenderProof::Credential }
}

fn draft(kind: EntryKind, id: &str, content: &str) -> EntryDraft {
    EntryDraft { id: Some(id.to_owned()), ..EntryDraft::new(kind, content) }
}

fn memory(id: &str, scope: MemoryScope) -> EntryDraft {
    EntryDraft {
        entry_type: Some(EntryType::Learning),
        scope: Some(scope),
        importance: Some(Grade::High),
        tags: ["auth".to_owned()].into(),
        ..draft(EntryKind::Memory, id, "the token expires")
    }
}

/// A board whose clock shows one more millisecond for each visible step.
struct TwinBoard {
    board: Board,
    now: Arc<AtomicI64>,
}

impl TwinBoard {
    fn start() -> Self {
        let now = Arc::new(AtomicI64::new(1_000));
        let wall = now.clone();
        let clock = BoardClock::new(|| NodeTime(0), move || WallTime(wall.load(Ordering::Relaxed)));
        // The heartbeat is no part of an answer.
        let config = BoardConfig { heartbeat_ms: 3_600_000, ..BoardConfig::fast() };
        let stores = BoardStores { signals: memory::new(), spaces: memory::new() };
        Self { board: Board::start(stores, config, clock).unwrap(), now }
    }

    fn spaces(&self) -> &SpaceStore {
        self.board.spaces()
    }

    /// What the reader sees, and between its steps what only others see, if `has_unseen`.
    async fn fill(&self, has_unseen: bool) {
        let (default, secret) = (space("default"), space("secret"));
        let owner = by("local");
        if has_unseen {
            let member = MemberId::Agent(AgentId::parse(OTHER).unwrap());
            let members = [(member, SpaceRole::Member)].into();
            self.spaces()
                .put_space(&owner, Space { members, ..Space::new(secret.clone()) }, None)
                .await
                .unwrap();
        }
        for step in 0..150 {
            self.now.fetch_add(1, Ordering::Relaxed);
            let id = format!("s:{step}");
            if has_unseen {
                for unseen in 0..3 {
                    let vault = memory(&format!("v:{step}:{unseen}"), MemoryScope::Own);
                    self.spaces().post(&by(OTHER), &default, &vault).await.unwrap();
                }
                let elsewhere = draft(EntryKind::Finding, &id, "the token expires");
                self.spaces().post(&by(OTHER), &secret, &elsewhere).await.unwrap();
                let message = EntryDraft {
                    to: [MemberId::Agent(AgentId::parse("third").unwrap())].into(),
                    ..draft(EntryKind::Message, &format!("m:{step}"), "the token expires")
                };
                self.spaces().post(&by(OTHER), &default, &message).await.unwrap();
            }
            let seen = match step % 3 {
                0 => draft(EntryKind::Finding, &id, "a token"),
                1 => memory(&id, MemoryScope::Team),
                _ => EntryDraft {
                    slug: Some(format!("slug-{step}")),
                    entry_type: Some(EntryType::Update),
                    ..draft(EntryKind::Proposal, &id, "a token")
                },
            };
            let author = if step % 2 == 0 { OTHER } else { READER };
            let posted = self.spaces().post(&by(author), &default, &seen).await.unwrap();
            let notice = signal(&id, "help.needed", "");
            self.board.publish(&Principal::local_user(), notice).await.unwrap();
            if step % 9 == 2 {
                let reject = EntryChange::Reject { reason: "no".into() };
                self.spaces().change(&owner, &default, &posted.id, &reject).await.unwrap();
            }
        }
    }
}

fn space(id: &str) -> SpaceId {
    SpaceId::parse(id).unwrap()
}

/// Replaces the edge: every caller is the reader.
async fn authenticate_reader(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let Reader { principal, proof } = by(READER);
    request.extensions_mut().insert(principal);
    request.extensions_mut().insert(proof);
    next.call(request).await
}

/// `text` without its cursors, which it has where `before` stands.
fn without_cursors(text: &str) -> String {
    let mut masked = text.to_owned();
    for before in ["\"next\":\"", "\"cursor\":\"", "id: "] {
        let parts = masked.split(before).enumerate().map(|(at, part)| match at {
            0 => part.to_owned(),
            _ => {
                let (cursor, rest) = part.split_at_checked(CURSOR_CHARS).unwrap_or((part, ""));
                let is_cursor = cursor.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
                assert!(is_cursor && (rest.starts_with('"') || rest.starts_with('\n')), "{before}{part}");
                format!("CURSOR{rest}")
            }
        });
        masked = parts.collect::<Vec<_>>().join(before);
    }
    masked
}

/// The answers to every request that the reader can make, with the routes that were asked.
async fn answers(twin: &TwinBoard) -> Vec<(String, String)> {
    let data = web::Data::new(twin.board.clone());
    let app = App::new().app_data(data).configure(crate::http::routes).wrap(from_fn(authenticate_reader));
    let app = test::init_service(app).await;
    let mut answers = Vec::new();
    let mut ask = async |method: Method, path: &str, body: &str| {
        let request = test::TestRequest::with_uri(path).method(method.clone()).set_payload(body.to_owned());
        let response = match test::try_call_service(&app, request.to_request()).await {
            Ok(response) => response.map_into_boxed_body(),
            Err(error) => {
                answers.push((format!("{method} {path}"), error.to_string()));
                return String::new();
            }
        };
        let (status, headers) = (response.status(), format!("{:?}", response.headers()));
        let text = String::from_utf8(test::read_body(response).await.to_vec()).unwrap();
        answers.push((
            format!("{method} {path} {body}"),
            format!("{status} {headers} {}", without_cursors(&text)),
        ));
        text
    };
    let base = "/board/spaces/default/entries";
    for path in
        ["/board/spaces", "/board/spaces/default", "/board/spaces/secret", "/board/spaces/secret/entries"]
    {
        ask(Method::GET, path, "").await;
    }
    for query in [
        "limit=1000",
        "limit=7",
        "text=token",
        "text=token%20expires&limit=3",
        "tag=auth",
        "kind=memory&type=learning",
        "kind=message",
        "author=other",
        "order=importance&limit=9",
        "order=oldest&status=pending,rejected",
    ] {
        let mut after = String::new();
        loop {
            let page = ask(Method::GET, &format!("{base}?{query}{after}"), "").await;
            let page: serde_json::Value = serde_json::from_str(&page).unwrap();
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
    }
    for id in
        ["agent:other:s:0", "agent:other:v:3:1", "agent:other:m:3", "agent:reader:s:1", "agent:other:none"]
    {
        let id = EntryId::parse(id).unwrap();
        ask(Method::GET, &format!("{base}/{id}"), "").await;
        ask(Method::GET, &format!("/board/spaces/secret/entries/{id}"), "").await;
        for action in ["merge", "archive", "reject", "supersede", "withdraw"] {
            let body = match action {
                "reject" => r#"{"reason":"x"}"#,
                "supersede" => r#"{"by":"agent:other:v:3:1"}"#,
                _ => "{}",
            };
            ask(Method::POST, &format!("{base}/{id}/{action}"), body).await;
        }
    }
    for body in [
        r#"{"id":"v:3:1","kind":"finding","content":"mine"}"#,
        r#"{"id":"r:1","kind":"proposal","type":"update","slug":"slug-2","content":"mine"}"#,
        r#"{"id":"r:2","kind":"finding","content":"x","links":{"retriedFrom":"agent:other:v:3:1"}}"#,
        r#"{"id":"r:3","kind":"finding","content":"x","links":{"retriedFrom":"agent:other:none"}}"#,
    ] {
        ask(Method::POST, base, body).await;
        ask(Method::POST, "/board/spaces/secret/entries", body).await;
    }
    ask(Method::PUT, "/board/spaces/secret", "{}").await;
    ask(Method::PUT, "/board/spaces/default", "{}").await;
    ask(Method::POST, "/board/spaces/default/import", r#"{"entries":[]}"#).await;
    let reader = by(READER).principal;
    let signals = twin.board.read(&reader, Selector::default(), None, 1_000).await.unwrap();
    assert_eq!(signals.signals.len(), 150);
    answers.push(("signals".to_owned(), format!("{:?} {}", signals.signals, signals.next.revision)));
    let events =
        twin.spaces().follow(&by(READER), &space("default"), Default::default(), Some("start")).await;
    let mut events = events.unwrap();
    let mut seen = Vec::new();
    // 150 posts, 17 rejections, and of the reader 2 posts and an archived memory.
    while seen.len() < 170 {
        seen.extend(events.next().await.unwrap().into_iter().map(|event| {
            assert_eq!(event.cursor.len(), CURSOR_CHARS);
            event.entry
        }));
    }
    answers.push(("stream".to_owned(), serde_json::to_string(&seen).unwrap()));
    answers
}

#[actix_web::test]
async fn entries_that_a_reader_may_not_see_change_nothing_that_it_gets() {
    let (one, other) = (TwinBoard::start(), TwinBoard::start());
    one.fill(false).await;
    other.fill(true).await;
    let (expected, seen) = (answers(&one).await, answers(&other).await);
    assert_eq!(expected.len(), seen.len());
    for ((route, expected), (_, seen)) in expected.iter().zip(&seen) {
        assert_eq!(expected, seen, "{route}");
    }
    assert!(expected.iter().any(|(_, answer)| answer.contains("slug-2--reader")), "{expected:#?}");
}
