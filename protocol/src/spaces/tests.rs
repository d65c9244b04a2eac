use super::{slug::*, *};
use crate::{
    ids::AgentId,
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    time::WallTime,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const KINDS: [EntryKind; 6] = EntryKind::ALL;

fn agent(id: &str) -> Principal {
    Principal::Agent(AgentId::parse(id).unwrap())
}

fn draft(kind: EntryKind) -> EntryDraft {
    let entry_type = EntryType::ALL.into_iter().find(|of| of.belongs_to(kind));
    let slug = (kind == EntryKind::Proposal).then(|| "use-jwt".to_owned());
    EntryDraft { entry_type, slug, ..EntryDraft::new(kind, "content") }
}

fn entry(kind: EntryKind, author: &Principal, state: EntryState) -> Entry {
    let (id, space) = (EntryId::parse("e-1").unwrap(), Space::initial_default().id);
    let draft = draft(kind);
    let slug = draft.slug().unwrap();
    Entry { state, ..Entry::new(id, space, author.clone(), WallTime(1), draft, slug) }
}

fn reader(principal: Principal) -> Reader {
    Reader { principal, proof: SenderProof::Credential }
}

fn reason(outcome: Result<(), Problem>) -> Option<Reason> {
    outcome.err().map(|problem| problem.reason)
}

#[test]
fn a_state_changes_only_within_the_states_of_its_kind() {
    for kind in KINDS {
        for state in EntryState::of_kind(kind) {
            for action in EntryAction::ALL {
                match state.after(kind, action) {
                    Ok(next) => assert!(EntryState::of_kind(kind).contains(&next) && next != *state),
                    Err(problem) => {
                        assert_eq!(problem.reason, Reason::EntryState);
                        assert!(problem.message.contains(&state.to_string()), "{problem}");
                        let possible = state
                            .actions(kind)
                            .iter()
                            .all(|action| problem.message.contains(&action.to_string()));
                        assert!(possible, "{problem}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_closed_stays_closed() {
    for (kind, state) in [
        (EntryKind::Proposal, EntryState::Merged),
        (EntryKind::Proposal, EntryState::Rejected),
        (EntryKind::Decision, EntryState::Superseded),
        (EntryKind::Decision, EntryState::Archived),
        (EntryKind::Memory, EntryState::Archived),
        (EntryKind::Finding, EntryState::Withdrawn),
        (EntryKind::Message, EntryState::Posted),
    ] {
        assert!(state.actions(kind).is_empty(), "{kind} {state}");
    }
}

#[test]
fn a_merge_links_the_proposal_and_its_result_both_ways() {
    let (author, curator) = (agent("a-1"), agent("c-1"));
    let proposal = entry(EntryKind::Proposal, &author, EntryState::Pending);
    for entry_type in EntryType::ALL.into_iter().filter(|of| of.belongs_to(EntryKind::Proposal)) {
        let proposal = Entry { entry_type: Some(entry_type), ..proposal.clone() };
        let result = EntryId::parse("e-2").unwrap();
        let merge = proposal.merged(result.clone(), &curator, WallTime(2), None).unwrap();
        assert_eq!((merge.result.kind, merge.result.state), (entry_type.merges_to(), EntryState::Active));
        assert_eq!(merge.result.author, author, "its words are its author's");
        assert_eq!(merge.proposal.links.get(&EntryLink::Became), Some(&result));
        assert_eq!(merge.result.links.get(&EntryLink::MergedFrom), Some(&proposal.id));
        assert_eq!((merge.proposal.version, merge.result.version), (2, 1));
        let again = merge.proposal.merged(result, &curator, WallTime(3), None).unwrap_err();
        assert_eq!(again.reason, Reason::EntryState);
    }
}

#[test]
fn only_another_decision_in_force_replaces_a_decision() {
    let owner = agent("o-1");
    let old = entry(EntryKind::Decision, &owner, EntryState::Active);
    let new = Entry { id: EntryId::parse("e-2").unwrap(), ..old.clone() };
    let superseded = old.superseded(&new, &owner, WallTime(2), None).unwrap();
    assert_eq!(superseded.links.get(&EntryLink::SupersededBy), Some(&new.id));
    let refused = |other: &Entry| old.superseded(other, &owner, WallTime(2), None).unwrap_err().reason;
    assert_eq!(refused(&old), Reason::EntryState, "itself");
    assert_eq!(refused(&Entry { state: EntryState::Archived, ..new.clone() }), Reason::EntryState);
    assert_eq!(refused(&Entry { kind: EntryKind::Memory, ..new }), Reason::EntryState);
}

#[test]
fn a_draft_with_what_its_kind_lacks_is_refused_by_field() {
    for kind in KINDS {
        assert_eq!(draft(kind).check(), Ok(()), "{kind}");
    }
    let field = |draft: EntryDraft| {
        let problem = draft.check().unwrap_err();
        problem.metadata.iter().find(|(key, _)| *key == "field").map(|(_, field)| field.clone())
    };
    let finding = draft(EntryKind::Finding);
    for (broken, named) in [
        (EntryDraft { scope: Some(MemoryScope::Own), ..finding.clone() }, "scope"),
        (EntryDraft { slug: Some("x".into()), ..finding.clone() }, "slug"),
        (EntryDraft { entry_type: Some(EntryType::Update), ..finding.clone() }, "type"),
        (EntryDraft { content: " ".into(), ..finding.clone() }, "content"),
        (EntryDraft { content: "x".repeat(16 * 1024 + 1), ..finding.clone() }, "content"),
        (EntryDraft { tags: ["a b".to_owned()].into(), ..finding.clone() }, "tags"),
        (EntryDraft { severity: Some(Grade::High), ..draft(EntryKind::Memory) }, "severity"),
        (EntryDraft { entry_type: None, ..draft(EntryKind::Proposal) }, "type"),
        (EntryDraft { entry_type: Some(EntryType::Learning), ..draft(EntryKind::Decision) }, "type"),
        (EntryDraft { slug: Some("Use JWT".into()), ..draft(EntryKind::Proposal) }, "slug"),
        (EntryDraft { slug: None, ..draft(EntryKind::Proposal) }, "slug"),
    ] {
        assert_eq!(field(broken).as_deref(), Some(named));
    }
}

#[test]
fn each_role_does_what_the_lower_ones_do_and_more() {
    let mut space = Space::new(SpaceId::parse("shop").unwrap());
    for (id, role) in [
        ("observer", SpaceRole::Observer),
        ("member", SpaceRole::Member),
        ("curator", SpaceRole::Curator),
        ("owner", SpaceRole::Owner),
    ] {
        space.members.insert(MemberId::Agent(AgentId::parse(id).unwrap()), role);
    }
    let reader_of = |id: &str| reader(agent(id));
    let verbs = [
        (SpaceVerb::Read, [true, true, true, true]),
        (SpaceVerb::Post(EntryKind::Finding), [false, true, true, true]),
        (SpaceVerb::Post(EntryKind::Decision), [false, false, true, true]),
        (SpaceVerb::Change(EntryAction::Merge), [false, false, true, true]),
        (SpaceVerb::ChangeSpace, [false, false, false, true]),
    ];
    for (verb, allowed) in verbs {
        for (id, allowed) in ["observer", "member", "curator", "owner"].into_iter().zip(allowed) {
            let expected = (!allowed).then_some(Reason::Forbidden);
            assert_eq!(reason(may(&reader_of(id), verb, None, &space)), expected, "{id} {verb:?}");
        }
        let stranger = may(&reader_of("stranger"), verb, None, &space);
        assert_eq!(reason(stranger), Some(Reason::SpaceNotFound));
        let unproven = Reader { principal: Principal::local_user(), proof: SenderProof::Address };
        assert_eq!(reason(may(&unproven, verb, None, &space)), Some(Reason::Unauthenticated));
    }
    let brain = reader(Principal::Brain(AgentId::parse("owner").unwrap()));
    let decided = may(&brain, SpaceVerb::Change(EntryAction::Merge), None, &space);
    assert_eq!(reason(decided), Some(Reason::Forbidden), "a brain never decides");
}

#[test]
fn a_vault_and_a_sealed_finding_exist_for_their_author_only() {
    let space = Space::initial_default();
    let (author, other) = (reader(agent("a-1")), reader(agent("b-1")));
    let person = reader(Principal::local_user());
    let vault = Entry {
        scope: Some(MemoryScope::Own),
        ..entry(EntryKind::Memory, &author.principal, EntryState::Active)
    };
    let sealed = entry(EntryKind::Finding, &author.principal, EntryState::Sealed);
    let read = |reader: &Reader, entry: &Entry| reason(may(reader, SpaceVerb::Read, Some(entry), &space));
    assert_eq!((read(&author, &vault), read(&author, &sealed)), (None, None));
    assert_eq!(read(&other, &vault), Some(Reason::EntryNotFound));
    assert_eq!(read(&other, &sealed), Some(Reason::EntryNotFound));
    assert_eq!(read(&person, &vault), Some(Reason::EntryNotFound), "a vault is read by its owner only");
    assert_eq!(read(&person, &sealed), None, "the person watches");
    let archive = SpaceVerb::Change(EntryAction::Archive);
    assert_eq!(reason(may(&author, archive, Some(&vault), &space)), None, "its own memory");
    let (withdraw, open) = (SpaceVerb::Change(EntryAction::Withdraw), EntryState::Open);
    let finding = entry(EntryKind::Finding, &author.principal, open);
    assert_eq!(reason(may(&author, withdraw, Some(&finding), &space)), None, "its own finding");
    assert_eq!(reason(may(&other, withdraw, Some(&finding), &space)), Some(Reason::Forbidden));
    assert_eq!(reason(may(&person, withdraw, Some(&finding), &space)), None, "an owner");
}

proptest! {
    /// Authors propose slugs in any order, some proposals are closed in between; no author ever gets or changes another's.
    #[test]
    fn every_author_keeps_its_own_slugs(
        turns in proptest::collection::vec((0..4_usize, 0..3_usize, any::<bool>()), 1..60)
    ) {
        let authors = ["a", "A", "b.c", "b-c"].map(agent);
        let slugs = ["x", "x-b", "y"].map(|slug| Slug::requested(slug).unwrap());
        let mut held: BTreeMap<Slug, (Principal, EntryState)> = BTreeMap::new();
        for (author, slug, closes) in turns {
            let (author, slug) = (&authors[author], &slugs[slug]);
            for candidate in slug.candidates(author) {
                let holder = held.get(&candidate).map(|(author, state)| SlugHolder { author, state: *state });
                match slug_use(&candidate, author, holder) {
                    Ok(SlugUse::NextCandidate) => continue,
                    Ok(SlugUse::New) => {
                        held.insert(candidate.clone(), (author.clone(), EntryState::Pending));
                    }
                    Ok(SlugUse::Revision) => {}
                    Err(problem) => {
                        prop_assert_eq!(problem.reason, Reason::SlugClosed);
                        prop_assert_ne!(held[&candidate].1, EntryState::Pending);
                    }
                }
                prop_assert_eq!(&held[&candidate].0, author);
                if closes {
                    held.get_mut(&candidate).unwrap().1 = EntryState::Rejected;
                }
                break;
            }
        }
        // Each author has at most one entry for each slug that it asked for.
        for author in &authors {
            prop_assert!(held.values().filter(|(of, _)| of == author).count() <= slugs.len());
        }
    }

    #[test]
    fn a_slug_survives_its_text(text in ".{0,80}") {
        if let Some(slug) = Slug::suggested(&text) {
            prop_assert_eq!(Slug::requested(slug.as_str()).unwrap(), slug.clone());
            for candidate in slug.candidates(&agent(&"x".repeat(64))).take(12) {
                prop_assert_eq!(Slug::try_from(candidate.to_string()).unwrap(), candidate);
            }
        }
    }

    #[test]
    fn an_entry_survives_its_json(kind in proptest::sample::select(&KINDS[..]), content in ".{1,40}", tag in "[a-z]{1,8}") {
        let draft = EntryDraft { content, tags: [tag].into(), ..draft(kind) };
        let slug = draft.slug().unwrap();
        let (id, space) = (EntryId::parse("agent:a-1:t:0").unwrap(), Space::initial_default().id);
        let entry = Entry::new(id, space, agent("a-1"), WallTime(1), draft, slug);
        let text = serde_json::to_string(&entry).unwrap();
        prop_assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }
}
