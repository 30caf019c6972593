//! Starts and ends a QEMU process.

use super::{Error, Qemu, accelerator};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The command line of a QEMU.
#[derive(Debug)]
pub struct Launch {
    binary: PathBuf,
    target: String,
    args: Vec<OsString>,
    dir: TempDir,
    patience: Duration,
}

impl Launch {
    /// Prepares the system emulator for `target` (`x86_64`, `microblazeel`) under qtest, with the
    /// board's own devices only: `qemu-system-<target>` from PATH, or for `x86_64` the program in
    /// the environment variable `DOORBELL_QEMU`.
    ///
    /// # Errors
    /// If there is no such program, or no temporary directory can be made.
    pub fn new(target: &str) -> Result<Launch, Error> {
        Launch::under("qtest", target)
    }

    /// Prepares one that runs a guest (`-accel tcg`), whose virtual time cannot be stepped.
    ///
    /// # Errors
    /// As [`Launch::new`].
    pub fn with_guest(target: &str) -> Result<Launch, Error> {
        Launch::under("tcg", target)
    }

    fn under(accelerator: &str, target: &str) -> Result<Launch, Error> {
        let named = env::var_os("DOORBELL_QEMU").filter(|n| target == "x86_64" && !n.is_empty());
        let name = named.unwrap_or_else(|| format!("qemu-system-{target}").into());
        let binary = find(&name).ok_or_else(|| Error::System {
            doing: format!("looking for {}", Path::new(&name).display()),
            why: ErrorKind::NotFound.into(),
        })?;
        let dir = tempfile::Builder::new()
            .prefix("doorbell-qemu-")
            .tempdir()
            .map_err(Error::system("making a temporary directory"))?;
        let mut launch = Launch {
            binary,
            target: target.into(),
            args: Vec::new(),
            dir,
            patience: Duration::from_secs(20),
        };
        launch.args([
            "-accel",
            accelerator,
            "-nodefaults",
            "-display",
            "none",
            "-qtest-log",
            "none",
        ]);
        let socket = option_path(&launch.socket());
        launch.args(["-qtest", &format!("unix:{socket}")]);
        Ok(launch)
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Launch {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets the longest wait for QEMU's start and for each answer, in real time. The default is
    /// 20 s.
    pub fn patience(&mut self, patience: Duration) -> &mut Launch {
        self.patience = patience;
        self
    }

    /// Returns a directory that lives as long as the QEMU.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts QEMU and waits for its connection.
    ///
    /// # Errors
    /// If it cannot be started, ends, or does not connect in time.
    pub fn start(self) -> Result<Qemu, Error> {
        let listener =
            UnixListener::bind(self.socket()).map_err(Error::system("listening for QEMU"))?;
        listener.set_nonblocking(true).map_err(Error::system("listening for QEMU"))?;
        let stderr = File::create(self.stderr())
            .map_err(Error::system("making a file for QEMU's messages"))?;
        let mut command = Command::new(&self.binary);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        if let Some(modules) = accelerator::module_dir(&self.binary, &self.target) {
            command.env("QEMU_MODULE_DIR", modules);
        }
        let child = command
            .spawn()
            .map_err(Error::system(format!("starting {}", Path::new(&self.binary).display())))?;
        let stderr = self.stderr();
        let mut process = Process { child, stderr, _dir: self.dir };
        let stream = accept(&listener, &mut process, self.patience)?;
        let mut qemu = Qemu::over(stream, Some(process), self.patience)?;
        // QEMU connects before it has built the machine, and answers after that.
        qemu.settle()?;
        Ok(qemu)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("qtest")
    }

    fn stderr(&self) -> PathBuf {
        self.dir.path().join("stderr")
    }
}

/// A path as part of a QEMU option, where a comma has to be doubled.
pub(super) fn option_path(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

fn find(name: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Path::new(name).is_file().then(|| name.into());
    }
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}

fn accept(
    listener: &UnixListener,
    process: &mut Process,
    patience: Duration,
) -> Result<UnixStream, Error> {
    let start = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(Error::system("waiting for QEMU"))?;
                return Ok(stream);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(why) => return Err(Error::System { doing: "waiting for QEMU".into(), why }),
        }
        if process.ended().is_some() {
            return Err(process.obituary());
        }
        if start.elapsed() > patience {
            return Err(Error::Silent {
                asked: "connect to the qtest socket".into(),
                waited: patience,
            });
        }
        sleep(Duration::from_millis(2));
    }
}

/// A running QEMU and its files. Dropping it ends and removes both.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    stderr: PathBuf,
    // After the child: its drop comes when QEMU is gone.
    _dir: TempDir,
}

impl Process {
    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub(super) fn kill(&mut self) {
        // Both fail only when it has already been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the error for a QEMU that closed its socket.
    pub(super) fn obituary(&mut self) -> Error {
        // The socket closes a moment before the process is gone.
        let start = Instant::now();
        while self.ended().is_none() && start.elapsed() < Duration::from_secs(2) {
            sleep(Duration::from_millis(2));
        }
        let text = fs::read_to_string(&self.stderr).unwrap_or_default();
        let mut said = text.lines().rev().take(8).collect::<Vec<_>>();
        said.reverse();
        let mut said = said.join("\n");
        if said.contains("invalid accelerator qtest") {
            said.push_str(
                "\n(this QEMU has no qtest accelerator; tools/qtest-accel/build.sh makes one)",
            );
        }
        Error::Exited { status: self.ended(), said }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
