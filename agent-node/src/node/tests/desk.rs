//! Messages that a worker hands over together: each is answered for itself, and finds room.

use super::*;
use crate::agent::{Look, hand_over};
use actix::prelude::SendError;

#[actix::test]
async fn messages_handed_over_together_are_answered_each_for_itself() {
    let running = start(setup(vec![seat("builder-01", "build", 0.0, 1_000)])).await.unwrap();
    let actor = &running.actors[0];
    let answers =
        [award_of("t-1", "t-1"), award_of("t-2", "x"), award_of("t-1", "t-1"), award_of("t-3", "t-3")]
            .map(|award| hand_over(actor, award));
    let [first, refused, repeat, last] = answers;
    let first = first.await.unwrap().unwrap();
    assert_eq!(refused.await.unwrap().unwrap_err().reason, Reason::InvalidField);
    let repeat = repeat.await.unwrap().unwrap();
    assert!(!first.duplicate && repeat.duplicate);
    assert_eq!(first.conversation_id, repeat.conversation_id);
    assert_eq!(last.await.unwrap().unwrap().task_id, protocol::ids::TaskId::parse("t-3").ok());
    running.stop(Duration::ZERO).await;
}

#[actix::test]
async fn messages_find_room_whoever_else_fills_the_mailbox() {
    let running = start(setup(vec![seat("builder-01", "build", 0.0, 1_000)])).await.unwrap();
    let actor = running.actors[0].clone();
    // It shares this thread: nothing is taken out of its mailbox before this test waits.
    while actor.try_send(Look).is_ok() {}
    assert!(matches!(actor.try_send(Look), Err(SendError::Full(Look))));
    hand_over(&actor, award_of("t-1", "t-1")).await.unwrap().unwrap();
    running.stop(Duration::ZERO).await;
}

#[actix::test]
async fn a_message_of_whoever_has_hung_up_is_not_taken() {
    let running = start(setup(vec![seat("builder-01", "build", 0.0, 1_000)])).await.unwrap();
    let actor = &running.actors[0];
    drop(hand_over(actor, award_of("t-1", "t-1")));
    let heard = hand_over(actor, award_of("t-2", "t-2"));
    assert!(!heard.await.unwrap().unwrap().duplicate);
    let again = hand_over(actor, award_of("t-1", "t-1")).await.unwrap().unwrap();
    assert!(!again.duplicate, "it had been taken");
    running.stop(Duration::ZERO).await;
}
