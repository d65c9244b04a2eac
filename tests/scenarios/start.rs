//! What a process says about what it finds when it starts.

use crate::harness::{Process, directory, eventually, file, mesh};
use serde_json::json;

const ECHO: &str = "agents:\n  - { agent: echo-01, skills: [echo], open: true, brain: { echo: {} } }\n";

#[tokio::test]
async fn data_of_another_program_or_format_is_named_and_left_alone() {
    let dir = directory();
    let data = dir.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    let file = data.join("store.sqlite");
    for (version, sql, expected) in
        [(0, "CREATE TABLE photos (id)", 74), (1, "CREATE TABLE photos (id)", 74), (77, "", 76), (-1, "", 74)]
    {
        drop(std::fs::remove_file(&file));
        let on = rusqlite::Connection::open(&file).unwrap();
        on.execute_batch(sql).unwrap();
        on.pragma_update(None, "user_version", version).unwrap();
        drop(on);
        let before = std::fs::read(&file).unwrap();
        let args = ["up", "--port", "0", "--data", data.to_str().unwrap()];
        let (code, _, errors) = mesh(&args, &[]);
        assert_eq!((code, errors.lines().count()), (expected, 1), "{version}: {errors}");
        let names = [file.to_str().unwrap(), &format!("{version}")].iter().all(|part| errors.contains(part));
        assert!(names, "{version}: {errors}");
        assert_eq!(std::fs::read(&file).unwrap(), before, "{version}: it was written to");
    }
}
