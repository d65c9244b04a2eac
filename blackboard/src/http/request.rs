//! Parses requests; a problem names the member that is wrong.

use actix_web::{HttpRequest, http::header::HeaderMap, web};
use protocol::{
    ids::{Capability, TaskId},
    json,
    principal::{Principal, RootProof, SenderProof},
    problem::{Problem, Reason},
    signal::{BAD_CURSOR, Cursor, Selector, Signal},
    task::OpenTaskKey,
    time::WallTime,
    trace::{TRACEPARENT, TraceContext},
    words,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::time::{SystemTime, UNIX_EPOCH};

/// A parsed query string.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SignalQuery {
    pub selector: Selector,
    pub after: Option<Cursor>,
    /// The last revision of a range.
    pub until: Option<u64>,
    pub limit: Option<usize>,
}

/// Parses a body as a `T`.
pub(super) fn parse_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    deserialize_members(json::parse_object(bytes, json::MAX_DEPTH)?)
}

/// Parses a signal. If absent, `id` is minted, `from` is the caller, and `at` is the present time. How a user was proved is said here.
/// Returns a user's unknown members, too, as warnings; agents of a later version may know more.
pub(super) fn parse_signal(
    bytes: &[u8],
    (by, proof): (&Principal, SenderProof),
) -> Result<(Signal, Vec<String>), Problem> {
    let mut members = json::parse_object(bytes, json::MAX_DEPTH)?;
    fill_defaults(&mut members, by);
    if by.is_of_mesh() {
        return Ok((deserialize_members(members)?, Vec::new()));
    }
    if members.contains_key("rootProof") {
        let message = "rootProof: only an agent says how the one for whom it publishes was proved";
        return Err(Problem::new(Reason::Forbidden, message).with("field", "rootProof"));
    }
    let warnings = unknown_members(&members);
    let signal = deserialize_members(members)?;
    Ok((Signal { root_proof: Some(RootProof::of(by, proof)), ..signal }, warnings))
}

/// The members of a signal.
const MEMBERS: [&str; 10] =
    ["id", "type", "from", "by", "root", "subject", "taskId", "capability", "refs", "at"];

/// The most unknown members that an answer names.
const MAX_WARNINGS: usize = 8;

/// A warning for each unknown member, at most [`MAX_WARNINGS`].
fn unknown_members(members: &Map<String, Value>) -> Vec<String> {
    let unknown: Vec<_> = members.keys().filter(|name| !MEMBERS.contains(&name.as_str())).collect();
    let left_out = unknown.len().saturating_sub(MAX_WARNINGS);
    let more = (left_out > 0).then(|| format!("and {left_out} more unknown members"));
    let warning = |name: &String| {
        let hint = words::nearest(name, MEMBERS).map(|known| format!("; did you mean {known}?"));
        let name: String = name.chars().take(64).collect();
        format!("{name}: an unknown member; it has no effect{}", hint.unwrap_or_default())
    };
    unknown.into_iter().take(MAX_WARNINGS).map(warning).chain(more).collect()
}

/// Stores the request's `traceparent` in the signal, unless it has one.
pub(super) fn attach_trace(signal: &mut Signal, headers: &HeaderMap) {
    let text = |name: &str| headers.get(name).and_then(|header| header.to_str().ok());
    let parent = text(TRACEPARENT).filter(|parent| TraceContext::parse(parent).is_some());
    if let (Some(parent), false) = (parent, signal.refs.contains_key(TRACEPARENT)) {
        signal.refs.insert(TRACEPARENT.to_owned(), parent.into());
    }
}

fn fill_defaults(members: &mut Map<String, Value>, by: &Principal) {
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)).to_string()
    };
    members.entry("id").or_insert_with(|| uuid::Uuid::now_v7().to_string().into());
    members.entry("from").or_insert_with(|| by.id().into());
    members.entry("at").or_insert_with(|| now().into());
}

pub(super) fn deserialize_members<T: DeserializeOwned>(members: Map<String, Value>) -> Result<T, Problem> {
    serde_path_to_error::deserialize(Value::Object(members)).map_err(|error| {
        let field = error.path().to_string();
        let problem = match field.as_str() {
            "." => return invalid(error.inner()),
            _ => invalid(format!("{field}: {}", error.inner())),
        };
        problem.with("field", field)
    })
}

/// Parses a query string. Every name may be repeated; types and capabilities may be comma-separated lists.
pub(super) fn parse_query(text: &str) -> Result<SignalQuery, Problem> {
    let pairs: Vec<(String, String)> = web::Query::from_query(text)
        .map(web::Query::into_inner)
        .map_err(|error| invalid(format!("the query cannot be read: {error}")))?;
    let mut query = SignalQuery::default();
    for (name, value) in &pairs {
        match name.as_str() {
            "type" => query.selector.types.extend(value.split(',').map(str::to_owned)),
            "capability" => {
                for name in value.split(',') {
                    let capability =
                        Capability::parse(name).map_err(|bad| invalid_field("capability", bad))?;
                    query.selector.capabilities.push(capability);
                }
            }
            "taskId" => {
                query.selector.task_id =
                    Some(TaskId::parse(value).map_err(|bad| invalid_field("taskId", bad))?);
            }
            "after" => query.after = Some(parse_cursor("after", value)?),
            "until" => {
                query.until = Some(value.parse().map_err(|_| invalid_field("until", "must be a revision"))?);
            }
            "limit" => {
                query.limit =
                    Some(value.parse().map_err(|_| invalid_field("limit", "must be a whole number"))?);
            }
            other => {
                let other: String = other.chars().take(80).collect();
                let message = format!(
                    "{other:?} is not asked here: type, capability, taskId, after, until and limit are"
                );
                return Err(invalid(message));
            }
        }
    }
    Ok(query)
}

/// The open task that a request about a claim names: its id in the path, and its `publisher` in the query. Without one it
/// is the caller's own.
pub(super) fn claimed_task(request: &HttpRequest, by: &Principal) -> Result<OpenTaskKey, Problem> {
    let task = request.match_info().get("task").unwrap_or_default();
    let task_id = TaskId::parse(task).map_err(|bad| invalid(bad).with("field", "task"))?;
    let query: Vec<(String, String)> = web::Query::from_query(request.query_string())
        .map(web::Query::into_inner)
        .map_err(|error| invalid(format!("the query cannot be read: {error}")))?;
    let mut publisher = by.clone();
    for (name, value) in query {
        if name != "publisher" {
            let name: String = name.chars().take(80).collect();
            return Err(invalid(format!("{name:?} is not asked here: publisher is")));
        }
        publisher = Principal::try_from(value).map_err(|bad| invalid_field("publisher", bad))?;
    }
    Ok(OpenTaskKey { publisher, task_id })
}

/// Parses a cursor.
pub(super) fn parse_cursor(field: &'static str, text: &str) -> Result<Cursor, Problem> {
    Cursor::parse(text.trim()).ok_or_else(|| invalid_field(field, BAD_CURSOR))
}

pub(super) fn invalid_field(field: &'static str, why: impl std::fmt::Display) -> Problem {
    invalid(format!("{field}: {why}")).with("field", field)
}

pub(super) fn invalid(message: impl ToString) -> Problem {
    Problem::new(Reason::InvalidField, message.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local() -> (&'static Principal, SenderProof) {
        static LOCAL: std::sync::LazyLock<Principal> = std::sync::LazyLock::new(Principal::local_user);
        (&LOCAL, SenderProof::Address)
    }

    #[test]
    fn a_problem_names_the_wrong_member() {
        let refused = |text: &str| {
            let problem = parse_signal(text.as_bytes(), local()).unwrap_err();
            problem.metadata.iter().find(|(key, _)| *key == "field").map(|(_, field)| field.clone())
        };
        assert_eq!(refused(r#"{"type":"task.nonsense"}"#).as_deref(), Some("type"));
        assert_eq!(refused(r#"{"type":"help.needed","from":"../x"}"#).as_deref(), Some("from"));
        assert_eq!(refused(r#"{"type":"help.needed","taskId":7}"#).as_deref(), Some("taskId"));
        assert_eq!(refused(r#"{"type":"help.needed","at":"soon"}"#).as_deref(), Some("at"));
        assert!(parse_signal(b"[]", local()).is_err());
        let least = parse_signal(br#"{"type":"help.needed"}"#, local()).unwrap();
        assert_eq!((least.0.from.as_str(), least.1.len()), ("local", 0));
        assert_eq!(least.0.root_proof, Some(RootProof::Local), "how a user was proved is the board's to say");
        let forged = parse_signal(br#"{"type":"help.needed","rootProof":"token"}"#, local()).unwrap_err();
        assert_eq!(forged.reason, Reason::Forbidden);
    }

    #[test]
    fn unknown_members_of_a_users_signal_are_named_with_the_nearest_known_one() {
        let text =
            br#"{"type":"help.needed","from":"b-1","subjct":"x","taskID":"t","zzz":1,"refs":{"any":1}}"#;
        let (_, warnings) = parse_signal(text, local()).unwrap();
        assert_eq!(
            warnings,
            [
                "subjct: an unknown member; it has no effect; did you mean subject?",
                "taskID: an unknown member; it has no effect; did you mean taskId?",
                "zzz: an unknown member; it has no effect",
            ]
        );
        let agent = Principal::Agent("b-1".to_owned().try_into().unwrap());
        assert_eq!(
            parse_signal(text, (&agent, SenderProof::Credential)).unwrap().1,
            [""; 0],
            "a later version may know more"
        );
        let many: Map<_, _> = (0..10).map(|at| (format!("x{at}"), Value::Null)).collect();
        let named = unknown_members(&many);
        assert_eq!((named.len(), named[8].as_str()), (9, "and 2 more unknown members"));
    }

    #[test]
    fn a_signal_takes_the_trace_of_its_request_unless_it_has_one() {
        let parent = |n: u8| format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333{n}-01");
        let mut headers = HeaderMap::new();
        let traceparent = |refs: &str, headers: &HeaderMap| {
            let text = format!(r#"{{"type":"task.available","refs":{refs}}}"#);
            let (mut signal, _) = parse_signal(text.as_bytes(), local()).unwrap();
            attach_trace(&mut signal, headers);
            signal.refs.get(TRACEPARENT).and_then(|value| value.as_str().map(str::to_owned))
        };
        assert_eq!(traceparent("{}", &headers), None);
        let name = actix_web::http::header::HeaderName::from_static(TRACEPARENT);
        headers.insert(name.clone(), parent(1).parse().unwrap());
        assert_eq!(traceparent("{}", &headers), Some(parent(1)));
        let refs = format!(r#"{{"traceparent":"{}"}}"#, parent(2));
        assert_eq!(traceparent(&refs, &headers), Some(parent(2)));
        headers.insert(name, "odd".parse().unwrap());
        assert_eq!(traceparent("{}", &headers), None);
    }

    #[test]
    fn a_query_is_parsed_or_refused() {
        let parsed = parse_query(
            "type=task.*&type=help.needed,acme.x&capability=rest&taskId=t-1&after=7&until=9&limit=3",
        )
        .unwrap();
        assert_eq!(parsed.selector.types, ["task.*", "help.needed", "acme.x"]);
        assert_eq!(
            (parsed.after, parsed.until, parsed.limit, parsed.selector.capabilities.len()),
            (Some(7.into()), Some(9), Some(3), 1)
        );
        let too_large = "after=18446744073709551616";
        for bad in ["after=-1", "limit=x", "until=x", "capability=../", "taskId=", "kind=task.*", too_large] {
            assert_eq!(parse_query(bad).unwrap_err().reason, Reason::InvalidField, "{bad}");
        }
    }
}
