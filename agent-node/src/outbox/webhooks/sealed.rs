//! Webhooks as they lie in the store. Where one is, and what it is shown, may be secret; so that is sealed
//! (ChaCha20-Poly1305, RFC 8439) under a secret of the agent, which lies beside its key for its owner's eyes only, and stays when
//! the key is replaced. A copy of the store alone tells none of it.

use super::{ResponseAddress, Webhook};
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use protocol::{
    a2a::{card_signature::SigningKey, push::PushConfig},
    ids::TaskId,
    principal::Principal,
};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// Seals one agent's webhooks. Cheap to clone.
#[derive(Clone)]
pub struct Seal(Arc<LessSafeKey>);

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a seal")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    task: TaskId,
    owner: Principal,
    #[serde(alias = "told")]
    cursor: crate::tasks::follower::TaskEventCursor,
    #[serde(default)]
    missed: usize,
    #[serde(default)]
    is_over: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<ResponseAddress>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_v03: bool,
    /// Nonce, then the sealed [`PushConfig`] with its tag, in base64.
    sealed: String,
}

impl Row {
    /// What a sealed configuration belongs to: in another's place it does not open.
    fn place(id: &str, task: &TaskId, owner: &Principal) -> Aad<Vec<u8>> {
        Aad::from(format!("{task}\n{owner}\n{id}").into_bytes())
    }
}

impl Seal {
    /// The secret of the seal of an agent whose first key is `key`.
    pub fn secret_of(key: &SigningKey) -> [u8; 32] {
        key.secret_for("webhooks at rest")
    }

    /// The seal under `secret`.
    pub fn new(secret: [u8; 32]) -> Self {
        let Ok(key) = UnboundKey::new(&CHACHA20_POLY1305, &secret) else {
            unreachable!("32 bytes are a key")
        };
        Self(Arc::new(LessSafeKey::new(key)))
    }

    /// The row of `webhook`.
    pub(super) fn close(&self, webhook: &Webhook) -> Result<Vec<u8>, String> {
        let id = webhook.config.id.clone().unwrap_or_default();
        let mut text = serde_json::to_vec(&webhook.config).map_err(|error| error.to_string())?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| "the system gives no random numbers".to_owned())?;
        let place = Row::place(&id, &webhook.task, &webhook.owner);
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), place, &mut text)
            .map_err(|_| "it can't be sealed".to_owned())?;
        let row = Row {
            id,
            task: webhook.task.clone(),
            owner: webhook.owner.clone(),
            cursor: webhook.cursor,
            missed: webhook.missed,
            is_over: webhook.is_over,
            response: webhook.response.clone(),
            is_v03: webhook.is_v03,
            sealed: STANDARD_NO_PAD.encode([nonce.as_slice(), &text].concat()),
        };
        serde_json::to_vec(&row).map_err(|error| error.to_string())
    }

    /// The webhook in a row; one that was written before rows were sealed is read as it is.
    pub(super) fn open(&self, row: &[u8]) -> Result<Webhook, String> {
        let Ok(row) = serde_json::from_slice::<Row>(row) else {
            return serde_json::from_slice(row).map_err(|error| format!("it makes no sense: {error}"));
        };
        let sealed = STANDARD_NO_PAD.decode(&row.sealed).map_err(|error| error.to_string())?;
        let Some((nonce, text)) = sealed.split_first_chunk::<NONCE_LEN>() else {
            return Err("it is cut short".to_owned());
        };
        let (mut text, nonce) = (text.to_vec(), Nonce::assume_unique_for_key(*nonce));
        let opened = self.0.open_in_place(nonce, Row::place(&row.id, &row.task, &row.owner), &mut text);
        let opened = opened.map_err(|_| "it was sealed under another key than the agent has".to_owned())?;
        let config: PushConfig = serde_json::from_slice(opened).map_err(|error| error.to_string())?;
        let Row { task, owner, cursor, missed, is_over, response, is_v03, .. } = row;
        Ok(Webhook { config, task, owner, cursor, missed, is_over, response, is_v03 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::a2a::push::Authentication;
    use serde_json::Value;

    fn webhook() -> Webhook {
        let credentials = Some("s3cret-credential".to_owned());
        Webhook {
            config: PushConfig {
                tenant: None,
                id: Some("w-1".to_owned()),
                task_id: Some("t-1".to_owned()),
                url: "https://example.org/s3cret-path".to_owned(),
                token: Some("s3cret-token".to_owned()),
                authentication: Some(Authentication { scheme: "Bearer".to_owned(), credentials }),
            },
            task: TaskId::parse("t-1").unwrap(),
            owner: Principal::local_user(),
            cursor: (7, 1),
            missed: 2,
            is_over: false,
            response: None,
            is_v03: true,
        }
    }

    #[test]
    fn a_row_tells_no_secret_and_opens_under_its_own_key_and_in_its_own_place_only() {
        let seal = Seal::new([7; 32]);
        let row = seal.close(&webhook()).unwrap();
        assert!(!String::from_utf8_lossy(&row).contains("s3cret"));
        assert_ne!(row, seal.close(&webhook()).unwrap(), "no nonce is used twice");
        assert_eq!(Seal::new([7; 32]).open(&row).unwrap(), webhook());
        let other = Seal::new([8; 32]);
        assert!(other.open(&row).unwrap_err().contains("another key"));
        let mut moved: Value = serde_json::from_slice(&row).unwrap();
        moved["task"] = "t-2".into();
        assert!(seal.open(moved.to_string().as_bytes()).is_err());
        moved["sealed"] = "AAAA".into();
        assert_eq!(seal.open(moved.to_string().as_bytes()).unwrap_err(), "it is cut short");
    }

    #[test]
    fn a_row_of_before_is_read_as_it_is() {
        let seal = Seal::new([7; 32]);
        assert_eq!(seal.open(&serde_json::to_vec(&webhook()).unwrap()).unwrap(), webhook());
        assert!(seal.open(b"{}").is_err());
    }
}
