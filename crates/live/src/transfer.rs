//! A transfer whose every byte is known at the other end: one TCP connection from the VM to the
//! network host, with a fixed amount in each direction. A byte follows from its direction and its
//! position, so that altered, doubled, lost and reordered bytes are detected.

use super::Watcher;
use super::testbed::{Arm, SERVER, Testbed};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The network host's port; iperf3 has 5201.
const PORT: u16 = 5202;
/// Timeout of a connection without progress.
const STILL: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of one write or read.
const CHUNK: usize = 64 << 10;

/// Returns the byte at a position of the stream to the network (0) or back (1).
fn byte(way: u8, at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ way
}

fn send(mut to: &TcpStream, way: u8, amount: u64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    while at < amount {
        let n = CHUNK.min((amount - at) as usize);
        chunk[..n].iter_mut().zip(at..).for_each(|(b, at)| *b = byte(way, at));
        to.write_all(&chunk[..n])?;
        at += n as u64;
    }
    Ok(())
}

/// Reads up to `amount` bytes. Returns the number of intact ones.
fn receive(mut from: impl Read, way: u8, amount: u64) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK];
    let (mut at, mut whole) = (0, 0);
    while at < amount {
        let n = from.read(&mut chunk)?;
        if n == 0 {
            break;
        }
        whole += chunk[..n].iter().zip(at..).filter(|(b, at)| **b == byte(way, *at)).count() as u64;
        at += n as u64;
    }
    Ok(whole)
}

/// Sends `bytes` bytes from the VM to the network host, and as many back. Returns the intact bytes
/// at each. Fails with `Interrupted` after a signal, or with the error of a socket or a daemon.
pub(super) fn exchange(bed: &mut Testbed, bytes: u64, watch: &Watcher<'_>) -> io::Result<[u64; 2]> {
    let address = SocketAddr::new(SERVER.parse().map_err(io::Error::other)?, PORT);
    let listener = bed.net.within(|| TcpListener::bind(address))??;
    let vm = bed.host(Arm::Ibmveth).within(|| TcpStream::connect_timeout(&address, STILL))??;
    let (net, _) = listener.accept()?;
    for stream in [&vm, &net] {
        stream.set_read_timeout(Some(STILL))?;
        stream.set_write_timeout(Some(STILL))?;
    }
    std::thread::scope(|s| {
        let at_vm = s.spawn(|| send(&vm, 0, bytes).and_then(|()| receive(&vm, 1, bytes)));
        let at_net =
            s.spawn(|| receive(&net, 0, bytes).and_then(|n| send(&net, 1, bytes).map(|()| n)));
        let mut ended = Ok(());
        while ended.is_ok() && !(at_vm.is_finished() && at_net.is_finished()) {
            std::thread::sleep(LOOK);
            ended = if watch.interrupted() {
                Err(io::ErrorKind::Interrupted.into())
            } else {
                bed.alive()
            };
        }
        if ended.is_err() {
            // This ends both threads.
            for stream in [&vm, &net] {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<u64>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let (at_vm, at_net) = (join(at_vm), join(at_net));
        ended?;
        Ok([at_net?, at_vm?])
    })
}

#[cfg(test)]
mod tests;
