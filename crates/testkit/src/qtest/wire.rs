//! The other end of a QEMU network device's cable: `-netdev dgram` on UNIX sockets.
//!
//! Each datagram is one frame without FCS; none is reordered or lost. The socket queues about ten
//! frames (`max_dgram_qlen`) for a device that cannot receive; further sends wait.

use super::Error;
use super::process::option_path;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// A cable to a QEMU, created before that QEMU.
#[derive(Debug)]
pub struct Wire {
    socket: UnixDatagram,
    ours: PathBuf,
    theirs: PathBuf,
    _dir: TempDir,
}

/// Bytes of a buffer that is longer than any device's frame.
const LONGEST: usize = 1 << 17;

impl Wire {
    /// Creates a cable.
    ///
    /// # Errors
    /// If the system refuses the socket or its directory.
    pub fn new() -> Result<Wire, Error> {
        let dir = tempfile::Builder::new()
            .prefix("doorbell-wire-")
            .tempdir()
            .map_err(Error::system("making a temporary directory"))?;
        let (ours, theirs) = (dir.path().join("here"), dir.path().join("qemu"));
        let socket =
            UnixDatagram::bind(&ours).map_err(Error::system("making a socket for frames"))?;
        // A receiver that is off for good must not hang the sender.
        socket
            .set_write_timeout(Some(Duration::from_secs(5)))
            .map_err(Error::system("setting a timeout"))?;
        Ok(Wire { socket, ours, theirs, _dir: dir })
    }

    /// Returns the value of QEMU's `-netdev` option for this cable, as network `id`.
    pub fn netdev(&self, id: &str) -> String {
        let (ours, theirs) = (option_path(&self.ours), option_path(&self.theirs));
        format!(
            "dgram,id={id},local.type=unix,local.path={theirs},remote.type=unix,remote.path={ours}"
        )
    }

    /// Sends a frame to the device.
    ///
    /// # Errors
    /// If no QEMU has this cable, or it has taken no frame for 5 s.
    pub fn send(&self, frame: &[u8]) -> Result<(), Error> {
        self.socket
            .send_to(frame, &self.theirs)
            .map_err(Error::system("sending a frame to QEMU"))
            .map(drop)
    }

    /// The next frame from the device; waits up to `patience` of real time.
    ///
    /// # Errors
    /// When the system fails; that nothing came is `None`.
    pub fn receive(&self, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
        let waits = !patience.is_zero();
        let prepared = self.socket.set_nonblocking(!waits).and_then(|()| {
            if waits { self.socket.set_read_timeout(Some(patience)) } else { Ok(()) }
        });
        prepared.map_err(Error::system("setting a timeout"))?;
        let mut frame = vec![0; LONGEST];
        match self.socket.recv(&mut frame) {
            Ok(len) => {
                frame.truncate(len);
                Ok(Some(frame))
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
            Err(why) => Err(Error::System { doing: "receiving a frame from QEMU".into(), why }),
        }
    }
}

#[cfg(test)]
mod tests;
