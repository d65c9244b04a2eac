use super::*;
use crate::brain::tests::{first_turn, turn};
use serde_json::Value;

/// A server that dies when it is asked for its tools.
const DIES: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*) exit 1 ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
  esac
done
"#;

fn brain() -> LlmBrain {
    let command = ["sh", "-c", DIES].map(str::to_owned).to_vec();
    let transport = ToolServerTransport::Stdio { command, env: BTreeMap::new(), dir: None };
    let config = LlmConfig {
        description: String::new(),
        instructions: String::new(),
        models: Vec::new(),
        tools: vec![ToolServerConfig { transport, ..tool_server::tests::server("s") }],
        rounds: 1,
        context: 1_000,
        outputs: BTreeMap::new(),
        hooks: ToolHooks::default(),
    };
    LlmBrain::new(config, &BrainRights::default(), None).unwrap()
}

#[tokio::test]
async fn a_tool_server_that_dies_at_each_start_is_tried_a_few_times() {
    let mut request = first_turn("x");
    for failures in 1..=MAX_SERVER_FAILURES {
        let (reports, end) = turn(&brain(), request.clone()).await;
        let recorded = reports.into_iter().filter_map(|report| match report {
            Progress::Checkpoint(checkpoint) => Some(checkpoint.data),
            _ => None,
        });
        let recorded: Vec<Value> = recorded.collect();
        match end.unwrap() {
            TurnEnd::Pause { after_ms: 10_000, reason } if failures < MAX_SERVER_FAILURES => {
                assert!(reason.contains("does not list its tools"), "{reason}");
                assert_eq!(recorded.len(), 1, "{recorded:?}");
            }
            TurnEnd::Failed { reason } if failures == MAX_SERVER_FAILURES => {
                assert!(reason.ends_with("it was tried 5 times"), "{reason}");
            }
            other => panic!("{failures}: {other:?}"),
        }
        request.prompt.checkpoints.extend(recorded);
    }
    // An answer in between begins the count anew.
    let answered = TranscriptRecord::Answered { round: Box::new(transcript::tests::round(1, &[])) };
    request.prompt.checkpoints.push(serde_json::to_value(answered).unwrap());
    assert!(matches!(turn(&brain(), request).await.1, Ok(TurnEnd::Pause { .. })));
}
