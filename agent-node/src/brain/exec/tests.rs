use super::*;
use crate::brain::tests::{ask, turn};
use std::{path::Path, time::Duration};

const DONE: &str = r#"echo '{"type":"done","message":"ok"}'"#;

fn sh(script: &str) -> Exec {
    Exec { linger: Duration::from_millis(300), ..Exec::new(vec!["sh".into(), "-c".into(), script.into()]) }
}

async fn end_of(script: &str) -> Result<TurnEnd, BrainError> {
    let brain = sh(script);
    let (_, end) = tokio::time::timeout(Duration::from_secs(30), turn(&brain, ask("x"))).await.unwrap();
    end
}

async fn error_of(script: &str) -> String {
    end_of(script).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_command_hears_the_question_and_is_heard() {
    let script = r#"read line; case "$line" in *'"description":"build it"'*'"turn":1'*|*'"turn":1'*'"description":"build it"'*)
        echo '{"type":"status","message":"at it"}'; echo '{"type":"artifact","name":"a","text":"b"}';; esac; "#;
    let (heard, end) = turn(&sh(&format!("{script}{DONE}")), ask("build it")).await;
    assert_eq!(end.unwrap(), TurnEnd::Done { message: Some("ok".into()) });
    assert_eq!(heard.len(), 2, "{heard:?}");
}

#[tokio::test]
async fn what_it_asked_ends_the_turn_waiting() {
    let help = r#"printf '{"type":"help","id":"h","capability":"code-review","question":"ok?"}'"#;
    assert_eq!(end_of(help).await.unwrap(), TurnEnd::Waiting);
    let failed = r#"echo '{"type":"failed","reason":"no idea"}'"#;
    assert_eq!(end_of(failed).await.unwrap(), TurnEnd::Failed { reason: "no idea".into() });
}

#[tokio::test]
async fn silence_garbage_and_bad_ends_are_errors_that_say_what_happened() {
    assert_eq!(error_of("true").await, "the brain ended without a result");
    assert!(
        error_of(r#"echo '{"type":"status","message":"hm"}'; echo oops >&2"#).await.ends_with("words: oops")
    );
    assert!(error_of("echo; echo hello").await.starts_with("line 2 of the brain's output: is no JSON"));
    assert!(error_of(r#"echo '{"type":"shout"}'"#).await.contains("unknown type \"shout\""));
    assert!(error_of(&format!("{DONE}; {DONE}")).await.contains("line 2"));
    assert_eq!(error_of("echo why >&2; exit 3").await, "the brain died: exit code 3; its last words: why");
    assert_eq!(error_of(&format!("{DONE}; exit 4")).await, "the brain died: exit code 4");
    assert_eq!(error_of("kill -9 $$").await, "the brain died: signal 9");
}

#[tokio::test]
async fn only_the_last_words_are_kept() {
    let error = error_of("yes blah | head -c 100000 >&2; echo the end >&2; exit 1").await;
    assert!(error.ends_with("the end") && error.len() < 2_200, "{}", error.len());
}

#[tokio::test]
async fn a_line_and_the_output_are_bounded() {
    assert!(
        error_of("head -c 1100000 /dev/zero")
            .await
            .contains("line 1 of the brain's output: the line exceeds")
    );
    let chatty = Exec {
        max_output_bytes: 1000,
        ..sh(r#"while true; do echo '{"type":"status","message":"hm"}'; done"#)
    };
    let (_, end) = turn(&chatty, ask("x")).await;
    assert!(end.unwrap_err().to_string().contains("the output exceeds 1000 bytes"));
}

#[tokio::test]
async fn a_question_larger_than_the_pipe_reaches_a_brain_that_never_reads() {
    let brain = sh(DONE);
    let (_, end) = turn(&brain, ask(&"x".repeat(1 << 20))).await;
    assert!(end.is_ok(), "{end:?}");
}

#[tokio::test]
async fn a_brain_that_said_its_last_is_not_waited_for() {
    assert!(end_of(&format!("{DONE}; sleep 1000")).await.is_ok());
    assert!(end_of(&format!("sleep 1000 & {DONE}")).await.is_ok());
}

#[tokio::test]
async fn a_missing_program_and_an_empty_command_are_named() {
    let missing = Exec::new(vec!["/no/such/program".into()]);
    assert!(turn(&missing, ask("x")).await.1.unwrap_err().to_string().contains("/no/such/program"));
    assert!(matches!(turn(&Exec::new(Vec::new()), ask("x")).await.1, Err(BrainError::NotStarted { .. })));
}

#[tokio::test]
async fn mesh_is_whatever_executable_it_stands_for() {
    let brain =
        Exec { mesh: Some("/bin/sh".into()), ..Exec::new(vec!["mesh".into(), "-c".into(), DONE.into()]) };
    assert!(turn(&brain, ask("x")).await.1.is_ok());
}

#[tokio::test]
async fn only_the_declared_environment_gets_in() {
    let mut brain = sh(r#"printf '{"type":"done","message":"%s %s"}' "$GREETING" "$CARGO_MANIFEST_DIR""#);
    brain.env.insert("GREETING".into(), "hello".into());
    let (_, end) = turn(&brain, ask("x")).await;
    assert_eq!(end.unwrap(), TurnEnd::Done { message: Some("hello ".into()) });
}

#[tokio::test]
async fn a_relative_program_is_looked_for_in_its_directory() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("build.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{DONE}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let brain = Exec { dir: Some(dir.path().into()), ..Exec::new(vec!["./build.sh".into()]) };
    // Another test's fork may still hold the file open for writing.
    for _ in 0..100 {
        match turn(&brain, ask("x")).await.1 {
            Err(BrainError::NotStarted { what, .. }) if what.contains("busy") => {
                tokio::task::yield_now().await
            }
            end => return assert!(end.is_ok(), "{end:?}"),
        }
    }
}

/// Whether a process is there and not just waiting to be buried.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

#[tokio::test]
async fn a_dropped_turn_takes_the_whole_family_with_it() {
    let brain = sh(r#"sleep 1000 & echo "{\"type\":\"status\",\"message\":\"$$ $!\"}"; wait; sleep 1000"#);
    let (report, mut reports) = mpsc::channel(8);
    let mut thinking = brain.think(ask("x"), report);
    let message = tokio::select! {
        end = &mut thinking => panic!("ended: {end:?}"),
        heard = reports.recv() => match heard {
            Some(Progress::Status { message }) => message,
            other => panic!("{other:?}"),
        },
    };
    let family: Vec<&str> = message.split(' ').collect();
    assert!(family.iter().all(|pid| runs(pid)), "{family:?}");
    drop(thinking);
    let gone = async {
        while family.iter().any(|pid| runs(pid)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
}

#[tokio::test]
async fn a_member_that_done_does_not_have_is_named_where_nothing_else_was_said() {
    for (done, named) in [
        (r#"{"type":"done","summary":"x"}"#, "`summary` (it may have `message`)"),
        (r#"{"type":"done","message":" ","text":"x","result":1}"#, "`result`, `text` (it may"),
    ] {
        let TurnEnd::Failed { reason } = end_of(&format!("echo '{done}'")).await.unwrap() else {
            panic!("{done} was taken")
        };
        assert!(reason.starts_with("done without a result: ") && reason.contains(named), "{reason}");
    }
    // What succeeds, or fails without it, is left to the rules.
    let done = TurnEnd::Done { message: None };
    assert_eq!(end_of(r#"echo '{"type":"done"}'"#).await.unwrap(), done);
    let made = r#"echo '{"type":"artifact","name":"a","text":"b"}'; "#;
    assert_eq!(end_of(&format!(r#"{made} echo '{{"type":"done","summary":"x"}}'"#)).await.unwrap(), done);
    let said = TurnEnd::Done { message: Some("ok".into()) };
    assert_eq!(end_of(r#"echo '{"type":"done","message":"ok","summary":"x"}'"#).await.unwrap(), said);
    let mut again = ask("x");
    again.prompt.produced = vec![protocol::artifact::Artifact::text("a", "text/plain", "b")];
    let (_, end) = turn(&sh(r#"echo '{"type":"done","summary":"x"}'"#), again).await;
    assert_eq!(end.unwrap(), done);
}
