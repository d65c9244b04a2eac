//! Coalesces reports that a foreign agent sends faster than they can be recorded: consecutive chunks of an artifact become one
//! report. So the end of a task does not wait for many small commits.

use crate::brain::TurnHandle;
use patterns::turn::Progress;
use protocol::artifact::{Artifact, merge_joined};
use std::time::Duration;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

/// How long reports are gathered after all earlier ones were forwarded.
const INTERVAL: Duration = Duration::from_millis(100);

/// Forwards `reports` to `target` until there are no more. The first goes at once.
pub(super) async fn forward_coalesced(mut reports: mpsc::Receiver<Progress>, target: TurnHandle) {
    let mut waiting: Vec<Progress> = Vec::new();
    let mut due = Instant::now();
    loop {
        let room = async {
            sleep_until(due).await;
            target.has_room().await;
        };
        tokio::select! {
            report = reports.recv(), if waiting.len() < MAX_WAITING => match report {
                Some(report) => add(&mut waiting, report),
                None => break,
            },
            () = room, if !waiting.is_empty() => {
                target.send(waiting.remove(0)).await;
                if waiting.is_empty() {
                    due = Instant::now() + INTERVAL;
                }
            }
        }
    }
    for progress in waiting {
        target.send(progress).await;
    }
}

/// The most reports that wait; more block their sender.
const MAX_WAITING: usize = 64;

/// Adds `report`. Merges a chunk into the last report if that is of the same artifact.
fn add(waiting: &mut Vec<Progress>, report: Progress) {
    if let (
        Some(Progress::Artifact { artifact: last, last_chunk: was_last_chunk, .. }),
        Progress::Artifact { artifact, append: true, last_chunk },
    ) = (waiting.last_mut(), &report)
        && artifact.artifact_id == last.artifact_id
    {
        let mut merged = vec![std::mem::replace(last, Artifact::text("", "", ""))];
        merge_joined(&mut merged, artifact.clone(), true);
        merged.into_iter().for_each(|merged| *last = merged);
        *was_last_chunk = *last_chunk;
        return;
    }
    waiting.push(report);
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::artifact::merge;

    fn chunk(id: &str, text: &str, append: bool, last_chunk: bool) -> Progress {
        Progress::Artifact { artifact: Artifact::text(id, "text/plain", text), append, last_chunk }
    }

    #[tokio::test]
    async fn waiting_chunks_become_one_report_without_loss() {
        let (sender, reports) = mpsc::channel(1);
        let (target, mut forwarded) = TurnHandle::new(Default::default(), 1_000);
        let send = async move {
            for at in 0..500 {
                sender.send(chunk("a", &format!("{at} "), at > 0, at == 499)).await.unwrap();
            }
            sender.send(chunk("b", "other", false, true)).await.unwrap();
        };
        tokio::join!(send, forward_coalesced(reports, target));
        let mut artifacts = Vec::new();
        let (mut count, mut last) = (0, false);
        while let Some(report) = forwarded.recv().await {
            count += 1;
            if let Progress::Artifact { artifact, append, last_chunk } = report.progress {
                merge(&mut artifacts, artifact, append);
                last = last_chunk;
            }
        }
        assert!(count <= 50, "500 chunks at once became {count}");
        let whole: String = (0..500).map(|at| format!("{at} ")).collect();
        assert_eq!(artifacts[0].as_text(), whole);
        assert!(artifacts[0].parts.len() <= count, "{} parts", artifacts[0].parts.len());
        assert!(artifacts[1].as_text() == "other" && last);
    }
}
