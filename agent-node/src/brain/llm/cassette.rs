//! Cassettes: calls of models in a file of JSON lines. A team is recorded once, and runs again without a provider and without a
//! key. `file` is the format, `recorder` and `player` are models that write and read it, `difference` explains a miss.
//!
//! A call is found by the digest of its request. What differs between two runs of the same work is no part of the request
//! ([`file::CassetteRequest`]). Tools are not recorded: they run in a replay, too.

mod difference;
mod file;
mod player;
mod recorder;

use super::model::ModelClient;
use crate::telemetry::capture::Capture;
use player::{CassettePlayer, ReplayedModel};
use recorder::{CassetteRecorder, RecordedModel};
use std::{fmt, path::PathBuf, sync::Arc};

/// What a process does with the calls of its models.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum CassetteMode {
    /// Models are called, and nothing is recorded.
    #[default]
    Off,
    /// Models are called, and each call is appended to the file.
    Record(PathBuf),
    /// No model is called; the file answers.
    Replay(PathBuf),
    /// No model is called; this text answers.
    Included {
        /// Its name in messages.
        name: &'static str,
        /// The content of a cassette.
        text: &'static str,
    },
}

/// An open cassette.
#[derive(Clone)]
pub enum Cassette {
    Recorder(Arc<CassetteRecorder>),
    Player(Arc<CassettePlayer>),
}

/// Why a cassette can't be used.
#[derive(Debug, thiserror::Error)]
pub struct CassetteError {
    file: String,
    line: Option<usize>,
    what: String,
}

impl fmt::Display for CassetteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, what } = self;
        match line {
            Some(line) => write!(f, "the cassette {file}, line {line}: {what}"),
            None => write!(f, "the cassette {file} {what}"),
        }
    }
}

impl fmt::Display for Cassette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorder(recorder) => write!(f, "calls of models are recorded in {}", recorder.name()),
            Self::Player(player) => write!(f, "the cassette {} answers instead of models", player.name()),
        }
    }
}

impl Cassette {
    /// Opens the cassette of `mode`. The secrets of `capture` are masked in it.
    pub fn open(mode: &CassetteMode, capture: Capture) -> Result<Option<Self>, CassetteError> {
        Ok(match mode {
            CassetteMode::Off => None,
            CassetteMode::Record(path) => {
                Some(Self::Recorder(Arc::new(CassetteRecorder::open(path, capture)?)))
            }
            CassetteMode::Replay(path) => {
                let (name, text) = (path.display().to_string(), file::read(path)?);
                Some(Self::Player(Arc::new(CassettePlayer::new(&name, &text, capture)?)))
            }
            CassetteMode::Included { name, text } => {
                Some(Self::Player(Arc::new(CassettePlayer::new(name, text, capture)?)))
            }
        })
    }

    /// `model` as this cassette records or replaces it.
    pub(super) fn wrap(&self, model: Arc<dyn ModelClient>) -> Arc<dyn ModelClient> {
        match self {
            Self::Recorder(recorder) => Arc::new(RecordedModel { model, recorder: recorder.clone() }),
            Self::Player(player) => {
                Arc::new(ReplayedModel { name: model.name().to_owned(), player: player.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests;
