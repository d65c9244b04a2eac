//! Sections of settings that a credential's name heads: `[credentials]`, and the lines up to the next section.

use super::{line_before, line_end};
use crate::telemetry::capture::{name, word};
use std::ops::Range;

/// Whether `name` is all that a section is called, or the last part of that.
pub(in super::super) fn is_headed(text: &[u8], name: &Range<usize>) -> bool {
    let before = line_before(text, name.start).trim_ascii_start();
    let is_path = before.len() > 1
        && before[1..].iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.-[".contains(byte));
    let is_name = before == b"[" || before.starts_with(b"[") && is_path && before.ends_with(b".");
    is_name && matches!(text[name.end..], [b']', b'\n' | b'\r', ..])
}

/// Adds what is set in the section whose head ends at `from`; where it ends.
pub(super) fn settings(text: &[u8], from: usize, found: &mut Vec<Range<usize>>) -> Range<usize> {
    let mut at = from;
    while at < text.len() {
        let end = line_end(text, at);
        let line = &text[at..end];
        if line.starts_with(b"[") {
            break;
        }
        let sign = line.iter().position(|byte| b"=:".contains(byte)).filter(|sign| *sign > 0);
        if let Some(sign) = sign.filter(|_| !line.starts_with(b"#") && !line.starts_with(b";")) {
            let blanks = line[sign + 1..].len() - line[sign + 1..].trim_ascii_start().len();
            let said = line[sign + 1..].trim_ascii();
            let is_about = name::is_about(line[..sign].trim_ascii()) && word::is_plain(said);
            if !said.is_empty() && !word::is_harmless(said) && !is_about {
                found.push(at + sign + 1 + blanks..at + sign + 1 + blanks + said.len());
            }
        }
        at = (end + 1).min(text.len());
    }
    from..at
}
