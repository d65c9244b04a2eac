//! The operating system's user under which a brain runs.

use rustix::process::{getgid, getuid};
use std::{fs, path::Path};

/// A user of the operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsUser {
    pub name: String,
    pub uid: u32,
    /// The id of its primary group.
    pub gid: u32,
}

const PASSWD: &str = "/etc/passwd";

/// The capabilities that a process needs to run a brain as another user, by their numbers: to give it a directory, to end
/// it, and to switch to it.
const NEEDED: [(&str, u32); 4] = [("CHOWN", 0), ("KILL", 5), ("SETGID", 6), ("SETUID", 7)];

impl OsUser {
    /// The user `name`, or the one with the ids `UID` or `UID:GID`, which need not be listed: an image may have no list of users.
    /// Fails if there is none, or if it is root.
    pub fn lookup(name: &str) -> Result<Self, String> {
        let user = Self::by_ids(name).map_or_else(|| Self::read(name, Path::new(PASSWD)), Ok)?;
        if user.uid == 0 {
            return Err(format!("{name} is root, which may read everything; name another user"));
        }
        Ok(user)
    }

    /// The user as [`Self::lookup`] finds it. Fails, too, if this process may not switch to it.
    pub fn find(name: &str) -> Result<Self, String> {
        let user = Self::lookup(name)?;
        check_may_switch(name, getuid().as_raw(), effective_capabilities())?;
        Ok(user)
    }

    fn by_ids(text: &str) -> Option<Self> {
        let (uid, gid) = text.split_once(':').unwrap_or((text, text));
        Some(Self { name: text.to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()? })
    }

    fn read(name: &str, passwd: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(passwd).map_err(|error| {
            format!("{} can't be read, so there is no user {name}: {error}", passwd.display())
        })?;
        let found = text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let is_it = fields.next() == Some(name);
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            is_it.then(|| Self { name: name.to_owned(), uid, gid })
        });
        found.ok_or_else(|| format!("there is no user {name} in {}", passwd.display()))
    }

    pub(crate) fn own() -> (u32, u32) {
        (getuid().as_raw(), getgid().as_raw())
    }
}

/// Fails if a process of user `own` with these capabilities may not run a process as the user `name`. Only root drops its
/// supplementary groups when it switches.
fn check_may_switch(name: &str, own: u32, capabilities: u64) -> Result<(), String> {
    let missing = NEEDED.iter().filter(|(_, bit)| capabilities & (1 << bit) == 0);
    let missing: Vec<_> = missing.map(|(capability, _)| *capability).collect();
    if own == 0 && missing.is_empty() {
        return Ok(());
    }
    let why = match own {
        0 => format!("it has not the capabilities {}", missing.join(", ")),
        own => format!("it runs as uid {own}"),
    };
    Err(format!(
        "this process may not run a brain as {name}: {why}. Root may; in a container, user 0 with `cap_add: [CHOWN, KILL, SETGID, \
         SETUID]`"
    ))
}

/// The effective capabilities of this process (capabilities(7)), none if they can't be read.
fn effective_capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let passwd = dir.path().join("passwd");
        fs::write(
            &passwd,
            "root:x:0:0:root:/root:/bin/sh\nbad line\nbrain:x:1001:1002::/nowhere:/bin/false\n",
        )
        .unwrap();
        let user = OsUser::read("brain", &passwd).unwrap();
        assert_eq!((user.name.as_str(), user.uid, user.gid), ("brain", 1001, 1002));
        assert!(OsUser::read("brai", &passwd).unwrap_err().contains("there is no user brai in "));
        assert!(OsUser::read("x", &dir.path().join("none")).unwrap_err().contains("can't be read"));
        for root in ["root", "0", "0:1000"] {
            assert!(OsUser::find(root).unwrap_err().contains("name another user"), "{root}");
        }
        let ids = |text| OsUser::by_ids(text).map(|user| (user.uid, user.gid));
        assert_eq!((ids("65533"), ids("1001:1002")), (Some((65_533, 65_533)), Some((1_001, 1_002))));
        assert_eq!([ids("brain"), ids("1001:"), ids("-1"), ids("")], [None; 4]);
    }

    #[test]
    fn only_root_with_its_capabilities_may_switch() {
        check_may_switch("brain", 0, u64::MAX).unwrap();
        let not_root = check_may_switch("brain", 1000, u64::MAX).unwrap_err();
        assert!(not_root.contains("runs as uid 1000") && not_root.contains("cap_add"), "{not_root}");
        let bare = check_may_switch("brain", 0, 0b1000_0001).unwrap_err();
        assert!(bare.contains("capabilities KILL, SETGID."), "{bare}");
    }
}
