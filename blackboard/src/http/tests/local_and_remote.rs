//! The same calls give the same results in process and over HTTP.

use super::*;

fn outcome<T: std::fmt::Debug>(result: Result<T, protocol::problem::Problem>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(mut problem) => {
            problem.metadata.sort();
            format!("{:?} {} {:?}", problem.reason, problem.message, problem.metadata)
        }
    }
}

/// An offer of the task `t-1`.
fn offer(id: &str, text: &str) -> Signal {
    Signal { task_id: Some(own_task("t-1").task_id), ..signal(id, "task.available", text) }
}

/// Makes every kind of call to `board` and returns the outcomes, without remaining times.
async fn call_outcomes(board: &Blackboard) -> Vec<String> {
    let by = Principal::local_user();
    let (task, holder) = (own_task("t-1"), AgentId::parse("b-1").unwrap());
    let lease = Duration::from_secs(60);
    let mut outcomes = vec![
        outcome(board.publish(&by, offer("a", "1")).await),
        outcome(board.publish(&by, offer("a", "1")).await),
        outcome(board.publish(&by, offer("a", "2")).await),
        outcome(board.publish(&by, signal("b", "agent.joined", "2")).await),
        outcome(board.publish(&by, signal("no id", "help.needed", "2")).await),
        outcome(board.publish(&by, signal("c", "help.needed", &"x".repeat(16 * 1024))).await),
        outcome(board.claim_of(&by, &task).await),
        outcome(board.renew(&by, &task, 1).await),
        outcome(board.claim(&by, &task, &holder, Duration::ZERO).await),
    ];
    let claim = board.claim(&by, &task, &holder, lease).await.unwrap();
    let epoch = claim.epoch;
    let again = board.claim(&by, &task, &holder, lease).await.unwrap_err();
    assert!(again.metadata.iter().any(|(key, _)| *key == "remainingMs"));
    outcomes.extend([
        format!("{:?} {} {epoch}", claim.state, claim.holder),
        format!("{:?}", again.reason),
        format!("{:?}", board.renew(&by, &task, epoch).await.unwrap().state),
        outcome(board.renew(&by, &task, epoch + 1).await),
        outcome(board.release(&by, &task, epoch).await),
        outcome(board.release(&by, &task, epoch).await),
        outcome(board.complete(&by, &task, epoch).await),
    ]);
    let next = board.claim(&by, &task, &holder, lease).await.unwrap().epoch;
    assert!(next > epoch);
    outcomes.extend([
        outcome(board.complete(&by, &task, epoch).await),
        outcome(board.complete(&by, &task, next).await),
        outcome(board.claim(&by, &task, &holder, lease).await),
        outcome(board.claim_of(&by, &task).await),
    ]);
    let only = Selector { types: vec!["task.*".into()], ..Selector::default() };
    let page = board.read(&by, &only, None, 3).await.unwrap();
    let of = |posted: &protocol::signal::SignalRecord| format!("{} {}", posted.revision, posted.signal.kind);
    outcomes.push(format!("{:?} {}", page.signals.iter().map(of).collect::<Vec<_>>(), page.next.revision));
    let rest = board.read(&by, &only, Some(page.next.clone()), 100).await.unwrap();
    outcomes.push(format!("{:?} {}", rest.signals.iter().map(of).collect::<Vec<_>>(), rest.next.revision));
    let bad = Selector { types: vec!["tas*".into()], ..Selector::default() };
    outcomes.push(outcome(board.read(&by, &bad, None, 3).await));
    outcomes.push(
        outcome(board.read(&by, &only, Some(1_000_000.into()), 3).await)
            .split(':')
            .next()
            .unwrap()
            .to_owned(),
    );
    outcomes
}

#[actix_web::test]
async fn local_and_remote_boards_give_the_same_results() {
    let remote_server = test_server();
    let local_server = test_server();
    let (over_http, in_process) = (
        call_outcomes(&remote(remote_server.at)).await,
        call_outcomes(&Blackboard::local(local_server.board.clone())).await,
    );
    assert_eq!(over_http, in_process);
    remote_server.handle.stop(false).await;
    local_server.handle.stop(false).await;
}

#[actix_web::test]
async fn of_64_concurrent_claims_over_http_exactly_one_wins() {
    let TestServer { at, handle, .. } = test_server();
    let (board, by) = (remote(at), Principal::local_user());
    let (task, holder) = (own_task("t-1"), AgentId::parse("b-1").unwrap());
    board.publish(&by, offer("a", "1")).await.unwrap();
    let outcomes = join_all((0..64).map(|_| board.claim(&by, &task, &holder, Duration::from_secs(9)))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(outcomes.iter().flatten_err().all(|problem| problem.reason == Reason::AlreadyClaimed));
    handle.stop(false).await;
}

trait FlattenErr<'a, E: 'a> {
    fn flatten_err(self) -> impl Iterator<Item = &'a E>;
}

impl<'a, T: 'a, E: 'a, I: Iterator<Item = &'a Result<T, E>>> FlattenErr<'a, E> for I {
    fn flatten_err(self) -> impl Iterator<Item = &'a E> {
        self.filter_map(|result| result.as_ref().err())
    }
}
