//! Scripted brains: the seed and the prompt determine what a turn does.

use crate::random::{Hash, Random};
use engine::{BidQuestion, InstantAnswer};
use patterns::{
    contract_net::bidding::BidAnswer,
    speech::SideMode,
    turn::{Checkpoint, Delegate, Help, Progress, Prompt, ResultToCheck, TurnEnd, TurnSubject},
};
use protocol::{
    acceptance::is_review_input,
    answer::SeatEnd,
    artifact::Artifact,
    bid::{Cost, Eta, Fraction},
    ids::{Address, AgentId, Capability},
    question::Question,
    usage::ModelUsage,
};
use serde_json::json;

/// An action of a brain.
#[derive(Debug, Clone)]
pub(crate) enum BrainAction {
    Report(Vec<Progress>),
    End(Result<TurnEnd, String>),
}

/// The actions of a turn, and what it uses of its budget: at most a quarter of what is left when it begins, because it may
/// begin again after a crash.
pub(crate) fn script(seed: u64, me: &AgentId, prompt: &Prompt, is_slow: bool) -> Vec<(u64, BrainAction)> {
    let mut actions = scripted(seed, me, prompt, is_slow);
    let most = prompt.remaining.tokens.map_or(400, |left| left / 4);
    let mut random = Random::new(seed ^ Hash::of(&[me.as_str(), "usage", &prompt.turn.to_string()]));
    let used = random.below(most + 1);
    let first = actions.iter_mut().find_map(|(_, action)| match action {
        BrainAction::Report(updates) => Some(updates),
        BrainAction::End(_) => None,
    });
    if let Some(updates) = first.filter(|_| used > 0) {
        updates.push(usage(used));
    }
    actions
}

fn usage(tokens: u64) -> Progress {
    let call = ModelUsage { model: "m".into(), input_tokens: tokens, ..ModelUsage::default() };
    Progress::Usage(call)
}

/// The actions of a turn, each with the pause before it in milliseconds. A turn whose last action is no end hangs.
fn scripted(seed: u64, me: &AgentId, prompt: &Prompt, is_slow: bool) -> Vec<(u64, BrainAction)> {
    let (about, is_task) = match &prompt.about {
        TurnSubject::Task(task) => (task.task_id.to_string(), true),
        TurnSubject::Help(asked) => (asked.question.clone(), false),
        TurnSubject::Signal(posted) => (posted.signal.id.clone(), false),
        TurnSubject::Check(ResultToCheck { task_id, doer, message, .. }) => {
            let made: String = prompt.produced.iter().map(Artifact::as_text).collect();
            (format!("{task_id}|{doer}|{message:?}|{made}"), false)
        }
    };
    let mut random = Random::new(seed ^ Hash::of(&[me.as_str(), &about, &prompt.turn.to_string()]));
    let pause = |random: &mut Random| random.between(1, if is_slow { 9_000 } else { 900 });
    let done = |message: &str| BrainAction::End(Ok(TurnEnd::Done { message: Some(message.to_owned()) }));
    let artifact = |name: &str, text: String, append, last_chunk| Progress::Artifact {
        artifact: Artifact::text(name, "text/plain", text),
        append,
        last_chunk,
    };
    let first = pause(&mut random);
    let roll = random.below(100);
    if let TurnSubject::Check { .. } = prompt.about {
        let end = match roll {
            0..55 => Ok(TurnEnd::Done { message: Some("fine".into()) }),
            55..88 => Ok(TurnEnd::Rejected { reason: "it does not work".into() }),
            88..92 => Ok(TurnEnd::Failed { reason: "the check is broken".into() }),
            92..96 => Err("the check died".into()),
            _ => return Vec::new(),
        };
        return vec![(first, BrainAction::End(end))];
    }
    if is_review(prompt) && roll < 85 {
        let verdict = json!({ "accepted": roll < 55, "findings": "it does not work" });
        return vec![(first, done(&verdict.to_string()))];
    }
    if stage_of(prompt).is_some() {
        let seat = |passed, label: Option<&str>| {
            let seat = SeatEnd { passed, label: label.map(str::to_owned), ..SeatEnd::default() };
            let message =
                if stage_of(prompt) == Some("plan") { PLAN.to_owned() } else { format!("{me} on {about}") };
            BrainAction::End(Ok(TurnEnd::Seat { message: Some(message), seat }))
        };
        let say = Progress::Say {
            to: vec!["bidder-02".into()],
            text: "what do you say?".into(),
            mode: SideMode::Dialogue,
        };
        return match roll {
            0..35 => vec![(first, seat(true, None))],
            35..65 => vec![(first, seat(false, None))],
            65..75 => vec![(first, BrainAction::Report(vec![say])), (first, seat(true, None))],
            75..82 => vec![(first, seat(false, Some("again")))],
            82..90 => vec![(first, BrainAction::End(Ok(TurnEnd::Failed { reason: "no idea".into() })))],
            90..96 => vec![(first, BrainAction::End(Err("the brain died".into())))],
            _ => Vec::new(),
        };
    }
    if !is_task {
        let is_signal = matches!(prompt.about, TurnSubject::Signal(_));
        return match roll {
            0..70 => vec![(first, done(&format!("{me} says: it depends")))],
            70..80 if is_signal => {
                let help = Progress::Help(Help {
                    id: "h".into(),
                    to: Address::Capability(capability("advise")),
                    question: format!("what of {about}?"),
                    artifacts: Vec::new(),
                    budget: Default::default(),
                    wait: true,
                });
                vec![
                    (first, BrainAction::Report(vec![help])),
                    (first, BrainAction::End(Ok(TurnEnd::Waiting))),
                ]
            }
            70..85 => vec![(first, BrainAction::End(Ok(TurnEnd::Failed { reason: "no idea".into() })))],
            85..95 => vec![(first, BrainAction::End(Err("the brain died".into())))],
            _ => Vec::new(),
        };
    }
    // Later turns end more often.
    let roll = if prompt.turn > 1 { roll % 65 } else { roll };
    let large = "the result, at length. ".repeat(usize::try_from(random.below(120)).unwrap_or(0));
    match roll {
        0..10 => steps(&mut random, prompt, is_slow),
        10..30 => vec![
            (first, BrainAction::Report(vec![artifact("result", format!("{me}: {large}"), false, true)])),
            (pause(&mut random), done("done")),
        ],
        30..45 => {
            let chunks = random.between(2, 6);
            let mut actions =
                vec![(first, BrainAction::Report(vec![Progress::Status { message: "begun".into() }]))];
            for chunk in 0..chunks {
                let piece = artifact("stream", format!("[{chunk}]"), chunk > 0, chunk + 1 == chunks);
                actions.push((pause(&mut random) / 4 + 1, BrainAction::Report(vec![piece])));
            }
            actions.push((1, done("streamed")));
            actions
        }
        45..49 => vec![(first, BrainAction::End(Ok(TurnEnd::Failed { reason: "it can't be done".into() })))],
        49..52 => {
            vec![(first, BrainAction::End(Ok(TurnEnd::LastingFailure { reason: "it never can".into() })))]
        }
        52..58 => vec![(first, BrainAction::End(Ok(TurnEnd::Rejected { reason: "not for me".into() })))],
        58..62 => vec![(first, BrainAction::End(Err("the brain died".into())))],
        62..65 => Vec::new(),
        65..75 => {
            let help = Progress::Help(Help {
                id: "h".into(),
                to: Address::Capability(capability("advise")),
                question: format!("how is {about} done?"),
                artifacts: Vec::new(),
                budget: Default::default(),
                wait: true,
            });
            vec![(first, BrainAction::Report(vec![help])), (1, BrainAction::End(Ok(TurnEnd::Waiting)))]
        }
        75..90 => {
            let wanted = ["build", "test", "review", "chore"];
            let count = random.between(1, 2);
            let delegate = |random: &mut Random, n: u64| {
                let to = capability(random.pick(&wanted).copied().unwrap_or("build"));
                Progress::Delegate(Delegate {
                    id: format!("d{n}"),
                    to: Address::Capability(to),
                    capability: None,
                    description: format!("part {n} of {about}"),
                    input: None,
                    artifacts: Vec::new(),
                    budget: Default::default(),
                    hand_on: false,
                    wait: n > 0,
                })
            };
            let asks = (0..count).map(|n| delegate(&mut random, n)).collect();
            vec![(first, BrainAction::Report(asks)), (1, BrainAction::End(Ok(TurnEnd::Waiting)))]
        }
        90..96 => {
            let ask = Progress::Question(Question::new("q", "which one?"));
            vec![(first, BrainAction::Report(vec![ask])), (1, BrainAction::End(Ok(TurnEnd::Waiting)))]
        }
        _ => vec![(
            first,
            BrainAction::Report(vec![Progress::Status { message: "begun, and then silent".into() }]),
        )],
    }
}

/// What a brain answers to a call for proposals, and after how many milliseconds.
pub(crate) fn bid(seed: u64, me: &AgentId, question: &BidQuestion) -> (u64, Result<BidAnswer, String>) {
    let BidQuestion { id, cfp, computed, within } = question;
    let about = [me.as_str(), "bid", cfp.task_id.as_str(), &id.0.to_string()];
    let mut random = Random::new(seed ^ Hash::of(&about));
    let within = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let after = random.between(1, within);
    match random.below(10) {
        0..6 => {
            let cost = Cost::new(random.between(0, 9) as f64);
            let eta = computed.eta.0.saturating_mul(random.between(1, 3));
            let capability_match = Fraction::new(random.below(11) as f64 / 10.0);
            (after, Ok(BidAnswer::Bid { cost, eta: Some(Eta(eta)), capability_match }))
        }
        6..8 => (after, Ok(BidAnswer::NoBid { reason: "not for me".to_owned() })),
        8 => (after, Err("the brain died".to_owned())),
        _ => (within, Err("it did not answer in time".to_owned())),
    }
}

/// The work plan of a seat.
const PLAN: &str = r#"[{"id": "a", "task": "one", "capability": "chore", "files": ["x"]},
    {"id": "b", "task": "two", "agent": "doer-07", "after": ["a"]}, {"id": "c", "task": "three", "agent": "bidder-02"}]"#;

/// The stage of the turn of a seat in a session.
fn stage_of(prompt: &Prompt) -> Option<&str> {
    prompt.about.task()?.input.as_ref()?.get("seat")?.get("stage")?.as_str()
}

/// Whether the task is to review a result.
fn is_review(prompt: &Prompt) -> bool {
    prompt.about.task().is_some_and(|task| is_review_input(task.input.as_ref()))
}

/// The steps that a task of several steps has.
const STEPS: u64 = 5;

/// A turn in steps, with a checkpoint after each: a later turn goes on after the last one. It pauses once.
fn steps(random: &mut Random, prompt: &Prompt, is_slow: bool) -> Vec<(u64, BrainAction)> {
    let begun = u64::try_from(prompt.checkpoints.len()).unwrap_or(u64::MAX);
    let mut actions = Vec::new();
    for step in begun..STEPS {
        let checkpoint =
            Progress::Checkpoint(Checkpoint { data: step.into(), replace: false, summary: None });
        let work = random.between(1, if is_slow { 4_000 } else { 900 });
        actions.push((work, BrainAction::Report(vec![checkpoint])));
        if step == 2 {
            let pause = TurnEnd::Pause { after_ms: random.between(100, 9_000), reason: "429".into() };
            // After the checkpoint, the pause does not come again.
            actions.push((1, BrainAction::End(Ok(pause))));
            return actions;
        }
    }
    if prompt.remaining.tokens.is_none_or(|left| left > 16) {
        actions.push((1, BrainAction::Report(vec![usage(4)])));
    }
    actions.push((1, BrainAction::End(Ok(TurnEnd::Done { message: Some("step by step".into()) }))));
    actions
}

/// The answer of a turn that takes no time: one in eight, if its script ends. It uses no model: its prompt does
/// not say what is left.
pub(crate) fn answer_at_once(seed: u64, me: &AgentId, prompt: &Prompt) -> Option<InstantAnswer> {
    let mut actions = scripted(seed, me, prompt, false);
    let (first, BrainAction::End(end)) = actions.pop()? else { return None };
    let begins = actions.first().map_or(first, |(pause, _)| *pause);
    let reports = actions.into_iter().filter_map(|(_, action)| match action {
        BrainAction::Report(updates) => Some(updates),
        BrainAction::End(_) => None,
    });
    begins
        .is_multiple_of(8)
        .then(|| (reports.flatten().filter(|update| !matches!(update, Progress::Usage(_))).collect(), end))
}

pub(crate) fn capability(name: &str) -> Capability {
    Capability::parse(name).unwrap_or_else(|_| unreachable!("{name} is a capability"))
}
