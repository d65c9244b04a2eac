//! Checks that a command of the YAML can be run: a file that may be executed, or a name in `PATH`.

use std::{
    ffi::OsString,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Where a command is looked up if there is no `PATH` (execvp(3)).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Fails if `command`, run in `dir` with `search` as its `PATH`, can't be started. `mesh` is this very program.
pub(super) fn check(command: &[String], dir: Option<&Path>, search: Option<&str>) -> Result<(), String> {
    match command.first().map(String::as_str) {
        None | Some("") => Err("names no command".to_owned()),
        Some("mesh") => Ok(()),
        Some(program) if program.contains('/') => {
            let path = dir.map_or_else(|| program.into(), |dir| dir.join(program));
            match path.is_file() {
                false => Err(no_file(&path)),
                true if is_executable(&path) => Ok(()),
                true => Err(format!("{} may not be executed; chmod +x lets it", shown(&path))),
            }
        }
        Some(program) => find_in_path(program, search),
    }
}

pub(super) fn no_file(path: &Path) -> String {
    match path.metadata() {
        Ok(found) if found.is_dir() => format!("{} is a directory, and must be a file", shown(path)),
        Ok(_) => format!("{} is no file", shown(path)),
        Err(_) => format!("there is no {}", shown(path)),
    }
}

/// `path` without `.` in its middle.
pub(super) fn shown(path: &Path) -> String {
    path.components().collect::<PathBuf>().display().to_string()
}

/// Whether the file has an execute bit for any user.
fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

/// Fails if no directory of `search`, or of this process's `PATH`, has the command.
fn find_in_path(program: &str, search: Option<&str>) -> Result<(), String> {
    let search = search.map(OsString::from).or_else(|| std::env::var_os("PATH"));
    let search = search.unwrap_or_else(|| DEFAULT_PATH.into());
    let mut commands = std::env::split_paths(&search).map(|dir| dir.join(program));
    match commands.any(|command| command.is_file() && is_executable(&command)) {
        true => Ok(()),
        false => Err(format!(
            "there is no command {program} in PATH={}; a file beside this one is named as ./{program}",
            search.display()
        )),
    }
}
