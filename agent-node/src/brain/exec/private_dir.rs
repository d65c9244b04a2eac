//! The private directory of a brain: its `HOME` and its temporary directory. It holds nothing of the mesh, and only the
//! brain's user may enter it.

use super::os_user::OsUser;
use protocol::ids::{AgentId, Digest};
use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

/// The directory for the brain of `agent`, whose node has its data in `data`, and which runs as `user`, or as the node's own
/// user. It is made if it is missing. That of another user lies in the system's temporary directory, because that user can't
/// enter the node's data. Fails if a third user could enter it.
pub fn prepare(agent: &AgentId, data: &Path, user: Option<&OsUser>) -> Result<PathBuf, String> {
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let owner = user.map_or_else(OsUser::own, |user| (user.uid, user.gid));
    let dir = match user {
        None => data.join("brains").join(agent.as_str()),
        Some(_) => {
            let node = Digest::of(data.as_os_str().as_encoded_bytes()).to_string();
            std::env::temp_dir().join(format!("mesh-brain-{agent}-{}-{}", owner.0, &node[..12]))
        }
    };
    if user.is_none() {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(data.join("brains"));
        made.map_err(|error| format!("its directory {}: it can't be made: {error}", dir.display()))?;
    }
    let failed =
        |what: &str, error: std::io::Error| format!("its directory {}: {what}: {error}", dir.display());
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(failed("it can't be made", error));
        }
        Ok(()) | Err(_) => {}
    }
    let read = || fs::symlink_metadata(&dir).map_err(|error| failed("it can't be read", error));
    let mut found = read()?;
    // It is new, or an earlier start was killed before it gave the directory away.
    if found.is_dir() && found.uid() == OsUser::own().0 && found.uid() != owner.0 {
        chown(&dir, Some(owner.0), Some(owner.1)).map_err(|error| failed("chown", error))?;
        found = read()?;
    }
    let is_private = found.is_dir() && found.uid() == owner.0 && found.permissions().mode() & 0o077 == 0;
    match is_private {
        true => Ok(dir),
        false => Err(format!(
            "its directory {} is not one that only uid {} may enter: remove it",
            dir.display(),
            owner.0
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_once_and_refused_if_others_may_enter() {
        let data = tempfile::tempdir().unwrap();
        let agent = AgentId::parse("a-1").unwrap();
        let dir = prepare(&agent, data.path(), None).unwrap();
        assert_eq!(dir, data.path().join("brains/a-1"));
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(prepare(&agent, data.path(), None), Ok(dir.clone()), "it stays");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(prepare(&agent, data.path(), None).unwrap_err().contains("remove it"));
        fs::remove_dir(&dir).unwrap();
        std::os::unix::fs::symlink("/tmp", &dir).unwrap();
        assert!(prepare(&agent, data.path(), None).unwrap_err().contains("remove it"), "a link");
    }
}
