//! Reads files that a person wrote: team files, scripts, inputs.

use std::{
    fs::File,
    io::{Error, ErrorKind, Read as _},
    path::Path,
};

/// The most bytes of such a file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The text of a file. Fails for a file of more than 16 MiB, and so for one that never ends.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    read_up_to(path, MAX_BYTES)
}

/// The text of a file of at most `max` bytes.
pub(crate) fn read_up_to(path: &Path, max: u64) -> Result<String, Error> {
    let mut text = String::new();
    let bytes = File::open(path)?.take(max + 1).read_to_string(&mut text)?;
    if u64::try_from(bytes).is_ok_and(|bytes| bytes > max) {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("more than {} MiB", max >> 20)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_never_ends_is_refused() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::FileTooLarge, "more than 16 MiB"));
        assert_eq!(read(Path::new("/dev/null")).unwrap(), "");
    }
}
