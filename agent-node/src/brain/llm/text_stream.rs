//! The text of an answer as it arrives, in pieces that are worth a record each.

use patterns::turn::Progress;
use protocol::artifact::Artifact;

/// The id and the name of the artifact with the answer.
pub(super) const ANSWER: &str = "answer";
/// A piece is sent as soon as it has this many bytes.
const PIECE: usize = 240;
/// A status is sent after this many bytes that nobody sees.
const HIDDEN: usize = 2_048;
const MEDIA_TYPE: &str = "text/markdown";

/// What of the newest answer has been sent.
#[derive(Debug, Default)]
pub(super) struct TextStream {
    pending: String,
    sent: String,
    hidden: usize,
}

impl TextStream {
    /// A new answer begins; it replaces what was sent before.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    /// More text; a piece if there is enough.
    pub(super) fn push(&mut self, text: &str) -> Option<Progress> {
        self.pending.push_str(text);
        (self.pending.len() >= PIECE).then(|| self.piece(false))
    }

    /// What has not been sent, or a sign of life.
    pub(super) fn flush(&mut self) -> Option<Progress> {
        if !self.pending.is_empty() {
            return Some(self.piece(false));
        }
        let is_working = std::mem::take(&mut self.hidden) > 0;
        is_working.then(working)
    }

    /// The model works on what is not shown; a sign of life if it is much.
    pub(super) fn hidden(&mut self, bytes: usize) -> Option<Progress> {
        self.hidden += bytes;
        (self.hidden >= HIDDEN).then(|| {
            self.hidden = 0;
            working()
        })
    }

    /// The last piece of the whole `text`; all of it if other text was sent.
    pub(super) fn end(&mut self, text: &str) -> Progress {
        let whole = format!("{}{}", self.sent, self.pending);
        if whole.trim_end() != text || self.sent.is_empty() || self.pending.is_empty() {
            self.sent.clear();
            text.clone_into(&mut self.pending);
        }
        self.piece(true)
    }

    fn piece(&mut self, last_chunk: bool) -> Progress {
        let artifact = Artifact::text(ANSWER, MEDIA_TYPE, self.pending.clone());
        let append = !self.sent.is_empty();
        self.sent.push_str(&std::mem::take(&mut self.pending));
        Progress::Artifact { artifact, append, last_chunk }
    }
}

fn working() -> Progress {
    Progress::Status { message: "the model is working".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_pieces_join_to_the_text(parts in proptest::collection::vec("[a-zé \n]{0,300}", 0..8)) {
            let text = parts.concat().trim().to_owned();
            let mut stream = TextStream::default();
            let mut joined = String::new();
            let mut take = |progress: Progress| {
                let Progress::Artifact { artifact, append, .. } = progress else { panic!("no artifact") };
                if !append {
                    joined.clear();
                }
                joined.push_str(&artifact.as_text());
            };
            for part in &parts {
                stream.push(part).into_iter().for_each(&mut take);
            }
            take(stream.end(&text));
            prop_assert_eq!(joined.trim_end(), text);
        }
    }
}
