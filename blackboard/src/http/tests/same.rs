//! The same calls give the same results, here and over HTTP.

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

/// Says one of everything to `board`, and what came of it; times left are cut out.
async fn script(board: &Blackboard) -> Vec<String> {
    let by = Principal::local_user();
    let (task, holder) = (TaskId::parse("t-1").unwrap(), AgentId::parse("b-1").unwrap());
    let lease = Duration::from_secs(60);
    let mut said = vec![
        outcome(board.publish(&by, signal("a", "task.available", "1")).await),
        outcome(board.publish(&by, signal("a", "task.available", "1")).await),
        outcome(board.publish(&by, signal("a", "task.available", "2")).await),
        outcome(board.publish(&by, signal("b", "agent.joined", "2")).await),
        outcome(board.publish(&by, signal("no id", "help.needed", "2")).await),
        outcome(board.publish(&by, signal("c", "help.needed", &"x".repeat(16 * 1024))).await),
        outcome(board.look(&by, &task).await),
        outcome(board.renew(&by, &task, 1).await),
        outcome(board.claim(&by, &task, &holder, Duration::ZERO).await),
    ];
    let claim = board.claim(&by, &task, &holder, lease).await.unwrap();
    let epoch = claim.epoch;
    let again = board.claim(&by, &task, &holder, lease).await.unwrap_err();
    assert!(again.metadata.iter().any(|(key, _)| *key == "remainingMs"));
    said.extend([
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
    said.extend([
        outcome(board.complete(&by, &task, epoch).await),
        outcome(board.complete(&by, &task, next).await),
        outcome(board.claim(&by, &task, &holder, lease).await),
        outcome(board.look(&by, &task).await),
    ]);
    let only = Selector { types: vec!["task.*".into()], ..Selector::default() };
    let page = board.read(&by, &only, None, 3).await.unwrap();
    let of = |posted: &protocol::signal::SignalRecord| format!("{} {}", posted.revision, posted.signal.kind);
    said.push(format!("{:?} {}", page.signals.iter().map(of).collect::<Vec<_>>(), page.next));
    let rest = board.read(&by, &only, Some(page.next), 100).await.unwrap();
    said.push(format!("{:?} {}", rest.signals.iter().map(of).collect::<Vec<_>>(), rest.next));
    let bad = Selector { types: vec!["tas*".into()], ..Selector::default() };
    said.push(outcome(board.read(&by, &bad, None, 3).await));
    said.push(
        outcome(board.read(&by, &only, Some(1_000_000), 3).await).split(':').next().unwrap().to_owned(),
    );
    said
}

#[actix_web::test]
async fn here_and_over_http_the_same_calls_give_the_same_results() {
    let far = served();
    let near = served();
    let (over_http, here) =
        (script(&remote(far.at)).await, script(&Blackboard::local(near.board.clone())).await);
    assert_eq!(over_http, here);
    far.handle.stop(false).await;
    near.handle.stop(false).await;
}

#[actix_web::test]
async fn of_64_that_claim_over_http_at_once_exactly_one_wins() {
    let Served { at, handle, .. } = served();
    let (board, by) = (remote(at), Principal::local_user());
    let (task, holder) = (TaskId::parse("t-1").unwrap(), AgentId::parse("b-1").unwrap());
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
