//! Reads the request, has it built by whoever has `implement-api`, and hands back what was built.

use super::{delegate, failed, pass_on, plan, plan_file, replies, status};
use crate::brain::{Ask, lines::Said};
use protocol::ids::Capability;

const BUILD: &str = "build";

pub(super) fn answer(ask: &Ask) -> Vec<Said> {
    if let Some(built) = replies(ask, BUILD).last() {
        return pass_on(built);
    }
    let plan = match plan(ask) {
        Ok(plan) => plan,
        Err(end) => return end,
    };
    let Ok(capability) = Capability::parse("implement-api") else {
        return vec![failed("no such capability")];
    };
    vec![
        status(format!("planned {plan}")),
        plan_file(&plan),
        delegate(ask, BUILD.to_owned(), capability, plan.to_string()),
    ]
}
