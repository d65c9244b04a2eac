//! What holds the work of an agent up: quotas that are used up, and schedules that begin nothing.

use serde_json::Value;

/// What holds work up, or will soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldUp {
    /// Whether it holds work up.
    pub(crate) is_wrong: bool,
    /// What it is, with the remedy.
    pub(crate) what: String,
}

/// What holds an agent up that has these `quotas` (of `GET /a2a/costs`) and these `schedules` (of `GET /a2a/schedules`).
pub(crate) fn held_up(quotas: &[Value], schedules: &[Value]) -> Vec<HeldUp> {
    let of_quotas = quotas.iter().filter_map(|quota| {
        let text = |key: &str| quota[key].as_str().unwrap_or_default();
        let (name, opens) = (text("quota"), text("opensAt"));
        match text("state") {
            "reached" => Some(HeldUp {
                is_wrong: true,
                what: format!(
                    "{name} is used up and opens again at {opens}: raise it, or wait (`mesh cost --quotas`)"
                ),
            }),
            "near" => Some(HeldUp {
                is_wrong: false,
                what: format!("four fifths of {name} are used; it opens again at {opens}"),
            }),
            _ => None,
        }
    });
    let of_schedules = schedules.iter().filter_map(|schedule| {
        let name = schedule["name"].as_str().unwrap_or_default();
        let why = schedule["problem"].as_str().or(schedule["lastRun"]["refused"].as_str())?;
        let what = format!("the schedule {name} begins nothing: {why} (`mesh schedule ls`)");
        Some(HeldUp { is_wrong: true, what })
    });
    of_quotas.chain(of_schedules).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn used_up_quotas_and_schedules_that_begin_nothing_are_named() {
        let quota =
            |state: &str| json!({ "quota": format!("a {state} one"), "state": state, "opensAt": "soon" });
        let schedules = [json!({ "name": "nightly", "problem": "no doer" }), json!({ "name": "well" })];
        let found = held_up(&[quota("open"), quota("near"), quota("reached")], &schedules);
        let found: Vec<_> = found.iter().map(|found| (found.is_wrong, found.what.as_str())).collect();
        assert!(
            matches!(found.as_slice(), [(false, near), (true, reached), (true, schedule)]
            if near.contains("a near one") && reached.contains("a reached one") && schedule.contains("nightly")),
            "{found:?}"
        );
    }
}
