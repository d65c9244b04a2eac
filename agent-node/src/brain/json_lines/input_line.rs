//! Writes the lines that a node sends to a brain, which reads them as [`InputLine`]s.

use crate::brain::{TurnRequest, bidding::BidRequest};
use serde::Serialize;
use wire::prompt::InputLine;

/// A prompt as it is written.
#[derive(Serialize)]
struct PromptLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    request: &'a TurnRequest,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a str>,
}

/// The prompt of `request` with its line feed.
pub fn prompt(request: &TurnRequest) -> Result<Vec<u8>, serde_json::Error> {
    let trace = request.trace.as_ref();
    line(&PromptLine {
        kind: "turn",
        request,
        traceparent: trace.map(ToString::to_string),
        tracestate: trace.and_then(|trace| trace.state.as_deref()),
    })
}

/// A call for proposals as it is written.
#[derive(Serialize)]
struct CallLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    request: &'a BidRequest,
}

/// The call for proposals of `request` with its line feed.
pub fn call(request: &BidRequest) -> Result<Vec<u8>, serde_json::Error> {
    line(&CallLine { kind: "cfp", request })
}

/// A line about a turn that runs, with its line feed: it goes to a brain whose input stays open, and to an HTTP brain.
pub fn about_turn(given: &InputLine) -> Result<Vec<u8>, serde_json::Error> {
    line(given)
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::bidding::ComputedBid;
    use protocol::{
        bid::{Cost, Fraction},
        ids::AgentId,
        trace::TraceContext,
    };
    use serde_json::json;

    #[test]
    fn a_prompt_and_the_lines_about_its_turn_name_their_type_and_key() {
        let request = crate::brain::tests::first_turn("do it");
        let prompt: serde_json::Value = serde_json::from_slice(&prompt(&request).unwrap()).unwrap();
        assert_eq!((&prompt["type"], &prompt["task"]["description"]), (&json!("turn"), &json!("do it")));
        assert_eq!(prompt["key"], "agent-01:c:1:0");
        let recorded = InputLine::Recorded { key: request.key.clone(), checkpoints: 2 };
        let recorded: serde_json::Value = serde_json::from_slice(&about_turn(&recorded).unwrap()).unwrap();
        assert_eq!(recorded, json!({ "type": "recorded", "key": "agent-01:c:1:0", "checkpoints": 2 }));
        let cancel = about_turn(&InputLine::Cancel { key: request.key }).unwrap();
        assert!(cancel.starts_with(br#"{"type":"cancel","#) && cancel.ends_with(b"}\n"));
    }

    /// A prompt with every member, about this.
    fn whole_prompt(about: serde_json::Value) -> TurnRequest {
        let artifact = json!({
            "artifactId": "a", "name": "a", "description": "d", "metadata": { "m": 1 }, "extensions": ["urn:x"],
            "parts": [
                { "text": "t", "mediaType": "text/plain", "filename": "f", "metadata": { "m": 1 } },
                { "data": null },
                { "raw": "AA==" },
                { "url": "https://a.example" },
            ],
        });
        let mut prompt = json!({
            "agent": "agent-01", "key": "k", "turn": 2, "epoch": 7,
            "produced": [artifact],
            "answers": [{
                "id": "h", "ok": true, "from": "agent-02", "text": "t", "artifacts": [artifact], "taskId": "t-2",
                "decision": "approve", "values": { "n": 1 }, "forTurn": 2,
            }],
            "messages": [{ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }] }],
            "history": [{ "taskId": "t-0", "description": "d", "state": "TASK_STATE_COMPLETED", "message": "m" }],
            "checkpoints": [{ "step": 1 }],
            "used": { "inputTokens": 1, "outputTokens": 2, "cost": 0.5, "unpricedTokens": 3 },
            "remaining": { "turnMs": 1, "idleMs": 2, "turns": 3, "tokens": 4, "cost": 0.25 },
            "revision": { "findings": "bad", "artifacts": [artifact] },
            "peers": [{ "agentId": "agent-02", "description": "d", "skills": [
                { "id": "dig", "name": "Dig", "description": "d", "tags": ["x"], "examples": ["e"], "outputModes": ["text/plain"] },
            ] }],
        });
        let (members, about) = (prompt.as_object_mut().unwrap(), about.as_object().unwrap());
        members.extend(about.clone());
        let mut request: TurnRequest = serde_json::from_value(prompt).unwrap();
        request.trace = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        request
    }

    #[test]
    fn a_brain_reads_every_member_of_a_prompt_and_of_a_call() {
        let task = json!({
            "taskId": "t-1", "description": "d", "capability": "dig", "input": { "n": 1 }, "deadline": "2027-01-01T00:00:00.000Z",
            "artifacts": [{ "artifactId": "a", "parts": [{ "text": "t" }] }], "acceptedModes": ["text/plain"],
        });
        let help = json!({ "question": "?", "capability": "dig", "artifacts": [{ "artifactId": "a", "parts": [{ "text": "t" }] }] });
        let check = json!({
            "taskId": "t-1", "description": "d", "capability": "dig", "input": 1, "doer": "agent-02", "message": "m",
            "schema": { "type": "object" },
        });
        for about in [json!({ "task": task }), json!({ "help": help }), json!({ "check": check })] {
            let written = prompt(&whole_prompt(about)).unwrap();
            let InputLine::Turn(read) = serde_json::from_slice(&written).unwrap() else { panic!("no turn") };
            assert!(read.more.is_empty(), "no field has {:?}", read.more);
            let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
            assert_eq!(serde_json::to_value(InputLine::Turn(read)).unwrap(), written);
        }
        let request = BidRequest {
            agent: AgentId::parse("agent-01").unwrap(),
            key: "b".into(),
            within_ms: 9,
            cfp: serde_json::from_value(json!({
                "taskId": "t-1", "capability": "dig", "description": "d", "bidBy": "2027-01-01T00:00:00.000Z",
                "constraints": { "maxCost": 1 },
            }))
            .unwrap(),
            computed: ComputedBid {
                cost: Cost::new(0.5).unwrap(),
                eta: 5,
                capability_match: Some(Fraction::FULL),
                load: None,
            },
        };
        let written = call(&request).unwrap();
        let InputLine::Cfp(read) = serde_json::from_slice(&written).unwrap() else { panic!("no call") };
        assert!(read.cfp.more.is_empty(), "no field has {:?}", read.cfp.more);
        let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(serde_json::to_value(InputLine::Cfp(read)).unwrap(), written);
    }
}
