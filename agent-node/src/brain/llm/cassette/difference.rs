//! Says what a request differs in from the recorded ones.

use super::file::CassetteRequest;
use serde_json::Value;
use std::cmp::Reverse;

/// The members of a request, in the order in which people look at them.
const MEMBERS: [&str; 5] = ["model", "system", "tools", "outputSchema", "messages"];
const EXCERPT: usize = 80;
/// How many of them are before the difference.
const BEFORE: usize = 24;

/// The recorded request that is most like `wanted`: its line, and the first difference. That with the most equal messages at
/// its beginning is first, then that with the most other equal members.
pub(super) fn nearest<'a>(
    recorded: impl Iterator<Item = (usize, &'a CassetteRequest)>,
    wanted: &CassetteRequest,
) -> Option<(usize, String)> {
    let wanted_json = wanted.to_json();
    let scored = recorded.map(|(line, request)| {
        let pairs = request.messages.iter().zip(&wanted.messages);
        let messages = pairs.take_while(|(one, other)| one == other).count();
        let json = request.to_json();
        let members = MEMBERS.iter().filter(|name| json[**name] == wanted_json[**name]).count();
        let lengths = request.messages.len().abs_diff(wanted.messages.len());
        ((messages, members, Reverse(lengths), Reverse(line)), line, json)
    });
    let (_, line, json) = scored.max_by_key(|(score, _, _)| *score)?;
    let first = MEMBERS.iter().find_map(|name| difference(name, json.get(name), wanted_json.get(name)));
    Some((line, first.unwrap_or_else(|| "nothing".to_owned())))
}

/// The first difference at or below `path`.
fn difference(path: &str, recorded: Option<&Value>, wanted: Option<&Value>) -> Option<String> {
    match (recorded, wanted) {
        (recorded, wanted) if recorded == wanted => None,
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let mut names: Vec<_> = one.keys().chain(other.keys()).collect();
            names.sort();
            names
                .into_iter()
                .find_map(|name| difference(&format!("{path}.{name}"), one.get(name), other.get(name)))
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => (0..one.len().max(other.len()))
            .find_map(|at| difference(&format!("{path}[{at}]"), one.get(at), other.get(at))),
        (recorded, wanted) => {
            let texts = [recorded, wanted].map(|value| value.and_then(Value::as_str).unwrap_or_default());
            let pairs = texts[0].chars().zip(texts[1].chars());
            let same = pairs.take_while(|(one, other)| one == other).count();
            let from = if same > BEFORE { format!(" from character {}", same + 1) } else { String::new() };
            let [recorded, wanted] = [recorded, wanted].map(|value| excerpt(value, same));
            Some(format!("{path}{from}: recorded {recorded}, now {wanted}"))
        }
    }
}

/// The part of a text around the character `at`, quoted; of another value its beginning.
fn excerpt(value: Option<&Value>, at: usize) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let begin = at.saturating_sub(BEFORE);
    let part: String = text.chars().skip(begin).take(EXCERPT).collect();
    let more = if text.chars().count() > begin + EXCERPT { "…" } else { "" };
    let before = if begin > 0 { "…" } else { "" };
    let part = format!("{before}{part}{more}");
    if value.is_string() { format!("{part:?}") } else { part }
}
