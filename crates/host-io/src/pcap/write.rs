//! Writing pcapng: one section, interfaces, enhanced packets.

use super::{MAX_FRAME, MIN_FRAME};
use crate::records::Records;
use doorbell_hal::Time;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{fs::Permissions, os::unix::fs::PermissionsExt};
use tempfile::NamedTempFile;

/// if_tsresol: 10^-9 s. See the module for the reason.
const NANOSECONDS: u8 = 9;
const PS_PER_NS: u64 = 1_000;

const IF_NAME: u16 = 2;
const IF_SPEED: u16 = 8;
const IF_TSRESOL: u16 = 9;
const END_OF_OPTIONS: [u8; 4] = [0; 4];

/// Writes a pcapng file: virtual time 0 is the file's epoch, 1970.
///
/// The bytes go to a temporary file beside the target, which replaces the target in
/// [`finish`](Writer::finish). A dropped writer removes its temporary file; only a killed process
/// leaves one, `.capture-*.partial`.
///
/// Frames are written in the order of the calls, whatever their times, rounded down to 1 ns.
#[derive(Debug)]
pub struct Writer {
    out: Records<NamedTempFile>,
    target: PathBuf,
    interfaces: u32,
    /// A write failed, and frames are missing.
    broken: bool,
}

/// An interface of the [`Writer`] that made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceId(u32);

impl Writer {
    /// Starts a capture that [`finish`](Writer::finish) moves to `target`.
    ///
    /// # Errors
    /// If the directory cannot be written, or `target` exists and is not a regular file: a device
    /// or pipe would be replaced, not written to.
    pub fn create(target: impl AsRef<Path>) -> io::Result<Writer> {
        let named = target.as_ref();
        let target = match named.metadata() {
            Ok(m) if m.is_file() => named.canonicalize()?, // keeps a symbolic link
            Ok(_) => {
                let why = "a capture can only replace a regular file, which this is not";
                return Err(at_path(named, &io::Error::new(io::ErrorKind::InvalidInput, why)));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => named.to_owned(),
            Err(e) => return Err(at_path(named, &e)),
        };
        let directory = match target.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new()
            .prefix(".capture-")
            .suffix(".partial")
            .permissions(Permissions::from_mode(0o600)) // frames of guests are their own
            .tempfile_in(directory)
            .map_err(|e| at_path(named, &e))?;
        let out = Records::new(file);
        let mut writer = Writer { out, target, interfaces: 0, broken: false };
        // Byte-order magic, version 1.0, section length not given; no options.
        writer.block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes(), &[1, 0, 0, 0], &[0xff; 8]])?;
        Ok(writer)
    }

    /// Describes an Ethernet interface. Wireshark shows `name`.
    ///
    /// # Errors
    /// If writing fails, or the name is longer than 65,535 bytes.
    pub fn interface(&mut self, name: &str, bits_per_second: u64) -> io::Result<InterfaceId> {
        let length = u16::try_from(name.len()).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "an interface name is longer than 65535 bytes",
            )
        })?;
        let option = |code: u16, len: u16| {
            let ([a, b], [c, d]) = (code.to_le_bytes(), len.to_le_bytes());
            [a, b, c, d]
        };
        self.block(
            1,
            &[
                &[1, 0, 0, 0], // LINKTYPE_ETHERNET, reserved
                &[0; 4],       // no snap length
                &option(IF_NAME, length),
                name.as_bytes(),
                padding(name.len()),
                &option(IF_SPEED, 8),
                &bits_per_second.to_le_bytes(),
                &option(IF_TSRESOL, 1),
                &[NANOSECONDS, 0, 0, 0],
                &END_OF_OPTIONS,
            ],
        )?;
        // A file that ends early has its head at least.
        self.save()?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces - 1))
    }

    /// Adds a frame, without FCS, whose first bit passed at `at`.
    ///
    /// # Errors
    /// If writing fails, if the frame's length is not [`MIN_FRAME`] to [`MAX_FRAME`] bytes, or if
    /// this writer has no interface `on`.
    pub fn frame(&mut self, on: InterfaceId, at: Time, frame: &[u8]) -> io::Result<()> {
        let wrong = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if on.0 >= self.interfaces {
            return wrong("this capture has no such interface");
        }
        let len = match u32::try_from(frame.len()) {
            Ok(n) if (MIN_FRAME..=MAX_FRAME).contains(&n) => n.to_le_bytes(),
            _ => return wrong("a captured frame has 14 to 262144 bytes"),
        };
        let ns = at.ps() / PS_PER_NS;
        let (high, low) = ((ns >> 32) as u32, ns as u32);
        self.block(
            6,
            &[
                &on.0.to_le_bytes(),
                &high.to_le_bytes(),
                &low.to_le_bytes(),
                &len,
                &len,
                frame,
                padding(frame.len()),
            ],
        )
    }

    /// Writes all frames and moves the file to its target. Returns the path: the one given, or the
    /// one that it links to.
    ///
    /// # Errors
    /// If writing or renaming fails, or an earlier write did. An older file then stays.
    pub fn finish(mut self) -> io::Result<PathBuf> {
        if self.broken {
            let e = io::Error::other("an earlier write to this capture failed");
            return Err(at_path(&self.target, &e));
        }
        self.save()?;
        self.finish_short()
    }

    /// Moves the file to its target, with the frames that it could take. Returns the path.
    ///
    /// # Errors
    /// If renaming fails. An older file then stays.
    pub fn finish_short(self) -> io::Result<PathBuf> {
        let file = self.out.into_file();
        file.persist(&self.target).map_err(|e| at_path(&self.target, &e.error))?;
        Ok(self.target)
    }

    /// Returns the bytes of the file so far, with those that are held in memory.
    pub fn bytes(&self) -> u64 {
        self.out.bytes()
    }

    /// Writes the frames that are held in memory.
    ///
    /// # Errors
    /// If the file does not take them. They are missing then, and the file ends behind a whole
    /// frame.
    pub fn save(&mut self) -> io::Result<()> {
        let saved = self.out.save();
        self.broken |= saved.is_err();
        saved
    }

    /// Writes one block: type, length, content, length again. `parts` together have a multiple of
    /// four bytes.
    fn block(&mut self, kind: u32, parts: &[&[u8]]) -> io::Result<()> {
        let len = 12 + parts.iter().map(|p| p.len() as u32).sum::<u32>();
        debug_assert!(len.is_multiple_of(4), "a block is not padded");
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len.to_le_bytes())?;
        for part in parts {
            self.out.write_all(part)?;
        }
        self.out.write_all(&len.to_le_bytes())?;
        let ended = self.out.end_record();
        self.broken |= ended.is_err();
        ended
    }
}

fn padding(len: usize) -> &'static [u8] {
    &[0; 3][..len.next_multiple_of(4) - len]
}

fn at_path(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}
