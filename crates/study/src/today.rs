//! Today's settings of a machine, as `ethtool -c`, `-g`, `-k`, `-l` and `lspci -vv` print them, as
//! settings of a system's keys.
//!
//! One file may hold the outputs of several tools, one behind the other. Each has a head that names
//! it. A line that no setting of the system follows from is passed over; one that does not have the
//! form of its tool is refused.

use doorbell_spec::InputError;
use doorbell_systems::Setting;

/// A tool's output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// `ethtool -c`: `rx-usecs: 8`.
    Coalesce,
    /// `ethtool -g`: `TX: 1024`, behind the maximums.
    Ring,
    /// `ethtool -k`: `tx-checksumming: on`.
    Feature,
    /// `ethtool -l`: `Combined: 8`, behind the maximums.
    Channel,
    /// `lspci -vv`: `MaxPayload 256 bytes`.
    Pci,
}

/// Heads of the parts.
const HEADS: [(&str, Part); 5] = [
    ("Coalesce parameters for", Part::Coalesce),
    ("Ring parameters for", Part::Ring),
    ("Features for", Part::Feature),
    ("Offload parameters for", Part::Feature),
    ("Channel parameters for", Part::Channel),
];

/// A name in a tool's output, and the key whose value it has.
struct Same {
    part: Part,
    name: &'static str,
    key: &'static str,
    /// Makes the key's value of the tool's; `None` for a value that the key has no equal of.
    value: fn(&str) -> Option<String>,
}

const fn same(part: Part, name: &'static str, key: &'static str) -> Same {
    Same { part, name, key, value: whole }
}

/// Returns a whole number as it is.
fn whole(text: &str) -> Option<String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.to_owned())
}

/// Returns a switch as it is.
fn switch(text: &str) -> Option<String> {
    matches!(text, "on" | "off").then(|| text.to_owned())
}

/// Returns ibmveth's large send for the feature of TSO.
fn large_send(text: &str) -> Option<String> {
    match text {
        "on" => Some("firmware".to_owned()),
        "off" => Some("off".to_owned()),
        _ => None,
    }
}

/// Returns axienet's controller for adaptive coalescing.
fn controller(text: &str) -> Option<String> {
    match text {
        "on" => Some("dim".to_owned()),
        "off" => Some("fixed".to_owned()),
        _ => None,
    }
}

/// Returns e1000's throttle for `rx-usecs`, as `e1000_get_coalesce` has it: up to 4 it is the
/// setting itself, else the interval.
fn throttle(text: &str) -> Option<String> {
    match text.parse().ok()? {
        0 => Some("off".to_owned()),
        1 => Some("dynamic".to_owned()),
        3 => Some("conservative".to_owned()),
        2 | 4 => None,
        usecs => Some((1_000_000_u32 / usecs).to_string()),
    }
}

/// Returns the generation of PCI Express for a speed.
fn generation(text: &str) -> Option<String> {
    let speeds = ["2.5GT/s", "5GT/s", "8GT/s", "16GT/s", "32GT/s", "64GT/s"];
    speeds.iter().position(|speed| *speed == text).map(|i| (i + 1).to_string())
}

const PCIE: [Same; 4] = [
    Same { part: Part::Pci, name: "Speed", key: "pcie.generation", value: generation },
    same(Part::Pci, "Width", "pcie.lanes"),
    same(Part::Pci, "MaxPayload", "pcie.mps"),
    same(Part::Pci, "MaxReadReq", "pcie.mrrs"),
];

const MLX5: [Same; 3] = [
    same(Part::Coalesce, "tx-usecs", "driver.moderation_period"),
    same(Part::Coalesce, "tx-frames", "driver.moderation_count"),
    same(Part::Ring, "TX", "driver.queue"),
];

const E1000: [Same; 4] = [
    Same { part: Part::Coalesce, name: "rx-usecs", key: "driver.throttle", value: throttle },
    same(Part::Ring, "RX", "driver.rx_ring"),
    same(Part::Ring, "TX", "driver.tx_ring"),
    Same {
        part: Part::Feature,
        name: "tx-checksumming",
        key: "traffic.tx_checksum",
        value: switch,
    },
];

const AXIENET: [Same; 7] = [
    Same { part: Part::Coalesce, name: "Adaptive RX", key: "driver.controller", value: controller },
    same(Part::Coalesce, "rx-usecs", "driver.rx_usecs"),
    same(Part::Coalesce, "rx-frames", "driver.rx_frames"),
    same(Part::Coalesce, "tx-usecs", "driver.tx_usecs"),
    same(Part::Coalesce, "tx-frames", "driver.tx_frames"),
    same(Part::Ring, "RX", "driver.rx_ring"),
    same(Part::Ring, "TX", "driver.tx_ring"),
];

const IBMVETH: [Same; 2] = [
    Same { part: Part::Feature, name: "tx-checksumming", key: "driver.checksum", value: switch },
    Same {
        part: Part::Feature,
        name: "tcp-segmentation-offload",
        key: "driver.large_send",
        value: large_send,
    },
];

const IBMVNIC: [Same; 4] = [
    same(Part::Ring, "RX", "driver.rx_entries"),
    same(Part::Ring, "TX", "driver.tx_entries"),
    same(Part::Channel, "TX", "driver.queues"),
    Same { part: Part::Feature, name: "tx-checksumming", key: "driver.checksum", value: switch },
];

/// Returns what a system has of the tools' names.
fn known(system: &str) -> Vec<&'static Same> {
    match system {
        "mlx5" => MLX5.iter().chain(&PCIE).collect(),
        "e1000" => E1000.iter().collect(),
        "axienet" => AXIENET.iter().collect(),
        "ibmveth" => IBMVETH.iter().collect(),
        "ibmvnic" => IBMVNIC.iter().collect(),
        _ => Vec::new(),
    }
}

/// Reads the settings of a system from the outputs in a file, called `file` in messages. A setting
/// has the file's line as its place.
///
/// # Errors
/// A line is in no output, has not the form of its tool, or has a value that no setting is equal
/// to; or two lines disagree.
pub fn read(system: &str, file: &str, text: &str) -> Result<Vec<Setting>, InputError> {
    let known = known(system);
    let mut part = None;
    // Of rings and channels: the line is behind the maximums.
    let mut current = true;
    let mut found: Vec<(&str, Setting)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", at + 1);
        let wrong = |what: String| Err(InputError::new(&*place, what));
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['$', '#']) {
            continue;
        }
        if let Some(next) = head(line) {
            if next == Part::Pci && part == Some(Part::Pci) {
                return wrong("a second device begins here; keep the lines of one".to_owned());
            }
            (part, current) = (Some(next), !matches!(next, Part::Ring | Part::Channel));
            continue;
        }
        let Some(part) = part else {
            return wrong(format!(
                "`{}` is in no output of ethtool -c, -g, -k or -l, or of lspci -vv",
                trimmed.chars().take(40).collect::<String>()
            ));
        };
        match trimmed {
            "Pre-set maximums:" => current = false,
            "Current hardware settings:" => current = true,
            _ if part != Part::Pci && !trimmed.contains(':') => {
                return wrong(format!("`{trimmed}` is no line `NAME: VALUE`"));
            }
            _ => {}
        }
        for (name, value) in pairs(part, trimmed).into_iter().filter(|_| current) {
            let of_name = known.iter().filter(|s| s.part == part && s.name == name);
            for same in of_name.filter(|_| value != "n/a") {
                let Some(value) = (same.value)(value) else {
                    return wrong(format!("`{name}` is {value}, which `{}` has not", same.key));
                };
                let setting = Setting::at(&*place, format!("{}={value}", same.key));
                match found.iter().find(|(key, _)| *key == same.key) {
                    Some((_, before)) if before.text != setting.text => {
                        return wrong(format!("{} says `{}`", before.place, before.text));
                    }
                    Some(_) => {}
                    None => found.push((same.key, setting)),
                }
            }
        }
    }
    Ok(found.into_iter().map(|(_, setting)| setting).collect())
}

/// Returns the part that a line begins.
fn head(line: &str) -> Option<Part> {
    if let Some((_, part)) = HEADS.iter().find(|(head, _)| line.starts_with(head)) {
        return Some(*part);
    }
    // An address: `3b:00.0 Ethernet controller: …`.
    let (address, _) = line.split_once(' ')?;
    let (bus, function) = address.rsplit_once('.')?;
    let hex = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_hexdigit());
    let device = hex(function) && bus.contains(':') && bus.split(':').all(hex);
    device.then_some(Part::Pci)
}

/// Returns the names and values of a line.
fn pairs(part: Part, line: &str) -> Vec<(&str, &str)> {
    let Some((name, value)) = line.split_once(':') else {
        return if line.starts_with("MaxPayload ") { of_pci(line) } else { Vec::new() };
    };
    match part {
        Part::Pci if name == "LnkSta" => of_pci(value),
        Part::Pci => Vec::new(),
        // `Adaptive RX: off  TX: off`.
        _ if name == "Adaptive RX" => {
            let (rx, tx) = value.split_once("TX:").unwrap_or((value, "n/a"));
            vec![("Adaptive RX", rx.trim()), ("Adaptive TX", tx.trim())]
        }
        _ => vec![(name, value.split_whitespace().next().unwrap_or("n/a"))],
    }
}

/// Returns the members of a line of lspci: `Speed 8GT/s (ok), Width x16 (ok)`.
fn of_pci(line: &str) -> Vec<(&str, &str)> {
    line.split(',')
        .filter_map(|text| {
            let (name, value) = text.trim().split_once(' ')?;
            let value = value.split_whitespace().next()?;
            Some((name, value.trim_start_matches('x')))
        })
        .collect()
}

#[cfg(test)]
mod tests;
