//! The requirements of `live`: rights, devices, programs.

use doorbell_console::{Error, failed};
use std::path::{Path, PathBuf};

/// Programs with their Debian packages.
const PROGRAMS: [(&str, &str); 8] = [
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("ethtool", "ethtool"),
    ("iperf3", "iperf3"),
    ("ovsdb-tool", "openvswitch-common"),
    ("ovsdb-server", "openvswitch-switch"),
    ("ovs-vswitchd", "openvswitch-switch"),
    ("ovs-vsctl", "openvswitch-switch"),
];

/// Required capabilities by number (linux/capability.h).
const CAPABILITIES: [(u32, &str); 3] =
    [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (21, "CAP_SYS_ADMIN")];

/// Fails with a list of everything that is missing.
pub(super) fn check() -> Result<(), Error> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lacking = lacking(&status);
    if !lacking.is_empty() {
        return Err(failed!(
            "live makes network namespaces, TAP devices and raw sockets, and needs root for them \
             (missing: {}); everything stays in its own namespaces",
            lacking.join(", ")
        ));
    }
    if !Path::new("/dev/net/tun").exists() {
        return Err(failed!("live needs /dev/net/tun (the kernel's module tun)"));
    }
    let missing: Vec<&(&str, &str)> =
        PROGRAMS.iter().filter(|(program, _)| find(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Err(failed!(
        "live needs {}, not found in PATH; on Debian: apt-get install {}",
        programs.join(", "),
        packages.join(" ")
    ))
}

/// Returns the required capabilities that are not in effect.
fn lacking(status: &str) -> Vec<&'static str> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0);
    CAPABILITIES.iter().filter(|(bit, _)| effective >> bit & 1 == 0).map(|c| c.1).collect()
}

fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|d| d.join(program)).find(|p| p.is_file())
}

#[cfg(test)]
mod tests;
