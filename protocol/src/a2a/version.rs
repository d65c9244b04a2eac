//! Which version a request or an interface speaks (A2A §3.6), and which extensions a request asks for (§3.2.6).

use super::error::{A2aError, A2aErrorKind};

/// The version spoken here, Major.Minor.
pub const VERSION: &str = "1.0";
/// The version before, which is translated ([`super::v03`]), as its cards write it.
pub const LEGACY_VERSION: &str = "0.3.0";
/// The header, query parameter or metadata that names a request's version.
pub const VERSION_PARAMETER: &str = "A2A-Version";
/// The header or metadata that lists the extensions a client wants.
pub const EXTENSIONS_PARAMETER: &str = "A2A-Extensions";

/// A version of A2A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// 0.3, over JSON-RPC and HTTP+JSON.
    V03,
    /// 1.0.
    V1,
}

impl ProtocolVersion {
    /// The version that a request names: none is 0.3 (§3.6.2), a patch does not matter.
    ///
    /// # Errors
    /// The version is another one.
    pub fn requested(asked: Option<&str>) -> Result<Self, A2aError> {
        match numbers(asked.unwrap_or_default().trim()) {
            None if asked.is_none_or(|asked| asked.trim().is_empty()) => Ok(Self::V03),
            Some(["0", "3"]) => Ok(Self::V03),
            Some(["1", "0"]) => Ok(Self::V1),
            _ => Err(not_spoken(asked, &["0.3", VERSION])),
        }
    }

    /// The version of an interface of a card. 0.2 is what 0.3 is over JSON-RPC.
    pub fn of_interface(version: &str) -> Option<Self> {
        match numbers(version.trim())? {
            ["1", "0"] => Some(Self::V1),
            ["0", "2" | "3"] => Some(Self::V03),
            _ => None,
        }
    }
}

/// Major and minor of a version of two or three numbers.
fn numbers(version: &str) -> Option<[&str; 2]> {
    let numbers: Vec<_> = version.split('.').collect();
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match numbers.as_slice() {
        [major, minor] | [major, minor, _] if numbers.iter().all(is_number) => Some([*major, *minor]),
        _ => None,
    }
}

/// Whether a request names 1.0, where 0.3 is not spoken: over gRPC, and for what only 1.0 has.
pub fn negotiate(asked: Option<&str>) -> Result<(), A2aError> {
    match ProtocolVersion::requested(asked) {
        Ok(ProtocolVersion::V1) => Ok(()),
        Ok(ProtocolVersion::V03) | Err(_) => Err(not_v1(asked)),
    }
}

/// The error for a request that does not name 1.0 where only that is spoken.
pub fn not_v1(asked: Option<&str>) -> A2aError {
    not_spoken(asked, &[VERSION])
}

fn not_spoken(asked: Option<&str>, spoken: &[&str]) -> A2aError {
    let named = asked.map(str::trim).filter(|asked| !asked.is_empty());
    let asked: String = named.unwrap_or("0.3").chars().take(40).collect();
    let spoken = spoken.join(", ");
    let message = match named {
        Some(_) => format!("A2A version {asked:?} is not spoken here; {spoken} is ({VERSION_PARAMETER})"),
        None => format!(
            "{VERSION_PARAMETER} is missing, which means version {asked}; send the header {VERSION_PARAMETER}: {VERSION} \
             (metadata in gRPC)"
        ),
    };
    A2aError::new(A2aErrorKind::VersionNotSupported, message)
        .with("requestedVersion", asked)
        .with("supportedVersions", spoken)
}

/// The URIs in all lines of `A2A-Extensions`.
pub fn extensions<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let uris = lines.into_iter().flat_map(|line| line.split(','));
    uris.map(str::trim).filter(|uri| !uri.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_major_and_minor_count() {
        for good in ["1.0", " 1.0 ", "1.0.7"] {
            assert!(negotiate(Some(good)).is_ok(), "{good}");
        }
        for bad in ["", "0.3", "1.9", "2.0", "1", "1.0.0.0", "1.0.", "1.0-beta", "one", "01.0"] {
            let error = negotiate(Some(bad)).unwrap_err();
            assert_eq!(error.kind, A2aErrorKind::VersionNotSupported, "{bad}");
        }
        for none in [None, Some(" ")] {
            let error = negotiate(none).unwrap_err();
            assert!(
                error.message.contains("A2A-Version is missing")
                    && error.message.contains("A2A-Version: 1.0")
            );
        }
    }

    #[test]
    fn a_request_without_a_version_speaks_0_3() {
        for (asked, is) in [
            (None, Some(ProtocolVersion::V03)),
            (Some(" "), Some(ProtocolVersion::V03)),
            (Some("0.3"), Some(ProtocolVersion::V03)),
            (Some("0.3.0"), Some(ProtocolVersion::V03)),
            (Some("1.0"), Some(ProtocolVersion::V1)),
            (Some("0.2"), None),
            (Some("99.0"), None),
            (Some("0.3-rc"), None),
        ] {
            assert_eq!(ProtocolVersion::requested(asked).ok(), is, "{asked:?}");
        }
        assert_eq!(ProtocolVersion::of_interface("0.2.6"), Some(ProtocolVersion::V03));
        assert_eq!(ProtocolVersion::of_interface(""), None);
    }

    #[test]
    fn extensions_are_gathered_from_every_line() {
        assert_eq!(extensions(["urn:a, urn:b", "", " urn:c "]), ["urn:a", "urn:b", "urn:c"]);
    }
}
