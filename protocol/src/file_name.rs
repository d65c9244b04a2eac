//! Names of files that work makes: relative paths that stay below the directory they are written to.

/// The longest name, bytes.
pub const MAX_FILE_NAME: usize = 200;

/// Refuses a name that leads out of its directory, into what programs take as their settings, or that does not name a file.
pub fn check(name: &str) -> Result<(), String> {
    let shown: String = name.chars().take(80).collect();
    let fault = |why: &str| Err(format!("{shown:?} is no name of a file: {why}"));
    if name.len() > MAX_FILE_NAME {
        return fault(&format!("it has {} bytes, the limit is {MAX_FILE_NAME}", name.len()));
    }
    if name.chars().any(char::is_control) || name.contains('\\') {
        return fault("no control characters, and `/` between directories");
    }
    for part in name.split('/') {
        match part {
            "" => return fault("it is a relative path, without empty parts"),
            "." | ".." => return fault("it stays below its directory"),
            part if part.eq_ignore_ascii_case(".git") => return fault("git's own files are not written"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_name_stays_below_its_directory() {
        for good in ["page.html", "src/lib.rs", ".gitignore", "a b/c"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            ".git/config",
            "a/.GIT/x",
            "a\nb",
            "a\\b",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        assert!(check(&"x".repeat(201)).is_err());
    }
}
