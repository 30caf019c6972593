//! Settings inside a guest: of its interface, of its driver, of its workload.

use crate::Error;
use crate::workload::{Workload, quoted};

/// Keys of settings, by what sets them: prefix, the command that comes before interface, name and
/// value, and a description.
const ETHTOOL: [(&str, &str, &str); 5] = [
    ("ethtool.priv.", "--set-priv-flags", "a private flag of the driver, on or off"),
    ("ethtool.feature.", "-K", "an offload, on or off"),
    ("ethtool.coalesce.", "-C", "interrupt coalescing, such as rx-usecs"),
    ("ethtool.ring.", "-G", "length of a ring, such as tx"),
    ("ethtool.channels.", "-L", "number of channels, such as combined"),
];
/// Keys of the driver module's parameters.
const MODULE: &str = "module.";
const MTU: &str = "mtu";

/// Returns all forms of keys with their descriptions, except the variables of workloads.
pub fn keys() -> impl Iterator<Item = (String, &'static str)> {
    let ethtool = ETHTOOL.iter().map(|(prefix, _, about)| (format!("{prefix}NAME"), *about));
    let module = (format!("{MODULE}NAME"), "a parameter of the driver's module");
    ethtool.chain([module, (MTU.to_owned(), "the interface's MTU")])
}

/// Keys and values, in the order in which they were set.
pub type Settings = Vec<(String, String)>;

/// Fails unless each key is known to the guest or to one of the workloads.
pub fn check(settings: &Settings, workloads: &[Workload]) -> Result<(), Error> {
    for (key, _) in settings {
        let named = |prefix: &str| key.strip_prefix(prefix).is_some_and(|n| !n.is_empty());
        let of_guest = key == MTU || named(MODULE) || ETHTOOL.iter().any(|(p, ..)| named(p));
        let of_workload = |w: &Workload| w.variables.iter().any(|v| v.name == *key);
        if !of_guest && !workloads.iter().any(of_workload) {
            let mut allowed: Vec<String> = keys().map(|(k, _)| k).collect();
            for w in workloads {
                allowed.extend(w.variables.iter().map(|v| v.name.clone()));
            }
            let allowed = allowed.join(", ");
            return Err(Error::Input(format!(
                "--set {key}: there is no such key; there are {allowed}"
            )));
        }
    }
    Ok(())
}

/// Returns the parameters of the driver's module.
pub(crate) fn parameters(settings: &Settings) -> String {
    let own = settings.iter().filter_map(|(k, v)| Some((k.strip_prefix(MODULE)?, v)));
    own.map(|(name, value)| format!(" {}", quoted(&format!("{name}={value}")))).collect()
}

/// Returns the commands that set up the interface.
pub(crate) fn commands(settings: &Settings) -> Vec<String> {
    let command = |(key, value): &(String, String)| {
        if key == MTU {
            return Some(format!("ip link set $NIC mtu {}", quoted(value)));
        }
        let found = ETHTOOL.iter().find_map(|(p, option, _)| Some((key.strip_prefix(p)?, option)));
        let (name, option) = found?;
        Some(format!("ethtool {option} $NIC {} {}", quoted(name), quoted(value)))
    };
    settings.iter().filter_map(command).collect()
}

#[cfg(test)]
mod tests;
