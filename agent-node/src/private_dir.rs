//! The private directory of a brain: its `HOME` and its temporary directory. It holds nothing of the mesh, and only the
//! brain's user may enter it.

use crate::os_user::OsUser;
use protocol::ids::AgentId;
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
    let brains = data.join("brains");
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&brains);
    made.map_err(|error| format!("its directory {}: it can't be made: {error}", brains.display()))?;
    let Some(user) = user else { return make_private(brains.join(agent.as_str()), OsUser::own()) };
    // Everybody may make names in the temporary directory. So the name can't be guessed; if somebody else has made a directory of
    // that name, another name is taken.
    let name_file = brains.join(format!(".temporary-{agent}"));
    let attempt = |name: String| {
        fs::write(&name_file, &name)
            .map_err(|error| format!("its directory: {}: {error}", name_file.display()))?;
        make_private(std::env::temp_dir().join(format!("mesh-brain-{agent}-{name}")), (user.uid, user.gid))
    };
    let known = fs::read_to_string(&name_file).ok();
    let is_name = |name: &String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(name) = known.filter(is_name) {
        match attempt(name) {
            Ok(dir) => return Ok(dir),
            Err(why) => {
                tracing::warn!(%agent, why, "the directory of a brain can't be used; another is made");
            }
        }
    }
    attempt(uuid::Uuid::new_v4().simple().to_string())
}

/// Makes `dir` if it is missing, and gives it to `owner`. Fails if another user could enter it.
fn make_private(dir: PathBuf, owner: (u32, u32)) -> Result<PathBuf, String> {
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

    #[test]
    fn a_directory_whose_name_was_taken_is_replaced() {
        let data = tempfile::tempdir().unwrap();
        let agent = AgentId::parse("taken-1").unwrap();
        let (uid, gid) = OsUser::own();
        let user = OsUser { name: "own".into(), uid, gid };
        let first = prepare(&agent, data.path(), Some(&user)).unwrap();
        assert_eq!(prepare(&agent, data.path(), Some(&user)), Ok(first.clone()), "it stays");
        fs::remove_dir(&first).unwrap();
        std::os::unix::fs::symlink("/tmp", &first).unwrap();
        let second = prepare(&agent, data.path(), Some(&user)).unwrap();
        assert_ne!(first, second);
        assert_eq!(prepare(&agent, data.path(), Some(&user)), Ok(second.clone()));
        fs::remove_file(first).unwrap();
        fs::remove_dir(second).unwrap();
    }
}
