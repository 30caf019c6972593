//! Destinations of results: stdout, and files that are written as a whole or not at all.

use crate::render::{CHARTS, Format, NO_RECORDS, PAGES, PLAIN};
use crate::{DONE, Error, error::plain, input};
use clap::Args as Group;
use doorbell_hal::Time;
use doorbell_host_io::files;
use doorbell_host_io::pcap::{InterfaceId, Writer};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::{fs::Permissions, os::unix::fs::PermissionsExt};
use tempfile::NamedTempFile;

/// Options for the output. `F` selects the formats: 0 plain, 1 pages, 2 charts, 3 no records.
#[derive(Group, Clone, Copy, Debug)]
pub struct Output<const F: usize> {
    /// Output format
    #[arg(long, default_value = "table", help_heading = "Output")]
    #[arg(value_parser = Format::among([PLAIN, PAGES, CHARTS, NO_RECORDS][F]))]
    pub format: Format,
    /// No progress and no notices on stderr
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

thread_local! {
    /// The output of a command that another program calls.
    static COLLECTED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns what `f` prints in this thread, besides its result.
pub fn collected<R>(f: impl FnOnce() -> R) -> (R, String) {
    COLLECTED.set(Some(String::new()));
    let result = f();
    (result, COLLECTED.take().unwrap_or_default())
}

/// The escape sequences of this program and of its help: bold, underlined, colours, and their end.
const STYLES: [&str; 6] = ["\x1b[0m", "\x1b[1m", "\x1b[4m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];

/// The characters that change the direction of text.
const TURNS: [RangeInclusive<char>; 3] =
    ['\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];

/// Returns text as a terminal may get it: control characters, but line feeds, tabs and these
/// `styles`, become escapes such as `\u{1b}`, and so does what changes the direction of text.
pub fn visible<'a>(text: &'a str, styles: &[&str]) -> Cow<'a, str> {
    let turns = |c| TURNS.iter().any(|these| these.contains(&c));
    let acts = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || turns(c);
    if !text.contains(acts) {
        return text.into();
    }
    let (mut seen, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let style = styles.iter().find(|style| rest.starts_with(**style));
        let len = style.map_or(c.len_utf8(), |style| style.len());
        if style.is_none() && acts(c) {
            seen.extend(c.escape_unicode());
        } else {
            seen += &rest[..len];
        }
        rest = &rest[len..];
    }
    seen.into()
}

/// Returns the line of a message to a person.
pub fn notice(what: impl Display) -> String {
    format!("doorbell: {}\n", visible(&what.to_string(), &[]))
}

/// Says something on stderr, which a person reads. A closed stderr is no error.
pub fn tell(what: impl Display) {
    let _ = io::stderr().write_all(notice(what).as_bytes());
}

/// Returns true if the output of this thread goes to the program that calls the command.
pub fn is_collected() -> bool {
    COLLECTED.with_borrow(Option::is_some)
}

/// Prints to stdout. A closed pipe is no error. Escape sequences go to a terminal alone, and not
/// if `NO_COLOR` is set.
pub fn print(text: &str) -> Result<(), Error> {
    let collects = COLLECTED.with_borrow_mut(|to| {
        to.as_mut().map(|to| to.push_str(&anstream::adapter::strip_str(text).to_string()))
    });
    if collects.is_some() {
        return Ok(());
    }
    // Text without an escape sequence needs no filter, which would look at each byte.
    let plain = !text.as_bytes().contains(&0x1b);
    let mut out: Box<dyn Write> =
        if plain { Box::new(io::stdout().lock()) } else { Box::new(anstream::stdout().lock()) };
    let text = if io::stdout().is_terminal() { visible(text, &STYLES) } else { text.into() };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(Error::at("stdout")),
    }
}

/// Reports wrong arguments on stderr, or prints the help or the version that they ask for. Returns
/// the exit code.
pub fn of_arguments(e: &clap::Error) -> Result<u8, Error> {
    let text = e.render().ansi().to_string();
    if e.use_stderr() {
        let _ = anstream::stderr().write_all(visible(&text, &STYLES).as_bytes());
        return Ok(e.exit_code() as u8);
    }
    print(&text)?;
    Ok(DONE)
}

/// A capture being written.
pub struct Capture {
    writer: Writer,
    wire: InterfaceId,
}

impl Capture {
    /// Opens a capture of a wire with this rate.
    pub fn create(path: &Path, bits_per_second: u64) -> Result<Capture, Error> {
        let mut writer = Writer::create(path).map_err(|e| input!("{}", plain(&e)))?;
        let wire = writer.interface("wire", bits_per_second).map_err(Error::at(path.display()))?;
        Ok(Capture { writer, wire })
    }

    /// Adds a frame.
    pub fn frame(&mut self, at: Time, frame: &[u8]) -> io::Result<()> {
        self.writer.frame(self.wire, at, frame)
    }

    /// Puts the file in its place.
    pub fn finish(self) -> Result<(), Error> {
        self.writer.finish().map(drop).map_err(|e| input!("{}", plain(&e)))
    }

    /// Returns the bytes so far.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Writes the frames that are held in memory.
    pub fn save(&mut self) -> io::Result<()> {
        self.writer.save()
    }

    /// Puts the file in its place, with the frames that it could take.
    pub fn finish_short(self) -> Result<(), Error> {
        self.writer.finish_short().map(drop).map_err(|e| input!("{}", plain(&e)))
    }
}

/// Makes a directory with its parents. Returns the ones that were missing.
fn directory(dir: &Path) -> Result<Option<Made>, Error> {
    let missing = dir.ancestors().take_while(|d| !d.as_os_str().is_empty() && !d.exists());
    let made = Made(missing.map(Path::to_owned).collect());
    match std::fs::create_dir_all(dir) {
        Ok(()) => Ok(Some(made).filter(|m| !m.0.is_empty())),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            Err(input!("{}: it exists and is not a directory", dir.display()))
        }
        Err(e) => Err(Error::at(dir.display())(e)),
    }
}

/// Reads a file of text; `-` is stdin. `name` is for messages.
pub fn text_of(name: &str, path: &Path) -> Result<String, Error> {
    let text = match path.as_os_str() == "-" {
        true => files::text_from(io::stdin()),
        false => files::text(path),
    };
    text.map_err(Error::at(name))
}

/// Returns the directory of a file.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The permissions of results, less the umask, as for any new file.
pub const SHARED: u32 = 0o666;
/// The permissions of captures and traces.
pub const OWN: u32 = 0o600;

/// Makes a temporary file in the directory where the result will be.
fn begun_in(dir: &Path, mode: u32) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".result-")
        .suffix(".partial")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(dir)
}

fn begun(dir: &Path, mode: u32) -> Result<NamedTempFile, Error> {
    begun_in(dir, mode).map_err(Error::at(dir.display()))
}

/// Makes a temporary file with its content, to become `path`.
pub fn begun_beside(path: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = begun_in(parent(path), SHARED)?;
    file.write_all(content)?;
    Ok(file)
}

/// Makes a temporary file, to become the file at `path`.
pub fn begun_file(path: PathBuf, mode: u32) -> Result<(NamedTempFile, PathBuf), Error> {
    // A device or pipe would be replaced, not written to.
    if path.metadata().is_ok_and(|m| !m.is_file()) {
        return Err(input!(
            "{}: it is no regular file, which alone can be replaced",
            path.display()
        ));
    }
    let real = path.canonicalize().unwrap_or(path.clone()); // keeps a symbolic link
    let dir = parent(&real);
    let file = begun(dir, mode).map_err(|e| match dir.is_dir() {
        true => e,
        false => Error::at(path.display())(io::Error::from_raw_os_error(2)), // ENOENT
    })?;
    Ok((file, real))
}

/// A directory for results. If it was made for them, it is removed again unless they are written.
pub struct Folder {
    dir: PathBuf,
    made: Option<Made>,
}

impl Folder {
    /// Makes the directory if necessary, and checks that it is writable.
    pub fn open(dir: &Path) -> Result<Folder, Error> {
        let made = directory(dir)?;
        begun(dir, SHARED)?;
        Ok(Folder { dir: dir.to_owned(), made })
    }

    /// Writes files, each as a whole or not at all.
    pub fn write(mut self, files: &[(&str, &str)]) -> Result<(), Error> {
        for (name, text) in files {
            let path = self.dir.join(name);
            let mut file = begun(&self.dir, SHARED)?;
            file.write_all(text.as_bytes()).map_err(Error::at(path.display()))?;
            keep(file, &path)?;
        }
        std::mem::forget(self.made.take());
        Ok(())
    }
}

/// Refuses to replace a file that is read, or to write two files to one path.
pub fn apart(written: &[&Path], read: &[&Path]) -> Result<(), Error> {
    let real = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        path.canonicalize().or_else(|_| parent(path).canonicalize().map(|dir| dir.join(name)))
    };
    for (i, path) in written.iter().enumerate() {
        let Ok(own) = real(path) else { continue };
        let same = |other: &&&Path| real(other).is_ok_and(|other| other == own);
        let place = path.display();
        if read.iter().any(|other| same(&other)) {
            return Err(input!("{place}: it is read, and would be replaced; take another path"));
        }
        if written[..i].iter().any(|other| same(&other)) {
            return Err(input!("{place}: two files would be written to it; take another path"));
        }
    }
    Ok(())
}

/// Puts a temporary file in its place.
pub fn keep(file: NamedTempFile, path: &Path) -> Result<(), Error> {
    file.persist(path).map(drop).map_err(|e| Error::at(path.display())(e.error))
}

/// The files of a run, opened before it, so that an unwritable one is known at once. Dropped
/// without [`Files::finish`], nothing is left.
pub struct Files {
    /// The capture, if one was requested.
    pub capture: Option<Capture>,
    trace: Option<(NamedTempFile, PathBuf)>,
    result: Option<(NamedTempFile, PathBuf)>,
    /// Directories made for them. Dropped last, when they are empty.
    made: Option<Made>,
}

/// New directories, the innermost first, removed when dropped.
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for dir in &self.0 {
            // A directory that is not empty belongs to somebody else.
            let _ = std::fs::remove_dir(dir);
        }
    }
}

impl Files {
    /// Opens the files. `bits_per_second` is the rate of the wire in the capture. The files that
    /// the run reads cannot be among them.
    pub fn begin(
        out: Option<&Path>,
        capture: Option<&Path>,
        trace: Option<&Path>,
        bits_per_second: u64,
        read: &[&Path],
    ) -> Result<Files, Error> {
        let place = |named: &Path| {
            let bare = named.parent().is_some_and(|p| p.as_os_str().is_empty());
            out.filter(|_| bare).map_or(named.to_owned(), |dir| dir.join(named))
        };
        let (capture, trace) = (capture.map(place), trace.map(place));
        let mut made = None;
        let mut result = None;
        if let Some(dir) = out {
            made = directory(dir)?;
            result = Some((begun(dir, SHARED)?, dir.join("result.json")));
        }
        let written = [result.as_ref().map(|(_, path)| path), capture.as_ref(), trace.as_ref()];
        let written: Vec<&Path> = written.into_iter().flatten().map(PathBuf::as_path).collect();
        apart(&written, read)?;
        let trace = trace.map(|path| begun_file(path, OWN)).transpose()?;
        let capture = capture.map(|path| Capture::create(&path, bits_per_second)).transpose()?;
        Ok(Files { capture, trace, result, made })
    }

    /// Writes the trace, if one was requested.
    pub fn trace<R>(
        &mut self,
        f: impl FnOnce(&mut dyn Write) -> io::Result<R>,
    ) -> Result<Option<R>, Error> {
        let Some((file, path)) = &mut self.trace else { return Ok(None) };
        let mut out = BufWriter::with_capacity(1 << 16, file);
        let written = f(&mut out).and_then(|r| out.flush().map(|()| Some(r)));
        written.map_err(Error::at(path.display()))
    }

    /// Puts the trace alone in its place, for a run without a result.
    pub fn keep_trace(mut self) -> Result<(), Error> {
        let Some((file, path)) = self.trace.take() else { return Ok(()) };
        keep(file, &path)?;
        let holds_it = |m: &Made| m.0.iter().any(|dir| path.starts_with(dir));
        std::mem::forget(self.made.take().filter(holds_it));
        Ok(())
    }

    /// Puts all files in their places.
    pub fn finish(mut self, json: impl FnOnce() -> String) -> Result<(), Error> {
        if let Some((file, path)) = &mut self.result {
            file.write_all(json().as_bytes()).map_err(Error::at(path.display()))?;
        }
        // The result comes last: if it exists, so do capture and trace.
        if let Some(capture) = self.capture.take() {
            capture.finish()?;
        }
        for (file, path) in [self.trace.take(), self.result.take()].into_iter().flatten() {
            keep(file, &path)?;
        }
        std::mem::forget(self.made.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
