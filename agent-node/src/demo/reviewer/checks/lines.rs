//! What one line shows by itself.

use super::{Finding, LONG_LINE, Language, Severity, Source, found, has_word};

pub(super) fn each(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in source.lines.iter().enumerate() {
        let code = source.code.get(at).map(String::as_str).unwrap_or_default();
        let comment = source.comments.get(at).map(String::as_str).unwrap_or_default();
        let mut say =
            |severity, rule: &str, message: String| findings.push(found(source, at, severity, rule, message));
        if let Some(name) = secret(line, code) {
            say(
                Severity::High,
                "hard-coded-secret",
                format!("{name} is written into the code; read it from the environment"),
            );
        }
        if sql_by_concatenation(line, code) {
            say(Severity::High, "sql-injection", "SQL is put together from pieces; use parameters".into());
        }
        if source.language == Language::Rust && has_word(code, "unsafe") {
            say(Severity::High, "unsafe", "unsafe code; say why it is sound, or do without".into());
        }
        if source.language != Language::Rust && has_call(code, "eval") {
            say(Severity::High, "eval", "eval runs whatever it is given".into());
        }
        if let Some(call) = panic(source, at, code) {
            say(
                Severity::Medium,
                "panic",
                format!("{call} ends the program when it goes wrong; return an error"),
            );
        }
        if source.language == Language::Python && code.trim() == "except:" {
            say(
                Severity::Medium,
                "bare-except",
                "a bare except swallows everything, interrupts included".into(),
            );
        }
        if ["TODO", "FIXME", "XXX"].iter().any(|mark| has_word(comment, mark)) {
            say(Severity::Low, "todo", "something is left to do".into());
        }
        let leftovers: &[&str] = match source.language {
            Language::Rust => &["dbg!"],
            Language::Script => &["console.log"],
            Language::Python | Language::CLike | Language::Sql => &[],
        };
        if let Some(left) = leftovers.iter().find(|left| code.contains(**left)) {
            say(Severity::Low, "debug-output", format!("{left} is left over from debugging"));
        }
        let length = line.chars().count();
        if length > LONG_LINE {
            say(Severity::Low, "long-line", format!("{length} characters; {LONG_LINE} are enough"));
        }
        if line.ends_with([' ', '\t']) {
            say(Severity::Low, "trailing-whitespace", "blanks at the end of the line".into());
        }
    }
    findings
}

fn has_call(code: &str, name: &str) -> bool {
    has_word(code, name) && code.contains(&format!("{name}("))
}

fn panic(source: &Source<'_>, at: usize, code: &str) -> Option<&'static str> {
    if source.language != Language::Rust || at >= source.tests_from {
        return None;
    }
    let calls = [".unwrap()", ".expect(", "panic!", "todo!", "unimplemented!", "unreachable!"];
    calls.into_iter().find(|call| code.contains(*call))
}

/// The name of a secret that is given a value in quotes.
fn secret(line: &str, code: &str) -> Option<&'static str> {
    let lower = code.to_lowercase();
    let names =
        ["password", "passwd", "secret", "api_key", "apikey", "access_token", "private_key", "auth_token"];
    // The code keeps the quotes but not what stands in them; a key of a map stands in quotes itself.
    let quoted_key = line.to_lowercase();
    let (name, at) = names.into_iter().find_map(|name| {
        let in_code = lower.find(name);
        let as_key = || quoted_key.find(&format!("\"{name}\":")).map(|at| at + 1);
        Some((name, in_code.or_else(as_key)?))
    })?;
    let rest = line.get(at + name.len()..)?;
    let value = rest.split_once(['=', ':']).map(|(_, value)| value)?;
    let quote = value.find(['"', '\''])?;
    let mark = value[quote..].chars().next()?;
    let content = value[quote + 1..].split(mark).next()?;
    let before = value[..quote].trim();
    let is_plain =
        before.is_empty() || matches!(before, "=" | "String::from(" | "&str =" | "str =" | "&'static str =");
    let is_placeholder = content.contains("${")
        || content.starts_with('<')
        || content.contains("env")
        || content.contains("***");
    (is_plain && content.len() >= 4 && !is_placeholder).then_some(name)
}

fn sql_by_concatenation(line: &str, code: &str) -> bool {
    let upper = line.to_uppercase();
    let is_sql = [("SELECT ", " FROM "), ("INSERT ", "INTO "), ("UPDATE ", " SET "), ("DELETE ", "FROM ")]
        .iter()
        .any(|(verb, with)| upper.contains(verb) && upper.contains(with));
    let in_quotes = code.contains(['"', '\'', '`']);
    let joins = code.contains("\" +")
        || code.contains("' +")
        || code.contains("\" %")
        || code.contains("' %")
        || code.contains(".format(");
    let fills = line.contains("${")
        || (code.contains("format!(") || code.contains("f\"") || code.contains("f'")) && line.contains('{');
    is_sql && in_quotes && (joins || fills)
}
