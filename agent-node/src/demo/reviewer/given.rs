//! The code that a question brings: as artifacts, as input, or in its text.

use crate::{brain::Ask, demo::asked};
use serde_json::Value;

/// The files to review, each with its name.
pub(super) fn files(ask: &Ask) -> Vec<(String, String)> {
    let texts =
        asked::artifacts(ask).iter().map(|artifact| (asked::name(artifact).to_owned(), artifact.as_text()));
    let is_code = |(name, text): &(String, String)| {
        let is_prose = [".md", ".txt", ".json", ".csv"].iter().any(|end| name.ends_with(end));
        !is_prose && !text.trim().is_empty()
    };
    let mut files: Vec<_> = texts.filter(is_code).collect();
    if let Some(input) = asked::input(ask) {
        from_input(input, &mut files);
    }
    if files.is_empty() {
        files = in_fences(asked::text(ask));
    }
    if files.is_empty() {
        files.extend(bare(asked::text(ask)).map(|text| ("code".to_owned(), text)));
    }
    files
}

fn from_input(input: &Value, files: &mut Vec<(String, String)>) {
    match input {
        Value::String(text) => match in_fences(text) {
            fenced if fenced.is_empty() => files.push(("input".to_owned(), text.clone())),
            fenced => files.extend(fenced),
        },
        Value::Array(list) => list.iter().take(64).for_each(|item| from_input(item, files)),
        Value::Object(map) => {
            let text =
                ["code", "source", "text", "content", "body"].iter().find_map(|key| map.get(*key)?.as_str());
            let name = ["name", "file", "filename", "path"].iter().find_map(|key| map.get(*key)?.as_str());
            match text {
                Some(text) => files.push((name.unwrap_or("input").to_owned(), text.to_owned())),
                // { "main.rs": "fn main() {}" }
                None => files.extend(
                    map.iter()
                        .filter(|(name, _)| name.contains('.'))
                        .filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned()))),
                ),
            }
            if let Some(more) =
                map.get("files").or_else(|| map.get("artifacts")).filter(|more| more.is_array())
            {
                from_input(more, files);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Everything between lines of three backticks, named after the language they give.
fn in_fences(text: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    for (at, block) in text.split("```").enumerate() {
        if at % 2 == 1 {
            let (language, code) = block.split_once('\n').unwrap_or(("", block));
            let language = language.trim();
            let ending = match language {
                "rust" => "rs",
                "python" => "py",
                "javascript" => "js",
                "typescript" => "ts",
                other => other,
            };
            let dot = if ending.is_empty() { "" } else { "." };
            let number = if files.is_empty() { String::new() } else { format!("-{}", files.len() + 1) };
            if !code.trim().is_empty() {
                files.push((format!("code{number}{dot}{ending}"), code.to_owned()));
            }
        }
    }
    files
}

/// Code without fences: what follows the last colon before it, if it looks like code.
fn bare(text: &str) -> Option<String> {
    const SIGNS: [&str; 14] = [
        "fn ",
        "def ",
        "function ",
        "class ",
        "=> ",
        "let ",
        "const ",
        "import ",
        "#include",
        "public ",
        "return ",
        "SELECT ",
        "print(",
        "var ",
    ];
    let signs: Vec<_> = SIGNS.iter().filter_map(|sign| text.find(sign)).collect();
    let marks = text.matches(['{', '}', ';', '(', ')', '=']).count();
    let first = signs.iter().min()?;
    let start = text[..*first].rfind(['\n', ':']).map_or(0, |at| at + 1);
    (marks >= 3).then(|| text[start..].trim_start_matches(['\n', ' ']).to_owned())
}
