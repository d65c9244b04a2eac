use super::*;
use crate::{
    patterns::space_request::{EntrySearch, SpaceAction, SpaceAnswer, SpaceRequest},
    spaces::{EntryDraft, EntryKind, EntryType},
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

fn asked(effects: &[DelegationEffect]) -> Vec<&SpaceRequest> {
    let mut asked = Vec::new();
    for effect in effects {
        if let DelegationEffect::AskSpace { request, .. } = effect {
            asked.push(request.as_ref());
        }
    }
    asked
}

fn posted_ids(effects: &[DelegationEffect]) -> Vec<String> {
    let ids = asked(effects).into_iter().filter_map(|request| match &request.action {
        SpaceAction::Post { entry } => entry.id.clone(),
        SpaceAction::Find(_) | SpaceAction::Curate { .. } => None,
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
    let effects = doer.on(&event(2, EventKind::SpaceAnswered { label: DelegationLabel::Space, answer }));
    let shown = effects.iter().any(|effect| {
        matches!(effect, DelegationEffect::Update(Update::Status(Status { state: TaskState::Working, message, .. }))
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
        let is_curation = |effect: &DelegationEffect| matches!(effect, DelegationEffect::AskSpace { request, .. } if request.name() == "curate");
        let curated = effects.iter().position(is_curation);
        let finished =
            effects.iter().position(|effect| matches!(effect, DelegationEffect::Finish(_))).unwrap();
        assert!(curated.is_none_or(|curated| curated < finished));
        curated.is_some()
    };
    assert!(ends(EntryKind::Proposal, done("ok")));
    assert!(!ends(EntryKind::Finding, done("ok")), "nothing was proposed");
    assert!(!ends(EntryKind::Proposal, TurnEnd::Failed { reason: "no".into() }), "a person decides");
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
        let label = DelegationLabel::Request(FIRST);
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
    let timer = DelegationTimer::Request(FIRST);
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
