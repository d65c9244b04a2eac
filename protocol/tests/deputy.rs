//! What an agent may do for somebody: operations, principals and objects, each compared with what both may by the API.

use protocol::{
    deputy::{Deputy, MeshOperation},
    ids::{AgentId, EntryId, TaskId},
    principal::{Principal, RootProof, SenderProof, TaskRoot},
    signal::{self, Signal},
    spaces::{Entry, EntryDraft, EntryKind, MemoryScope, Reader, Space, SpaceRole, SpaceVerb, may},
    time::WallTime,
};
use serde_json::json;

fn principal(text: &str) -> Principal {
    Principal::try_from(text.to_owned()).expect("a principal")
}

fn roots() -> Vec<TaskRoot> {
    let proofs = [None, Some(RootProof::Local), Some(RootProof::Credential), Some(RootProof::Token)];
    let users = ["user:local", "user:anna", "user:bert", "user:eve"].map(principal);
    let of_users = users
        .into_iter()
        .flat_map(|principal| proofs.map(|proof| TaskRoot { principal: principal.clone(), proof }));
    let agents = ["agent:a-1", "agent:b-1", "agent:c-1"].map(principal);
    let of_agents =
        agents.into_iter().map(|principal| TaskRoot { principal, proof: Some(RootProof::Signature) });
    of_users.chain(of_agents).collect()
}

fn entries(space: &Space) -> Vec<Entry> {
    let mut all = Vec::new();
    for author in ["agent:a-1", "agent:b-1", "user:anna"] {
        for root in [None, Some("user:local"), Some("user:anna"), Some("user:bert")] {
            let drafts = [
                EntryDraft::new(EntryKind::Finding, "c"),
                EntryDraft { scope: Some(MemoryScope::Team), ..EntryDraft::new(EntryKind::Memory, "c") },
                EntryDraft { scope: Some(MemoryScope::Own), ..EntryDraft::new(EntryKind::Memory, "c") },
            ];
            for draft in drafts {
                let root = root.filter(|_| author.starts_with("agent")).map(principal);
                let draft = EntryDraft { root, root_proof: Some(RootProof::Token), ..draft };
                let id = EntryId::parse(&format!("e-{}", all.len())).expect("an id");
                all.push(Entry::new(id, space.id.clone(), principal(author), WallTime(1), draft, None));
            }
        }
    }
    all
}

#[test]
fn an_agent_does_in_a_space_what_it_and_the_root_may_and_keeps_its_memory_apart() {
    let mut shop = Space::new("shop".parse().unwrap());
    let member = |id: &str| id.to_owned().try_into().unwrap();
    shop.members.insert(member("a-1"), SpaceRole::Member);
    shop.members.insert(member("b-1"), SpaceRole::Curator);
    shop.members.insert(member("user:anna"), SpaceRole::Member);
    shop.members.insert(member("user:bert"), SpaceRole::Observer);
    let agent = AgentId::parse("a-1").unwrap();
    let me = TaskRoot::agent(&agent);
    let mut allowed = 0;
    for space in [Space::initial_default(), shop] {
        for root in roots() {
            let deputy = Deputy { agent: agent.clone(), root: root.clone() };
            for verb in [
                SpaceVerb::Read,
                SpaceVerb::ReadSpace,
                SpaceVerb::ChangeSpace,
                SpaceVerb::Import,
                SpaceVerb::Accept,
                SpaceVerb::Post(EntryKind::Finding),
                SpaceVerb::Post(EntryKind::Memory),
                SpaceVerb::Post(EntryKind::Proposal),
                SpaceVerb::Post(EntryKind::Decision),
            ] {
                let by_api = |reader: &Reader| may(reader, verb, None, &space).is_ok();
                let both = by_api(&me.reader()) && by_api(&root.reader());
                let may = deputy.may(MeshOperation::InSpace(verb, None, &space)).is_ok();
                assert_eq!(may, both, "{verb:?} in {} for {root:?}", space.id);
                allowed += u32::from(may);
            }
            for entry in entries(&space) {
                let by_api = |reader: &Reader| may(reader, SpaceVerb::Read, Some(&entry), &space).is_ok();
                let read = MeshOperation::InSpace(SpaceVerb::Read, Some(&entry), &space);
                let may_read_space = may(&root.reader(), SpaceVerb::Read, None, &space).is_ok();
                let expected =
                    match entry.author.agent() == Some(&agent) && entry.scope == Some(MemoryScope::Own) {
                        true => may_read_space && entry.is_for(&root),
                        false => by_api(&me.reader()) && by_api(&root.reader()),
                    };
                assert_eq!(deputy.may(read).is_ok(), expected, "{entry:?} for {root:?}");
            }
        }
    }
    assert!(allowed > 20, "{allowed}");
}

#[test]
fn memory_is_for_its_own_root_and_what_the_person_or_nobody_caused_for_all() {
    let space = Space::initial_default();
    let of = |root: Option<&str>, proof| {
        let draft = EntryDraft {
            scope: Some(MemoryScope::Own),
            root: root.map(principal),
            root_proof: proof,
            ..EntryDraft::new(EntryKind::Memory, "c")
        };
        let id = EntryId::parse("e-1").unwrap();
        Entry::new(id, space.id.clone(), principal("agent:a-1"), WallTime(1), draft, None)
    };
    let root = |text: &str, proof| TaskRoot { principal: principal(text), proof: Some(proof) };
    let (anna, bert) = (root("user:anna", RootProof::Credential), root("user:bert", RootProof::Credential));
    let nobodys = of(None, None);
    let persons = of(Some("user:local"), Some(RootProof::Token));
    let unproven = of(Some("user:local"), Some(RootProof::Local));
    let annas = of(Some("user:anna"), Some(RootProof::Credential));
    for root in [&anna, &bert, &TaskRoot::person(), &TaskRoot::agent(&AgentId::parse("a-1").unwrap())] {
        assert!(nobodys.is_for(root) && persons.is_for(root) && !unproven.is_for(root), "{root:?}");
    }
    assert!(annas.is_for(&anna) && !annas.is_for(&bert) && !annas.is_for(&TaskRoot::person()));
    assert!(!annas.is_for(&TaskRoot { proof: None, ..anna }), "a name without its proof is nobody's");
}

#[test]
fn signals_are_read_as_by_the_api_and_those_of_tasks_by_nobody_unproven() {
    let agent = AgentId::parse("a-1").unwrap();
    let signal = |by: &str, root: Option<&str>, task: Option<&str>, to: &[&str]| {
        let mut signal: Signal = serde_json::from_value(json!({
            "id": "1", "type": "acme.news", "from": "x", "at": "2026-01-01T00:00:00Z", "to": to,
        }))
        .unwrap();
        signal.by = Some(principal(by));
        signal.root = root.map(principal);
        signal.task_id = task.map(|task| TaskId::parse(task).unwrap());
        signal
    };
    let signals = [
        signal("user:anna", None, Some("t-1"), &[]),
        signal("agent:b-1", Some("user:anna"), Some("t-1"), &[]),
        signal("agent:b-1", Some("user:bert"), None, &[]),
        signal("agent:b-1", None, Some("t-2"), &["b-1"]),
        signal("agent:b-1", None, Some("t-2"), &["a-1"]),
    ];
    for root in roots() {
        let deputy = Deputy { agent: agent.clone(), root: root.clone() };
        for signal in &signals {
            let both = signal::may_see(&Principal::Agent(agent.clone()), signal)
                && signal::may_see(&root.principal, signal)
                && (root.proof.is_some() || signal.task_id.is_none());
            let may = deputy.may(MeshOperation::ReadSignal(signal)).is_ok();
            assert_eq!(may, both, "{signal:?} for {root:?}");
        }
    }
}

#[test]
fn a_root_that_is_an_agent_is_proven_by_its_own_signature_alone() {
    let (a, b) = (principal("agent:a-1"), principal("agent:b-1"));
    let named = |sender: &Principal, named: &Principal| TaskRoot::named_by(sender, named.clone(), None);
    assert_eq!(named(&a, &a).sender_proof(), SenderProof::Credential);
    assert_eq!(named(&b, &a).sender_proof(), SenderProof::Address);
}
