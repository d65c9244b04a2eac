//! What the process of an agent says when it registers (`PUT /a2a/peer`): its endpoint, and what its card says over the file.

use super::{file::SkillFile, forms::MapOrShort};
use engine::settings::AgentSettings;
use protocol::{
    bid::{Cost, Eta},
    problem::{Problem, Reason},
};
use serde::Deserialize;
use serde_json::Value;

/// A registration.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PeerRegistration {
    /// Where its turns are posted; without one it reads them from a stream.
    #[serde(default)]
    pub endpoint: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    skills: Option<Vec<MapOrShort<SkillFile>>>,
    #[serde(default)]
    cost: Option<Cost>,
    #[serde(default)]
    eta: Option<Eta>,
    #[serde(default)]
    max_parallel: Option<u32>,
}

impl PeerRegistration {
    /// Reads a registration; the problem names the member that is wrong.
    pub fn read(body: Value) -> Result<Self, Problem> {
        let read: Self = serde_path_to_error::deserialize(body).map_err(|error| {
            let path = error.path().to_string();
            invalid(if path == "." { "the body" } else { &path }, &error.into_inner().to_string())
        })?;
        let skills = read.skills.as_deref().unwrap_or_default();
        for (at, MapOrShort(skill)) in skills.iter().enumerate() {
            if skill.output_schema.is_some() {
                let what = "is for the agent's file: results are checked by what that says";
                return Err(invalid(&format!("skills[{at}].outputSchema"), what));
            }
            if skills[..at].iter().any(|MapOrShort(other)| other.id == skill.id) {
                return Err(invalid(&format!("skills[{at}]"), &format!("{} is there twice", skill.id)));
            }
        }
        if read.max_parallel == Some(0) {
            return Err(invalid("maxParallel", "must be at least 1"));
        }
        Ok(read)
    }

    /// The settings of the agent's file with what is said here.
    pub fn over(self, file: &AgentSettings) -> AgentSettings {
        let mut settings = file.clone();
        let skills =
            self.skills.map(|skills| skills.into_iter().map(|MapOrShort(skill)| skill.into()).collect());
        settings.skills = skills.unwrap_or(settings.skills);
        settings.description = self.description.unwrap_or(settings.description);
        settings.bid.cost = self.cost.or(settings.bid.cost);
        settings.bid.eta = self.eta.or(settings.bid.eta);
        settings.bid.max_parallel = self.max_parallel.or(settings.bid.max_parallel);
        settings
    }
}

/// The refusal of the member `field`.
fn invalid(field: &str, what: &str) -> Problem {
    Problem::new(Reason::InvalidField, format!("{field}: {what}")).with("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_registration_has_the_forms_of_the_file_and_names_what_is_wrong() {
        let file = AgentSettings { description: "of the file".to_owned(), ..AgentSettings::default() };
        let read = json!({ "skills": ["paint", { "id": "draw", "tags": ["art"] }], "cost": 0.5, "eta": "2m", "maxParallel": 3 });
        let settings = PeerRegistration::read(read).unwrap().over(&file);
        let ids: Vec<_> = settings.skills.iter().map(|skill| skill.id.as_str()).collect();
        let terms = settings.bid.terms();
        assert_eq!((ids, terms.eta, terms.max_parallel), (vec!["paint", "draw"], Eta(120_000), 3));
        assert_eq!((terms.cost.get(), settings.description.as_str()), (0.5, "of the file"));
        let nothing = PeerRegistration::read(json!({})).unwrap();
        assert_eq!((nothing.endpoint.clone(), nothing.over(&file)), (None, file));
        for (body, field) in [
            (json!({ "skils": [] }), "skils"),
            (json!({ "skills": [{ "id": "no space" }] }), "skills[0].id"),
            (json!({ "skills": ["a", "a"] }), "skills[1]"),
            (json!({ "skills": [{ "id": "a", "outputSchema": {} }] }), "skills[0].outputSchema"),
            (json!({ "eta": "soon" }), "eta"),
            (json!({ "cost": -1 }), "cost"),
            (json!({ "maxParallel": 0 }), "maxParallel"),
        ] {
            let problem = PeerRegistration::read(body.clone()).unwrap_err();
            assert_eq!(problem.reason, Reason::InvalidField);
            assert!(problem.message.contains(field), "{body}: {problem:?}");
        }
    }
}
