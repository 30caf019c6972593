//! Messages of a vfio-user client, each with its answer.
//!
//! Source: QEMU, docs/interop/vfio-user.rst. Errors are a test's failures.

use doorbell_vfio_user::send_with_fds;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

/// Sends a message. Returns the body of its reply.
///
/// # Panics
/// Panics if the reply is an error.
pub fn ask(s: &mut UnixStream, command: u16, body: &[u8]) -> Vec<u8> {
    send(s, command, body, &[]);
    reply(s).expect("no error")
}

/// Sends a message, with descriptors.
///
/// # Panics
/// Panics if the server has gone.
pub fn send(s: &UnixStream, command: u16, body: &[u8], fds: &[BorrowedFd<'_>]) {
    try_send(s, command, body, fds).unwrap();
}

/// Sends a message to a server that may have gone.
///
/// # Errors
/// It has.
pub fn try_send(
    mut s: &UnixStream,
    command: u16,
    body: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut m = [1, 0].to_vec();
    m.extend(command.to_ne_bytes());
    m.extend((16 + body.len() as u32).to_ne_bytes());
    m.extend([0; 8]);
    m.extend(body);
    let first = send_with_fds(s, &m, fds)?;
    s.write_all(&m[first..])
}

/// Receives the body of a reply, or its errno.
///
/// # Panics
/// Panics if the server has gone, or sends anything else.
pub fn reply(s: &mut UnixStream) -> Result<Vec<u8>, u32> {
    let mut head = [0; 16];
    s.read_exact(&mut head).unwrap();
    let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap());
    let mut reply = vec![0; word(4) as usize - 16];
    s.read_exact(&mut reply).unwrap();
    match word(8) {
        1 => Ok(reply),
        0x21 => Err(word(12)),
        flags => panic!("a reply with flags {flags:#x}"),
    }
}
