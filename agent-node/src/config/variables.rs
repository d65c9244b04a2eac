//! Substitutes `${VAR}`, `${VAR:-default}` and `${param.name}` in values; `$${` stands for `${`. Keys and comments are not changed.

use super::{
    parameters::{Parameters, plain},
    yaml::{YamlNode, YamlValue},
};

pub(super) fn from_process(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The name of an environment variable of this process with this value.
pub(super) fn with_value(value: &str) -> Option<String> {
    let mut variables =
        std::env::vars_os().filter_map(|(name, of)| (of == value).then(|| name.into_string()));
    variables.find_map(Result::ok)
}

/// A line that lacks a value.
#[derive(Debug)]
pub(super) struct Unset {
    pub(super) line: u64,
    /// What is wrong; `None` if there is a fault about it already.
    pub(super) what: Option<String>,
}

/// Where values come from.
pub(super) struct Substitution<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    parameters: Option<&'a Parameters>,
}

/// The beginning of the name of a parameter, which is no name of a variable.
const PARAMETER: &str = "param.";

impl<'a> Substitution<'a> {
    /// Variables of this process.
    pub(super) fn of_variables() -> Self {
        Self { lookup: &from_process, parameters: None }
    }

    /// These, and `parameters`.
    pub(super) fn with_parameters(parameters: &'a Parameters) -> Self {
        Self { lookup: &from_process, parameters: Some(parameters) }
    }

    /// Substitutes in every text below `node`; returns what has no value.
    pub(super) fn apply(&self, node: &mut YamlNode) -> Vec<Unset> {
        let mut unset = Vec::new();
        self.apply_below(node, &mut unset);
        unset
    }

    fn apply_below(&self, node: &mut YamlNode, unset: &mut Vec<Unset>) {
        match &mut node.value {
            YamlValue::Text(text) if text.contains("${") => match self.value(text) {
                Ok(value) => node.value = value,
                Err(what) => unset.push(Unset { line: node.line, what }),
            },
            YamlValue::List(items) => items.iter_mut().for_each(|item| self.apply_below(item, unset)),
            YamlValue::Map(members) => {
                members.iter_mut().for_each(|(_, _, value)| self.apply_below(value, unset))
            }
            _ => {}
        }
    }

    /// The value of a scalar. One that is a parameter alone has its type; text with a parameter in it is text.
    fn value(&self, text: &str) -> Result<YamlValue, Option<String>> {
        let whole = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        if let Some(name) =
            whole.and_then(|name| name.strip_prefix(PARAMETER)).filter(|name| !name.contains('}'))
        {
            return Ok(YamlValue::of_scalar(self.parameter(name)?));
        }
        let (mut out, mut rest, mut has_parameters) = (String::new(), text, false);
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                out.push_str(before);
                out.push_str("${");
                rest = &from[2..];
                continue;
            }
            out.push_str(before);
            let end = from.find('}').ok_or_else(|| "has a ${ without its }".to_owned())?;
            match from[2..end].strip_prefix(PARAMETER) {
                Some(name) => {
                    out.push_str(&plain(self.parameter(name)?));
                    has_parameters = true;
                }
                None => out.push_str(&self.variable(&from[2..end])?),
            }
            rest = &from[end + 1..];
        }
        out.push_str(rest);
        Ok(if has_parameters { YamlValue::Text(out) } else { typed(out) })
    }

    fn parameter(&self, name: &str) -> Result<&'a serde_json::Value, Option<String>> {
        let parameters = self.parameters.ok_or_else(|| {
            "`include` and `parameters` take variables of the environment, and no parameters".to_owned()
        })?;
        parameters.value(name)?.ok_or(None)
    }

    /// The value of `NAME` or `NAME:-default`.
    fn variable(&self, reference: &str) -> Result<String, String> {
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(format!(
                "has \"${{{reference}}}\", which names no variable; write $${{ for a plain ${{"
            ));
        }
        if default.is_some_and(|default| default.contains("${")) {
            return Err(format!("has \"${{{reference}}}\": a default can't refer to another value"));
        }
        let value = (self.lookup)(name).filter(|value| default.is_none() || !value.is_empty());
        value.or_else(|| default.map(str::to_owned)).ok_or_else(|| {
            format!("needs the environment variable {name}, which is not set; ${{{name}:-default}} gives it a default")
        })
    }
}

/// The text as a boolean or number if it is exactly one.
fn typed(text: String) -> YamlValue {
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(serde_json::Value::Number(number)) if number.to_string() != text => YamlValue::Text(text),
        Ok(scalar @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_))) => {
            YamlValue::of_scalar(&scalar)
        }
        _ => YamlValue::Text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand_test(text: &str) -> Result<String, String> {
        let lookup = |name: &str| match name {
            "SET" => Some("value".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let substitution = Substitution { lookup: &lookup, parameters: None };
        match substitution.value(text).map_err(|what| what.unwrap_or_default())? {
            YamlValue::Text(text) => Ok(text),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn variables_and_defaults_are_substituted() {
        for (text, expected) in [
            ("a ${SET} b", "a value b"),
            ("${UNSET:-x y}", "x y"),
            ("${EMPTY:-x}", "x"),
            ("${EMPTY}", ""),
            ("${UNSET:-}", ""),
            ("$${SET} $SET $", "${SET} $SET $"),
            ("${SET}${SET}", "valuevalue"),
        ] {
            assert_eq!(expand_test(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, part) in [
            ("${UNSET}", "UNSET, which is not set"),
            ("${SET", "without its }"),
            ("${a b}", "\"${a b}\", which names no variable"),
            ("${SET:-${UNSET}}", "can't refer to another value"),
        ] {
            assert!(expand_test(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn a_variable_with_an_exact_number_is_a_number() {
        assert_eq!(typed("8001".into()), YamlValue::Number(8001.into()));
        assert_eq!(typed("true".into()), YamlValue::Bool(true));
        for text in ["007", "1.20", "", "null", "[1]"] {
            assert_eq!(typed(text.into()), YamlValue::Text(text.into()));
        }
    }
}
