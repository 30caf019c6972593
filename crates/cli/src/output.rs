//! Where results go: stdout, and files that are there whole or not at all.

use crate::Error;
use doorbell_host_io::pcap::{InterfaceId, Writer};
use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
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

/// A directory, made with all above it that is not there.
fn directory(dir: &Path) -> Result<Option<Made>, Error> {
    let missing = dir.ancestors().take_while(|d| !d.as_os_str().is_empty() && !d.exists());
    let made = Made(missing.map(Path::to_owned).collect());
    match std::fs::create_dir_all(dir) {
        Ok(()) => Ok(Some(made).filter(|m| !m.0.is_empty())),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::input(format!("{}: it exists and is not a directory", dir.display())))
        }
        Err(e) => Err(told(dir, &e)),
    }
}

/// The directory that a file is in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file in the making, in the directory where it will be.
fn begun_in(dir: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".result-")
        .suffix(".partial")
        .permissions(Permissions::from_mode(0o666)) // less the umask, as for any new file
        .tempfile_in(dir)
}

fn begun(dir: &Path) -> Result<NamedTempFile, Error> {
    begun_in(dir).map_err(|e| told(dir, &e))
}

/// A file in the making, with its text, that is to be `path`.
pub(crate) fn begun_beside(path: &Path, text: &str) -> io::Result<NamedTempFile> {
    let mut file = begun_in(parent(path))?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// A trace in the making, at `path`.
fn begun_trace(path: PathBuf) -> Result<(NamedTempFile, PathBuf), Error> {
    // A device or pipe would be replaced, not written to.
    if path.metadata().is_ok_and(|m| !m.is_file()) {
        let why = "a trace can only replace a regular file, which this is not";
        return Err(Error::input(format!("{}: {why}", path.display())));
    }
    let real = path.canonicalize().unwrap_or(path.clone()); // keeps a symbolic link
    let dir = parent(&real);
    let file = begun(dir).map_err(|e| match dir.is_dir() {
        true => e,
        false => told(&path, &io::Error::from_raw_os_error(2)),
    })?;
    Ok((file, real))
}

/// A directory that results will be written to. Unless they are, it is removed again if it was
/// made.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
    made: Option<Made>,
}

impl Folder {
    /// Makes sure that it is there and can be written to.
    pub(crate) fn open(dir: &Path) -> Result<Folder, Error> {
        let made = directory(dir)?;
        begun(dir)?;
        Ok(Folder { dir: dir.to_owned(), made })
    }

    /// Writes files, each whole or not at all.
    pub(crate) fn write(mut self, files: &[(&str, &str)]) -> Result<(), Error> {
        for (name, text) in files {
            let path = self.dir.join(name);
            let mut file = begun(&self.dir)?;
            file.write_all(text.as_bytes())
                .and_then(|()| file.flush())
                .map_err(|e| told(&path, &e))?;
            file.persist(&path).map_err(|e| told(&path, &e.error))?;
        }
        if let Some(made) = self.made.take() {
            std::mem::forget(made);
        }
        Ok(())
    }
}

/// The files of a run, begun before it, so that what cannot be written is known
/// before an hour has passed. Dropped without [`Files::finish`], nothing is left.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) capture: Option<Capture>,
    trace: Option<(NamedTempFile, PathBuf)>,
    result: Option<(NamedTempFile, PathBuf)>,
    /// Made by us; removed if nothing comes of it. Dropped last, when it is empty.
    made: Option<Made>,
}

/// What went wrong, at the path that was asked for.
pub(crate) fn told(path: &Path, e: &io::Error) -> Error {
    Error::input(format!("{}: {}", path.display(), plain(e)))
}

/// Without the temporary file's name, which means nothing to a person.
pub(crate) fn plain(e: &io::Error) -> String {
    let text = e.to_string();
    text.split(" at path \"").next().unwrap_or(&text).to_owned()
}

/// Directories that were not there before, the innermost first.
#[derive(Debug)]
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for dir in &self.0 {
            // Not empty, or gone: then it is somebody else's.
            let _ = std::fs::remove_dir(dir);
        }
    }
}

impl Files {
    /// Begins them. `bits_per_second` is said of the wire in the capture.
    pub(crate) fn begin(
        out: Option<&Path>,
        capture: Option<&Path>,
        trace: Option<&Path>,
        bits_per_second: u64,
    ) -> Result<Files, Error> {
        let mut made = None;
        let mut result = None;
        if let Some(dir) = out {
            made = directory(dir)?;
            result = Some((begun(dir)?, dir.join("result.json")));
        }
        let place = |named: &Path| {
            let bare = named.parent().is_some_and(|p| p.as_os_str().is_empty());
            out.filter(|_| bare).map_or(named.to_owned(), |dir| dir.join(named))
        };
        let trace = trace.map(place).map(begun_trace).transpose()?;
        let capture = match capture {
            None => None,
            Some(named) => {
                let path = place(named);
                let mut writer = Writer::create(&path).map_err(|e| Error::input(plain(&e)))?;
                let wire =
                    writer.interface("wire", bits_per_second).map_err(|e| told(&path, &e))?;
                Some(Capture { writer, wire })
            }
        };
        Ok(Files { capture, trace, result, made })
    }

    /// Writes the trace, if there is to be one.
    pub(crate) fn trace<R>(
        &mut self,
        f: impl FnOnce(&mut dyn Write) -> io::Result<R>,
    ) -> Result<Option<R>, Error> {
        let Some((file, path)) = &mut self.trace else { return Ok(None) };
        let mut out = BufWriter::with_capacity(1 << 16, file);
        f(&mut out).and_then(|r| out.flush().map(|()| Some(r))).map_err(|e| told(path, &e))
    }

    /// Puts the trace alone in its place, of a run that has no result.
    pub(crate) fn keep_trace(mut self) -> Result<(), Error> {
        let Some((file, path)) = self.trace.take() else { return Ok(()) };
        file.persist(&path).map_err(|e| told(&path, &e.error))?;
        if let Some(made) = self.made.take().filter(|m| m.0.iter().any(|dir| path.starts_with(dir)))
        {
            std::mem::forget(made);
        }
        Ok(())
    }

    /// Puts them in their places.
    pub(crate) fn finish(mut self, json: &str) -> Result<(), Error> {
        if let Some((file, path)) = &mut self.result {
            file.write_all(json.as_bytes())
                .and_then(|()| file.flush())
                .map_err(|e| told(path, &e))?;
        }
        // The result comes last: where it is, capture and trace are too.
        if let Some(capture) = self.capture.take() {
            capture.writer.finish().map_err(|e| Error::input(plain(&e)))?;
        }
        for (file, path) in [self.trace.take(), self.result.take()].into_iter().flatten() {
            file.persist(&path).map_err(|e| told(&path, &e.error))?;
        }
        if let Some(made) = self.made.take() {
            std::mem::forget(made);
        }
        Ok(())
    }
}
