//! Calls a model and appends each call to the file. A call is durable before its answer is given on.

use super::{
    CassetteError,
    file::{self, CassetteLine, CassetteRequest},
};
use crate::{
    brain::llm::model::{
        ModelAnswer, ModelClient, ModelDelta, ModelError, ModelErrorKind, ModelRequest, ModelStream,
    },
    telemetry::capture::Capture,
};
use futures_util::StreamExt;
use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// A cassette to which calls are appended.
pub struct CassetteRecorder {
    name: String,
    file: Mutex<File>,
    capture: Capture,
}

impl CassetteRecorder {
    /// Opens the cassette at `path`, or makes it. One process records to a file at a time.
    pub(super) fn open(path: &Path, capture: Capture) -> Result<Self, CassetteError> {
        let name = path.display().to_string();
        let fault = |what| CassetteError { file: name.clone(), line: None, what };
        let failed = |error: io::Error| fault(format!("can't be written: {error}"));
        let options = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
        let mut file = options.map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => fault("is being recorded by another process".to_owned()),
            std::fs::TryLockError::Error(error) => fault(format!("can't be locked: {error}")),
        })?;
        let text = file::read(path)?;
        if text.is_empty() {
            file.write_all(file::header().as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        } else {
            let (_, length) = file::parse(&name, &text)?;
            if length < text.len() {
                file.set_len(u64::try_from(length).unwrap_or(u64::MAX)).map_err(failed)?;
            } else if !text.ends_with('\n') {
                file.write_all(b"\n").map_err(failed)?;
            }
        }
        Ok(Self { name, file: Mutex::new(file), capture })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    async fn append(self: Arc<Self>, line: CassetteLine) -> Result<(), ModelError> {
        let name = self.name.clone();
        let written = tokio::task::spawn_blocking(move || {
            let text = line.to_text(&self.capture).map_err(io::Error::other)?;
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let length = file.metadata()?.len();
            file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).inspect_err(|_| {
                // What comes next must begin a line.
                drop(file.set_len(length));
            })
        });
        let written = written.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|error| {
            let message = format!("the cassette {name} can't be written: {error}");
            ModelError { kind: ModelErrorKind::Cassette, ..ModelError::transient(message) }
        })
    }
}

impl Drop for CassetteRecorder {
    fn drop(&mut self) {
        // A child that is just being started has the file open, too: closing it here would not end the lock.
        let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.unlock() {
            tracing::warn!(cassette = self.name, %error, "the lock of a cassette was not released");
        }
    }
}

pub(super) struct RecordedModel {
    pub(super) model: Arc<dyn ModelClient>,
    pub(super) recorder: Arc<CassetteRecorder>,
}

impl ModelClient for RecordedModel {
    fn ask(&self, request: Arc<ModelRequest>) -> ModelStream {
        let asked = Arc::new(CassetteRequest::new(self.model.name(), &request));
        let recorder = self.recorder.clone();
        let append = move |outcome: Result<&ModelAnswer, &ModelError>| {
            recorder.clone().append(CassetteLine::new(asked.as_ref().clone(), outcome))
        };
        let deltas = self.model.ask(request).then(move |delta| {
            let recorded = match &delta {
                Ok(ModelDelta::Answer(answer)) => Some(append(Ok(answer))),
                Err(error) => Some(append(Err(error))),
                Ok(_) => None,
            };
            async move {
                if let Some(recorded) = recorded {
                    recorded.await?;
                }
                delta
            }
        });
        deltas.boxed()
    }

    fn name(&self) -> &str {
        self.model.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::model::StopReason;
    use futures_util::stream;

    struct FixedModel;

    impl ModelClient for FixedModel {
        fn ask(&self, _request: Arc<ModelRequest>) -> ModelStream {
            let (text, calls) = ("one".to_owned(), Vec::new());
            let answer = ModelAnswer { text, calls, stop: StopReason::Complete, usage: None, kept: None };
            stream::iter([Ok(ModelDelta::Answer(answer))]).boxed()
        }

        fn name(&self) -> &str {
            "one"
        }
    }

    #[tokio::test]
    async fn an_answer_that_cannot_be_recorded_is_an_error() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (name, capture) = ("team.jsonl".to_owned(), Capture::default());
        let recorder = Arc::new(CassetteRecorder { name, file: Mutex::new(full), capture });
        let model = RecordedModel { model: Arc::new(FixedModel), recorder };
        let request = ModelRequest {
            system: "s".into(),
            messages: Vec::new(),
            tools: Vec::new(),
            output_schema: None,
            repeatable: (0, "u".into()),
            has_budget_note: false,
            media: std::collections::BTreeMap::new(),
            silence: None,
        };
        let error = model.ask(Arc::new(request)).next().await.unwrap().unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Cassette);
        assert!(error.message.starts_with("the cassette team.jsonl can't be written: "), "{}", error.message);
    }
}
