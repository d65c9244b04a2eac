//! Shares of quotas that several agents use together: each agent takes a part at a time, and begins work within it without asking.
//!
//! A row holds one window of one quota for one subject: what each agent has used in it, as it last said, and what it may use in
//! all. The sum of what all may use never exceeds the quota.

use crate::{OWNER, board::Board, feed::run_blocking};
use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    quota::{Amount, QuotaLimits, QuotaPeriod},
    routes,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use store::{Batch, Expectation, Key, Lane, SharedStore, Write};
use transport::operation::{Caller, Operation, OperationInfo, Service};

/// How far the clock of an agent may be ahead of the board's.
const SKEW: Duration = Duration::from_secs(300);

/// Takes a share of a quota for the calling agent, or gives the rest of one back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseShare {
    /// For how long the quota counts.
    pub per: QuotaPeriod,
    /// The window, by its label.
    pub window: String,
    /// For whom: each principal has a quota of its own; absent for one that the whole mesh has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Principal>,
    pub limits: QuotaLimits,
    /// What the agent has used in the window so far.
    pub used: Amount,
    /// Whether it gives back what it has not used, and takes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gives_back: bool,
}

/// What an agent may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaShare {
    /// How much the calling agent may have used in the window in all.
    pub granted: Amount,
    /// What all agents have used, as they last said.
    pub used_by_all: Amount,
}

impl Operation for LeaseShare {
    type Answer = QuotaShare;
    const INFO: OperationInfo = OperationInfo::agents("POST", routes::SHARES);
}

/// One window of one quota.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SharedWindow {
    window: String,
    agents: BTreeMap<AgentId, AgentShare>,
}

#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
struct AgentShare {
    used: Amount,
    granted: Amount,
}

impl SharedWindow {
    /// What `agent` gets; a window that has begun before the present one gets nothing any more.
    fn lease(&mut self, agent: &AgentId, wanted: &LeaseShare) -> QuotaShare {
        if wanted.window < self.window {
            return QuotaShare { granted: wanted.used, used_by_all: wanted.used };
        }
        if wanted.window > self.window {
            *self = Self { window: wanted.window.clone(), agents: BTreeMap::new() };
        }
        let of_others = self.agents.iter().filter(|(other, _)| *other != agent).map(|(_, share)| *share);
        let (used_by_others, taken) =
            of_others.fold(Default::default(), |(used, taken): (Amount, Amount), share| {
                (used.plus(share.used), taken.plus(share.used.at_least(share.granted)))
            });
        let granted = match wanted.gives_back {
            true => wanted.used,
            false => wanted.limits.grant(wanted.used, taken),
        };
        self.agents.insert(agent.clone(), AgentShare { used: wanted.used, granted });
        QuotaShare { granted, used_by_all: used_by_others.plus(wanted.used) }
    }
}

fn key(wanted: &LeaseShare) -> Key {
    let requester = wanted.requester.as_ref().map(Principal::to_string);
    let tokens = [OWNER.to_owned(), "share".to_owned(), wanted.per.to_string()];
    Key::new(&tokens.into_iter().chain(requester).collect::<Vec<_>>())
}

async fn lease(store: &SharedStore, agent: &AgentId, wanted: LeaseShare) -> Result<QuotaShare, Problem> {
    let key = key(&wanted);
    loop {
        let (reader, of) = (store.clone(), key.clone());
        let found = run_blocking(move || Ok(reader.latest(&of)?)).await?;
        let unreadable = |error| Problem::new(Reason::Internal, format!("shares of a quota: {error}"));
        let mut row: SharedWindow = match &found {
            Some(record) => serde_json::from_slice(&record.value).map_err(unreadable)?,
            None => SharedWindow::default(),
        };
        let share = row.lease(agent, &wanted);
        let value = serde_json::to_vec(&row).map_err(unreadable)?.into();
        let expectation = match found {
            Some(record) => Expectation::At(key.clone(), record.revision),
            None => Expectation::Absent(key.clone()),
        };
        let batch = Batch { writes: vec![Write::Put(key.clone(), value)], expectations: vec![expectation] };
        match store.commit(Lane::Progress, batch).await {
            Ok(_) => return Ok(share),
            Err(store::Error::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Service<LeaseShare> for Board {
    async fn call(&self, by: &Caller, wanted: LeaseShare) -> Result<QuotaShare, Problem> {
        let Principal::Agent(agent) = &by.principal else {
            return Err(Problem::new(Reason::Forbidden, "only an agent takes a share of a quota"));
        };
        let (now, per) = (self.spaces().wall(), wanted.per);
        // A window that begins soon may be asked for by a clock that is a little ahead.
        let windows = [now, now.plus(SKEW)].map(|at| per.window(at).label);
        if wanted.window > windows[1] {
            let why = format!("window: {} has not begun; it is {} here", wanted.window, windows[0]);
            return Err(Problem::new(Reason::InvalidField, why).with("field", "window"));
        }
        lease(self.store(), agent, wanted).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(window: &str, used: u64) -> LeaseShare {
        LeaseShare {
            per: QuotaPeriod::Day,
            window: window.to_owned(),
            requester: None,
            limits: QuotaLimits { tokens: Some(100), ..QuotaLimits::default() },
            used: Amount { tokens: used, ..Amount::default() },
            gives_back: false,
        }
    }

    #[test]
    fn what_all_may_use_is_the_quota_and_a_new_window_begins_afresh() {
        let (one, two) = (AgentId::parse("a-1").unwrap(), AgentId::parse("b-1").unwrap());
        let mut row = SharedWindow::default();
        assert_eq!(row.lease(&one, &wants("2026-11-29", 0)).granted.tokens, 5);
        let share = row.lease(&two, &wants("2026-11-29", 93));
        assert_eq!((share.granted.tokens, share.used_by_all.tokens), (95, 93), "5 are out");
        assert_eq!(row.lease(&one, &wants("2026-11-29", 5)).granted.tokens, 5, "nothing is free");
        row.lease(&two, &LeaseShare { gives_back: true, ..wants("2026-11-29", 93) });
        assert_eq!(row.lease(&one, &wants("2026-11-29", 5)).granted.tokens, 7, "2 were given back");
        assert_eq!(row.lease(&one, &wants("2026-11-30", 0)).granted.tokens, 5);
        let late = row.lease(&two, &wants("2026-11-29", 94));
        assert_eq!(late.granted.tokens, 94, "a clock behind gets nothing of a window that is over");
    }
}
