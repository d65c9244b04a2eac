//! A step as its journal's line.

use super::*;
use protocol::coordination::What;

/// What stands beside an event's message is smaller than this, and so is most of what stands beside the events.
const BESIDE: usize = 256;

impl Step {
    /// What is written: what serde makes of it. Only, a message whose text is in `texts`, at its event's index, stands there
    /// as it came: every message is written once, and its text is at hand.
    pub fn to_bytes(&self, texts: &[Option<Bytes>]) -> serde_json::Result<Vec<u8>> {
        let Self { step, opening, events, closes, effects } = self;
        let known: usize = texts.iter().flatten().map(|text| text.len() + BESIDE).sum();
        let mut bytes = Vec::with_capacity(known + 4 * BESIDE);
        put(&mut bytes, format_args!("{{\"step\":{step}"))?;
        member(&mut bytes, "opening", opening.as_ref())?;
        put(&mut bytes, format_args!(",\"events\":"))?;
        let mut before = '[';
        for (event, text) in events.iter().zip(texts.iter().chain(std::iter::repeat(&None))) {
            bytes.push(std::mem::replace(&mut before, ',') as u8);
            match (&event.what, text) {
                (What::Heard { by, answers, envelope: _ }, Some(text)) => {
                    let [what, id] = by.parts();
                    put(&mut bytes, format_args!("{{\"at\":{},\"wall\":", event.at.0))?;
                    serde_json::to_writer(&mut bytes, &event.wall)?;
                    // A principal has nothing that JSON would escape.
                    let parts = [",\"what\":{\"event\":\"heard\",\"by\":\"", what, id, "\""];
                    parts.into_iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
                    member(&mut bytes, "answers", answers.as_ref())?;
                    bytes.extend_from_slice(b",\"envelope\":");
                    bytes.extend_from_slice(text);
                    bytes.extend_from_slice(b"}}");
                }
                _ => serde_json::to_writer(&mut bytes, event)?,
            }
        }
        if events.is_empty() {
            bytes.push(b'[');
        }
        bytes.push(b']');
        member(&mut bytes, "closes", Some(closes).filter(|closes| !closes.is_empty()))?;
        member(&mut bytes, "effects", Some(effects).filter(|effects| !effects.is_empty()))?;
        bytes.push(b'}');
        Ok(bytes)
    }
}

fn put(bytes: &mut Vec<u8>, what: fmt::Arguments<'_>) -> serde_json::Result<()> {
    bytes.write_fmt(what).map_err(serde_json::Error::io)
}

/// One more member, if it is there.
fn member<T: Serialize>(bytes: &mut Vec<u8>, name: &str, value: Option<&T>) -> serde_json::Result<()> {
    let Some(value) = value else { return Ok(()) };
    put(bytes, format_args!(",\"{name}\":"))?;
    serde_json::to_writer(bytes, value)
}
