//! Access rules of the board: who may publish which signal and hold which claim. Pure. The set of registered agents is an
//! argument; the board reads it from [`crate::registered_agents`].

use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    signal::Signal,
};

/// The agent id under which the registry signs.
pub const REGISTRY: &str = "registry";
/// The sender of the board's own signals.
pub const BOARD: &str = "blackboard";

/// Checks that `by` may publish `signal`. An agent publishes only under its own id, a user under any label that is neither
/// a service's nor a registered agent's. Only the registry publishes the registry's signal types.
pub fn may_publish(
    by: &Principal,
    signal: &Signal,
    is_registered: impl Fn(&AgentId) -> bool,
) -> Result<(), Problem> {
    check_label(by, &signal.from, "from", is_registered)?;
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

/// Checks that `by` may hold a claim as `holder`.
pub fn may_hold(
    by: &Principal,
    holder: &AgentId,
    is_registered: impl Fn(&AgentId) -> bool,
) -> Result<(), Problem> {
    check_label(by, holder, "holder", is_registered)
}

fn check_label(
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

    fn refusal_of(by: Principal, kind: &str, from: &str) -> Option<Reason> {
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
    fn ids_with_the_boards_prefix_are_refused() {
        let by = Principal::local_user();
        let refusal = |id: &str| {
            let posted =
                json!({ "id": id, "type": "task.available", "from": "me", "at": "2026-01-01T00:00:00Z" });
            let signal: Signal = serde_json::from_value(posted).unwrap();
            may_publish(&by, &signal, |_| false).err().map(|problem| problem.reason)
        };
        assert_eq!(refusal("board:task.available:t-1:5"), Some(Reason::InvalidField));
        assert_eq!((refusal("boarding"), refusal("b-1:board:1:0")), (None, None));
    }

    #[test]
    fn an_agent_publishes_as_itself_and_only_the_registry_publishes_membership() {
        let agent = |id: &str| Principal::Agent(AgentId::parse(id).unwrap());
        assert_eq!(refusal_of(agent("b-1"), "task.claimed", "b-1"), None);
        assert_eq!(refusal_of(agent("b-1"), "task.claimed", "b-2"), Some(Reason::SenderNotProven));
        assert_eq!(refusal_of(agent("b-1"), "agent.joined", "b-1"), Some(Reason::Forbidden));
        assert_eq!(refusal_of(agent("registry"), "agent.left", "registry"), None);
        assert_eq!(refusal_of(Principal::local_user(), "task.available", "anyone"), None);
        assert_eq!(
            refusal_of(Principal::local_user(), "task.available", "b-1"),
            Some(Reason::SenderNotProven)
        );
        assert_eq!(refusal_of(Principal::local_user(), "agent.joined", "anyone"), Some(Reason::Forbidden));
        assert_eq!(
            refusal_of(Principal::local_user(), "agent.joined", "registry"),
            Some(Reason::SenderNotProven)
        );
    }
}
