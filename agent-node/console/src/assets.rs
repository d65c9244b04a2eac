//! The files that a page loads, all from the node itself.

use sha2::{Digest as _, Sha256};
use std::sync::OnceLock;

/// A file of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its name in the URL.
    pub name: &'static str,
    pub media_type: &'static str,
    pub content: &'static str,
}

/// Every file.
pub const ALL: [Asset; 3] = [
    Asset {
        name: "console.css",
        media_type: "text/css; charset=utf-8",
        content: include_str!("../assets/console.css"),
    },
    Asset {
        name: "console.js",
        media_type: "text/javascript; charset=utf-8",
        content: include_str!("../assets/console.js"),
    },
    Asset {
        name: "htmx.js",
        media_type: "text/javascript; charset=utf-8",
        content: include_str!("../vendor/htmx/htmx.min.js"),
    },
];

/// The file with this name.
pub fn find(name: &str) -> Option<&'static Asset> {
    ALL.iter().find(|asset| asset.name == name)
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Changes with any file, so that a page never runs with the files of another version.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let all: String = ALL.iter().map(|asset| digest(asset.content)).collect();
        digest(&all).get(..16).unwrap_or_default().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn htmx_is_the_file_that_its_readme_names() {
        let htmx = find("htmx.js").map(|asset| digest(asset.content)).unwrap_or_default();
        assert!(include_str!("../vendor/htmx/README.md").contains(&htmx), "{htmx}");
    }

    #[test]
    fn the_script_is_short_and_runs_no_text() {
        let script = include_str!("../assets/console.js");
        assert!(script.lines().count() <= 400, "{} lines", script.lines().count());
        for unsafe_call in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write", ".style"]
        {
            assert!(!script.contains(unsafe_call), "{unsafe_call}");
        }
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        for asset in ALL.iter().filter(|asset| asset.name != "htmx.js") {
            assert!(!asset.content.contains("http:") && !asset.content.contains("https:"), "{}", asset.name);
        }
    }
}
