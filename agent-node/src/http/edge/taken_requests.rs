//! Takes each signed request once: what was captured on its way is refused when it is sent again.

use protocol::{
    ids::Digest,
    log_throttle::LogThrottle,
    problem::{Problem, Reason},
    signature::{SignatureClaim, WINDOW_S},
};
use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// How many seconds of signatures share a set and a file.
const PERIOD_S: u64 = 60;
/// Bytes of a request's digest that are kept.
const ID_BYTES: usize = 16;

type RequestId = [u8; ID_BYTES];

/// The signed requests that were taken, as long as their signatures are good: within that time of their `created`. Those of an
/// earlier process are read from the folder. A file is written without being synced: a process that is killed loses none, a
/// machine that loses its power may lose the last ones.
#[derive(Debug, Default)]
pub struct TakenRequests {
    /// Without one, they are kept in memory only.
    folder: Option<PathBuf>,
    periods: Mutex<Periods>,
}

#[derive(Debug, Default)]
struct Periods {
    by_number: BTreeMap<u64, Period>,
    failures: LogThrottle,
}

/// The requests that were signed in one period.
#[derive(Debug, Default)]
struct Period {
    taken: HashSet<RequestId>,
    file: Option<File>,
}

impl TakenRequests {
    /// Those whose files are in `folder`, which is created; files of signatures that are not good at `now` (Unix seconds) are
    /// deleted.
    ///
    /// # Errors
    /// The folder can't be used.
    pub fn open(folder: &Path, now: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut by_number = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let number = path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
            let Some(number) = number else { continue };
            if is_over(number, now) {
                fs::remove_file(&path)?;
                continue;
            }
            let mut bytes = Vec::new();
            File::open(&path)?.read_to_end(&mut bytes)?;
            let ids = bytes.chunks_exact(ID_BYTES).filter_map(|id| id.try_into().ok());
            by_number.insert(number, Period { taken: ids.collect(), file: None });
        }
        let periods = Mutex::new(Periods { by_number, ..Periods::default() });
        Ok(Self { folder: Some(folder.to_owned()), periods })
    }

    /// Takes the request of `claim`, which is verified, at `now` (Unix seconds). 401 if it was taken before. One without a nonce
    /// is of an earlier version and is not kept.
    pub(super) fn take(&self, claim: &SignatureClaim, now: u64) -> Result<(), Problem> {
        let Some(nonce) = claim.nonce() else { return Ok(()) };
        let digest = Digest::of(format!("{} {nonce}", claim.agent()).as_bytes());
        let id: RequestId = std::array::from_fn(|at| digest.bytes()[at]);
        let number = claim.created() / PERIOD_S;
        let mut periods = self.periods.lock().unwrap_or_else(PoisonError::into_inner);
        let over: Vec<u64> =
            periods.by_number.keys().copied().filter(|number| is_over(*number, now)).collect();
        for number in over {
            periods.by_number.remove(&number);
            if let Some(folder) = &self.folder {
                // A file that stays is deleted at the next start.
                drop(fs::remove_file(folder.join(number.to_string())));
            }
        }
        let Periods { by_number, failures } = &mut *periods;
        let period = by_number.entry(number).or_default();
        if !period.taken.insert(id) {
            return Err(Problem::new(Reason::Unauthenticated, "this signed request was taken before"));
        }
        if let Some(folder) = &self.folder
            && let Err(error) = period.write(&folder.join(number.to_string()), &id)
            && let Some(times) = failures.failed(Instant::now())
        {
            tracing::warn!(%error, times, "a signed request is not kept: after a restart it could be taken again");
        }
        Ok(())
    }
}

impl Period {
    fn write(&mut self, path: &Path, id: &RequestId) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(OpenOptions::new().create(true).append(true).open(path)?),
        };
        let written = file.write_all(id);
        if written.is_err() {
            // A part of an id would shift those behind it.
            let length = file.metadata()?.len();
            file.set_len(length - length % ID_BYTES as u64)?;
        }
        written
    }
}

/// Whether no signature of a period is good any more.
fn is_over(number: u64, now: u64) -> bool {
    (number + 1) * PERIOD_S + WINDOW_S < now
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        ids::AgentId,
        signature::{PresentedSignature, Secret, SignedParts, verify_request},
    };

    const NOW: u64 = 1_800_000_000;

    fn claim(signer: &str, created: u64, nonce: Option<&str>) -> SignatureClaim {
        let secret = Secret::new(&[7; 32]).unwrap();
        let parts = SignedParts {
            method: "GET",
            path_and_query: "/",
            recipient: "registry",
            message_id: None,
            digest: Digest::of(b""),
        };
        let headers = secret.sign_request(&AgentId::parse(signer).unwrap(), &parts, created, nonce);
        let presented = PresentedSignature {
            content_digest: Some(&headers.content_digest),
            signature_input: Some(&headers.signature_input),
            signature: Some(&headers.signature),
        };
        verify_request(&parts, &presented, created, |_| Ok(())).unwrap()
    }

    #[test]
    fn a_request_is_taken_once_also_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("requests");
        let taken = TakenRequests::open(&folder, NOW).unwrap();
        let first = claim("a-01", NOW, Some("1"));
        taken.take(&first, NOW).unwrap();
        assert_eq!(taken.take(&first, NOW + 299).unwrap_err().reason, Reason::Unauthenticated);
        taken.take(&claim("b-01", NOW, Some("1")), NOW).unwrap();
        taken.take(&claim("a-01", NOW, Some("2")), NOW).unwrap();
        for _ in 0..2 {
            taken.take(&claim("a-01", NOW, None), NOW).unwrap();
        }
        drop(taken);
        let next = TakenRequests::open(&folder, NOW + 10).unwrap();
        assert!(next.take(&first, NOW + 10).is_err());
        next.take(&claim("a-01", NOW, Some("3")), NOW + 10).unwrap();
    }

    #[test]
    fn what_no_signature_is_good_for_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let taken = TakenRequests::open(dir.path(), NOW).unwrap();
        let files = || fs::read_dir(dir.path()).unwrap().count();
        for second in 0..2_000 {
            let now = NOW + second;
            taken.take(&claim("a-01", now - WINDOW_S, Some(&second.to_string())), now).unwrap();
            taken.take(&claim("a-01", now + WINDOW_S, Some(&format!("x{second}"))), now).unwrap();
        }
        let most = 2 * WINDOW_S / PERIOD_S + 3;
        let periods = taken.periods.lock().unwrap().by_number.len();
        assert!(periods as u64 <= most && files() as u64 <= most, "{periods} {}", files());
        drop(taken);
        TakenRequests::open(dir.path(), NOW + 10_000).unwrap();
        assert_eq!(files(), 0);
    }
}
