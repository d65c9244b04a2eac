//! `${VAR}` and `${VAR:-default}` in values; `$${` is a plain `${`. Keys and comments are left alone.

use super::tree::{Is, Node};

/// A variable of this process.
pub(super) fn from_process(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Puts variables into every text below `node`, and reports those that are not set, each with its line.
pub(super) fn substitute(
    node: &mut Node,
    lookup: &dyn Fn(&str) -> Option<String>,
    missing: &mut Vec<(u64, String)>,
) {
    match &mut node.is {
        Is::Text(text) if text.contains("${") => match expand(text, lookup) {
            Ok(expanded) => node.is = typed(expanded),
            Err(problem) => missing.push((node.line, problem)),
        },
        Is::List(items) => items.iter_mut().for_each(|item| substitute(item, lookup, missing)),
        Is::Map(members) => members.iter_mut().for_each(|(_, _, value)| substitute(value, lookup, missing)),
        Is::Null | Is::Bool(_) | Is::Number(_) | Is::Text(_) => {}
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

/// What YAML would have made of the text, where that loses nothing.
fn typed(text: String) -> Is {
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(serde_json::Value::Bool(bool)) => Is::Bool(bool),
        Ok(serde_json::Value::Number(number)) if number.to_string() == text => Is::Number(number),
        _ => Is::Text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<String, String> {
        expand(text, &|name| match name {
            "SET" => Some("value".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn variables_and_defaults_are_put_in() {
        for (text, expected) in [
            ("a ${SET} b", "a value b"),
            ("${UNSET:-x y}", "x y"),
            ("${EMPTY:-x}", "x"),
            ("${EMPTY}", ""),
            ("${UNSET:-}", ""),
            ("$${SET} $SET $", "${SET} $SET $"),
            ("${SET}${SET}", "valuevalue"),
        ] {
            assert_eq!(with(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, part) in [
            ("${UNSET}", "UNSET, which is not set"),
            ("${SET", "without its }"),
            ("${a b}", "names no variable"),
        ] {
            assert!(with(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn a_number_from_a_variable_is_a_number_where_nothing_is_lost() {
        assert_eq!(typed("8001".into()), Is::Number(8001.into()));
        assert_eq!(typed("true".into()), Is::Bool(true));
        for text in ["007", "1.20", "", "null", "[1]"] {
            assert_eq!(typed(text.into()), Is::Text(text.into()));
        }
    }
}
