//! Blobs as files: `{owner}/{first two digits}/{digest}`, and drafts in `drafts`, which a start empties.

use super::{BlobDraft, Blobs};
use crate::{Error, StoreFuture};
use bytes::Bytes;
use protocol::ids::Digest;
use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// Where drafts are. No owner has this name: it is not escaped by [`owner_folder`].
const DRAFTS: &str = "drafts";

/// Blobs in a folder, which one process uses at a time.
#[derive(Debug, Clone)]
pub struct BlobFolder(Arc<OpenFolder>);

#[derive(Debug)]
struct OpenFolder {
    path: PathBuf,
    /// Held while a file appears, is used again, or goes.
    changes: Mutex<()>,
}

impl BlobFolder {
    /// Opens a folder, or creates it. Drafts of an earlier process are deleted.
    pub fn open(path: &Path) -> io::Result<Self> {
        let drafts = path.join(DRAFTS);
        match fs::remove_dir_all(&drafts) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => fs::create_dir_all(&drafts)?,
        }
        Ok(Self(Arc::new(OpenFolder { path: path.to_owned(), changes: Mutex::default() })))
    }
}

impl OpenFolder {
    fn file(&self, owner: &str, digest: Digest) -> PathBuf {
        let hex = digest.to_string();
        self.path.join(owner_folder(owner)).join(&hex[..2]).join(hex)
    }

    /// The name of a new draft.
    fn draft(&self) -> PathBuf {
        self.path.join(DRAFTS).join(uuid::Uuid::now_v7().simple().to_string())
    }

    /// Gives the complete file `from` the name of a blob, durably. One that is there already is as new again.
    fn put(&self, from: &Path, at: &Path) -> io::Result<()> {
        let _change = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(known) = File::open(at)
            && known.metadata()?.len() == fs::metadata(from)?.len()
        {
            return known.set_modified(SystemTime::now());
        }
        let folder = at.parent().unwrap_or(&self.path);
        let is_new = !folder.exists();
        fs::create_dir_all(folder)?;
        fs::rename(from, at)?;
        File::open(folder)?.sync_all()?;
        if is_new {
            // The folder's own entry, and that of the owner's.
            let owner = folder.parent().unwrap_or(&self.path);
            File::open(owner)?.sync_all()?;
            File::open(&self.path)?.sync_all()?;
        }
        Ok(())
    }
}

/// The name of an owner's folder: letters, digits, `-` and `_` as they are, and others by their numbers.
fn owner_folder(owner: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let named = owner.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    });
    let name: String = named.collect();
    if name == DRAFTS { format!("%{name}") } else { name }
}

/// Runs file operations where they block nobody.
fn blocking<T: Send + 'static>(run: impl FnOnce() -> io::Result<T> + Send + 'static) -> StoreFuture<T> {
    Box::pin(async move {
        match tokio::task::spawn_blocking(run).await {
            Ok(done) => done.map_err(|error| failed(&error)),
            Err(error) => Err(Error::Unknown(error.to_string())),
        }
    })
}

fn failed(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::StorageFull,
        _ => Error::Refused(format!("a file can't be kept or read: {error}")),
    }
}

impl Blobs for BlobFolder {
    fn draft(&self) -> Result<Box<dyn BlobDraft>, Error> {
        let path = self.0.draft();
        let file = File::create_new(&path).map_err(|error| failed(&error))?;
        Ok(Box::new(FileDraft { folder: self.0.clone(), path, file: Some(file) }))
    }

    fn get(&self, owner: &str, digest: Digest, range: Range<u64>) -> StoreFuture<Option<Bytes>> {
        let path = self.0.file(owner, digest);
        blocking(move || {
            let mut file = match File::open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let end = file.metadata()?.len().min(range.end);
            let length = end.saturating_sub(range.start);
            file.seek(SeekFrom::Start(range.start.min(end)))?;
            let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
            file.take(length).read_to_end(&mut content)?;
            Ok(Some(content.into()))
        })
    }

    fn share(&self, from: &str, to: &str, digest: Digest) -> StoreFuture<bool> {
        let folder = self.0.clone();
        let (from, to) = (folder.file(from, digest), folder.file(to, digest));
        blocking(move || {
            if !from.exists() {
                return Ok(false);
            }
            // A blob is never changed, so that both may be one file.
            let draft = folder.draft();
            let put = match fs::hard_link(&from, &draft) {
                Ok(()) => Ok(()),
                Err(_) => fs::copy(&from, &draft).and_then(|_| File::open(&draft)?.sync_all()),
            };
            let put = put.and_then(|()| folder.put(&draft, &to));
            let _ = fs::remove_file(&draft);
            put.map(|()| true)
        })
    }

    fn delete(&self, owner: &str, digest: Digest, idle: Duration) -> StoreFuture<bool> {
        let folder = self.0.clone();
        let path = folder.file(owner, digest);
        blocking(move || {
            let _change = folder.changes.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = match fs::metadata(&path) {
                Ok(about) => about.modified()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                Err(error) => return Err(error),
            };
            let is_idle = changed.elapsed().unwrap_or_default() >= idle;
            if is_idle {
                fs::remove_file(&path)?;
            }
            Ok(is_idle)
        })
    }

    fn list(&self, owner: &str) -> StoreFuture<Vec<Digest>> {
        let folder = self.0.path.join(owner_folder(owner));
        blocking(move || {
            let mut digests = Vec::new();
            let parts = match fs::read_dir(folder) {
                Ok(parts) => parts,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(digests),
                Err(error) => return Err(error),
            };
            for part in parts {
                let part = part?;
                if !part.file_type()?.is_dir() {
                    continue;
                }
                for file in fs::read_dir(part.path())? {
                    let name = file?.file_name();
                    digests.extend(name.to_str().and_then(|name| Digest::parse(name).ok()));
                }
            }
            Ok(digests)
        })
    }
}

struct FileDraft {
    folder: Arc<OpenFolder>,
    path: PathBuf,
    file: Option<File>,
}

impl BlobDraft for FileDraft {
    fn write(&mut self, content: &[u8]) -> Result<(), Error> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(content).map_err(|error| failed(&error))
    }

    fn end(&mut self) {
        // Many drafts of one request would take many descriptors.
        self.file = None;
    }

    fn keep(mut self: Box<Self>, owner: &str, digest: Digest) -> StoreFuture<()> {
        let to = self.folder.file(owner, digest);
        blocking(move || {
            self.file = None;
            File::open(&self.path)?.sync_all()?;
            self.folder.put(&self.path, &to)
        })
    }
}

impl Drop for FileDraft {
    fn drop(&mut self) {
        // After `keep` there is no such file.
        let _ = fs::remove_file(&self.path);
    }
}
