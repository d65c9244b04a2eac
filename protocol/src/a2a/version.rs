//! Which version a request speaks (A2A §3.6), and which extensions it asks for (§3.2.6).

use super::error::{A2aError, A2aErrorKind};

/// The version spoken here, Major.Minor.
pub const VERSION: &str = "1.0";
/// The header, query parameter or metadata that names a request's version.
pub const VERSION_PARAMETER: &str = "A2A-Version";
/// The header or metadata that lists the extensions a client wants.
pub const EXTENSIONS_PARAMETER: &str = "A2A-Extensions";

/// Whether the version a request names is spoken here: none is 0.3 (§3.6.2), a patch does not matter.
pub fn negotiate(asked: Option<&str>) -> Result<(), A2aError> {
    let named = asked.map(str::trim).filter(|asked| !asked.is_empty());
    let asked = named.unwrap_or("0.3");
    let numbers: Vec<_> = asked.split('.').collect();
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = (2..=3).contains(&numbers.len()) && numbers.iter().all(is_number);
    if is_version && numbers[..2] == ["1", "0"] {
        return Ok(());
    }
    let asked: String = asked.chars().take(40).collect();
    let message = match named {
        Some(_) => format!("A2A version {asked:?} is not spoken here; {VERSION} is ({VERSION_PARAMETER})"),
        None => format!(
            "{VERSION_PARAMETER} is missing, which means version {asked}; send the header {VERSION_PARAMETER}: {VERSION} \
             (metadata in gRPC)"
        ),
    };
    Err(A2aError::new(A2aErrorKind::VersionNotSupported, message)
        .with("requestedVersion", asked)
        .with("supportedVersions", VERSION))
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
    fn extensions_are_gathered_from_every_line() {
        assert_eq!(extensions(["urn:a, urn:b", "", " urn:c "]), ["urn:a", "urn:b", "urn:c"]);
    }
}
