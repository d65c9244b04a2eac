//! Bytes as artifacts, and large texts that a prompt refers to, read from the node before the turn begins.

use crate::ArtifactLine;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::{collections::BTreeSet, env, time::Duration};

/// How long one text may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest text, bytes.
const MAX_BYTES: u64 = 256 << 20;

/// An artifact of bytes, for [`crate::Turn::artifact`].
pub fn artifact_of_bytes(name: impl Into<String>, bytes: &[u8]) -> ArtifactLine {
    ArtifactLine::base64(name, STANDARD.encode(bytes))
}

/// The prompt with all that it refers to. The error is why the turn fails.
pub fn whole(prompt: Value) -> Result<Value, String> {
    let node = env::var("MESH_NODE_URL").unwrap_or_default();
    let token = env::var("MESH_BRAIN_TOKEN").unwrap_or_default();
    Content::of(&prompt, &node, token).add_to(prompt)
}

/// The content that a prompt refers to. Only the node can add to `references`.
struct Content {
    urls: BTreeSet<String>,
    token: String,
}

impl Content {
    fn of(prompt: &Value, node: &str, token: String) -> Self {
        let digests = prompt["references"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Self { urls: digests.map(|digest| format!("{node}/a2a/artifacts/{digest}")).collect(), token }
    }

    fn has(&self, url: &Value) -> bool {
        url.as_str().is_some_and(|url| self.urls.contains(url))
    }

    fn add_to(&self, value: Value) -> Result<Value, String> {
        if self.urls.is_empty() {
            return Ok(value);
        }
        match value {
            Value::Array(items) => items.into_iter().map(|item| self.add_to(item)).collect(),
            Value::Object(mut part) if part.get("url").is_some_and(|url| self.has(url)) => {
                let Some(kind) = part.get("metadata").and_then(|metadata| metadata["content"].as_str())
                else {
                    return Ok(Value::Object(part));
                };
                let kind = kind.to_owned();
                let url = part.remove("url").unwrap_or_default();
                part.insert(kind.clone(), self.read(&url, &kind)?);
                Ok(Value::Object(part))
            }
            Value::Object(members) => {
                let mut whole = serde_json::Map::new();
                let mut references = Vec::new();
                for (name, member) in members {
                    if let Some(name) = name.strip_suffix("Ref").filter(|_| self.has(&member["url"])) {
                        let is_json = member["mediaType"] == "application/json";
                        let kind = if is_json { "data" } else { "text" };
                        references.push((name.to_owned(), self.read(&member["url"], kind)?));
                    } else {
                        whole.insert(name, self.add_to(member)?);
                    }
                }
                whole.extend(references);
                Ok(Value::Object(whole))
            }
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(other),
        }
    }

    fn read(&self, url: &Value, kind: &str) -> Result<Value, String> {
        let url = url.as_str().unwrap_or_default();
        let failed = |why: String| format!("the content of the prompt at {url}: {why}");
        // A redirect would send the token elsewhere.
        let client = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).max_redirects(0).proxy(None);
        let client = ureq::Agent::new_with_config(client.build());
        let request = client.get(url).header("authorization", format!("Bearer {}", self.token));
        let mut answer = request.call().map_err(|error| failed(error.to_string()))?;
        let bytes = answer.body_mut().with_config().limit(MAX_BYTES).read_to_vec();
        let bytes = bytes.map_err(|error| failed(error.to_string()))?;
        Ok(match kind {
            "data" => serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?,
            "raw" => json!(STANDARD.encode(bytes)),
            _ => json!(String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader, Write},
        net::TcpListener,
    };

    /// A node that answers each request with its path, in quotes, if the token is right.
    fn node() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    assert_ne!(stream.read_until(b'\n', &mut head).unwrap(), 0);
                }
                let head = String::from_utf8(head).unwrap();
                let path = head.split(' ').nth(1).unwrap();
                let is_allowed = head.contains("authorization: Bearer secret");
                let status = if is_allowed { "200 OK" } else { "403 Forbidden" };
                let length = path.len() + 2;
                write!(
                    stream.get_mut(),
                    "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n\"{path}\""
                )
                .unwrap();
            }
        });
        url
    }

    #[test]
    fn what_the_node_refers_to_is_read_and_other_urls_stay() {
        let node = node();
        let url = |digest: &str| format!("{node}/a2a/artifacts/{digest}");
        let part = |digest: &str, kind: &str| json!({ "url": url(digest), "metadata": { "content": kind } });
        let reference = |digest: &str, kind: &str| json!({ "url": url(digest), "mediaType": kind });
        let prompt = json!({
            "references": ["a", "b"],
            "task": {
                "description": "cut", "descriptionRef": reference("a", "text/plain"),
                "inputRef": reference("b", "application/json"),
                "otherRef": reference("c", "text/plain"),
            },
            "produced": [{ "parts": [part("a", "raw"), part("b", "text"), part("c", "text"), { "url": url("a") }] }],
        });
        let whole = Content::of(&prompt, &node, "secret".into()).add_to(prompt.clone()).unwrap();
        assert_eq!(whole["task"]["description"], "\"/a2a/artifacts/a\"");
        assert_eq!(whole["task"]["input"], "/a2a/artifacts/b");
        assert_eq!(whole["task"].get("other"), None);
        let parts = &whole["produced"][0]["parts"];
        assert_eq!((&parts[0]["raw"], parts[0].get("url")), (&json!("Ii9hMmEvYXJ0aWZhY3RzL2Ei"), None));
        assert_eq!(parts[1]["text"], "\"/a2a/artifacts/b\"");
        assert_eq!((&parts[2], &parts[3]), (&part("c", "text"), &json!({ "url": url("a") })));
        let refused = Content::of(&prompt, &node, "wrong".into()).add_to(prompt).unwrap_err();
        assert!(refused.contains("/a2a/artifacts/") && refused.contains("403"), "{refused}");
    }
}
