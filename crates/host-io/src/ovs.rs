//! A private Open vSwitch: its two daemons, with database and sockets in a directory of their own,
//! in a network namespace, beside and unknown to any that the machine runs.
//!
//! The datapath is the one in userspace (`datapath_type=netdev`), which needs no kernel module. It
//! carries large sends and deferred checksums only with `userspace-tso-enable`, which is read once,
//! before the first port is added (OVS, "Userspace Datapath - TSO").

use crate::{child::ChildGuard, netns::NetNs};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread::sleep};
use tempfile::TempDir;

/// Paths of the database's schema in Debian and other systems.
const SCHEMA: [&str; 2] =
    ["/usr/share/openvswitch/vswitch.ovsschema", "/usr/local/share/openvswitch/vswitch.ovsschema"];
/// Longest start of a daemon.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running switch without ports.
#[derive(Debug)]
pub struct Ovs {
    // Dropped in this order: the daemon before its database, both before their files.
    switch: ChildGuard,
    database: ChildGuard,
    dir: TempDir,
    version: String,
}

impl Ovs {
    /// Starts a switch in `ns` with one learning bridge, `br0`. With `offloads` it carries large
    /// sends and deferred checksums. The calling thread must live as long as the switch.
    ///
    /// # Errors
    /// If a program is missing or fails; the error has its output.
    pub fn start(ns: &NetNs, offloads: bool) -> io::Result<Ovs> {
        let dir = tempfile::Builder::new().prefix("doorbell-ovs-").tempdir()?;
        let at = dir.path();
        let schema = SCHEMA.iter().find(|p| Path::new(p).exists()).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("Open vSwitch's schema is not in {}", SCHEMA.join(" or ")),
            )
        })?;
        let db = at.join("conf.db");
        output(private(Command::new("ovsdb-tool").arg("create").arg(&db).arg(schema), at))?;
        let socket = at.join("db.sock");
        let mut command = ns.command("ovsdb-server");
        command.arg(&db).arg(format!("--remote=punix:{}", socket.display()));
        let mut database = daemon("ovsdb-server", command, at)?;
        wait(&mut database, &socket, at)?;
        let remote = format!("unix:{}", socket.display());
        // `ovs-vswitchd` does not run yet, so it cannot confirm.
        vsctl(at, &["--no-wait", "init"])?;
        let tso = format!("other_config:userspace-tso-enable={offloads}");
        vsctl(at, &["--no-wait", "set", "Open_vSwitch", ".", &tso])?;
        let mut command = ns.command("ovs-vswitchd");
        command.arg(&remote);
        let mut switch = daemon("ovs-vswitchd", command, at)?;
        wait(&mut switch, &at.join("ovs-vswitchd.ctl"), at)?;
        let said = output(Command::new("ovs-vswitchd").arg("--version"))?;
        let version = said.split_whitespace().nth(3).unwrap_or("of unknown version").to_owned();
        let ovs = Ovs { switch, database, dir, version };
        let bridge = [
            "add-br",
            "br0",
            "--",
            "set",
            "bridge",
            "br0",
            "datapath_type=netdev",
            "fail-mode=standalone",
        ];
        ovs.vsctl(&bridge)?;
        Ok(ovs)
    }

    /// Runs `ovs-vsctl` and waits until the switch has applied it. Returns its stdout.
    ///
    /// # Errors
    /// If it fails; the error has its stderr.
    pub fn vsctl(&self, args: &[&str]) -> io::Result<String> {
        vsctl(self.dir.path(), args)
    }

    /// Adds an interface of the switch's namespace as a port.
    ///
    /// # Errors
    /// As [`Ovs::vsctl`].
    pub fn add_port(&self, interface: &str) -> io::Result<()> {
        self.vsctl(&["add-port", "br0", interface]).map(drop)
    }

    /// Adds a TAP device that the switch creates and holds. `interface` is its other end, in the
    /// switch's namespace until it is moved.
    ///
    /// # Errors
    /// As [`Ovs::vsctl`].
    pub fn add_tap(&self, interface: &str) -> io::Result<()> {
        let port =
            ["add-port", "br0", interface, "--", "set", "interface", interface, "type=internal"];
        self.vsctl(&port).map(drop)
    }

    /// Returns an error if a daemon has ended.
    pub fn alive(&mut self) -> io::Result<()> {
        let dir = self.dir.path();
        let told =
            |e: io::Error, name: &str| io::Error::other(format!("{e}{}", last_words(dir, name)));
        self.switch.alive().map_err(|e| told(e, "ovs-vswitchd"))?;
        self.database.alive().map_err(|e| told(e, "ovsdb-server"))
    }

    /// Returns the process ids of switch and database.
    pub fn ids(&self) -> [u32; 2] {
        [self.switch.id(), self.database.id()]
    }

    /// Returns its directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the version that it prints, such as `3.1.0`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Sets a command's environment so that all OVS files are in `dir`.
fn private<'a>(command: &'a mut Command, dir: &Path) -> &'a mut Command {
    for name in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
        command.env(name, dir);
    }
    command.stdin(Stdio::null())
}

fn daemon(name: &str, mut command: Command, dir: &Path) -> io::Result<ChildGuard> {
    let log = File::create(log(dir, name))?;
    let file = |kind: &str| format!("--{kind}={}", dir.join(format!("{name}.{kind}")).display());
    command
        .arg(file("pidfile"))
        .arg(format!("--unixctl={}", dir.join(format!("{name}.ctl")).display()));
    // Warnings on stderr, which is the file.
    command.args(["-vconsole:warn", "-vsyslog:off", "-vfile:off"]);
    command.stdout(Stdio::null()).stderr(log);
    ChildGuard::spawn(name, private(&mut command, dir))
}

fn log(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.err"))
}

/// Returns the last line that a daemon wrote, as the end of an error message.
fn last_words(dir: &Path, name: &str) -> String {
    let text = fs::read_to_string(log(dir, name)).unwrap_or_default();
    text.lines().next_back().map(|l| format!("; it said: {l}")).unwrap_or_default()
}

/// Waits until the daemon has created its socket.
fn wait(daemon: &mut ChildGuard, socket: &Path, dir: &Path) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    while !socket.exists() {
        let name = socket.file_stem().unwrap_or_default().to_string_lossy();
        let name = if name == "db" { "ovsdb-server" } else { &name };
        daemon.alive().map_err(|e| io::Error::other(format!("{e}{}", last_words(dir, name))))?;
        if Instant::now() > until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{name} does not start")));
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn vsctl(dir: &Path, args: &[&str]) -> io::Result<String> {
    let mut command = Command::new("ovs-vsctl");
    command.arg(format!("--db=unix:{}", dir.join("db.sock").display()));
    output(private(command.args(["-t", "20"]).args(args), dir))
}

fn output(command: &mut Command) -> io::Result<String> {
    crate::netns::succeed(command).map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
}
