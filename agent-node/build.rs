//! Lists the files of `providers/`, so that a new provider is one file.

use std::{env, fs, path::Path};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("providers");
    println!("cargo::rerun-if-changed={}", dir.display());
    let mut files: Vec<_> = fs::read_dir(&dir)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    let mut list = String::from("[");
    for file in files {
        let path = file.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        list.push_str(&format!("({name:?}, include_str!({:?})),", path.display().to_string()));
    }
    list.push(']');
    fs::write(Path::new(&env::var("OUT_DIR")?).join("providers.rs"), list)?;
    Ok(())
}
