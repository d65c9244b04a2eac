//! The query string of a page or a stream of entries.

use crate::{
    http::request::{invalid, invalid_field},
    spaces::{EntryOrder, EntryQuery, FindingsOf},
};
use actix_web::web;
use protocol::{ids::TaskId, principal::Principal, problem::Problem, words};
use serde::de::{DeserializeOwned, IntoDeserializer, value::Error as ValueError};
use std::collections::BTreeSet;

/// What a query may ask.
const NAMES: [&str; 11] =
    ["kind", "status", "type", "author", "tag", "text", "session", "sealed", "order", "after", "limit"];

/// The query and its limit. Every name may be repeated; kinds, states, types and tags may be comma-separated lists.
pub(super) fn parse(text: &str) -> Result<(EntryQuery, Option<usize>), Problem> {
    let pairs: Vec<(String, String)> = web::Query::from_query(text)
        .map(web::Query::into_inner)
        .map_err(|error| invalid(format!("the query cannot be read: {error}")))?;
    let (mut query, mut limit) = (EntryQuery::default(), None);
    for (name, value) in &pairs {
        match name.as_str() {
            "kind" => query.kinds.append(&mut words_of("kind", value)?),
            "status" => query.states.append(&mut words_of("status", value)?),
            "type" => query.types.append(&mut words_of("type", value)?),
            "tag" => query.tags.extend(value.split(',').map(str::to_owned)),
            "author" => query.author = Some(author(value)?),
            "text" => query.text = Some(value.clone()),
            "order" => {
                query.order = match value.as_str() {
                    "newest" => EntryOrder::Newest,
                    "oldest" => EntryOrder::Oldest,
                    "importance" => EntryOrder::Importance,
                    _ => return Err(invalid_field("order", "must be newest, oldest or importance")),
                };
            }
            "session" => query.findings = FindingsOf::Session(session("session", value)?),
            "sealed" => query.sealed = Some(session("sealed", value)?),
            "after" => query.after = Some(value.clone()),
            "limit" => {
                limit = Some(value.parse().map_err(|_| invalid_field("limit", "must be a whole number"))?);
            }
            other => {
                let hint = words::nearest(other, NAMES).map(|known| format!("; did you mean {known}?"));
                let other: String = other.chars().take(80).collect();
                let (names, hint) = (NAMES.join(", "), hint.unwrap_or_default());
                return Err(invalid(format!("{other:?} is not asked here, these are: {names}{hint}")));
            }
        }
    }
    Ok((query, limit))
}

/// The words of a comma-separated list.
fn words_of<T: DeserializeOwned + Ord>(field: &'static str, text: &str) -> Result<BTreeSet<T>, Problem> {
    text.split(',')
        .map(|word| {
            T::deserialize(word.into_deserializer()).map_err(|error: ValueError| invalid_field(field, error))
        })
        .collect()
}

fn session(field: &'static str, text: &str) -> Result<TaskId, Problem> {
    TaskId::parse(text).map_err(|bad| invalid_field(field, bad))
}

/// An author: a principal, or an agent by its id.
fn author(text: &str) -> Result<Principal, Problem> {
    let text = if text.contains(':') { text.to_owned() } else { format!("agent:{text}") };
    Principal::try_from(text).map_err(|bad| invalid_field("author", bad))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        problem::Reason,
        spaces::{EntryKind, EntryState, EntryType},
    };

    #[test]
    fn a_query_is_parsed_or_refused_with_what_is_valid() {
        let (query, limit) =
            parse("kind=decision,memory&status=active&type=core-context&author=b-1&tag=a,b&limit=3").unwrap();
        assert_eq!(query.kinds, [EntryKind::Decision, EntryKind::Memory].into());
        assert_eq!(
            (query.states, query.types),
            ([EntryState::Active].into(), [EntryType::CoreContext].into())
        );
        assert_eq!((query.author.unwrap().to_string(), limit), ("agent:b-1".to_owned(), Some(3)));
        for (bad, named) in [
            ("kind=note", "finding"),
            ("status=new", "pending"),
            ("order=best", "importance"),
            ("limit=x", "whole number"),
            ("autor=x", "did you mean author?"),
        ] {
            let problem = parse(bad).unwrap_err();
            assert_eq!(problem.reason, Reason::InvalidField);
            assert!(problem.message.contains(named), "{problem}");
        }
    }
}
