//! Who may say what on the board. Pure. Who is registered is an argument: the board knows it from what the registry
//! publishes ([`crate::attendance`]).

use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    signal::Signal,
};

/// The agent id under which the registry signs.
pub const REGISTRY: &str = "registry";
/// The name under which the board itself speaks, of claims whose lease ran out.
pub const BOARD: &str = "blackboard";

/// Whether `by` may publish `signal`: an agent speaks for itself only, a user under any label that is neither a
/// service's nor a registered agent's, and the registry alone tells who is there.
pub fn may_publish(
    by: &Principal,
    signal: &Signal,
    is_registered: impl Fn(&AgentId) -> bool,
) -> Result<(), Problem> {
    speaks_as(by, &signal.from, "from", is_registered)?;
    if signal.is_boards_own() {
        let message = format!("id: {} begins as the board's own do", signal.id);
        return Err(Problem::new(Reason::InvalidField, message).with("field", "id"));
    }
    if signal.kind.is_registrys() && by.agent().is_none_or(|id| id.as_str() != REGISTRY) {
        let message = format!("only the registry publishes {}, not {by}", signal.kind);
        return Err(Problem::new(Reason::Forbidden, message).with("field", "type"));
    }
    Ok(())
}

/// Whether `by` may hold a claim as `holder`.
pub fn may_hold(
    by: &Principal,
    holder: &AgentId,
    is_registered: impl Fn(&AgentId) -> bool,
) -> Result<(), Problem> {
    speaks_as(by, holder, "holder", is_registered)
}

fn speaks_as(
    by: &Principal,
    label: &AgentId,
    field: &str,
    is_registered: impl Fn(&AgentId) -> bool,
) -> Result<(), Problem> {
    let message = match by {
        Principal::Agent(id) if id == label => return Ok(()),
        Principal::User(_) if label.as_str() != REGISTRY && label.as_str() != BOARD => {
            if !is_registered(label) {
                return Ok(());
            }
            format!("{field}: {label} is a registered agent; what it says carries its signature")
        }
        Principal::Agent(_) | Principal::User(_) => {
            format!("{field} says {label}, the credential says {by}")
        }
    };
    Err(Problem::new(Reason::SenderNotProven, message).with("field", field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{signal::SignalType, time::WallTime};
    use serde_json::json;

    fn verdict(by: Principal, kind: &str, from: &str) -> Option<Reason> {
        let signal = Signal {
            id: "1".into(),
            kind: SignalType::parse(kind).unwrap(),
            from: AgentId::parse(from).unwrap(),
            subject: None,
            task_id: None,
            capability: None,
            refs: Default::default(),
            at: WallTime(0),
        };
        may_publish(&by, &signal, |id| id.as_str() == "b-1").err().map(|problem| problem.reason)
    }

    #[test]
    fn nobody_else_has_ids_like_the_boards_own() {
        let by = Principal::local_user();
        let told = |id: &str| {
            let posted =
                json!({ "id": id, "type": "task.available", "from": "me", "at": "2026-01-01T00:00:00Z" });
            let signal: Signal = serde_json::from_value(posted).unwrap();
            may_publish(&by, &signal, |_| false).err().map(|problem| problem.reason)
        };
        assert_eq!(told("board:task.available:t-1:5"), Some(Reason::InvalidField));
        assert_eq!((told("boarding"), told("b-1:board:1:0")), (None, None));
    }

    #[test]
    fn an_agent_speaks_for_itself_and_only_the_registry_tells_who_is_there() {
        let agent = |id: &str| Principal::Agent(AgentId::parse(id).unwrap());
        assert_eq!(verdict(agent("b-1"), "task.claimed", "b-1"), None);
        assert_eq!(verdict(agent("b-1"), "task.claimed", "b-2"), Some(Reason::SenderNotProven));
        assert_eq!(verdict(agent("b-1"), "agent.joined", "b-1"), Some(Reason::Forbidden));
        assert_eq!(verdict(agent("registry"), "agent.left", "registry"), None);
        assert_eq!(verdict(Principal::local_user(), "task.available", "anyone"), None);
        assert_eq!(verdict(Principal::local_user(), "task.available", "b-1"), Some(Reason::SenderNotProven));
        assert_eq!(verdict(Principal::local_user(), "agent.joined", "anyone"), Some(Reason::Forbidden));
        assert_eq!(
            verdict(Principal::local_user(), "agent.joined", "registry"),
            Some(Reason::SenderNotProven)
        );
    }
}
