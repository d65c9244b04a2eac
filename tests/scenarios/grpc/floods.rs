//! A connection that floods the port with frames that ask for no call is cut; others are served.

use super::*;
use std::time::Duration;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
}

/// Shorter than the time after which an idle connection is closed anyhow.
const CUT_WITHIN: Duration = Duration::from_secs(15);

/// Sends these frames until the connection is cut. Fails if it is not.
async fn flood(to: &str, frames: &[u8]) {
    let socket = TcpStream::connect(to).await.unwrap();
    let (mut reader, mut writer) = socket.into_split();
    writer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    writer.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    let reads = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    let many = frames.repeat(100);
    let writes = async {
        // One connection must not send 10,000 of them.
        for _ in 0..100 {
            if writer.write_all(&many).await.is_err() {
                return;
            }
        }
        drop(reads.await);
    };
    timeout(CUT_WITHIN, writes).await.expect("the connection is cut");
}

#[tokio::test]
async fn floods_of_frames_are_cut() {
    let mesh = up().await;
    let to = port(&mesh);
    for (what, frames) in [
        ("PING", frame(6, 0, 0, &[0; 8])),
        ("SETTINGS", frame(4, 0, 0, &[])),
        ("PRIORITY", frame(2, 0, 1, &[0, 0, 0, 3, 1])),
        ("WINDOW_UPDATE", frame(8, 0, 0, &[0, 0, 0, 1])),
        ("an unknown kind", frame(99, 0, 0, &[])),
    ] {
        eprintln!("{what}");
        flood(&to, &frames).await;
    }
    let done = task(stub(&mesh).send_message(asked(send("make it"))).await.unwrap());
    assert_eq!(state(&done), wire::TaskState::Completed, "others are served");
}
