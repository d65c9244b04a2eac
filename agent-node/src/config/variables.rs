//! Substitutes `${VAR}` and `${VAR:-default}` in values; `$${` stands for `${`. Keys and comments are not changed.

use super::yaml::{YamlNode, YamlValue};

pub(super) fn from_process(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The name of an environment variable of this process with this value.
pub(super) fn with_value(value: &str) -> Option<String> {
    let mut variables =
        std::env::vars_os().filter_map(|(name, of)| (of == value).then(|| name.into_string()));
    variables.find_map(Result::ok)
}

/// Substitutes variables in every text below `node`. Collects the line and message of each failure.
pub(super) fn substitute(
    node: &mut YamlNode,
    lookup: &dyn Fn(&str) -> Option<String>,
    missing: &mut Vec<(u64, String)>,
) {
    match &mut node.value {
        YamlValue::Text(text) if text.contains("${") => match expand(text, lookup) {
            Ok(expanded) => node.value = typed(expanded),
            Err(problem) => missing.push((node.line, problem)),
        },
        YamlValue::List(items) => items.iter_mut().for_each(|item| substitute(item, lookup, missing)),
        YamlValue::Map(members) => {
            members.iter_mut().for_each(|(_, _, value)| substitute(value, lookup, missing))
        }
        _ => {}
    }
}

fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &from[2..];
            continue;
        }
        out.push_str(before);
        let end = from.find('}').ok_or("has a ${ without its }")?;
        let (name, default) = match from[2..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&from[2..end], None),
        };
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(format!(
                "has {:?}, which names no variable; write $${{ for a plain ${{",
                &from[..=end]
            ));
        }
        let value = lookup(name).filter(|value| default.is_none() || !value.is_empty());
        let value = value.or_else(|| default.map(str::to_owned));
        out.push_str(&value.ok_or_else(|| {
            format!("needs the environment variable {name}, which is not set; ${{{name}:-default}} gives it a default")
        })?);
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The text as a boolean or number if it is exactly one.
fn typed(text: String) -> YamlValue {
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(serde_json::Value::Bool(bool)) => YamlValue::Bool(bool),
        Ok(serde_json::Value::Number(number)) if number.to_string() == text => YamlValue::Number(number),
        _ => YamlValue::Text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand_test(text: &str) -> Result<String, String> {
        expand(text, &|name| match name {
            "SET" => Some("value".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
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
            ("${a b}", "names no variable"),
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
