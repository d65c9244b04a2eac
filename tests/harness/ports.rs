//! Ports of processes that must be reachable at an address known before they start, or start again at the same one.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU32, Ordering},
};

/// A free loopback port that no other test of this process is given. It lies below the ports that the system hands
/// out by itself (32768 and up on Linux), so that no other socket takes it while its process is down.
pub fn reserved_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let offset = std::process::id().wrapping_mul(31).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + u16::try_from(offset % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
