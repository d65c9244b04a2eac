use super::*;
use crate::brain::tests::{first_turn, turn};
use patterns::turn::{Progress, TurnEnd};
use std::{path::Path, time::Duration};

const DONE: &str = r#"echo '{"type":"done","message":"ok"}'"#;

fn sh(script: &str) -> ExecBrain {
    let command = vec!["sh".into(), "-c".into(), script.into()];
    ExecBrain { linger: Duration::from_millis(300), ..ExecBrain::new(command) }
}

async fn end_of(script: &str) -> Result<TurnEnd, BrainError> {
    let brain = sh(script);
    let (_, end) =
        tokio::time::timeout(Duration::from_secs(30), turn(&brain, first_turn("x"))).await.unwrap();
    end
}

async fn error_of(script: &str) -> String {
    end_of(script).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_command_reads_the_request_and_its_reports_are_read() {
    let script = r#"read line; case "$line" in *'"description":"build it"'*'"turn":1'*|*'"turn":1'*'"description":"build it"'*)
        echo '{"type":"status","message":"at it"}'; echo '{"type":"artifact","name":"a","text":"b"}';; esac; "#;
    let (reports, end) = turn(&sh(&format!("{script}{DONE}")), first_turn("build it")).await;
    assert_eq!(end.unwrap(), TurnEnd::Done { message: Some("ok".into()) });
    assert_eq!(reports.len(), 2, "{reports:?}");
}

#[tokio::test]
async fn a_turn_that_ends_with_a_question_is_waiting() {
    let help = r#"printf '{"type":"help","id":"h","capability":"code-review","question":"ok?"}'"#;
    assert_eq!(end_of(help).await.unwrap(), TurnEnd::Waiting);
    let failed = r#"echo '{"type":"failed","reason":"no idea"}'"#;
    assert_eq!(end_of(failed).await.unwrap(), TurnEnd::Failed { reason: "no idea".into() });
    let lasting = r#"echo '{"type":"failed","reason":"no key","lasting":true}'"#;
    assert_eq!(end_of(lasting).await.unwrap(), TurnEnd::LastingFailure { reason: "no key".into() });
}

#[tokio::test]
async fn silence_invalid_lines_and_bad_exits_are_errors_that_name_the_cause() {
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
async fn only_the_end_of_standard_error_is_kept() {
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
    let chatty = ExecBrain {
        max_output_bytes: 1000,
        ..sh(r#"while true; do echo '{"type":"status","message":"hm"}'; done"#)
    };
    let (_, end) = turn(&chatty, first_turn("x")).await;
    assert!(end.unwrap_err().to_string().contains("the output exceeds 1000 bytes"));
}

#[tokio::test]
async fn a_request_larger_than_the_pipe_does_not_block_a_brain_that_never_reads() {
    let brain = sh(DONE);
    let (_, end) = turn(&brain, first_turn(&"x".repeat(1 << 20))).await;
    assert!(end.is_ok(), "{end:?}");
}

#[tokio::test]
async fn a_brain_is_killed_some_time_after_the_end_of_its_turn() {
    assert!(end_of(&format!("{DONE}; sleep 1000")).await.is_ok());
    assert!(end_of(&format!("sleep 1000 & {DONE}")).await.is_ok());
}

#[tokio::test]
async fn a_missing_program_and_an_empty_command_are_named() {
    let missing = ExecBrain::new(vec!["/no/such/program".into()]);
    assert!(turn(&missing, first_turn("x")).await.1.unwrap_err().to_string().contains("/no/such/program"));
    let error = turn(&ExecBrain::new(Vec::new()), first_turn("x")).await.1.unwrap_err();
    assert!(matches!(error, BrainError::NotStarted { .. }));
}

#[tokio::test]
async fn mesh_means_the_configured_executable() {
    let command = vec!["mesh".into(), "-c".into(), DONE.into()];
    let brain = ExecBrain { mesh: Some("/bin/sh".into()), ..ExecBrain::new(command) };
    assert!(turn(&brain, first_turn("x")).await.1.is_ok());
}

#[tokio::test]
async fn only_the_declared_environment_is_passed_on() {
    let mut brain = sh(r#"printf '{"type":"done","message":"%s %s"}' "$GREETING" "$CARGO_MANIFEST_DIR""#);
    brain.env.insert("GREETING".into(), "hello".into());
    let (_, end) = turn(&brain, first_turn("x")).await;
    assert_eq!(end.unwrap(), TurnEnd::Done { message: Some("hello ".into()) });
}

#[tokio::test]
async fn a_relative_program_is_looked_for_in_its_directory() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("build.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{DONE}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let brain = ExecBrain { dir: Some(dir.path().into()), ..ExecBrain::new(vec!["./build.sh".into()]) };
    // Another test's fork may still hold the file open for writing.
    for _ in 0..100 {
        match turn(&brain, first_turn("x")).await.1 {
            Err(BrainError::NotStarted { what, .. }) if what.contains("busy") => {
                tokio::task::yield_now().await
            }
            end => return assert!(end.is_ok(), "{end:?}"),
        }
    }
}

#[tokio::test]
async fn a_prompt_that_cannot_be_made_small_enough_fails_the_turn_with_its_size() {
    let (_, end) = turn(&sh("exit 7"), first_turn(&"x".repeat(2 << 20))).await;
    let Ok(TurnEnd::Failed { reason }) = end else { panic!("{end:?}") };
    assert!(reason.contains("209") && reason.contains("at most 1048576"), "{reason}");
}

/// Whether a process runs and is no zombie.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

#[tokio::test]
async fn a_dropped_turn_kills_the_whole_process_group() {
    let brain = sh(r#"sleep 1000 & echo "{\"type\":\"status\",\"message\":\"$$ $!\"}"; wait; sleep 1000"#);
    let (report, mut reports) = TurnHandle::new(Default::default(), 8);
    let mut thinking = brain.think(first_turn("x"), report);
    let message = tokio::select! {
        end = &mut thinking => panic!("ended: {end:?}"),
        report = reports.recv() => match report.map(|report| report.progress) {
            Some(Progress::Status { message }) => message,
            other => panic!("{other:?}"),
        },
    };
    let group: Vec<&str> = message.split(' ').collect();
    assert!(group.iter().all(|pid| is_running(pid)), "{group:?}");
    drop(thinking);
    let killed = async {
        while group.iter().any(|pid| is_running(pid)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), killed).await.unwrap();
}

#[tokio::test]
async fn an_unknown_member_fails_the_turn_by_name() {
    let error = error_of(r#"echo '{"type":"done","message":"ok","summary":"x"}'"#).await;
    let expected =
        "line 1 of the brain's output: \"done\": unknown field `summary`, expected `message` or `label`";
    assert_eq!(error, expected);
    assert_eq!(end_of(r#"echo '{"type":"done"}'"#).await.unwrap(), TurnEnd::Done { message: None });
    assert_eq!(end_of(r#"echo '{"type":"wait"}'"#).await.unwrap(), TurnEnd::Waiting);
}

fn with_mode(mode: ExecMode, script: &str) -> ExecBrain {
    ExecBrain { mode, ..sh(script) }
}

fn message(end: &Result<TurnEnd, BrainError>) -> String {
    match end {
        Ok(TurnEnd::Done { message: Some(message) }) => message.clone(),
        other => panic!("{other:?}"),
    }
}

/// Answers each prompt with its process id and how many it has read.
const COUNTING: &str = r#"n=0; while read -r line; do n=$((n+1)); case "$line" in
    *die*) exit 7;; *chatter*) printf '{"type":"done","message":"ok"}\n{"type":"status","message":"more"}\n';; *) echo "{\"type\":\"done\",\"message\":\"$$ $n\"}";; esac; done"#;

#[tokio::test]
async fn a_worker_takes_turns_one_after_the_other_and_several_at_once_in_several_processes() {
    let brain = with_mode(ExecMode::Worker, COUNTING);
    let (_, first) = turn(&brain, first_turn("a")).await;
    let (_, second) = turn(&brain, first_turn("b")).await;
    let (first, second) = (message(&first), message(&second));
    let (pid, _) = first.split_once(' ').unwrap();
    assert_eq!((first.clone(), second), (format!("{pid} 1"), format!("{pid} 2")));
    let ((_, third), (_, fourth)) =
        tokio::join!(turn(&brain, first_turn("c")), turn(&brain, first_turn("d")));
    let pids: Vec<_> = [&third, &fourth].map(message).into_iter().collect();
    assert_eq!(pids.iter().filter(|text| text.starts_with(pid)).count(), 1, "{pids:?}");
    let other = pids.iter().find(|text| !text.starts_with(pid)).unwrap().split(' ').next().unwrap();
    assert!(is_running(pid) && is_running(other));
    drop(brain);
    let ended = async {
        while is_running(pid) || is_running(other) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("workers end with their brain");
}

#[tokio::test]
async fn a_worker_that_dies_fails_its_turn_only_and_is_started_again() {
    let brain = with_mode(ExecMode::Worker, COUNTING);
    let (_, first) = turn(&brain, first_turn("a")).await;
    let (_, died) = turn(&brain, first_turn("die")).await;
    assert_eq!(died.unwrap_err().to_string(), "the brain died: exit code 7");
    let (_, next) = turn(&brain, first_turn("b")).await;
    assert!(message(&next).ends_with(" 1") && message(&next) != message(&first));
    let last = message(&next).split(' ').next().unwrap().to_owned();
    // What is written after the end of a turn ends the process, not the next turn.
    let (_, chatter) = turn(&brain, first_turn("chatter")).await;
    assert_eq!(message(&chatter), "ok");
    let ended = async {
        while brain.workers.has_idle() && is_running(&last) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
    let (_, after) = turn(&brain, first_turn("c")).await;
    assert!(message(&after).ends_with(" 1"), "{after:?}");
}

#[tokio::test]
async fn the_last_words_of_a_worker_are_of_the_turn_in_which_it_dies() {
    let script = r#"while read -r line; do case "$line" in
        *silent*) exit 3;; *loud*) echo ouch >&2; exit 4;;
        *) echo boom >&2; echo '{"type":"failed","reason":"boom"}';; esac; done"#;
    let brain = with_mode(ExecMode::Worker, script);
    for (word, end) in [("silent", "exit code 3"), ("loud", "exit code 4; its last words: ouch")] {
        let (_, failed) = turn(&brain, first_turn("a")).await;
        assert_eq!(failed.unwrap(), TurnEnd::Failed { reason: "boom".into() });
        let (_, died) = turn(&brain, first_turn(word)).await;
        assert_eq!(died.unwrap_err().to_string(), format!("the brain died: {end}"));
    }
}

/// Answers each prompt with its process id; a line of the turn before comes first, and one of this turn comes after the end.
const LATE: &str = r#"before=none; while read -r line; do key=${line#*'"key":"'}; key=${key%%'"'*}
    echo "{\"type\":\"done\",\"message\":\"late\",\"key\":\"$before\"}"
    printf '{"type":"done","message":"%s","key":"%s"}\n{"type":"oops","key":"%s"}\n' $$ "$key" "$key"; before=$key; done"#;

#[tokio::test]
async fn a_line_that_names_another_turn_is_dropped_and_the_worker_goes_on() {
    let brain = with_mode(ExecMode::Worker, LATE);
    let in_turn = |key: &str| TurnRequest { key: key.to_owned(), ..first_turn("x") };
    let mut pids = std::collections::BTreeSet::new();
    for key in ["a:c:1:0", "a:c:2:0", "a:c:3:0"] {
        let (reports, end) = turn(&brain, in_turn(key)).await;
        pids.insert(message(&end));
        let said = |report: &Progress| matches!(report, Progress::Log { message } if message.contains("another turn"));
        assert!(!reports.is_empty() && reports.iter().all(said), "{reports:?}");
    }
    assert_eq!(pids.len(), 1, "one process: {pids:?}");
}

#[tokio::test]
async fn no_more_workers_stay_than_turns_were_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"while read -r line; do case "$line" in
        *'"type":"cancel"'*) until [ -e go ]; do sleep 0.01; done; echo '{"type":"failed","reason":"cancelled"}';;
        *'stop me'*) echo "{\"type\":\"status\",\"message\":\"$$\"}";;
        *) echo "{\"type\":\"done\",\"message\":\"$$\"}";; esac; done"#;
    let brain = with_mode(ExecMode::Worker, script);
    let brain = ExecBrain { dir: Some(dir.path().into()), linger: Duration::from_secs(20), ..brain };
    let cancelled = stop_after_status(&brain).await;
    let (_, next) = turn(&brain, first_turn("next")).await;
    let other = message(&next);
    assert_ne!(other, cancelled, "a new process takes the turn while the other one ends its own");
    std::fs::write(dir.path().join("go"), "").unwrap();
    let one_ends = async {
        while is_running(&cancelled) && is_running(&other) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), one_ends).await.expect("one process stays");
    let (_, last) = turn(&brain, first_turn("last")).await;
    assert!([cancelled, other].contains(&message(&last)), "the other one stays: {last:?}");
}

#[tokio::test]
async fn a_checkpoint_of_a_duplex_brain_is_acknowledged_once_it_is_durable() {
    let script = r#"read -r prompt; echo '{"type":"checkpoint","data":1}'; read -r recorded
        echo "{\"type\":\"artifact\",\"name\":\"a\",\"data\":$recorded}"; echo '{"type":"done"}'; cat >/dev/null; exit 0"#;
    for mode in [ExecMode::Duplex, ExecMode::Worker] {
        let (reports, end) = turn(&with_mode(mode, script), first_turn("x")).await;
        assert!(end.is_ok(), "{end:?}");
        let [Progress::Checkpoint(_), Progress::Artifact { artifact, .. }] = reports.as_slice() else {
            panic!("{reports:?}")
        };
        let recorded = serde_json::json!({ "type": "recorded", "key": "agent-01:c:1:0", "checkpoints": 1 });
        assert_eq!(artifact.parts[0].content, protocol::artifact::PartContent::Data(recorded));
    }
}

/// Starts a turn, waits for its first status, and drops it.
async fn stop_after_status(brain: &ExecBrain) -> String {
    let (report, mut reports) = TurnHandle::new(Default::default(), 8);
    let mut thinking = brain.think(first_turn("stop me"), report);
    tokio::select! {
        end = &mut thinking => panic!("ended: {end:?}"),
        report = reports.recv() => match report.map(|report| report.progress) {
            Some(Progress::Status { message }) => message,
            other => panic!("{other:?}"),
        },
    }
}

#[tokio::test]
async fn a_stopped_turn_is_cancelled_and_a_worker_that_ends_it_goes_on() {
    let script = r#"while read -r line; do case "$line" in
        *'"type":"cancel"'*) echo '{"type":"failed","reason":"cancelled"}';;
        *'stop me'*) echo "{\"type\":\"status\",\"message\":\"$$\"}";;
        *) echo "{\"type\":\"done\",\"message\":\"$$\"}";; esac; done"#;
    let brain = with_mode(ExecMode::Worker, script);
    let pid = stop_after_status(&brain).await;
    let idle = async {
        while !brain.workers.has_idle() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), idle).await.unwrap();
    let (_, end) = turn(&brain, first_turn("next")).await;
    assert_eq!(message(&end), pid, "the same process");
}

#[tokio::test]
async fn a_worker_that_ignores_the_cancel_is_killed_with_its_group() {
    let script = r#"while read -r line; do case "$line" in
        *'stop me'*) sleep 1000 & echo "{\"type\":\"status\",\"message\":\"$$ $!\"}"; wait;; esac; done"#;
    for mode in [ExecMode::Duplex, ExecMode::Worker] {
        let pids = stop_after_status(&with_mode(mode, script)).await;
        let killed = async {
            while pids.split(' ').any(is_running) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), killed).await.unwrap();
    }
}
