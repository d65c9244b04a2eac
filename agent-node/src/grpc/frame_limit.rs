//! Cuts floods of HTTP/2 frames that ask for no call. h2 limits the streams, headers and resets that it has not handled yet, but
//! answers any number of PING and SETTINGS frames and reads any number of PRIORITY, WINDOW_UPDATE and empty DATA frames
//! (CVE-2019-9512, 9513, 9515, 9518; CVE-2023-44487).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};
use tokio::io::{AsyncRead, ReadBuf};

/// Control frames that a connection may send at once.
const BURST: f64 = 1_000.0;
/// Control frames that it may send in addition each second.
const PER_SECOND: f64 = 100.0;
/// Control frames that it may send in addition for each call or message.
const PER_CALL: f64 = 10.0;
/// What the reset of a call costs: more than a call earns, so that calls that are only reset are cut.
const RESET: f64 = 12.0;

const HEADER_BYTES: usize = 9;

mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RST_STREAM: u8 = 3;
}

/// Reads HTTP/2 frames after the preface. Fails when the peer has sent too many control frames.
pub(super) struct FrameLimit<R> {
    inner: R,
    header: [u8; HEADER_BYTES],
    header_length: usize,
    /// Bytes of the present frame that are still to come.
    payload: usize,
    allowance: Allowance,
}

/// How many control frames the peer may still send.
struct Allowance {
    frames: f64,
    at: Instant,
}

impl<R> FrameLimit<R> {
    pub(super) fn new(inner: R) -> Self {
        let allowance = Allowance { frames: BURST, at: Instant::now() };
        Self { inner, header: [0; HEADER_BYTES], header_length: 0, payload: 0, allowance }
    }

    /// Counts the frames that begin in `bytes`. Fails when they are too many.
    fn count(&mut self, mut bytes: &[u8], now: Instant) -> Result<(), TooManyFrames> {
        while !bytes.is_empty() {
            if self.payload > 0 {
                let skipped = self.payload.min(bytes.len());
                self.payload -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            let taken = (HEADER_BYTES - self.header_length).min(bytes.len());
            let (head, rest) = bytes.split_at(taken);
            self.header[self.header_length..][..taken].copy_from_slice(head);
            self.header_length += taken;
            bytes = rest;
            if self.header_length == HEADER_BYTES {
                self.header_length = 0;
                let [high, middle, low, kind, ..] = self.header;
                self.payload = u32::from_be_bytes([0, high, middle, low]) as usize;
                self.allowance.count(kind, self.payload, now)?;
            }
        }
        Ok(())
    }
}

/// The peer floods the connection.
#[derive(Debug, thiserror::Error)]
#[error("too many HTTP/2 frames that ask for no call")]
struct TooManyFrames;

impl Allowance {
    fn count(&mut self, kind: u8, payload: usize, now: Instant) -> Result<(), TooManyFrames> {
        match (kind, payload) {
            (kind::HEADERS, _) => self.frames = (self.frames + PER_CALL).min(BURST),
            (kind::DATA, 1..) => self.frames = (self.frames + 1.0).min(BURST),
            (kind::RST_STREAM, _) => self.frames -= RESET,
            _ => self.frames -= 1.0,
        }
        if self.frames < 0.0 {
            let earned = now.saturating_duration_since(self.at).as_secs_f64() * PER_SECOND;
            self.frames = (self.frames + earned).min(BURST);
            self.at = now;
        }
        if self.frames < 0.0 { Err(TooManyFrames) } else { Ok(()) }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for FrameLimit<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        let read = buf.filled().get(before..).unwrap_or_default();
        Poll::Ready(this.count(read, Instant::now()).map_err(io::Error::other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0, (payload >> 8) as u8, payload as u8, kind, 0, 0, 0, 0, 1];
        frame.resize(HEADER_BYTES + payload, 0);
        frame
    }

    /// How many of these frames pass before the cut, up to a limit.
    fn passed(frames: &[Vec<u8>], most: usize) -> usize {
        let (mut limit, now) = (FrameLimit::new(tokio::io::empty()), Instant::now());
        let all = std::iter::repeat_with(|| frames.iter()).flatten().take(most);
        all.take_while(|frame| frame.chunks(5).all(|piece| limit.count(piece, now).is_ok())).count()
    }

    #[test]
    fn floods_are_cut() {
        // PING, SETTINGS, PRIORITY, WINDOW_UPDATE, an unknown kind, empty DATA.
        for (kind, payload) in [(6, 8), (4, 6), (2, 5), (8, 4), (99, 0), (0, 0)] {
            assert_eq!(passed(&[frame(kind, payload)], 100_000), 1_000, "{kind}");
        }
        let resets = passed(&[frame(1, 20), frame(3, 4)], 100_000) / 2;
        assert!((400..=500).contains(&resets), "calls that are only reset: {resets}");
    }

    #[test]
    fn traffic_is_not_cut() {
        let call = [frame(1, 40), frame(0, 300), frame(8, 4), frame(8, 4), frame(6, 8), frame(4, 0)];
        assert_eq!(passed(&call, 100_000), 100_000);
        let upload = [frame(0, 16_384), frame(8, 4)];
        assert_eq!(passed(&upload, 100_000), 100_000);
    }

    #[test]
    fn an_idle_connection_may_ping_for_ever() {
        let (mut limit, start) = (FrameLimit::new(tokio::io::empty()), Instant::now());
        for at in 0..10_000 {
            limit.count(&frame(6, 8), start + Duration::from_millis(15 * at)).unwrap();
        }
    }
}
