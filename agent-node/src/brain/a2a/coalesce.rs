//! Coalesces reports that a foreign agent sends faster than they can be recorded: consecutive chunks of an artifact become one
//! report. So the end of a task does not wait for many small commits.

use crate::brain::TurnHandle;
use patterns::turn::Progress;
use protocol::artifact::{Artifact, Part, PartContent, merge};
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
        let (mut artifact, last_chunk) = (artifact.clone(), *last_chunk);
        let parts = std::mem::take(&mut artifact.parts);
        let mut merged = vec![std::mem::replace(last, Artifact::text("", "", ""))];
        merge(&mut merged, artifact, true);
        merged.into_iter().for_each(|merged| *last = merged);
        parts.into_iter().for_each(|part| append_part(&mut last.parts, part));
        *was_last_chunk = last_chunk;
        return;
    }
    waiting.push(report);
}

/// Adds `part`. Appends text to the last part if that is text with the same properties.
fn append_part(parts: &mut Vec<Part>, part: Part) {
    if let (Some(last), PartContent::Text(text)) = (parts.last_mut(), &part.content)
        && last.media_type == part.media_type
        && last.filename == part.filename
        && last.metadata == part.metadata
        && let PartContent::Text(last_text) = &mut last.content
    {
        return last_text.push_str(text);
    }
    parts.push(part);
}

#[cfg(test)]
mod tests {
    use super::*;

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
