//! One signal to a thousand readers. Run by hand: `cargo test -p blackboard --release fan_out -- --ignored --nocapture`.

use super::*;

fn resident() -> usize {
    let pages: usize =
        std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[actix_web::test]
#[ignore = "a measurement, not a verdict"]
async fn fan_out_to_a_thousand_readers() {
    const READERS: usize = 1_000;
    let TestServer { board, at, handle } = test_server();
    let by = Principal::local_user();
    remote(at).read(&by, &Selector::default(), None, 1).await.unwrap();
    let before = resident();
    let sockets: Vec<_> = (0..READERS).map(|_| open_stream(at, "", "")).collect();
    within("all follow", async {
        while board.snapshot().await.unwrap().subscribers < READERS {
            tokio::task::yield_now().await;
        }
    })
    .await;
    println!("{} bytes a reader, both ends", (resident() - before) / READERS);
    let (seen, mut times) = tokio::sync::mpsc::unbounded_channel();
    let (halt, readers_per_thread) =
        (std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)), READERS / 8);
    for part in sockets.chunks(readers_per_thread) {
        let part: Vec<TcpStream> = part.iter().map(|socket| socket.try_clone().unwrap()).collect();
        let (seen, halt) = (seen.clone(), halt.clone());
        std::thread::spawn(move || {
            part.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
            let mut bytes = [0; 4096];
            while !halt.load(std::sync::atomic::Ordering::Relaxed) {
                for mut socket in &part {
                    if let Ok(n) = socket.read(&mut bytes) {
                        let events = bytes[..n].windows(6).filter(|w| w == b"data: ").count();
                        for _ in 0..events {
                            seen.send(Instant::now()).unwrap_or_default();
                        }
                    }
                }
                std::thread::sleep(Duration::from_micros(500));
            }
        });
    }
    let mut delays = Vec::new();
    for n in 0..50 {
        let start = Instant::now();
        board.publish(&by, signal(&n.to_string(), "help.needed", "x")).await.unwrap();
        for _ in 0..READERS {
            delays.push(within("an event", times.recv()).await.unwrap() - start);
        }
    }
    halt.store(true, std::sync::atomic::Ordering::Relaxed);
    delays.sort();
    println!("p50 {:?}, p99 {:?}", delays[delays.len() / 2], delays[delays.len() * 99 / 100]);
    handle.stop(false).await;
}
