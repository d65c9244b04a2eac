//! The pages for those who come from another way of working run as shown, from their own text (`docs/seeds`).

use crate::harness::{
    directory,
    documentation::{blocks, run_page},
};

#[tokio::test]
async fn the_page_for_those_who_come_from_peers_runs_as_shown() {
    let (dir, page) = (directory(), include_str!("../../docs/seeds/peers.md"));
    run_page(page, dir.path()).await;
}

#[tokio::test]
async fn the_page_for_those_who_come_from_a_bridge_runs_as_shown() {
    let (dir, page) = (directory(), include_str!("../../docs/seeds/bridge.md"));
    let outputs = run_page(page, dir.path()).await;
    let brainstorm = outputs.last().unwrap();
    assert!(
        brainstorm.contains("[divergent 1] contrarian: Stage 2 of 4: divergent. Others: 0."),
        "{brainstorm}"
    );
}

#[tokio::test]
async fn the_page_for_those_who_come_from_a_round_table_runs_as_shown() {
    let (dir, page) = (directory(), include_str!("../../docs/seeds/round-table.md"));
    let outputs = run_page(page, dir.path()).await;
    let shown = blocks(page, "text")[0].trim();
    assert_eq!(outputs.last().unwrap().trim(), shown, "nothing else is said, in this order");
}

#[tokio::test]
async fn the_page_for_those_who_come_from_a_workshop_runs_as_shown() {
    let (dir, page) = (directory(), include_str!("../../docs/seeds/workshop.md"));
    run_page(page, dir.path()).await;
    let file = |name: &str| std::fs::read_to_string(dir.path().join("result").join(name)).unwrap();
    assert_eq!([file("api.py"), file("page.html")], ["api by backend\n", "page by frontend\n"]);
}

#[tokio::test]
async fn the_page_for_those_who_come_from_a_foreign_team_runs_as_shown() {
    let (dir, page) = (directory(), include_str!("../../docs/seeds/foreign-team.md"));
    run_page(page, dir.path()).await;
}
