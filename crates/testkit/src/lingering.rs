//! A connection that makes whoever closes it wait, as a hostile client passes it to a server.

use rustix::net::sockopt::set_socket_linger;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Returns a TCP connection whose close waits for up to `time`, and its peer, whose end ends the
/// wait.
///
/// # Errors
/// If the system refuses a socket.
pub fn lingering(time: Duration) -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut socket = TcpStream::connect(listener.local_addr()?)?;
    let (peer, _) = listener.accept()?;
    socket.set_nonblocking(true)?;
    // More than both buffers take: what is not sent is waited for.
    while socket.write(&[0; 1 << 16]).is_ok() {}
    set_socket_linger(&socket, Some(time))?;
    Ok((socket, peer))
}
