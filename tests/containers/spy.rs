//! A brain for tests/containers.py: it prints its ids, its environment, that of its parent, and every file that it can open, as
//! the hexadecimal digits of an artifact. It needs no shell and no library, because the image has none.

use std::{
    fs,
    io::{self, BufRead as _},
    path::Path,
};

/// Larger files hold no key.
const MAX_FILE: u64 = 1 << 20;
/// Bytes of an artifact's piece.
const PIECE: usize = 100_000;

fn collect(path: &Path, found: &mut Vec<u8>) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if metadata.is_dir() {
        let is_of_kernel = ["/proc", "/sys", "/dev"].iter().any(|dir| path == Path::new(dir));
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter(|_| !is_of_kernel).for_each(|entry| collect(&entry.path(), found));
    } else if metadata.len() <= MAX_FILE {
        if let Ok(content) = fs::read(path) {
            found.extend(format!("\n# {}\n", path.display()).bytes());
            found.extend(content);
        }
    }
}

fn main() {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).expect("a turn");
    let mut found = Vec::new();
    for (name, value) in std::env::vars() {
        found.extend(format!("{name}={value}\n").bytes());
    }
    let parent = std::os::unix::process::parent_id();
    for file in ["environ", "cmdline", "maps", "mem", "cwd", "root"] {
        collect(Path::new(&format!("/proc/{parent}/{file}")), &mut found);
        collect(Path::new(&format!("/proc/{parent}/{file}/.")), &mut found);
    }
    found.extend(fs::read("/proc/self/status").unwrap_or_default());
    collect(Path::new("/"), &mut found);
    for piece in found.chunks(PIECE) {
        let digits: String = piece.iter().map(|byte| format!("{byte:02x}")).collect();
        println!(r#"{{"type":"artifact","name":"found","text":"{digits}","append":true}}"#);
    }
    println!(r#"{{"type":"done"}}"#);
}
