//! Workloads: what a guest does while its driver is counted.
//!
//! A workload is a script of the guest's shell. Its first comment describes it; a line
//! `#: NAME=DEFAULT  Description` declares a variable that a person may set, and `#: modules NAME…`
//! the kernel modules that it needs. `#: package NAME FILE…` names a package of Debian, and its
//! programs and libraries that the guest gets, with all that they are linked with. The line
//! `#: replaces driver` says that a program has the device, and no module of the kernel. The script
//! has `$NIC`, `$GUEST`, `$HOST` and `$HOST_MAC`, and these words:
//!
//! * `begin` and `end [PACKETS [FRAMES]]`: what happens between them is counted. Without a number,
//!   a packet is a frame on the wire, in either direction. With one, so many frames have to cross,
//!   or `FRAMES` of them, which may be `LEAST-MOST`; any other number is an error;
//! * `frames COUNT SIZE BURST GAP`: the host sends frames toward the guest, `GAP` microseconds
//!   from one burst to the next or more, and none that the guest has no room for;
//! * `xdp drop|tx`: the interface runs an XDP program that drops all frames, or sends them back
//!   with their addresses swapped; in the driver, or in the kernel if the driver has no XDP;
//! * `ask icmp|tcp COUNT SIZE`: the host sends requests, each after the answer to the last;
//! * `listen`: the host has a server of iperf3 from now on;
//! * `arrivals PATTERN COUNT SIZE INTERVAL BURST FLOWS`, in virtual time alone: the host sends
//!   frames in a pattern (`even`, `poisson`, `bursts`, `on_off`, `capture`), `INTERVAL` nanoseconds
//!   from one to the next in the mean or from one burst of `BURST` to the next, of so many UDP
//!   flows or of a type that nobody answers, whatever the guest does with them; `on_off` has
//!   `BURST` microseconds of `poisson` and of silence in turn, and `SIZE` may be sizes with their
//!   weights;
//! * `host COMMAND`, not in virtual time: the host runs a command, in the guest's network;
//! * `start COMMAND`: the same, in the background until the workload ends.

use crate::Error;
use doorbell_host_io::files;
use std::path::Path;

/// A workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Its name: built in, or the stem of its file.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// Modules that it needs.
    pub modules: Vec<String>,
    /// Packages of Debian by name, with the files that it needs.
    pub(crate) packages: Vec<(String, Vec<String>)>,
    /// A program of the guest has the device, and not the kernel's driver.
    pub(crate) replaces_driver: bool,
    /// The driver makes a network interface, and packets are frames on its wire.
    pub(crate) has_interface: bool,
    /// The script.
    pub script: String,
}

/// A variable of a workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value unless it is set.
    pub default: String,
    /// One sentence.
    pub about: String,
}

impl Variable {
    /// Returns the value that the last of these settings of it gives, or its own.
    pub fn value<'s>(&'s self, settings: &'s [(String, String)]) -> &'s str {
        let set = settings.iter().rev().find(|(key, _)| *key == self.name);
        set.map_or(&self.default, |(_, value)| value)
    }
}

const BUILT_IN: [(&str, &str); 11] = [
    ("pktgen", include_str!("workloads/pktgen.sh")),
    ("receive", include_str!("workloads/receive.sh")),
    ("arrivals", include_str!("workloads/arrivals.sh")),
    ("xdp-drop", include_str!("workloads/xdp-drop.sh")),
    ("xdp-tx", include_str!("workloads/xdp-tx.sh")),
    ("testpmd", include_str!("workloads/testpmd.sh")),
    ("echo", include_str!("workloads/echo.sh")),
    ("request-response", include_str!("workloads/request-response.sh")),
    ("ping", include_str!("workloads/ping.sh")),
    ("iperf-send", include_str!("workloads/iperf-send.sh")),
    ("iperf-receive", include_str!("workloads/iperf-receive.sh")),
];

impl Workload {
    /// Returns the workloads that are built in.
    pub fn built_in() -> impl Iterator<Item = Workload> {
        BUILT_IN.iter().map(|(name, script)| {
            Workload::parse(name, script).expect("a workload that is written here")
        })
    }

    /// Finds a workload: the name of one that is built in, or the path of a script.
    pub fn find(name: &str) -> Result<Workload, Error> {
        if let Some(found) = Workload::built_in().find(|w| w.name == name) {
            return Ok(found);
        }
        let names: Vec<&str> = BUILT_IN.iter().map(|(n, _)| *n).collect();
        let path = Path::new(name);
        let text = files::text(path).map_err(|e| {
            let names = names.join(", ");
            Error::Input(format!("--workload {name}: {e}; built in are {names}; or name a script"))
        })?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Workload::parse(&stem, &text).map_err(|e| Error::Input(format!("--workload {name}: {e}")))
    }

    /// Parses a script.
    fn parse(name: &str, script: &str) -> Result<Workload, String> {
        let mut found = Workload {
            name: name.to_owned(),
            about: String::new(),
            variables: Vec::new(),
            modules: Vec::new(),
            packages: Vec::new(),
            replaces_driver: false,
            has_interface: true,
            script: script.to_owned(),
        };
        for (n, line) in script.lines().enumerate() {
            let Some(said) = line.strip_prefix("#:").map(str::trim) else {
                let comment = line.strip_prefix("# ").filter(|_| !line.starts_with("#!"));
                if let (true, Some(about)) = (found.about.is_empty(), comment) {
                    found.about = about.trim().to_owned();
                }
                continue;
            };
            let (what, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
            if what == "modules" {
                found.modules.extend(rest.split_whitespace().map(str::to_owned));
                continue;
            }
            if (what, rest.trim()) == ("replaces", "driver") {
                found.replaces_driver = true;
                continue;
            }
            if (what, rest.trim()) == ("no", "interface") {
                found.has_interface = false;
                continue;
            }
            let mut words = rest.split_whitespace().map(str::to_owned);
            if let ("package", Some(package)) = (what, words.next()) {
                found.packages.push((package, words.collect()));
                continue;
            }
            let (variable, default) = what.split_once('=').unwrap_or((what, ""));
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let starts = variable.starts_with(|c: char| c.is_ascii_lowercase());
            if !what.contains('=') || !starts || !variable.chars().all(is_name) {
                let n = n + 1;
                return Err(format!(
                    "line {n}: `#: {said}`: allowed are `#: NAME=DEFAULT  Description` with a \
                     lower-case name, `#: modules NAME…`, `#: package NAME FILE…`, \
                     `#: replaces driver` and `#: no interface`"
                ));
            }
            found.variables.push(Variable {
                name: variable.to_owned(),
                default: default.to_owned(),
                about: rest.trim().to_owned(),
            });
        }
        for word in ["begin", "end"] {
            if !found.says(word) {
                return Err(format!("there is no line `{word}`: nothing would be counted"));
            }
        }
        Ok(found)
    }

    /// Returns true if a line of the script begins with a word.
    pub(crate) fn says(&self, word: &str) -> bool {
        self.script.lines().any(|line| line.split_whitespace().next() == Some(word))
    }

    /// Returns the script with its variables in front, of which `settings` sets some.
    pub(crate) fn with(&self, settings: &[(String, String)]) -> String {
        let line = |v: &Variable| format!("{}={}\n", v.name, quoted(v.value(settings)));
        let lines = self.variables.iter().map(line);
        lines.collect::<String>() + &self.script
    }
}

/// Returns a word of the shell that stands for `text`.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
