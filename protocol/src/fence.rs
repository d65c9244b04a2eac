//! Texts of others in a prompt, between marks.

use crate::ids::Digest;

/// Text of others between marks that it can't contain: they hold its digest.
pub fn fenced(content: &str) -> String {
    let digest = Digest::of(content.as_bytes()).to_string();
    let mark = digest.trim_start_matches("sha256:").get(..12).unwrap_or_default().to_owned();
    format!("BEGIN DATA {mark}\n{}\nEND DATA {mark}", content.trim_end())
}
