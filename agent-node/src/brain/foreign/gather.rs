//! What a foreign agent tells faster than it can be recorded: pieces of one artifact that follow each other are told as
//! one, so that the end never waits behind them.

use protocol::{
    artifact::{Artifact, Part, PartContent, merge},
    patterns::turn::Progress,
};
use std::time::Duration;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

/// How long pieces are gathered after others were told.
const GATHER: Duration = Duration::from_millis(100);

/// Tells `report` what comes, the first at once, until there is no more.
pub(super) async fn pass_on(mut news: mpsc::Receiver<Progress>, report: mpsc::Sender<Progress>) {
    let mut waiting: Vec<Progress> = Vec::new();
    let mut due = Instant::now();
    loop {
        let room = async {
            sleep_until(due).await;
            report.reserve().await
        };
        tokio::select! {
            more = news.recv(), if waiting.len() < MOST => match more {
                Some(more) => add(&mut waiting, more),
                None => break,
            },
            room = room, if !waiting.is_empty() => {
                match room {
                    Ok(room) => room.send(waiting.remove(0)),
                    Err(_) => waiting.clear(),
                }
                if waiting.is_empty() {
                    due = Instant::now() + GATHER;
                }
            }
        }
    }
    for progress in waiting {
        drop(report.send(progress).await);
    }
}

/// The most reports that wait here.
const MOST: usize = 64;

/// Adds `more`; a piece that follows a piece of the same artifact joins it.
fn add(waiting: &mut Vec<Progress>, more: Progress) {
    if let (
        Some(Progress::Artifact { artifact: before, last_chunk: was_last, .. }),
        Progress::Artifact { artifact, append: true, last_chunk },
    ) = (waiting.last_mut(), &more)
        && artifact.artifact_id == before.artifact_id
    {
        let (mut artifact, last_chunk) = (artifact.clone(), *last_chunk);
        let parts = std::mem::take(&mut artifact.parts);
        let mut joined = vec![std::mem::replace(before, Artifact::text("", "", ""))];
        merge(&mut joined, artifact, true);
        joined.into_iter().for_each(|joined| *before = joined);
        parts.into_iter().for_each(|part| join(&mut before.parts, part));
        *was_last = last_chunk;
        return;
    }
    waiting.push(more);
}

/// Adds `more`; text that goes on where text ended is one text.
fn join(parts: &mut Vec<Part>, more: Part) {
    if let (Some(before), PartContent::Text(text)) = (parts.last_mut(), &more.content)
        && before.media_type == more.media_type
        && before.filename == more.filename
        && before.metadata == more.metadata
        && let PartContent::Text(so_far) = &mut before.content
    {
        return so_far.push_str(text);
    }
    parts.push(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(id: &str, text: &str, append: bool, last_chunk: bool) -> Progress {
        Progress::Artifact { artifact: Artifact::text(id, "text/plain", text), append, last_chunk }
    }

    #[tokio::test]
    async fn pieces_that_wait_are_told_as_one_and_nothing_is_lost() {
        let (tell, news) = mpsc::channel(1);
        let (report, mut heard) = mpsc::channel(1_000);
        let telling = async move {
            for at in 0..500 {
                tell.send(piece("a", &format!("{at} "), at > 0, at == 499)).await.unwrap();
            }
            tell.send(piece("b", "other", false, true)).await.unwrap();
        };
        tokio::join!(telling, pass_on(news, report));
        let mut artifacts = Vec::new();
        let (mut count, mut last) = (0, false);
        while let Some(progress) = heard.recv().await {
            count += 1;
            if let Progress::Artifact { artifact, append, last_chunk } = progress {
                merge(&mut artifacts, artifact, append);
                last = last_chunk;
            }
        }
        assert!(count <= 50, "500 pieces at once became {count}");
        let whole: String = (0..500).map(|at| format!("{at} ")).collect();
        assert_eq!(artifacts[0].as_text(), whole);
        assert!(artifacts[0].parts.len() <= count, "{} parts", artifacts[0].parts.len());
        assert!(artifacts[1].as_text() == "other" && last);
    }
}
