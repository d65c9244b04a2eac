//! What SQLite's recovery drops from a write-ahead log without a word. Pure: bytes in, a finding out.
//!
//! Recovery takes the frames from the beginning as long as salts and checksums fit, and ignores everything from the first
//! one that does not. A transaction that a crash tore ends a log so, whatever order its pages reached the disk in, and
//! that is right: it was not acknowledged. But no transaction begins before the last one is synced, so a log has at most
//! one torn transaction, and at most one commit mark behind the place where recovery stops. A second one proves that a
//! transaction is dropped that was acknowledged.
//!
//! The format: <https://sqlite.org/walformat.html>, section 4 of <https://sqlite.org/fileformat2.html>.

use std::io::{self, ErrorKind, Read};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The magic number; its last bit says that checksums are of big-endian words.
const MAGIC: u32 = 0x377f_0682;

/// Committed transactions that recovery would drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostCommits {
    /// Where recovery stops, bytes from the beginning of the log.
    pub at: u64,
    /// Commit marks from there on. All but perhaps the last one were acknowledged.
    pub commits: u64,
}

/// The commits that recovery of `log` would drop; `None` if that is at most a torn one. `page_bytes` is the size of a page if
/// the header does not tell.
///
/// Not told from a torn transaction: damage of the last one, and damage of the only transaction of a log.
///
/// # Errors
/// Those of reading `log`.
pub(super) fn lost_commits(log: &mut impl Read, page_bytes: u32) -> io::Result<Option<LostCommits>> {
    let mut header = [0; HEADER_BYTES];
    if !fill(log, &mut header)? {
        return Ok(None);
    }
    let mut chain = Chain::of(&header);
    let page_bytes = chain.as_ref().map_or(page_bytes, |_| word(&header, 8));
    // Without a header that fits, the log's salts are those of its first frame: it is overwritten from its beginning.
    let mut salts = chain.as_ref().map(|_| salts_of(&header, 16));
    let (mut at, mut stopped) = (HEADER_BYTES as u64, if chain.is_none() { Some(0) } else { None });
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes as usize];
    let mut commits = 0;
    while fill(log, &mut frame)? {
        let is_of_log =
            word(&frame, 0) > 0 && *salts.get_or_insert(salts_of(&frame, 8)) == salts_of(&frame, 8);
        if stopped.is_none() && !(is_of_log && chain.as_mut().is_some_and(|chain| chain.takes(&frame))) {
            stopped = Some(at);
        }
        let is_commit = word(&frame, 4) > 0;
        commits += u64::from(stopped.is_some() && is_of_log && is_commit);
        at += frame.len() as u64;
    }
    Ok(stopped.filter(|_| commits > 1).map(|at| LostCommits { at, commits }))
}

/// Reads all of `bytes`; returns false if the log ends before.
fn fill(log: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The big-endian number at `at`.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn salts_of(bytes: &[u8], at: usize) -> (u32, u32) {
    (word(bytes, at), word(bytes, at + 4))
}

/// The checksum of a log up to a frame, which the next frame continues.
struct Chain {
    is_big_endian: bool,
    sum: (u32, u32),
}

impl Chain {
    /// The chain that a header begins; `None` for one that SQLite does not take.
    fn of(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (magic, page_bytes) = (word(header, 0), word(header, 8));
        let has_page_size = page_bytes.is_power_of_two() && (512..=65_536).contains(&page_bytes);
        if magic & !1 != MAGIC || !has_page_size {
            return None;
        }
        let mut chain = Self { is_big_endian: magic & 1 == 1, sum: (0, 0) };
        chain.add(&header[..24]);
        (chain.sum == salts_of(header, 24)).then_some(chain)
    }

    /// Whether `frame` continues the chain.
    fn takes(&mut self, frame: &[u8]) -> bool {
        let (header, page) = frame.split_at(FRAME_HEADER_BYTES);
        self.add(&header[..8]);
        self.add(page);
        self.sum == salts_of(header, 16)
    }

    fn add(&mut self, bytes: &[u8]) {
        let number = |word: &[u8]| {
            let word = word.try_into().unwrap_or_default();
            if self.is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        let (mut first, mut second) = self.sum;
        for pair in bytes.chunks_exact(8) {
            first = first.wrapping_add(number(&pair[..4])).wrapping_add(second);
            second = second.wrapping_add(number(&pair[4..])).wrapping_add(first);
        }
        self.sum = (first, second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: usize = 512;
    const FRAME: usize = FRAME_HEADER_BYTES + PAGE;
    const SALTS: [u8; 8] = *b"salts-00";

    /// A log of transactions with so many pages each, as SQLite writes it.
    fn log(transactions: &[usize], is_big_endian: bool) -> Vec<u8> {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&(MAGIC | u32::from(is_big_endian)).to_be_bytes());
        header[4..8].copy_from_slice(&3_007_000_u32.to_be_bytes());
        header[8..12].copy_from_slice(&(PAGE as u32).to_be_bytes());
        header[16..24].copy_from_slice(&SALTS);
        let mut chain = Chain { is_big_endian, sum: (0, 0) };
        chain.add(&header[..24]);
        header[24..28].copy_from_slice(&chain.sum.0.to_be_bytes());
        header[28..].copy_from_slice(&chain.sum.1.to_be_bytes());
        let mut log = header.to_vec();
        for (n, pages) in transactions.iter().enumerate() {
            for page in 1..=*pages {
                let mut frame = vec![n as u8 + 1; FRAME];
                frame[..4].copy_from_slice(&(page as u32).to_be_bytes());
                frame[4..8].copy_from_slice(&(if page == *pages { 9_u32 } else { 0 }).to_be_bytes());
                frame[8..16].copy_from_slice(&SALTS);
                chain.add(&frame[..8]);
                chain.add(&frame[FRAME_HEADER_BYTES..]);
                frame[16..20].copy_from_slice(&chain.sum.0.to_be_bytes());
                frame[20..24].copy_from_slice(&chain.sum.1.to_be_bytes());
                log.extend(frame);
            }
        }
        log
    }

    fn lost(mut log: &[u8]) -> Option<LostCommits> {
        lost_commits(&mut log, PAGE as u32).unwrap()
    }

    fn frame_at(n: usize) -> usize {
        HEADER_BYTES + n * FRAME
    }

    prop_compose! {
        fn transactions()(pages in prop::collection::vec(1..5_usize, 2..8)) -> Vec<usize> { pages }
    }

    proptest! {
        /// The pages of the last transaction reach the disk in any order, each whole, in part or not at all.
        #[test]
        fn a_torn_last_transaction_is_no_loss(
            pages in transactions(),
            is_big_endian: bool,
            reached in prop::collection::vec(0..=FRAME, 5),
            old: u8,
        ) {
            let mut log = log(&pages, is_big_endian);
            let last = pages.iter().sum::<usize>() - pages.last().unwrap();
            for (frame, reached) in log[frame_at(last)..].chunks_mut(FRAME).zip(reached) {
                // What was there before: nothing, or the frames of an earlier log.
                frame[reached..].fill(old);
            }
            prop_assert_eq!(lost(&log), None);
            for end in (frame_at(last)..log.len()).step_by(307) {
                prop_assert_eq!(lost(&log[..end]), None);
            }
        }

        /// The frame's own salts and mark excepted, which are the proof.
        #[test]
        fn a_flip_before_the_last_transaction_is_a_loss(
            pages in transactions(),
            is_big_endian: bool,
            at: prop::sample::Index,
            bit in 0..8_u8,
        ) {
            let sound = log(&pages, is_big_endian);
            prop_assert_eq!(lost(&sound), None);
            let last = pages.iter().sum::<usize>() - pages.last().unwrap();
            let at = at.index(frame_at(last));
            let mut log = sound;
            log[at] ^= 1 << bit;
            let stops = if at < HEADER_BYTES { 0 } else { frame_at((at - HEADER_BYTES) / FRAME) };
            let in_frame = at.checked_sub(HEADER_BYTES).map(|at| at % FRAME);
            let behind: usize = {
                let frame = at.saturating_sub(HEADER_BYTES) / FRAME;
                let ends = pages.iter().scan(0, |end, pages| { *end += pages; Some(*end) });
                ends.filter(|end| *end > frame).count()
            };
            match lost(&log) {
                Some(lost) => {
                    prop_assert_eq!(lost.at, stops as u64);
                    prop_assert!(lost.commits as usize == behind || in_frame.is_some_and(|at| at < 16));
                }
                None => prop_assert!(behind == 2 && in_frame.is_some_and(|at| at < 16), "{at}"),
            }
        }

        #[test]
        fn frames_of_an_earlier_log_are_no_loss(pages in transactions(), earlier in transactions()) {
            let mut log = log(&pages, false);
            let mut behind = self::log(&earlier, false).split_off(HEADER_BYTES);
            behind.chunks_mut(FRAME).for_each(|frame| frame[8] ^= 1);
            log.extend(behind);
            prop_assert_eq!(lost(&log), None);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            lost(&bytes);
        }
    }
}
