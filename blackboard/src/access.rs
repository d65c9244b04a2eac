//! Access rules of the board: who may publish which signal and hold which claim. Pure. The set of registered agents is an
//! argument; the board reads it from [`crate::registered_agents`].

use crate::claims::ClaimRow;
use protocol::{
    ids::AgentId,
    principal::{MeshService, Principal},
    problem::{Problem, Reason},
    signal::{self, ON_BEHALF_OF, OWNER, Signal, SignalType},
    task::OpenTaskKey,
};

/// The sender of the board's own signals.
pub const BOARD: &str = "blackboard";

/// Checks that `by` may publish `signal`. An agent publishes only under its own id, a user under any label that is neither
/// a service's name nor one that is or was an agent's. Only the registry publishes the registry's signal types, and only
/// the mesh those of a task's or an artifact's life.
pub fn may_publish(
    by: &Principal,
    signal: &Signal,
    is_agents_name: impl Fn(&AgentId) -> bool,
) -> Result<(), Problem> {
    check_label(by, &signal.from, "from", is_agents_name)?;
    if signal.is_boards_own() {
        let message = format!("id: {} begins as the board's own do", signal.id);
        return Err(Problem::new(Reason::InvalidField, message).with("field", "id"));
    }
    let named =
        [("root", signal.root.is_some()), ("refs.onBehalfOf", signal.refs.contains_key(ON_BEHALF_OF))];
    if let Some((field, _)) = named.into_iter().find(|(_, is_named)| *is_named && !by.is_of_mesh()) {
        let message =
            format!("{field}: only an agent names for whom it publishes; yours are published for {by}");
        return Err(Problem::new(Reason::Forbidden, message).with("field", field));
    }
    if signal.kind.is_registrys() && *by != Principal::Service(MeshService::Registry) {
        let message = format!("only the registry publishes {}, not {by}", signal.kind);
        return Err(Problem::new(Reason::Forbidden, message).with("field", "type"));
    }
    if signal.kind.is_lifecycle() && !by.is_of_mesh() {
        let message = format!(
            "type: only the mesh publishes task.*, agent.* and artifact.*, offers (task.available) aside; {by} can't publish {}",
            signal.kind
        );
        return Err(Problem::new(Reason::Forbidden, message).with("field", "type"));
    }
    if !matches!(by, Principal::Service(_)) {
        check_agents_references(by, signal)?;
    }
    Ok(())
}

/// An agent acts for a user, another agent or itself, never for a service, and names as the owner of an artifact only itself.
fn check_agents_references(by: &Principal, signal: &Signal) -> Result<(), Problem> {
    let not_proven =
        |field, message| Err(Problem::new(Reason::SenderNotProven, message).with("field", field));
    let behalf = signal.refs.get(ON_BEHALF_OF).and_then(|named| named.as_str());
    let behalf = behalf.and_then(|named| Principal::try_from(named.to_owned()).ok());
    for (field, named) in [("root", signal.root.as_ref()), ("refs.onBehalfOf", behalf.as_ref())] {
        if let Some(service @ Principal::Service(_)) = named {
            return not_proven(
                field,
                format!("{field}: {by} can't publish for {service}; it works for nobody"),
            );
        }
    }
    let owner = signal.refs.get(OWNER).filter(|_| signal.kind == SignalType::artifact_produced());
    match owner {
        Some(owner) if owner.as_str() != Some(by.id()) => {
            not_proven("refs.owner", format!("refs.owner says {owner}, the credential says {by}"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks that `by` may hold a claim as `holder`.
pub fn may_hold(
    by: &Principal,
    holder: &AgentId,
    is_agents_name: impl Fn(&AgentId) -> bool,
) -> Result<(), Problem> {
    check_label(by, holder, "holder", is_agents_name)
}

/// Whether `by` may see the claim on a task: agents and services, which see the signals about it, too; the publisher of the
/// task, the one for whom it was offered, and the one who claimed it.
pub fn may_see_claim(
    by: &Principal,
    task: &OpenTaskKey,
    offer: Option<&Signal>,
    claim: Option<&ClaimRow>,
) -> bool {
    by.is_of_mesh()
        || task.publisher == *by
        || offer.and_then(Signal::acts_for).as_ref() == Some(by)
        || claim.is_some_and(|claim| claim.by == *by)
}

/// Whether `by` may claim the task of `offer`: whoever may see the offer.
pub fn may_claim(by: &Principal, offer: &Signal) -> bool {
    signal::may_see(by, offer)
}

fn check_label(
    by: &Principal,
    label: &AgentId,
    field: &str,
    is_agents_name: impl Fn(&AgentId) -> bool,
) -> Result<(), Problem> {
    let message = match by {
        Principal::Agent(id) if id == label => return Ok(()),
        Principal::Service(_) if by.id() == label.as_str() => return Ok(()),
        Principal::User(_) => {
            let whose = match label.is_reserved() {
                true => "a service's name",
                false if is_agents_name(label) => "an agent's name",
                false => return Ok(()),
            };
            format!("{field}: {label} is {whose}; use a label of your own")
        }
        Principal::Agent(_) | Principal::Service(_) | Principal::Brain(_) => {
            format!("{field} says {label}, the credential says {by}")
        }
    };
    Err(Problem::new(Reason::SenderNotProven, message).with("field", field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::time::WallTime;
    use serde_json::json;

    fn refusal_of(by: Principal, kind: &str, from: &str) -> Option<Reason> {
        let signal = Signal {
            id: "1".into(),
            kind: SignalType::parse(kind).unwrap(),
            from: AgentId::parse(from).unwrap(),
            by: None,
            root: None,
            root_proof: None,
            subject: None,
            task_id: None,
            capability: None,
            refs: Default::default(),
            to: Vec::new(),
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
        let registry = Principal::Service(MeshService::Registry);
        assert_eq!(refusal_of(registry, "agent.left", "registry"), None);
        assert_eq!(refusal_of(agent("registry"), "agent.left", "registry"), Some(Reason::Forbidden));
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

    #[test]
    fn an_agent_acts_for_no_service_and_owns_only_its_own_artifacts() {
        let refusal = |more: serde_json::Value| {
            let mut posted = json!({ "id": "1", "type": "artifact.produced", "from": "b-1", "at": "2026-01-01T00:00:00Z" });
            posted.as_object_mut().unwrap().append(more.clone().as_object_mut().unwrap());
            let signal: Signal = serde_json::from_value(posted).unwrap();
            let by = Principal::Agent(AgentId::parse("b-1").unwrap());
            may_publish(&by, &signal, |_| false).err().map(|problem| (problem.reason, problem.metadata))
        };
        let not_proven = |field: &str| Some((Reason::SenderNotProven, vec![("field", field.to_owned())]));
        for (more, expected) in [
            (json!({ "root": "user:bob", "refs": { "owner": "b-1", "onBehalfOf": "agent:b-2" } }), None),
            (json!({ "root": "service:registry" }), not_proven("root")),
            (json!({ "refs": { "onBehalfOf": "service:board" } }), not_proven("refs.onBehalfOf")),
            (json!({ "refs": { "owner": "dump-01" } }), not_proven("refs.owner")),
        ] {
            assert_eq!(refusal(more.clone()), expected, "{more}");
        }
    }
}
