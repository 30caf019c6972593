//! Where results go: stdout, and files that are there whole or not at all.

use crate::Error;
use doorbell_attach::pcap::{InterfaceId, Writer};
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Prints to stdout. A reader that has gone away has had enough: not an error.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| Error::input(format!("stdout: {e}"))),
    }
}

/// A capture being written.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) writer: Writer,
    pub(crate) wire: InterfaceId,
}

/// The files of a run, begun before it, so that what cannot be written is known
/// before an hour has passed. Dropped without [`Files::finish`], nothing is left.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) capture: Option<Capture>,
    result: Option<(NamedTempFile, PathBuf)>,
    /// Made by us; removed if nothing comes of it. Dropped last, when it is empty.
    made: Option<Made>,
}

/// What went wrong, at the path that was asked for.
fn told(path: &Path, e: &io::Error) -> Error {
    Error::input(format!("{}: {}", path.display(), plain(e)))
}

/// Without the temporary file's name, which means nothing to a person.
pub(crate) fn plain(e: &io::Error) -> String {
    let text = e.to_string();
    text.split(" at path \"").next().unwrap_or(&text).to_owned()
}

/// A directory that was not there before.
#[derive(Debug)]
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        // Not empty, or gone: then it is somebody else's.
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Files {
    /// Begins them. `bits_per_second` is said of the wire in the capture.
    pub(crate) fn begin(out: Option<&Path>, capture: Option<&Path>, bits_per_second: u64) -> Result<Files, Error> {
        let mut made = None;
        let mut result = None;
        if let Some(dir) = out {
            match std::fs::create_dir(dir) {
                Ok(()) => made = Some(Made(dir.to_owned())),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(Error::input(format!("{}: it exists and is not a directory", dir.display())));
                }
                Err(e) => return Err(told(dir, &e)),
            }
            let file = tempfile::Builder::new()
                .prefix(".result-")
                .suffix(".partial")
                .permissions(Permissions::from_mode(0o666)) // less the umask, as for any new file
                .tempfile_in(dir)
                .map_err(|e| told(dir, &e))?;
            result = Some((file, dir.join("result.json")));
        }
        let capture = match capture {
            None => None,
            Some(named) => {
                let bare = named.parent().is_some_and(|p| p.as_os_str().is_empty());
                let path = out.filter(|_| bare).map_or(named.to_owned(), |dir| dir.join(named));
                let mut writer = Writer::create(&path).map_err(|e| Error::input(plain(&e)))?;
                let wire = writer.interface("wire", bits_per_second).map_err(|e| told(&path, &e))?;
                Some(Capture { writer, wire })
            }
        };
        Ok(Files { capture, result, made })
    }

    /// Puts them in their places.
    pub(crate) fn finish(mut self, json: &str) -> Result<(), Error> {
        if let Some((file, path)) = &mut self.result {
            file.write_all(json.as_bytes()).and_then(|()| file.flush()).map_err(|e| told(path, &e))?;
        }
        // The result comes last: where it is, the capture is too.
        if let Some(capture) = self.capture.take() {
            capture.writer.finish().map_err(|e| Error::input(plain(&e)))?;
        }
        if let Some((file, path)) = self.result.take() {
            file.persist(&path).map_err(|e| told(&path, &e.error))?;
        }
        if let Some(made) = self.made.take() {
            std::mem::forget(made);
        }
        Ok(())
    }
}
