//! Cursors of pages and streams of entries: opaque and encrypted (ChaCha20-Poly1305, RFC 8439), because a position in the store
//! says how many records others have written.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use protocol::{
    ids::SpaceId,
    problem::{Problem, Reason},
};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};
use std::{fmt, sync::Arc};

/// What a cursor is a position in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorKind {
    /// A list by time.
    Page = 1,
    /// A list by importance.
    Ranked = 2,
    /// The log of changes.
    Stream = 3,
}

/// The two numbers of a cursor.
type CursorNumbers = [u64; 2];

/// The key of the cursors of one board. Cheap to clone.
#[derive(Clone)]
pub struct CursorKey(Arc<LessSafeKey>);

impl fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CursorKey(…)")
    }
}

impl CursorKey {
    /// A secret for a new board.
    pub(crate) fn new_secret() -> Result<[u8; 32], Problem> {
        let mut secret = [0; 32];
        SystemRandom::new().fill(&mut secret).map_err(|_| no_random_numbers())?;
        Ok(secret)
    }

    /// The key with this secret.
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        let Ok(key) = UnboundKey::new(&CHACHA20_POLY1305, &secret) else {
            unreachable!("32 bytes are a key")
        };
        Self(Arc::new(LessSafeKey::new(key)))
    }

    /// The cursor of a position in `space`. Every cursor has the same length.
    pub(crate) fn seal(
        &self,
        kind: CursorKind,
        space: &SpaceId,
        numbers: CursorNumbers,
    ) -> Result<String, Problem> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| no_random_numbers())?;
        let mut text = numbers.map(u64::to_be_bytes).concat();
        let nonce_of_key = Nonce::assume_unique_for_key(nonce);
        self.0
            .seal_in_place_append_tag(nonce_of_key, context(kind, space), &mut text)
            .map_err(|_| Problem::new(Reason::Internal, "a cursor could not be encrypted"))?;
        Ok(URL_SAFE_NO_PAD.encode([nonce.as_slice(), &text].concat()))
    }

    /// The position of a cursor; `None` if it is none of this kind, this space and this board.
    pub(crate) fn open(&self, kind: CursorKind, space: &SpaceId, cursor: &str) -> Option<CursorNumbers> {
        let sealed = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let (mut text, nonce) = (text.to_vec(), Nonce::assume_unique_for_key(*nonce));
        let opened = self.0.open_in_place(nonce, context(kind, space), &mut text).ok()?;
        let (first, second) = opened.split_first_chunk()?;
        Some([u64::from_be_bytes(*first), u64::from_be_bytes(second.try_into().ok()?)])
    }
}

fn context(kind: CursorKind, space: &SpaceId) -> Aad<Vec<u8>> {
    Aad::from(format!("{} {space}", kind as u8).into_bytes())
}

fn no_random_numbers() -> Problem {
    Problem::new(Reason::Internal, "the system gives no random numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_opens_only_where_it_belongs_and_tells_nothing() {
        let (key, other) = (CursorKey::new([7; 32]), CursorKey::new([8; 32]));
        let [shop, ideas] = ["shop", "ideas"].map(|id| SpaceId::parse(id).unwrap());
        let cursor = key.seal(CursorKind::Page, &shop, [1, 2]).unwrap();
        assert_eq!(key.open(CursorKind::Page, &shop, &cursor), Some([1, 2]));
        assert_eq!(key.open(CursorKind::Stream, &shop, &cursor), None);
        assert_eq!(key.open(CursorKind::Page, &ideas, &cursor), None);
        assert_eq!(other.open(CursorKind::Page, &shop, &cursor), None);
        for none in ["", "x", "AAAA", &cursor[..20]] {
            assert_eq!(key.open(CursorKind::Page, &shop, none), None);
        }
        let far = key.seal(CursorKind::Page, &shop, [u64::MAX, u64::MAX]).unwrap();
        assert_eq!(far.len(), cursor.len());
        assert_ne!(key.seal(CursorKind::Page, &shop, [1, 2]).unwrap(), cursor);
    }
}
