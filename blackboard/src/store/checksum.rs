//! A record's own checksum: over its key, its revision and its value.

use super::{Error, Key, Record, Revision};
use bytes::Bytes;

/// The CRC-32 of a record.
pub(super) fn of(key: &str, revision: Revision, value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key.as_bytes());
    hasher.update(&revision.to_le_bytes());
    hasher.update(value);
    hasher.finalize()
}

/// The record, if it is what was written.
pub(super) fn verified(key: Key, revision: Revision, value: Bytes, crc: u32) -> Result<Record, Error> {
    if of(key.as_str(), revision, &value) == crc {
        Ok(Record { revision, key, value })
    } else {
        Err(Error::Corrupt { revision, key: key.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_key_revision_or_value_is_noticed() {
        let key = Key::new(&["a", "b"]);
        let crc = of("a.b", 7, b"value");
        assert!(verified(key.clone(), 7, "value".into(), crc).is_ok());
        assert!(verified(key.clone(), 8, "value".into(), crc).is_err());
        assert!(verified(key, 7, "valuf".into(), crc).is_err());
        assert!(verified(Key::new(&["a", "c"]), 7, "value".into(), crc).is_err());
    }
}
