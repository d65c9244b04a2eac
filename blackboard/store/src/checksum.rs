//! The checksum of a record, over its key, its revision and its value.

use super::{Error, Key, Record, Revision};
use bytes::Bytes;

/// The CRC-32 of a record.
pub(super) fn crc_of(key: &str, revision: Revision, value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key.as_bytes());
    hasher.update(&revision.to_le_bytes());
    hasher.update(value);
    hasher.finalize()
}

/// The record; [`Error::Corrupt`] if `crc` does not match.
pub(super) fn verify(key: Key, revision: Revision, value: Bytes, crc: u32) -> Result<Record, Error> {
    if crc_of(key.as_str(), revision, &value) == crc {
        Ok(Record { revision, key, value })
    } else {
        Err(Error::Corrupt { revision, key: key.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_key_revision_or_value_is_detected() {
        let key = Key::new(&["a", "b"]);
        let crc = crc_of("a.b", 7, b"value");
        assert!(verify(key.clone(), 7, "value".into(), crc).is_ok());
        assert!(verify(key.clone(), 8, "value".into(), crc).is_err());
        assert!(verify(key, 7, "valuf".into(), crc).is_err());
        assert!(verify(Key::new(&["a", "c"]), 7, "value".into(), crc).is_err());
    }
}
