//! What a task has produced, as its pattern knows it: numbers and ids. The content is in the task's log, one record for each
//! chunk, so that a chunk costs the same however many came before.

use crate::{chunk::ChunkRange, effect::ProducedArtifact};
use protocol::artifact::{ArtifactChunk, GrowingContent};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A report holds chunks of up to this size, or one larger chunk.
const REPORT_BYTES: usize = 64 * 1024;

/// The weight of a chunk beside its content.
const CHUNK_OVERHEAD: usize = 64;

/// The most artifacts that are described: as many as the board is told of.
const MAX_DESCRIBED: usize = 16;

/// An artifact of which chunks may follow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GrowingArtifact {
    id: String,
    content: GrowingContent,
}

/// The chunks of a task, and how far they have been reported to the requester.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProducedChunks {
    /// The numbers of the chunks that count; those before were discarded.
    range: ChunkRange,
    has_content: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    described: Vec<GrowingArtifact>,
    /// The chunks that were sent in reports.
    reported: u64,
    /// Reports whose delivery is not known yet.
    in_flight: u32,
    /// Chunks that are in no report yet: the end and the size of each further report. The first begins at `unreported`.
    waiting: VecDeque<(u64, usize)>,
    unreported: u64,
    /// Whether a report was lost, so that the response must hold everything.
    has_gap: bool,
}

impl ProducedChunks {
    /// Adds a chunk and returns its number. With `is_described` the artifact is described at the end.
    pub(super) fn add(&mut self, chunk: &ArtifactChunk, is_reported: bool, is_described: bool) -> u64 {
        let number = self.range.to;
        self.range.to += 1;
        self.has_content |= !chunk.artifact.is_empty();
        if is_described {
            self.describe(chunk);
        }
        if !is_reported || self.has_gap {
            return number;
        }
        let size = chunk.artifact.weight() + CHUNK_OVERHEAD;
        match self.waiting.back_mut().filter(|(_, bytes)| bytes + size <= REPORT_BYTES) {
            Some((to, bytes)) => (*to, *bytes) = (self.range.to, *bytes + size),
            None => {
                if self.waiting.is_empty() {
                    self.unreported = number;
                }
                self.waiting.push_back((self.range.to, size));
            }
        }
        number
    }

    fn describe(&mut self, ArtifactChunk { artifact, append, .. }: &ArtifactChunk) {
        let known = self.described.iter().position(|known| known.id == artifact.artifact_id);
        let index = known.unwrap_or(self.described.len());
        if index == MAX_DESCRIBED {
            return;
        }
        if known.is_none() || !append {
            let content = GrowingContent::default();
            let growing = GrowingArtifact { id: artifact.artifact_id.clone(), content };
            self.described.splice(index..self.described.len().min(index + 1), [growing]);
        }
        if let Some(growing) = self.described.get_mut(index) {
            artifact.parts.iter().for_each(|part| growing.content.add(part));
        }
    }

    /// The next reports: all, or one if none is in flight.
    pub(super) fn next_reports(&mut self, all: bool) -> Vec<ChunkRange> {
        let mut reports = Vec::new();
        while all || self.in_flight == 0 {
            let Some((to, _)) = self.waiting.pop_front() else { break };
            let from = std::mem::replace(&mut self.unreported, to);
            self.in_flight += 1;
            self.reported += to - from;
            reports.push(ChunkRange { from, to });
        }
        reports
    }

    /// A report was delivered, or given up.
    pub(super) fn settled(&mut self, is_delivered: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if !is_delivered {
            self.has_gap = true;
            self.waiting.clear();
        }
    }

    /// Whether the delivery of a report is not known yet.
    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// Discards what was produced; returns the number of the next chunk, or `None` if there was nothing.
    pub(super) fn discard(&mut self) -> Option<u64> {
        if self.range.is_empty() {
            return None;
        }
        self.range.from = self.range.to;
        self.has_content = false;
        self.described.clear();
        self.waiting.clear();
        Some(self.range.from)
    }

    /// The same chunks, for another award: none is reported, so the response holds everything.
    pub(super) fn unreported(&self) -> Self {
        Self {
            range: self.range,
            has_content: self.has_content,
            described: self.described.clone(),
            has_gap: !self.range.is_empty(),
            ..Self::default()
        }
    }

    /// The chunks that count.
    pub(super) fn range(&self) -> ChunkRange {
        self.range
    }

    /// The number of chunks in reports; `None` if a report was lost.
    pub(super) fn reported(&self) -> Option<u64> {
        (!self.has_gap).then_some(self.reported)
    }

    /// Whether any artifact has content.
    pub(super) fn has_content(&self) -> bool {
        self.has_content
    }

    /// The first artifacts.
    pub(super) fn described(&self) -> Vec<ProducedArtifact> {
        let described = self.described.iter().map(|GrowingArtifact { id, content }| {
            let (sha256, bytes) = content.digest();
            ProducedArtifact { artifact_id: id.clone(), media_type: content.media_type(), bytes, sha256 }
        });
        described.collect()
    }
}
