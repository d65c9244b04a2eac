//! Reads the request, delegates the plan to an agent with `implement-api`, and returns its result.

use super::{delegate, failed, forward_result, plan, plan_artifact, replies, status};
use crate::brain::TurnRequest;
use protocol::ids::Capability;
use wire::line::OutputLine;

const BUILD: &str = "build";

pub(super) fn answer(request: &TurnRequest) -> Vec<OutputLine> {
    if let Some(built) = replies(request, BUILD).last() {
        return forward_result(built);
    }
    let plan = match plan(request) {
        Ok(plan) => plan,
        Err(end) => return end,
    };
    let Ok(capability) = Capability::parse("implement-api") else {
        return vec![failed("no such capability")];
    };
    vec![
        status(format!("planned {plan}")),
        plan_artifact(&plan),
        delegate(request, BUILD.to_owned(), capability, plan.to_string()),
    ]
}
