//! What a tool server offers: its list of tools, page by page within bounds, and without what can't be read.

use super::{MAX_ANSWER, failure, failure::ServerFailure};
use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{ClientRequest, ListToolsRequest, ListToolsResult, PaginatedRequestParams, ServerResult, Tool},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The most pages of a list.
const MAX_PAGES: usize = 100;
/// The most tools of a server.
const MAX_TOOLS: usize = 5_000;

/// The tools of a server.
#[derive(Debug, Default)]
pub(in crate::brain::llm) struct ToolOffer {
    pub(in crate::brain::llm) tools: Vec<Tool>,
    /// Those that can't be used: the name of each, or its place in the list, and why.
    pub(in crate::brain::llm) left_out: Vec<(String, String)>,
}

/// All pages of the list of tools.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<ToolOffer, ServerFailure> {
    let too_many = |what: String| {
        let message = format!("does not list its tools: its list {what}");
        Err(failure::permanent(message))
    };
    // Before 2026-07-28 an empty cursor was no cursor for the usual clients.
    let is_old = peer.peer_info().is_some_and(|server| server.protocol_version.has_initialize());
    let mut offer = ToolOffer::default();
    let (mut cursors, mut cursor, mut bytes) = (BTreeSet::new(), None, 0);
    for _ in 0..MAX_PAGES {
        let page = page(peer, cursor).await?;
        let next = page.next_cursor.filter(|next| !(is_old && next.is_empty()));
        bytes += page
            .offer
            .tools
            .iter()
            .map(|tool| serde_json::to_vec(tool).map_or(0, |json| json.len()))
            .sum::<usize>();
        offer.tools.extend(page.offer.tools);
        offer.left_out.extend(page.offer.left_out);
        if offer.tools.len() + offer.left_out.len() > MAX_TOOLS {
            return too_many(format!("has more than {MAX_TOOLS} tools"));
        }
        if bytes > MAX_ANSWER {
            return too_many(format!("has more than {} MiB", MAX_ANSWER >> 20));
        }
        let Some(next) = next else { return Ok(offer) };
        if !cursors.insert(next.clone()) {
            return too_many("has the same cursor twice, so it has no end".to_owned());
        }
        cursor = Some(next);
    }
    too_many(format!("has more than {MAX_PAGES} pages"))
}

struct ToolPage {
    offer: ToolOffer,
    next_cursor: Option<String>,
}

async fn page(peer: &Peer<RoleClient>, cursor: Option<String>) -> Result<ToolPage, ServerFailure> {
    let said = |error: ServiceError| {
        let failure = failure::of_request(&error);
        ServerFailure { message: format!("does not list its tools: it {}", failure.message), ..failure }
    };
    let params = Some(PaginatedRequestParams::default().with_cursor(cursor));
    let request = ListToolsRequest { method: Default::default(), params, extensions: Default::default() };
    match peer.send_request(ClientRequest::ListToolsRequest(request)).await.map_err(said)? {
        ServerResult::ListToolsResult(ListToolsResult { tools, next_cursor, .. }) => {
            let (named, nameless): (Vec<_>, Vec<_>) =
                tools.into_iter().partition(|tool| !tool.name.is_empty());
            let left_out = nameless.iter().map(|_| ("a tool".to_owned(), "it has no name".to_owned()));
            let left_out = left_out.collect();
            Ok(ToolPage { offer: ToolOffer { tools: named, left_out }, next_cursor })
        }
        // The library takes a list with one bad tool for something else.
        ServerResult::CustomResult(result) => read(result.0).ok_or_else(|| {
            failure::permanent("does not list its tools: its answer is no list of tools".to_owned())
        }),
        _ => Err(said(ServiceError::UnexpectedResponse)),
    }
}

/// A page, tool by tool.
fn read(mut page: Value) -> Option<ToolPage> {
    let next_cursor = page["nextCursor"].as_str().map(str::to_owned);
    let Value::Array(tools) = page["tools"].take() else { return None };
    let mut offer = ToolOffer::default();
    for (place, tool) in tools.into_iter().enumerate() {
        let name = tool["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        match usable(tool) {
            Ok(tool) => offer.tools.push(tool),
            Err(why) => offer.left_out.push((name.unwrap_or_else(|| format!("tool {}", place + 1)), why)),
        }
    }
    Some(ToolPage { offer, next_cursor })
}

/// A tool without the members that can't be read, if what is left can be called.
fn usable(tool: Value) -> Result<Tool, String> {
    let Value::Object(tool) = tool else { return Err("it is no object".to_owned()) };
    if tool.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err("it has no name".to_owned());
    }
    match tool.get("inputSchema") {
        Some(Value::Object(_)) => {}
        Some(_) => return Err("its inputSchema is no object".to_owned()),
        None => return Err("it has no inputSchema".to_owned()),
    }
    let mut kept = Map::new();
    for (member, value) in tool {
        let mut with = kept.clone();
        with.insert(member, value);
        let mut whole = json!({ "name": "-", "inputSchema": {} });
        if let Some(whole) = whole.as_object_mut() {
            whole.extend(with.clone());
        }
        if serde_json::from_value::<Tool>(whole).is_ok() {
            kept = with;
        }
    }
    serde_json::from_value(Value::Object(kept)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_tool_takes_no_other_with_it() {
        let good = json!({ "name": "good", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } });
        let tools = json!([
            good,
            { "name": "bare" },
            { "name": "odd", "inputSchema": [] },
            { "name": "noted", "inputSchema": {}, "outputSchema": "no", "annotations": 7, "description": "Does it." },
            null,
            { "inputSchema": {} },
        ]);
        let page = read(json!({ "tools": tools, "nextCursor": "2" })).unwrap();
        let names: Vec<_> = page.offer.tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["good", "noted"]);
        assert!(page.offer.tools[0].annotations.as_ref().unwrap().read_only_hint.unwrap());
        assert_eq!(page.offer.tools[1].description.as_deref(), Some("Does it."));
        let left_out = [
            ("bare", "it has no inputSchema"),
            ("odd", "its inputSchema is no object"),
            ("tool 5", "it is no object"),
            ("tool 6", "it has no name"),
        ];
        assert_eq!(page.offer.left_out, left_out.map(|(name, why)| (name.to_owned(), why.to_owned())));
        assert_eq!(page.next_cursor.as_deref(), Some("2"));
        assert!(read(json!({ "tools": {} })).is_none());
    }
}
