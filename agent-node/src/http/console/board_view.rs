//! The signals, claims and spaces of the board, as its routes show them to the viewer.

use super::{
    scope::ConsoleScope,
    viewer_board::{self, ViewerBoard},
};
use crate::http::node_state::NodeState;
use blackboard::claims::ClaimView;
use console::{
    location::ConsoleLocation,
    views::board::{BoardPage, ClaimLine},
};
use futures_util::{StreamExt as _, stream};
use protocol::{
    ids::TaskId,
    problem::{Problem, Reason},
    signal::{Selector, Signal, SignalRecord, SignalType, publisher},
    task::OpenTaskKey,
    time::WallTime,
};
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

/// The signals of a page.
const PAGE: usize = 60;
/// The most revisions of the board that are looked at for one page.
const MAX_SCANNED: u64 = 20_000;
/// The most signals that are compared with the filters for one page.
const MAX_SEARCHED: usize = 4_000;
/// The most signals of one read.
const READ: usize = 500;
/// How many revisions before the page are read first; each further read looks back four times as far.
const FIRST_SPAN: u64 = 256;
/// The most claims of a page.
const MAX_CLAIMS: usize = 20;
/// The most claims that are asked for at once.
const AT_ONCE: usize = 8;

/// The data of the page.
pub(super) async fn data(
    scope: &ConsoleScope,
    node: &NodeState,
    at: &ConsoleLocation,
) -> Result<BoardPage, Problem> {
    let Some(board) = ViewerBoard::find(scope, node) else {
        return Ok(BoardPage { elsewhere: Some(viewer_board::place(node)), ..BoardPage::default() });
    };
    let mut data = signals(&board, at).await?;
    data.claims = claims(&board, &data.signals).await;
    let spaces = async { board.spaces()?.spaces(board.by()).await };
    match spaces.await {
        Ok(spaces) => data.spaces = spaces,
        Err(problem) => data.no_spaces = Some(problem.message),
    }
    Ok(data)
}

/// What the address asks for.
struct BoardFilter {
    selector: Selector,
    agent: String,
    text: String,
    /// Only signals of up to this time.
    until: Option<WallTime>,
}

impl BoardFilter {
    fn of(at: &ConsoleLocation) -> Result<Self, Problem> {
        let invalid = |field: &'static str, why: String| {
            Problem::new(Reason::InvalidField, format!("{field}: {why}")).with("field", field)
        };
        if !at.kind.is_empty() && !at.kind.ends_with('*') {
            SignalType::parse(&at.kind).map_err(|bad| invalid("kind", bad.to_string()))?;
        }
        let task_id = match at.id.trim() {
            "" => None,
            id => Some(TaskId::parse(id).map_err(|bad| invalid("id", bad.to_string()))?),
        };
        let types = Some(at.kind.clone()).filter(|kind| !kind.is_empty()).into_iter().collect();
        let selector = Selector { types, task_id, ..Selector::default() };
        Ok(Self {
            selector,
            agent: at.agent.trim().to_owned(),
            text: at.text.trim().to_lowercase(),
            until: until(&at.before),
        })
    }

    fn admits(&self, signal: &Signal) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.text);
        let has_text = || {
            signal.subject.as_deref().is_some_and(has)
                || has(&signal.id)
                || signal.refs.iter().any(|(name, value)| has(name) || value.as_str().is_some_and(has))
        };
        (self.agent.is_empty() || signal.from.as_str() == self.agent)
            && (self.text.is_empty() || has_text())
            && self.until.is_none_or(|until| signal.at <= until)
    }
}

/// The time in an address: `2026-11-29T20:00`, with or without seconds, UTC.
fn until(text: &str) -> Option<WallTime> {
    let text = text.trim_end_matches('Z');
    let seconds = if text.matches(':').count() == 1 { ":00" } else { "" };
    WallTime::parse(&format!("{text}{seconds}Z")).ok()
}

/// The newest signals before the place that the address names, the newest first.
async fn signals(board: &ViewerBoard, at: &ConsoleLocation) -> Result<BoardPage, Problem> {
    let filter = BoardFilter::of(at)?;
    let head = board.signals().read(board.by(), &Selector::default(), None, 0).await?.next.revision;
    // Signals up to `end` are looked at.
    let mut end = match at.before.parse::<u64>() {
        Ok(before) => before.saturating_sub(1).min(head),
        Err(_) => match filter.until {
            Some(until) => revision_at(board, head, until).await?,
            None => head,
        },
    };
    let (mut data, mut span) = (BoardPage::default(), FIRST_SPAN);
    // However few of them the viewer may see.
    let oldest = end.saturating_sub(MAX_SCANNED);
    while end > oldest && data.signals.len() < PAGE && data.searched < MAX_SEARCHED {
        let begin = end.saturating_sub(span).max(oldest);
        let mut found = Vec::new();
        let mut after = begin;
        while after < end {
            let range = (Some(after.into()), end);
            let page = board.signals().read_range(board.by(), &filter.selector, range, READ).await?;
            let is_last = page.signals.len() < READ;
            found.extend(page.signals);
            if is_last {
                break;
            }
            after = page.next.revision;
        }
        data.searched += found.len();
        let wanted: Vec<SignalRecord> =
            found.into_iter().rev().filter(|record| filter.admits(&record.signal)).collect();
        data.signals.extend(wanted);
        (end, span) = (begin, span.saturating_mul(4));
    }
    if data.signals.len() > PAGE {
        data.signals.truncate(PAGE);
        data.next = data.signals.last().map(|record| record.revision);
    } else if end > 0 {
        data.next = Some(end + 1);
    }
    Ok(data)
}

/// The last revision up to which signals are not later than `until`, by halving.
async fn revision_at(board: &ViewerBoard, head: u64, until: WallTime) -> Result<u64, Problem> {
    let (mut low, mut high) = (0, head);
    while low < high {
        let middle = low + (high - low) / 2;
        let range = (Some(middle.into()), high);
        let page = board.signals().read_range(board.by(), &Selector::default(), range, 1).await?;
        match page.signals.first() {
            Some(next) if next.signal.at <= until => low = next.revision.min(high).max(middle + 1),
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

/// The claims on the tasks of `signals`, those that are held first.
async fn claims(board: &ViewerBoard, signals: &[SignalRecord]) -> Vec<ClaimLine> {
    let mut keys = BTreeSet::new();
    let mut asked = Vec::new();
    for SignalRecord { signal, .. } in signals {
        let is_about =
            signal.is_offer() || signal.kind == SignalType::task_claimed() || signal.is_boards_own();
        let key = publisher(signal).or_else(|| signal.by.clone()).zip(signal.task_id.clone());
        let Some((publisher, task_id)) = key.filter(|_| is_about) else { continue };
        if asked.len() < MAX_CLAIMS && keys.insert((publisher.to_string(), task_id.clone())) {
            asked.push(OpenTaskKey { publisher, task_id });
        }
    }
    let asked = asked.iter().map(|key| board.signals().claim_of(board.by(), key));
    // Who may not see a claim is told that there is none.
    let found = stream::iter(asked).buffered(AT_ONCE).filter_map(|claim| async { claim.ok() });
    let line = |claim: ClaimView| ClaimLine {
        task: claim.task_id.to_string(),
        publisher: claim.publisher.to_string(),
        holder: claim.holder.to_string(),
        state: serde_json::to_value(claim.state)
            .ok()
            .as_ref()
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        epoch: claim.epoch,
        remaining: Duration::from_millis(claim.remaining_ms),
    };
    let mut claims: Vec<_> = found.map(line).collect().await;
    claims.sort_by_key(|claim| claim.state != "held");
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_an_address_is_utc_with_or_without_seconds() {
        let expected = WallTime::parse("2026-11-29T20:00:00Z").ok();
        assert_eq!([until("2026-11-29T20:00"), until("2026-11-29T20:00:00Z")], [expected, expected]);
        assert_eq!([until("17"), until(""), until("T:")], [None, None, None]);
    }
}
