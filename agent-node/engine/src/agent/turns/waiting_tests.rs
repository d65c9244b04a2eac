//! A task that waits for a person for days, under virtual time.
use super::*;
use crate::{
    Input, Output, TimerId,
    testing::{TestAgent, me},
};
use protocol::{
    a2a::message::{Message, Role},
    ids::TaskId,
    principal::Principal,
    question::{Answer, OnTimeout, Question},
    time::NodeTime,
};
use std::{collections::BTreeMap, time::Duration};

const HOUR: Duration = Duration::from_secs(3_600);

/// An agent whose timers fire when they are due.
struct TimedAgent {
    agent: TestAgent,
    timers: BTreeMap<TimerId, NodeTime>,
}

impl TimedAgent {
    fn new() -> Self {
        Self { agent: TestAgent::new(&[]), timers: BTreeMap::new() }
    }

    /// Commits everything, and takes over the timers.
    fn settle(&mut self) {
        let agent = &mut self.agent;
        agent.commit_all();
        while let Some(again) =
            agent.take(|output| matches!(output, Output::Continue).then_some(Input::Continue))
        {
            agent.handle(again);
            agent.commit_all();
        }
        let now = agent.world.now;
        agent.outputs.retain(|output| match output {
            Output::SetTimer(id, after) => {
                self.timers.insert(*id, now + *after);
                false
            }
            Output::ClearTimer(id) => {
                self.timers.remove(id);
                false
            }
            _ => true,
        });
    }

    /// Lets so much time pass.
    fn pass(&mut self, time: Duration) {
        self.settle();
        let until = self.agent.world.now + time;
        while let Some((due, id)) =
            self.timers.iter().map(|(id, due)| (*due, *id)).min().filter(|(due, _)| *due <= until)
        {
            self.timers.remove(&id);
            self.advance_to(due);
            self.agent.handle(Input::TimerFired(id));
            self.settle();
        }
        self.advance_to(until);
        self.agent.handle(Input::Sweep);
        self.settle();
    }

    fn advance_to(&mut self, now: NodeTime) {
        let world = &mut self.agent.world;
        let now = now.max(world.now);
        (world.wall, world.now) = (world.wall.plus(now.since(world.now)), now);
    }

    /// Starts again from the store, as after a crash.
    fn restart(&mut self) {
        self.timers.clear();
        self.agent.restart();
        self.settle();
    }

    fn end_turn(&mut self, turn: TurnKey, updates: Vec<Progress>, end: TurnEnd) {
        self.agent.handle(Input::TurnEnded(turn, updates, Ok(end)));
        self.settle();
    }

    fn state(&self, task: &str) -> TaskState {
        let (task, by) = (TaskId::parse(task).unwrap(), Principal::local_user());
        let row = crate::tasks::find(&self.agent.store, &me(), &task, &by).unwrap();
        row.unwrap_or_else(|| panic!("there is no task {task}")).task.status.state
    }
}

fn done() -> TurnEnd {
    TurnEnd::Done { message: Some("done".into()) }
}

#[test]
fn a_question_that_waits_three_days_holds_no_place() {
    let mut timed = TimedAgent::new();
    let (_, turn) = timed.agent.begin_task("asks");
    let question = Question {
        expires_at: Some(timed.agent.world.wall.plus(HOUR * 24 * 4)),
        on_timeout: Some(OnTimeout::Fail),
        ..Question::new("colour", "which colour?")
    };
    timed.end_turn(turn, vec![Progress::Question(question)], TurnEnd::Waiting);
    for hour in 0..72 {
        assert_eq!(timed.state("asks"), TaskState::InputRequired, "hour {hour}");
        assert_eq!(timed.agent.agent.taken_places(), 0, "hour {hour}");
        // The agent has one place.
        let task = format!("t-{hour}");
        let (_, turn) = timed.agent.begin_task(&task);
        assert_eq!(timed.agent.agent.taken_places(), 1);
        timed.end_turn(turn, Vec::new(), done());
        assert_eq!(timed.state(&task), TaskState::Completed);
        if hour % 24 == 12 {
            timed.restart();
        }
        timed.pass(HOUR);
    }
    let reply = timed.agent.reply_to();
    timed.agent.handle(Input::Answer {
        task: TaskId::parse("asks").unwrap(),
        by: Principal::local_user(),
        question: None,
        answer: Answer::text("blue"),
        message: None,
        is_persons: false,
        reply,
    });
    timed.settle();
    assert!(timed.agent.reply(reply).unwrap().is_ok());
    let turn = timed.agent.take(|output| match output {
        Output::StartTurn(turn) => Some(turn.clone()),
        _ => None,
    });
    let turn = turn.unwrap();
    assert_eq!((turn.prompt.turn, turn.prompt.answers[0].text.as_str()), (2, "blue"));
    timed.end_turn(turn.key, Vec::new(), done());
    timed.pass(HOUR * 48);
    assert_eq!(timed.state("asks"), TaskState::Completed, "the question no longer expires");
}

#[test]
fn a_large_later_message_of_the_owner_counts_as_kept() {
    let mut timed = TimedAgent::new();
    let (_, turn) = timed.agent.begin_task("asks");
    timed.end_turn(
        turn,
        vec![Progress::Question(Question::new("colour", "which colour?"))],
        TurnEnd::Waiting,
    );
    let kept = |timed: &TimedAgent| {
        crate::artifacts::kept_bytes(&timed.agent.store, &me(), &Principal::local_user()).unwrap()
    };
    assert_eq!(kept(&timed), 0);
    let text = "blue".repeat(500);
    let reply = timed.agent.reply_to();
    timed.agent.handle(Input::Answer {
        task: TaskId::parse("asks").unwrap(),
        by: Principal::local_user(),
        question: None,
        answer: Answer::text(&text),
        message: Some(Box::new(Message::text("m-2", Role::User, &text))),
        is_persons: false,
        reply,
    });
    timed.settle();
    assert!(timed.agent.reply(reply).unwrap().is_ok());
    assert!((2_000..2_200).contains(&kept(&timed)), "{}", kept(&timed));
    timed.restart();
    assert!(kept(&timed) > 2_000, "what is in the store counts after a restart");
}
