//! Why a bid won: every candidate's fate, and its score by component.

use crate::{
    state_mark::{StateTone, mark},
    times,
    visible_text::VisibleText,
};
use maud::{Markup, html};
use patterns::contract_net::record::{AwardRecord, BidScore, BiddingRound, CandidateRecord, CandidateResult};
use serde::Serialize;

fn word(member: &impl Serialize) -> String {
    serde_json::to_value(member).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The record of `award`, which the agent `by` made.
pub fn section(by: &str, award: &AwardRecord) -> Markup {
    html! {
        section.card {
            header {
                h2 { "Award" }
                span.small.muted {
                    "by " (by) ", strategy " (word(&award.strategy))
                    @if let Some(capability) = &award.capability { ", for " (capability) }
                }
            }
            @for round in &award.rounds { (bidding_round(round)) }
            @if !award.ignored.is_empty() || !award.checks.is_empty() {
                div.body {
                    @for ignored in &award.ignored {
                        p.small.muted { (VisibleText(&ignored.kind)) " from " (VisibleText(&ignored.from)) " had no effect: " (VisibleText(&ignored.why)) }
                    }
                    @for check in &award.checks {
                        p.small { "The result of " (check.doer) " was " (word(&check.verdict)) " by " (word(&check.by)) ": " (VisibleText(&check.findings)) }
                    }
                }
            }
        }
    }
}

fn bidding_round(round: &BiddingRound) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Candidates of round " (round.round) } {
            table {
                thead { tr {
                    th.num { "#" } th { "Candidate" } th { "Fate" } th { "Score" } th.num { "Match" } th.num { "Record" } th.num { "ETA" }
                    th.num { "Cost" } th.num { "Load" } th { "Bid" }
                } }
                tbody { @for candidate in &round.candidates { (row(candidate)) } }
            }
        }
        @if round.not_listed > 0 { div.body { p.small.muted { "and " (round.not_listed) " more that were not asked" } } }
    }
}

fn row(candidate: &CandidateRecord) -> Markup {
    let part = |part: fn(&BidScore) -> f64| {
        candidate.score.as_ref().map_or_else(|| "\u{2013}".to_owned(), |score| format!("{:.2}", part(score)))
    };
    html! {
        tr {
            td.num { @if let Some(rank) = candidate.rank { (rank) } @else { "\u{2013}" } }
            td { span.nowrap { (candidate.agent) } @if let Some(why) = &candidate.why { span.small.muted { " " (VisibleText(why)) } } }
            td { (mark(tone(candidate.fate), &word(&candidate.fate))) }
            td.nowrap {
                @if let Some(score) = &candidate.score {
                    svg.score viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                        rect width="100" height="8" rx="3" {}
                        rect.part width=(format!("{:.0}", score.total.clamp(0.0, 1.0) * 100.0)) height="8" rx="3" {}
                    }
                }
                (part(|score| score.total))
            }
            td.num { (part(|score| score.fit)) }
            td.num { (part(|score| score.track_record)) }
            td.num { (part(|score| score.eta)) }
            td.num { (part(|score| score.cost)) }
            td.num { (part(|score| score.load)) }
            td.nowrap {
                @if let Some(bid) = &candidate.bid { "cost " (bid.cost.get()) ", " (times::duration(bid.eta.duration())) } @else { "\u{2013}" }
            }
        }
    }
}

fn tone(fate: CandidateResult) -> StateTone {
    match fate {
        CandidateResult::Awarded | CandidateResult::Accepted => StateTone::Busy,
        CandidateResult::Completed => StateTone::Ok,
        CandidateResult::Declined
        | CandidateResult::AcceptTimeout
        | CandidateResult::LeaseExpired
        | CandidateResult::Unreachable
        | CandidateResult::Refused
        | CandidateResult::Failed => StateTone::Bad,
        CandidateResult::NoAnswer | CandidateResult::NoBid => StateTone::Wait,
        CandidateResult::NotEligible
        | CandidateResult::NotAsked
        | CandidateResult::Cancelled
        | CandidateResult::Bid
        | CandidateResult::Outbid => StateTone::Idle,
    }
}
