//! The parameters of a team: declared under `parameters`, given with `--set name=value`, referred to as `${param.name}`.

use super::{
    ConfigFault,
    fault::FaultLog,
    schema,
    sources::{SourceFile, SourceFiles, SourceLocation},
    text::YamlText,
    unknown_keys,
    variables::Substitution,
    yaml::YamlValue,
};
use protocol::words;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value};
use std::{collections::BTreeMap, str::FromStr};

/// A parameter of a team file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ParameterFile {
    /// What its values are: `string`, `integer`, `number` or `boolean`; `string` if absent.
    #[serde(default)]
    r#type: ParameterType,
    /// Its value if none is given; it must be given if absent.
    #[schemars(with = "Option<YamlText>")]
    default: Option<Value>,
    /// The values that it may have; any of its type if absent.
    #[schemars(with = "Option<Vec<YamlText>>")]
    r#enum: Option<Vec<Value>>,
    /// One sentence for people.
    #[serde(default)]
    description: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ParameterType {
    #[default]
    String,
    Integer,
    Number,
    Boolean,
}

impl ParameterType {
    fn noun(self) -> &'static str {
        match self {
            Self::String => "a text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
        }
    }

    /// The value that `text` of the command line stands for.
    fn of_text(self, text: &str) -> Option<Value> {
        match self {
            Self::String => Some(text.into()),
            Self::Integer => text.parse::<i64>().ok().map(Value::from),
            Self::Number => text.parse::<Number>().ok().map(Value::Number),
            Self::Boolean => text.parse::<bool>().ok().map(Value::Bool),
        }
    }

    /// `value` of the YAML, if it is of this type. A number or truth value stands for how it is written.
    fn of_yaml(self, value: &Value) -> Option<Value> {
        let fits = match (self, value) {
            (Self::String, Value::Number(_) | Value::Bool(_)) => return Some(value.to_string().into()),
            (Self::Integer, value) => value.is_i64(),
            (Self::String, value) => value.is_string(),
            (Self::Number, value) => value.is_number(),
            (Self::Boolean, value) => value.is_boolean(),
        };
        fits.then(|| value.clone())
    }
}

/// `name=value` of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterValue {
    pub name: String,
    pub value: String,
}

impl FromStr for ParameterValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form name=value"))?;
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// A declaration, and where it is.
struct DeclaredParameter {
    kind: ParameterType,
    default: Option<Value>,
    allowed: Option<Vec<Value>>,
    description: String,
    at: ConfigFault,
    /// The positions of the named file that it belongs to, and of its own.
    file: (usize, usize),
}

impl DeclaredParameter {
    fn new(
        location: &SourceLocation<'_>,
        file: (usize, usize),
        (name, line): (&str, u64),
    ) -> Result<Self, ConfigFault> {
        let given: ParameterFile = location.read()?;
        let (kind, noun) = (given.r#type, given.r#type.noun());
        let of_type = |key: &str, value: &Value| {
            kind.of_yaml(value).ok_or_else(|| location.fault(key, format!("must be {noun}, is {value}")))
        };
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        if !is_name {
            let what = "the name of a parameter has letters, digits, `_` and `-`, and begins with a letter";
            return Err(location.fault("", what));
        }
        let allowed = given.r#enum.map(|values| {
            let values = values.iter().enumerate();
            values.map(|(at, value)| of_type(&format!("enum[{at}]"), value)).collect::<Result<Vec<_>, _>>()
        });
        let declared = Self {
            kind,
            default: given.default.map(|value| of_type("default", &value)).transpose()?,
            allowed: allowed.transpose()?,
            description: given.description,
            at: ConfigFault { line: Some(line), ..location.fault("", "") },
            file,
        };
        if declared.allowed.as_ref().is_some_and(Vec::is_empty) {
            return Err(location.fault("enum", "lists no value"));
        }
        if let Some(default) = &declared.default {
            declared.check(default).map_err(|what| location.fault("default", what))?;
        }
        Ok(declared)
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        match &self.allowed {
            Some(allowed) if !allowed.contains(value) => {
                let allowed: Vec<_> = allowed.iter().map(plain).collect();
                Err(format!("must be one of {}, is {:?}", allowed.join(", "), plain(value)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Its value, with what `--set` says.
    fn value(&self, name: &str, given: Option<&str>) -> Result<Value, String> {
        let Some(given) = given else {
            let about = if self.description.is_empty() { "" } else { ": " };
            return self.default.clone().ok_or_else(|| {
                format!("must be given, such as --set {name}=VALUE{about}{}", self.description)
            });
        };
        let value = self.kind.of_text(given);
        let value = value.ok_or_else(|| format!("must be {}, --set says {given:?}", self.kind.noun()))?;
        self.check(&value)?;
        Ok(value)
    }
}

/// The value as text.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The parameters of a team with their values.
#[derive(Default)]
pub(super) struct Parameters {
    /// Without a value there is a fault already.
    values: BTreeMap<String, Option<Value>>,
}

impl Parameters {
    /// Those that `files` declare, with the values of `set`. Appends what is wrong to `faults`.
    pub(super) fn new(files: &SourceFiles, set: &[ParameterValue], faults: &mut FaultLog) -> Self {
        let mut declared = BTreeMap::new();
        let mut values = BTreeMap::new();
        for at in &files.precedence {
            let file = &files.files[*at];
            for (name, declaration) in declarations(file, *at, faults) {
                values.insert(name.clone(), None);
                if let Some(new) = declaration {
                    add(&mut declared, name, new, faults);
                }
            }
        }
        for (at, ParameterValue { name, .. }) in set.iter().enumerate() {
            let fault = |what| ConfigFault { file: "--set".into(), line: None, key: name.clone(), what };
            if !values.contains_key(name) {
                faults.push(fault(undeclared(name, values.keys())));
            } else if set[..at].iter().any(|other| other.name == *name) {
                faults.push(fault("is set twice".to_owned()));
            }
        }
        for (name, declared) in declared {
            let given = set.iter().find(|given| given.name == name).map(|given| given.value.as_str());
            match declared.value(&name, given) {
                Ok(value) => drop(values.insert(name, Some(value))),
                Err(what) => faults.push(ConfigFault { what, ..declared.at }),
            }
        }
        Self { values }
    }

    /// The value of the parameter `name`; `None` if there is a fault in its place.
    pub(super) fn value(&self, name: &str) -> Result<Option<&Value>, String> {
        let value = self.values.get(name);
        let value =
            value.ok_or_else(|| format!("${{param.{name}}}: {}", undeclared(name, self.values.keys())))?;
        Ok(value.as_ref())
    }

    pub(super) fn into_values(self) -> BTreeMap<String, Value> {
        self.values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// The declarations of a file, by name; `None` for a faulty one.
fn declarations(
    file: &SourceFile,
    at: usize,
    faults: &mut FaultLog,
) -> Vec<(String, Option<DeclaredParameter>)> {
    let mut found = Vec::new();
    let schema = schema::of::<BTreeMap<String, ParameterFile>>();
    for node in &file.parameters {
        let mut node = node.clone();
        faults.unset(&file.name, Substitution::of_variables().apply(&mut node));
        let mut unknown = Vec::new();
        unknown_keys::find(&node, &schema, "parameters", &mut unknown);
        let is_known = unknown.is_empty();
        unknown.into_iter().for_each(|unknown| faults.push(unknown.fault(&file.name)));
        let YamlValue::Map(members) = &node.value else {
            faults.push(file.location(&node, "parameters").fault("", "must be a map of settings"));
            continue;
        };
        for (name, line, declaration) in members {
            let location = file.location(declaration, &format!("parameters.{name}"));
            let declared = DeclaredParameter::new(&location, (file.root, at), (name, *line));
            let declared = declared.map_err(|fault| is_known.then(|| faults.push(fault)));
            found.push((name.clone(), declared.ok()));
        }
    }
    found
}

fn add(
    declared: &mut BTreeMap<String, DeclaredParameter>,
    name: String,
    new: DeclaredParameter,
    faults: &mut FaultLog,
) {
    match declared.get(&name) {
        // An including file declares it anew.
        Some(other) if other.file.0 != new.file.0 || other.file == new.file => {
            let line = other.at.line.unwrap_or_default();
            let what = format!("is declared twice, see {}:{line}", other.at.file);
            faults.push(ConfigFault { what, ..new.at });
        }
        Some(_) | None => drop(declared.insert(name, new)),
    }
}

fn undeclared<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let known: Vec<_> = known.map(String::as_str).collect();
    match (words::nearest(name, known.iter().copied()), known.is_empty()) {
        (Some(nearest), _) => format!("no file declares the parameter {name}; did you mean `{nearest}`?"),
        (None, true) => format!("no file declares the parameter {name}; there is none under `parameters`"),
        (None, false) => format!("no file declares the parameter {name}; there are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{BrainConfig, ProviderKeys, Team, TimingPreset};
    use serde_json::json;

    fn load(text: &str, set: &[&str]) -> Result<Team, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("team.yaml");
        std::fs::write(&path, text).unwrap();
        let set: Vec<_> = set.iter().map(|set| set.parse().unwrap()).collect();
        let team = Team::load_with(&[path], TimingPreset::Default, ProviderKeys::Required, &set);
        team.map_err(|errors| errors.to_string().replace(&format!("{}/", dir.path().display()), ""))
    }

    const TEAM: &str = "
parameters:
  topic: { description: What it is about }
  count: { type: integer, default: 2 }
  kind: { enum: [fast, slow], default: fast }
agents:
  - agent: a
    description: ${param.topic}
    bid: { maxParallel: '${param.count}' }
    brain: { exec: [cat, '${param.kind} ${param.count}'] }
";

    #[test]
    fn values_have_their_types_and_do_not_change_the_structure() {
        let odd = "true: [x]\n  brain: { echo: {} }";
        let team = load(TEAM, &[&format!("topic={odd}"), "count=5"]).unwrap();
        let agent = &team.agents[0];
        assert_eq!((agent.settings.description.as_str(), agent.settings.bid.max_parallel), (odd, Some(5)));
        let BrainConfig::Exec { command, .. } = &agent.brain else { panic!("exec") };
        assert_eq!(command, &["cat", "fast 5"]);
        assert_eq!(json!(team.parameters), json!({ "topic": odd, "count": 5, "kind": "fast" }));
        let team = load(TEAM, &["topic=7"]).unwrap();
        assert_eq!(
            (team.agents[0].settings.description.as_str(), &team.parameters["topic"]),
            ("7", &json!("7"))
        );
    }

    #[test]
    fn a_fault_names_the_line_the_parameter_and_the_remedy() {
        for (set, expected) in [
            (
                &[][..],
                "team.yaml:3: parameters.topic: must be given, such as --set topic=VALUE: What it is about",
            ),
            (
                &["topic=x", "count=two"],
                "team.yaml:4: parameters.count: must be a whole number, --set says \"two\"",
            ),
            (&["topic=x", "kind=odd"], "team.yaml:5: parameters.kind: must be one of fast, slow, is \"odd\""),
            (
                &["topic=x", "topik=y"],
                "--set: topik: no file declares the parameter topik; did you mean `topic`?",
            ),
            (&["topic=x", "topic=y"], "--set: topic: is set twice"),
        ] {
            assert_eq!(load(TEAM, set).unwrap_err(), expected);
        }
        let agents = "agents: [{ agent: a, brain: { echo: {} } }]\n";
        for (text, expected) in [
            ("parameters: { x: { type: text } }\n", "team.yaml:1: parameters.x.type: "),
            (
                "parameters: { x: { defualt: 1 } }\n",
                "team.yaml:1: parameters.x.defualt: unknown key; did you mean `default`?",
            ),
            (
                "parameters:\n  x:\n    type: integer\n    default: a\n",
                "team.yaml:4: parameters.x.default: must be a whole number, is \"a\"",
            ),
            (
                "parameters: { x: { enum: [a], default: b } }\n",
                "team.yaml:1: parameters.x.default: must be one of a, is \"b\"",
            ),
            ("parameters: { x: { enum: [] } }\n", "team.yaml:1: parameters.x.enum: lists no value"),
            (
                "parameters: { 'a b': {} }\n",
                "team.yaml:1: parameters.a b: the name of a parameter has letters",
            ),
            ("parameters: [x]\n", "team.yaml:1: parameters: must be a map of settings"),
            (
                "parameters: { x: { default: '${param.y}' } }\n",
                "team.yaml:1: `include` and `parameters` take variables",
            ),
            (
                "---\nparameters: { x: { default: 1 } }\n---\nparameters: { x: { default: 2 } }\n---\n",
                "team.yaml:4: parameters.x: is declared twice, see team.yaml:2",
            ),
        ] {
            let fault = load(&format!("{text}{agents}"), &[]).unwrap_err();
            assert!(fault.starts_with(expected) && fault.lines().count() == 1, "{fault}");
        }
        let text = "parameters: { topic: { default: x } }\nagents:\n- agent: a\n  port: ${param.topc}\n  brain: { echo: {} }\n";
        assert_eq!(
            load(text, &[]).unwrap_err(),
            "team.yaml:4: ${param.topc}: no file declares the parameter topc; did you mean `topic`?"
        );
        assert!("topic".parse::<super::ParameterValue>().unwrap_err().contains("name=value"));
    }

    #[test]
    fn an_including_file_declares_a_parameter_anew() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("team.yaml", "include: [b.yaml]\nparameters: { name: { default: over } }\n");
        write(
            "b.yaml",
            "parameters: { name: {}, other: { default: o } }\nagents: [{ agent: '${param.name}', brain: { echo: {} } }]\n",
        );
        let path = dir.path().join("team.yaml");
        let load = |paths: &[std::path::PathBuf]| Team::load(paths, TimingPreset::Default);
        let team = load(std::slice::from_ref(&path)).unwrap();
        assert_eq!((team.agents[0].id.as_str(), team.parameters.len()), ("over", 2));
        write("c.yaml", "parameters: { name: { default: c } }\n");
        let fault = load(&[path, dir.path().join("c.yaml")]).unwrap_err().to_string();
        assert!(fault.contains("c.yaml:1: parameters.name: is declared twice, see "), "{fault}");
    }
}
