use super::*;
use crate::store::memory;
use futures_util::{StreamExt, future::join_all};

fn board() -> Board {
    Board::start(memory::new(), BoardConfig::fast(), Clock::system()).unwrap()
}

fn agent(id: &str) -> Principal {
    Principal::Agent(AgentId::parse(id).unwrap())
}

fn signal(id: &str, kind: &str, from: &str) -> Signal {
    crate::signals::tests::signal(id, kind, from)
}

#[actix::test]
async fn a_signal_published_twice_stands_once() {
    let board = board();
    let by = agent("b-1");
    board.publish(&by, signal("a", "help.needed", "b-1")).await.unwrap();
    let first = board.publish(&by, signal("b", "task.failed", "b-1")).await.unwrap();
    board.publish(&agent("b-2"), signal("b", "task.failed", "b-2")).await.unwrap();
    assert_eq!(board.publish(&by, signal("b", "task.failed", "b-1")).await, Ok(first));
    let refused = board.publish(&by, signal("b", "help.needed", "b-1")).await.unwrap_err();
    assert_eq!(refused.reason, Reason::MessageIdReused);
    let page = board.read(Selector::default(), None, 100).await.unwrap();
    assert_eq!(page.signals.len(), 3);
    assert!(page.signals.iter().any(|posted| posted.revision == first && posted.signal.id == "b"));
    let counts = board.snapshot().await.unwrap().counts;
    assert_eq!((counts.published, counts.repeated, counts.refused), (3, 1, 1));
}

#[actix::test]
async fn of_64_that_claim_at_once_exactly_one_wins() {
    let board = board();
    let lease = Duration::from_secs(5);
    for round in 0..100 {
        let task = TaskId::parse(&format!("t-{round}")).unwrap();
        let outcomes = join_all((0..64).map(|at| {
            let (board, task) = (board.clone(), task.clone());
            async move {
                let holder = AgentId::parse(&format!("b-{at}")).unwrap();
                board.claim(&Principal::Agent(holder.clone()), &task, &holder, lease).await
            }
        }))
        .await;
        let winners: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        let [winner] = winners.as_slice() else { panic!("round {round}: {} winners", winners.len()) };
        for loser in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert_eq!(loser.reason, Reason::AlreadyClaimed);
            assert!(loser.metadata.contains(&("holder", winner.holder.to_string())));
        }
    }
    let told = Selector { types: vec!["task.claimed".into()], ..Selector::default() };
    assert_eq!(board.read(told, None, 1_000).await.unwrap().signals.len(), 100);
}

#[actix::test]
async fn a_late_subscriber_reads_history_and_then_what_comes() {
    let board = board();
    let by = agent("b-1");
    for at in 0..200 {
        board.publish(&by, signal(&format!("s-{at}"), "help.needed", "b-1")).await.unwrap();
    }
    let handle = crate::client::Blackboard::local(board.clone());
    let mut signals = handle.subscribe(&by, Selector::default(), Some(0)).await.unwrap();
    for at in 0..200 {
        assert_eq!(signals.next().await.unwrap().unwrap().signal.id, format!("s-{at}"));
    }
    board.publish(&by, signal("live", "help.needed", "b-1")).await.unwrap();
    assert_eq!(signals.next().await.unwrap().unwrap().signal.id, "live");
}
