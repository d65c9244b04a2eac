use super::*;
use protocol::answer::SeatEnd;
use protocol::run_root::RunRoot;
use protocol::spaces::{
    EntryDraft, EntryKind, EntryType,
    request::{EntrySearch, SpaceAction, SpaceAnswer, SpaceRequest},
};

fn post(kind: EntryKind, content: &str) -> Progress {
    let entry_type = match kind {
        EntryKind::Proposal => Some(EntryType::Learning),
        EntryKind::Memory => Some(EntryType::Pattern),
        EntryKind::Finding | EntryKind::Message | EntryKind::Decision | EntryKind::Artifact => None,
    };
    let draft = EntryDraft { entry_type, title: "a title".to_owned(), ..EntryDraft::new(kind, content) };
    Progress::Post { entry: Box::new(draft) }
}

fn find() -> Progress {
    let query = EntrySearch { text: Some("port".to_owned()), ..EntrySearch::default() };
    Progress::Find { id: "f1".to_owned(), query, wait: true }
}

fn asked(effects: &[Effect]) -> Vec<&SpaceRequest> {
    let mut asked = Vec::new();
    for effect in effects {
        if let Effect::AskSpace { request, .. } = effect {
            asked.push(request.as_ref());
        }
    }
    asked
}

fn posted_ids(effects: &[Effect]) -> Vec<String> {
    let ids = asked(effects).into_iter().filter_map(|request| match &request.action {
        SpaceAction::Post { entry } => entry.id.clone(),
        SpaceAction::Find(_)
        | SpaceAction::AwaitTask { .. }
        | SpaceAction::Curate { .. }
        | SpaceAction::Release(_) => None,
    });
    ids.collect()
}

fn progress(updates: Vec<Progress>) -> What {
    EventKind::TurnProgress { turn: 1, updates }
}

#[test]
fn a_post_names_its_task_and_a_repeat_has_the_same_id() {
    let mut doer = doer(None);
    doer.on(&event(0, EventKind::Started));
    let effects =
        doer.on(&event(1, progress(vec![post(EntryKind::Finding, "one"), post(EntryKind::Memory, "two")])));
    let ids = posted_ids(&effects);
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|id| id.starts_with("t-1:")) && ids[0] != ids[1], "{ids:?}");
    // The turn begins again after a crash.
    let again = doer.on(&event(2, progress(vec![post(EntryKind::Finding, "one")])));
    assert_eq!(posted_ids(&again), ids[..1]);
    assert!(asked(&again).iter().all(|request| request.space.as_str() == "default"));
}

#[test]
fn a_refused_entry_is_shown_and_the_work_goes_on() {
    let mut doer = doer(None);
    doer.on(&event(0, EventKind::Started));
    doer.on(&event(1, progress(vec![post(EntryKind::Finding, "one")])));
    let answer =
        SpaceAnswer::Refused { reason: "forbidden".into(), message: "an observer posts nothing".into() };
    let effects = doer.on(&event(2, EventKind::SpaceAnswered { label: Label::Space, answer }));
    let shown = effects.iter().any(|effect| {
        matches!(effect, Effect::Update(Update::Status(Status { state: TaskState::Working, message, .. }))
            if message.as_deref() == Some("the space refused an entry: an observer posts nothing"))
    });
    assert!(shown, "{effects:?}");
    assert_eq!(finishes(&doer.on(&event(3, thought(1, vec![], done("ok"))))), [TaskState::Completed]);
}

#[test]
fn a_completed_task_has_its_proposals_curated_before_it_ends() {
    let ends = |kind, end| {
        let mut doer = doer(None);
        doer.on(&event(0, EventKind::Started));
        let effects = doer.on(&event(1, thought(1, vec![post(kind, "one")], end)));
        let is_curation = |effect: &Effect| matches!(effect, Effect::AskSpace { request, .. } if request.name() == "curate");
        let curated = effects.iter().position(is_curation);
        let finished = effects.iter().position(|effect| matches!(effect, Effect::Finish(_))).unwrap();
        assert!(curated.is_none_or(|curated| curated < finished));
        curated.is_some()
    };
    assert!(ends(EntryKind::Proposal, done("ok")));
    assert!(!ends(EntryKind::Finding, done("ok")), "nothing was proposed");
    assert!(!ends(EntryKind::Proposal, TurnEnd::Failed { reason: "no".into() }), "a person decides");
}

#[test]
fn what_is_proposed_in_a_run_waits_for_its_end_and_names_who_answers_for_it() {
    let run = RunRoot { task: TaskId::parse("s-1").unwrap(), agent: AgentId::parse("host").unwrap() };
    let ends = |run: Option<&RunRoot>, lines: Vec<Progress>| {
        let mut doer = doer(None);
        doer.task.ownership.spec.run = run.cloned();
        doer.on(&event(0, EventKind::Started));
        let mut effects = doer.on(&event(1, progress(lines)));
        effects.extend(doer.on(&event(2, thought(1, vec![], done("ok")))));
        let curates = asked(&effects).iter().any(|request| request.name() == "curate");
        let posted = asked(&effects).into_iter().find_map(|request| match &request.action {
            SpaceAction::Post { entry } => Some(entry.run.clone()),
            SpaceAction::Find(_)
            | SpaceAction::AwaitTask { .. }
            | SpaceAction::Curate { .. }
            | SpaceAction::Release(_) => None,
        });
        let given = effects.iter().find_map(|effect| match effect {
            Effect::Send(message) => match &message.payload {
                Payload::TaskRequest(request) => Some(request.run.clone()),
                _ => None,
            },
            _ => None,
        });
        (curates, posted.flatten(), given.flatten())
    };
    let delegate = serde_json::from_value::<Progress>(
        json!({ "type": "delegate", "id": "d", "to": "b-1", "description": "x", "wait": false }),
    )
    .unwrap();
    let own = RunRoot { task: TaskId::parse("t-1").unwrap(), agent: doer(None).task.me };
    assert_eq!(ends(None, vec![post(EntryKind::Proposal, "one")]), (true, None, None));
    assert_eq!(ends(None, vec![delegate.clone()]), (true, None, Some(own)), "others may have proposed");
    let lines = vec![post(EntryKind::Proposal, "one"), delegate];
    assert_eq!(ends(Some(&run), lines), (false, Some(run.clone()), Some(run.clone())));
}

#[test]
fn the_next_turn_is_given_what_a_search_has_found() {
    for (answer, ok, text) in [
        (SpaceAnswer::Found { text: "- [scope] no mail".into(), count: 1 }, true, "- [scope] no mail"),
        (
            SpaceAnswer::Refused { reason: "space_not_found".into(), message: "no space".into() },
            false,
            "no space",
        ),
    ] {
        let mut doer = doer(None);
        doer.on(&event(0, EventKind::Started));
        let effects = doer.on(&event(1, thought(1, vec![find()], TurnEnd::Waiting)));
        assert_eq!(asked(&effects).len(), 1);
        let label = Label::Request(FIRST);
        let effects = doer.on(&event(2, EventKind::SpaceAnswered { label, answer: answer.clone() }));
        let [found] = answers(&effects)[..] else { panic!("{effects:?}") };
        assert_eq!((found.id.as_str(), found.ok, found.text.as_str()), ("f1", ok, text));
        // A late repeat changes nothing.
        assert_eq!(doer.on(&event(3, EventKind::SpaceAnswered { label, answer })), []);
    }
}

#[test]
fn a_search_that_the_board_never_answers_ends_without_a_result() {
    let mut doer = doer(None);
    doer.on(&event(0, EventKind::Started));
    doer.on(&event(1, thought(1, vec![find()], TurnEnd::Waiting)));
    let timer = Timer::Request(FIRST);
    let effects = doer.on(&event(200_000, EventKind::TimerFired { timer }));
    let [found] = answers(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((found.ok, found.text.as_str()), (false, "no answer in time"));
}

#[test]
fn a_task_posts_at_most_256_entries() {
    let mut doer = doer(None);
    doer.on(&event(0, EventKind::Started));
    let posts = (0..256).map(|n| post(EntryKind::Finding, &n.to_string())).collect();
    assert_eq!(posted_ids(&doer.on(&event(1, progress(posts)))).len(), 256);
    let effects = doer.on(&event(2, progress(vec![post(EntryKind::Finding, "more")])));
    assert_eq!(finishes(&effects), [TaskState::Failed]);
}

#[test]
fn only_the_hosts_own_turn_in_its_session_names_the_session() {
    let session_of = |requester: &str, input: serde_json::Value| {
        let mut doer = doer(None);
        let message = MessageId::parse("m-1").unwrap();
        let agent = AgentId::parse(requester).unwrap();
        doer.task.ownership.requester = Some(Requester { agent, conversation: None, message, epoch: None });
        doer.task.ownership.spec.parent = Some(TaskId::parse("s-1").unwrap());
        doer.task.ownership.spec.terms.input = Some(input);
        doer.on(&event(0, EventKind::Started));
        let effects = doer.on(&event(1, progress(vec![post(EntryKind::Proposal, "one")])));
        let [request] = asked(&effects)[..] else { panic!("{effects:?}") };
        let SpaceAction::Post { entry } = &request.action else { panic!("{request:?}") };
        entry.session.as_ref().map(ToString::to_string)
    };
    let me = doer(None).task.me.to_string();
    let seat = serde_json::json!({ "seat": { "session": "s-1" } });
    assert_eq!(session_of(&me, seat.clone()).as_deref(), Some("s-1"));
    assert_eq!(session_of("another-01", seat), None, "anybody can name a session");
    assert_eq!(session_of(&me, serde_json::json!({})), None, "it is no seat's turn");
}

#[test]
fn a_task_of_a_named_space_is_remembered_when_it_has_ended() {
    let remembered = |space: Option<&str>, input: serde_json::Value, end: TurnEnd| {
        let mut doer = doer(None);
        doer.task.ownership.spec.space = space.map(|space| protocol::ids::SpaceId::parse(space).unwrap());
        doer.task.ownership.spec.terms.input = Some(input);
        doer.on(&event(0, EventKind::Started));
        let effects = doer.on(&event(1, thought(1, vec![], end)));
        assert_eq!(finishes(&effects).len(), 1);
        let posts = asked(&effects).into_iter().filter_map(|request| match &request.action {
            SpaceAction::Post { entry } => Some((request.space.to_string(), entry.content.clone())),
            SpaceAction::Find(_)
            | SpaceAction::AwaitTask { .. }
            | SpaceAction::Curate { .. }
            | SpaceAction::Release(_) => None,
        });
        posts.collect::<Vec<_>>()
    };
    let seat = |sealed: bool| serde_json::json!({ "seat": { "session": "s-1", "sealed": sealed } });
    let ends =
        |passed| TurnEnd::Seat { message: Some("ok".into()), seat: SeatEnd { passed, ..SeatEnd::default() } };
    let none = serde_json::Value::Null;
    let shop = |content: &str| vec![("shop".to_owned(), content.to_owned())];
    assert_eq!(remembered(Some("shop"), none.clone(), done("ok")), shop("completed: ok"));
    let failed = TurnEnd::Failed { reason: "no wood".into() };
    assert_eq!(remembered(Some("shop"), none.clone(), failed), shop("failed: no wood"));
    assert_eq!(remembered(None, none.clone(), done("ok")), [], "the space default");
    assert_eq!(remembered(Some("default"), none, done("ok")), []);
    assert_eq!(remembered(Some("shop"), seat(false), ends(false)), shop("completed: ok"));
    assert_eq!(remembered(Some("shop"), seat(false), ends(true)), [], "the seat has more turns");
    assert_eq!(remembered(Some("shop"), seat(true), ends(false)), [], "the stage is sealed");
}

#[test]
fn what_a_sealed_seat_posts_is_of_its_stage_and_of_its_session() {
    let posted = |sealed: bool, kind: EntryKind, own: bool, area: &[&str]| {
        let mut doer = doer(None);
        doer.task.ownership.spec.terms.input = Some(json!({ "seat": {
            "session": "s-1", "stage": "ideas", "iteration": 2, "sealed": sealed } }));
        doer.on(&event(0, EventKind::Started));
        let Progress::Post { entry } = post(kind, "mine") else { panic!() };
        let expertise = area.iter().map(|area| ((*area).to_owned(), 1)).collect();
        let scope = own.then_some(protocol::spaces::MemoryScope::Own);
        let draft = EntryDraft { scope, expertise, ..*entry };
        let effects = doer.on(&event(1, progress(vec![Progress::Post { entry: Box::new(draft) }])));
        let [request] = asked(&effects)[..] else { panic!("{effects:?}") };
        let SpaceAction::Post { entry } = &request.action else { panic!("{request:?}") };
        (entry.sealed.as_ref().map(|of| (of.host.to_string(), of.iteration)), entry.session.clone())
    };
    let (stage, session) = (Some(("manager".to_owned(), 2)), TaskId::parse("s-1").ok());
    assert_eq!(posted(true, EntryKind::Finding, false, &[]), (stage.clone(), session.clone()));
    assert_eq!(posted(true, EntryKind::Proposal, false, &[]), (stage.clone(), None));
    assert_eq!(posted(true, EntryKind::Memory, true, &[]), (None, None), "nobody else sees it anyway");
    assert_eq!(posted(true, EntryKind::Memory, true, &["the word is swordfish"]), (stage, None));
    assert_eq!(posted(false, EntryKind::Finding, false, &[]), (None, session));
}

#[test]
fn a_seat_searches_for_what_its_stage_lets_it_know() {
    let kinds = |seat: serde_json::Value| {
        let mut doer = doer(None);
        doer.task.ownership.spec.terms.input = Some(json!({ "seat": seat }));
        doer.on(&event(0, EventKind::Started));
        let effects = doer.on(&event(1, thought(1, vec![find()], TurnEnd::Waiting)));
        let [request] = asked(&effects)[..] else { panic!("{effects:?}") };
        let SpaceAction::Find(query) = &request.action else { panic!("{request:?}") };
        query.of_others.clone().map(|kinds| kinds.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(kinds(json!({})), None);
    let decisions = Some(vec![EntryKind::Decision]);
    assert_eq!(kinds(json!({ "sealed": true })), decisions);
    assert_eq!(kinds(json!({ "sealed": true, "brief": ["memory", "findings"] })), decisions);
    assert_eq!(kinds(json!({ "brief": ["decisions"] })), decisions);
    let mut with_findings = kinds(json!({ "brief": ["findings", "roster"] })).unwrap();
    with_findings.sort();
    let mut expected = [EntryKind::Finding, EntryKind::Decision];
    expected.sort();
    assert_eq!(with_findings, expected);
}
