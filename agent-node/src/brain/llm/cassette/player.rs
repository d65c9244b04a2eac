//! Answers calls from a cassette.

use super::{
    CassetteError, difference,
    file::{self, CassetteLine, CassetteRequest},
};
use crate::{
    brain::llm::model::{
        ModelAnswer, ModelClient, ModelDelta, ModelError, ModelErrorKind, ModelRequest, ModelStream,
    },
    telemetry::capture::Capture,
};
use futures_util::{StreamExt, future::ready, stream};
use protocol::ids::Digest;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The characters of a piece of an answer.
const PIECE: usize = 40;

/// A cassette that answers.
pub struct CassettePlayer {
    name: String,
    lines: Vec<(usize, CassetteLine)>,
    by_digest: BTreeMap<Digest, EqualRequests>,
    capture: Capture,
}

/// The calls with one request, in the order of the file.
#[derive(Default)]
struct EqualRequests {
    /// Positions in the lines.
    lines: Vec<usize>,
    /// How often it was asked.
    asked: AtomicUsize,
}

impl CassettePlayer {
    /// The player of the cassette `text`. A request is also found with masks for the secrets of `capture`.
    pub(super) fn new(name: &str, text: &str, capture: Capture) -> Result<Self, CassetteError> {
        let (lines, _) = file::parse(name, text)?;
        let mut by_digest: BTreeMap<_, EqualRequests> = BTreeMap::new();
        for (at, (_, line)) in lines.iter().enumerate() {
            by_digest.entry(line.request.digest()).or_default().lines.push(at);
        }
        for equal in by_digest.values_mut() {
            // An error that a repeat overcame is left out: a replay need not wait.
            if equal.lines.iter().any(|at| lines[*at].1.answer.is_some()) {
                equal.lines.retain(|at| lines[*at].1.answer.is_some());
            }
        }
        Ok(Self { name: name.to_owned(), lines, by_digest, capture })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The next answer to a request: equal ones get theirs in the order of the file, and the last one from then on.
    fn answer(&self, model: &str, request: &ModelRequest) -> Result<ModelAnswer, ModelError> {
        let request = CassetteRequest::new(model, request);
        let equal = self.by_digest.get(&request.digest());
        let equal = equal.or_else(|| self.by_digest.get(&request.masked(&self.capture).digest()));
        let Some(equal) = equal else { return Err(self.miss(&request)) };
        let asked = equal.asked.fetch_add(1, Ordering::Relaxed).min(equal.lines.len() - 1);
        let line = &self.lines[equal.lines[asked]].1;
        match (&line.answer, &line.error) {
            (Some(answer), _) => Ok(answer.to_answer()),
            (None, Some(error)) => Err(error.to_error()),
            (None, None) => Err(self.miss(&request)),
        }
    }

    fn miss(&self, request: &CassetteRequest) -> ModelError {
        let name = &self.name;
        let recorded = self.lines.iter().map(|(number, line)| (*number, &line.request));
        let why = match difference::nearest(recorded, request) {
            None => "it holds no call".to_owned(),
            Some((line, difference)) => format!("the nearest one, line {line}, differs at {difference}"),
        };
        let message = format!("the cassette {name} has no answer to this request: {why}");
        ModelError { kind: ModelErrorKind::Cassette, ..ModelError::transient(message) }
    }
}

/// A model that a cassette stands in for.
pub(super) struct ReplayedModel {
    pub(super) name: String,
    pub(super) player: Arc<CassettePlayer>,
}

impl ModelClient for ReplayedModel {
    fn ask(&self, request: Arc<ModelRequest>) -> ModelStream {
        match self.player.answer(&self.name, &request) {
            Ok(answer) => stream::iter(deltas(answer).into_iter().map(Ok)).boxed(),
            Err(error) => stream::once(ready(Err(error))).boxed(),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// The answer as a provider streams it.
fn deltas(answer: ModelAnswer) -> Vec<ModelDelta> {
    let letters: Vec<_> = answer.text.chars().collect();
    let text = letters.chunks(PIECE).map(|piece| ModelDelta::Text(piece.iter().collect()));
    let calls = answer.calls.iter();
    let calls = calls.map(|call| serde_json::to_string(&call.arguments).map_or(0, |text| text.len()));
    let mut deltas: Vec<_> = text.chain(calls.map(ModelDelta::Hidden)).collect();
    deltas.push(ModelDelta::Answer(answer));
    deltas
}
