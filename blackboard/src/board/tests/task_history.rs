//! What an agent remembers of its tasks: the last ones are kept, each once.

use super::*;
use crate::spaces::EntryQuery;
use protocol::{
    ids::{SpaceId, TaskId},
    principal::SenderProof,
    spaces::{
        EntryDraft, EntryKind, EntryType, MemoryScope, Reader,
        task_history::{IN_BRIEF, KEPT, TAG, draft},
    },
    task::TaskState,
};

#[actix::test]
async fn the_last_tasks_are_kept_each_once_and_other_memories_stay() {
    let config = BoardConfig { max_entries_per_author: 60, ..BoardConfig::fast() };
    let board = Board::start(memory::new(), config, BoardClock::system()).unwrap();
    let (spaces, default) = (board.spaces(), SpaceId::parse("default").unwrap());
    let reader = Reader { principal: agent("a"), proof: SenderProof::Credential };
    let own = EntryDraft {
        entry_type: Some(EntryType::Update),
        scope: Some(MemoryScope::Own),
        tags: [TAG.to_owned()].into(),
        ..EntryDraft::new(EntryKind::Memory, "of its brain")
    };
    spaces.post(&reader, &default, &own).await.unwrap();
    // More than an author may have entries: those that go make room.
    for number in 0..70 {
        let task = TaskId::parse(&format!("t-{number}")).unwrap();
        let done = draft(&task, &format!("task {number}"), (TaskState::Completed, Some("ok")), &[]);
        let first = spaces.post(&reader, &default, &done).await.unwrap();
        let again = spaces.post(&reader, &default, &done).await.unwrap();
        assert!(again.duplicate && again.id == first.id, "{again:?}");
    }
    let query = EntryQuery { tags: [TAG.to_owned()].into(), ..EntryQuery::default() };
    let kept = spaces.entries(&reader, &default, query, 1_000).await.unwrap().entries;
    assert_eq!(kept.len(), KEPT + 1);
    let has = |title: &str| kept.iter().any(|entry| entry.title == title);
    assert!(has("task 69") && has("task 20") && !has("task 19"), "{kept:#?}");
    assert!(kept.iter().any(|entry| entry.content == "of its brain"));
    let agent = AgentId::parse("a").unwrap();
    let brief = spaces.brief(&reader, &default, &agent, Default::default()).await.unwrap().brief;
    let (_, tasks) = brief.text.split_once("Your last tasks here, the newest last.\n").unwrap();
    assert_eq!(tasks.matches("completed: ok").count(), IN_BRIEF, "{tasks}");
}
