//! The machine of a guest in virtual time: the laboratory's, from a profile and `--set`.

use doorbell_bus::tce::Window;
use doorbell_console::{Error, input};
use doorbell_devices::{axi_ethernet, e1000, mlx5, veth, vnic};
use doorbell_guest::net::{GUEST, HOST, MAC};
use doorbell_guest::{Device, Prices, settings::Settings};
use doorbell_guest_machine::{Adapter, Captured, Card, Hypervisor, Plan, Slot};
use doorbell_hal::Span;
use doorbell_host_io::files;
use doorbell_host_io::pcap::{self, Reading};
use doorbell_papr_io::{sub_crq_interrupts, unit_interrupt};
use doorbell_spec::InputError;
use doorbell_spec::SettingError;
use doorbell_spec::error::Document;
use doorbell_spec::key::{Values, in_unit, parse_setting};
use doorbell_systems::Profile;
use doorbell_systems::Registry;
use doorbell_systems::e1000::E1000;
use doorbell_systems::host::HostConfig;
use doorbell_systems::papr::Papr;
use doorbell_systems::{axienet, card, ibmveth, ibmvnic, mlx5 as on_pcie, slot};
use std::path::Path;
use std::sync::Arc;

/// Groups of keys that are the machine's. The CPU, its memory and its driver are the guest's.
pub(super) const GROUPS: [&str; 10] =
    ["bus.", "pci.", "pcie.", "axi.", "nic.", "link.", "hypervisor.", "hcall.", "serial.", "tce."];
/// The key of what an instruction costs, and its value unless it is set.
pub(super) const INSTRUCTION: (&str, &str) = ("cpu.instruction", "1 ns");

/// Keys of an AXI Ethernet that its device tree states too.
const IN_TREE: [&str; 4] = ["nic.clock", "nic.rx_memory", "nic.tx_checksum", "nic.rx_checksum"];

/// The machine of one boot.
pub(super) struct Machine {
    /// The numbers for the plug-in.
    pub(super) plan: String,
    /// The costs of instructions.
    pub(super) prices: Prices,
    /// Settings inside the guest.
    pub(super) inside: Settings,
}

/// Returns the profile that a device has unless one is given; `None` if it has no machine yet.
pub(super) fn default_profile(device: &Device) -> Option<&'static str> {
    match device.name {
        "mlx5" => Some("mlx5-gen3"),
        "e1000" | "e1000-82544gc" | "e1000-82545em" => Some("e1000-power4"),
        "e1000-82574l" => Some("e1000e-82574l"),
        "axi-ethernet" => Some("axienet-zynqmp"),
        "vnic" => Some("ibmvnic-power9"),
        "veth" => Some("ibmveth-power8"),
        _ => None,
    }
}

/// Loads the profile of a device: the given one, or its own.
pub(super) fn profile(
    registry: &Registry,
    device: &Device,
    given: Option<&str>,
) -> Result<Profile, Error> {
    let own = default_profile(device).ok_or_else(|| {
        let name = device.name;
        input!("--clock virtual: {name} is QEMU's own, and no machine of the laboratory")
    })?;
    let profile = registry.profile(given.unwrap_or(own))?;
    let system = registry.profile(own)?.system.name;
    if profile.system.name != system {
        let (name, of) = (&profile.name, profile.system.name);
        return Err(input!("--profile {name}: it is of the system {of}, and {own} is of {system}"));
    }
    Ok(profile)
}

impl Machine {
    /// Resolves the profile with the settings of one boot.
    pub(super) fn of(
        device: &Device,
        profile: &Profile,
        settings: &Settings,
        captured: &Arc<Captured>,
    ) -> Result<Machine, Error> {
        let mut values = profile.all_values();
        let keys = profile.system.platform();
        let (mut inside, mut instruction) = (Settings::new(), INSTRUCTION.1.to_owned());
        if let Some(part) = part(device) {
            set(&mut values, &keys, "nic.part", part)?;
        }
        for (key, value) in settings {
            if key == INSTRUCTION.0 {
                instruction.clone_from(value);
            } else if key == "nic.part" {
                return Err(input!("--set {key}: the part is the device's, {}", device.name));
            } else if device.name == "axi-ethernet" && IN_TREE.contains(&key.as_str()) {
                return Err(input!("--set {key}: the guest's device tree says what it is"));
            } else if GROUPS.iter().any(|group| key.starts_with(group)) {
                set(&mut values, &keys, key, value)?;
            } else {
                inside.push((key.clone(), value.clone()));
            }
        }
        let prices = prices(&instruction)?;
        let plan = plan(device, &values).map_err(|e| input!("{e}"))?;
        let plan = Plan { captured: Arc::clone(captured), ..plan };
        Ok(Machine { plan: plan.text(), prices, inside })
    }
}

fn set(
    values: &mut Values,
    keys: &[&'static doorbell_spec::key::Key],
    key: &str,
    value: &str,
) -> Result<(), Error> {
    let parsed: Result<_, InputError> = parse_setting(keys, &format!("{key}={value}"));
    let (key, value) = parsed?;
    values.put(key, value);
    if let Some(why) = values.idle(key) {
        return Err(input!("--set {}: {why}", key.name));
    }
    Ok(())
}

/// Returns the value of `nic.part` for a device of the e1000 family.
pub(super) fn part(device: &Device) -> Option<&'static str> {
    match device.name {
        "e1000" => Some("82540em"),
        "e1000-82544gc" => Some("82544gc"),
        "e1000-82545em" => Some("82545em"),
        "e1000-82574l" => Some("82574l"),
        _ => None,
    }
}

/// Reads the frames of a capture.
pub(super) fn captured(file: Option<&Path>) -> Result<Arc<Captured>, Error> {
    let mut frames = Captured::default();
    let Some(file) = file else { return Ok(frames.into()) };
    let name = file.display().to_string();
    let mut from = files::open(file).map_err(Error::at(&name))?;
    let capture = pcap::read_from(&name, &mut from, Reading::default());
    let capture = capture.map_err(|e| input!("--pcap {e}"))?;
    for f in &capture.frames {
        frames.push(Span::from_ps(f.at_ns.saturating_mul(1000)), capture.frame(f));
    }
    if frames.is_empty() {
        return Err(input!("--pcap {name}: it has no frames"));
    }
    Ok(frames.into())
}

/// Returns true for the name of a file with costs.
pub(super) fn is_file(text: &str) -> bool {
    text.ends_with(".toml")
}

/// Returns the costs of instructions: one of all, or those of a file.
fn prices(text: &str) -> Result<Prices, Error> {
    if is_file(text) {
        let from = std::fs::read_to_string(text).map_err(Error::at(text))?;
        return prices_of(text, &from).map_err(|e| input!("{e}"));
    }
    let each = price(text).map_err(|e| input!("--set {}={text}: {e}", INSTRUCTION.0))?;
    Ok(Prices { each, functions: Vec::new() })
}

/// Reads a cost in picoseconds.
fn price(text: &str) -> Result<u64, String> {
    let ps = in_unit(text, "ns")? * 1000.0;
    let whole = ps.round();
    // A decimal fraction is not exact in binary.
    let is_whole = (ps - whole).abs() < 1e-6;
    let (least, most) = (Prices::ALLOWED.start(), Prices::ALLOWED.end() / 1000);
    let found = (is_whole && whole > 0.0).then_some(whole as u64);
    found.filter(|price| Prices::ALLOWED.contains(price)).ok_or_else(|| {
        format!("an instruction costs whole picoseconds, from {least} ps to {most} ns")
    })
}

/// Reads a file with the cost of an instruction, and of those of functions.
fn prices_of(name: &str, text: &str) -> Result<Prices, InputError> {
    const ALL: &str = "instruction";
    let document = Document::parse(name, text)?;
    let wrong = |at, e| document.error(at, e);
    let at = document.head_span(ALL);
    let each = price(&document.head(ALL)?).map_err(|e| wrong(at, e))?;
    let mut functions = Vec::new();
    for field in document.fields(&[ALL])? {
        let Some(function) = field.name.strip_prefix("functions.") else {
            return Err(wrong(field.span, "allowed are `instruction` and [functions]".to_owned()));
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
        let given = field.value.get_ref().as_str();
        let given = given.ok_or_else(|| "a cost is a string such as \"0.3 ns\"".to_owned());
        let cost = given.and_then(price).map_err(|e| wrong(field.span.clone(), e))?;
        if function.is_empty() || !function.chars().all(is_name) {
            return Err(wrong(field.span, format!("`{function}` is no function of a kernel")));
        }
        functions.push((function.to_owned(), cost));
    }
    Ok(Prices { each, functions })
}

/// Returns the machine of these values.
fn plan(device: &Device, v: &Values) -> Result<Plan, SettingError> {
    match device.name {
        "mlx5" => {
            let setup = on_pcie::settings::setup(v)?;
            let nic = mlx5::Config { mac: MAC, polled_doorbells: false, ..setup.nic };
            let slot = Slot::Express(setup.pcie, setup.latencies);
            // The profile has no cable.
            let link = (v.bits_per_second("nic.port_rate"), Span::ZERO);
            return Ok(linked(Card::Mlx5(nic), slot, link));
        }
        "axi-ethernet" => return axi_plan(v),
        "vnic" => return Ok(vnic_plan(v)),
        "veth" => return veth_plan(v),
        _ => {}
    }
    let setup = card::setup::<E1000>(v)?;
    let mut nic = e1000::Config { mac: MAC, ..setup.card.nic };
    if let e1000::Slot::Express { msi } = &mut nic.slot {
        // The guest writes that to the configuration space.
        *msi = false;
    }
    let card = Card::E1000(nic);
    let slot = match setup.slot {
        slot::Slot::Parallel(settings, latencies) => Slot::Parallel(settings, latencies),
        slot::Slot::Express(settings, latencies) => Slot::Express(settings, latencies),
        slot::Slot::Axi(settings, latencies) => Slot::Axi(settings, latencies),
    };
    Ok(linked(card, slot, (setup.host.link_rate, setup.host.link_delay)))
}

/// Returns the machine of a card whose link has this rate and delay.
fn linked(card: Card, slot: Slot, (rate, delay): (u64, Span)) -> Plan {
    Plan { card, slot, rate, delay, addresses: [GUEST, HOST], captured: Arc::default() }
}

fn axi_plan(v: &Values) -> Result<Plan, SettingError> {
    let setup = axienet::settings::setup(v)?;
    // The device tree has a PHY, and the profile a link that is fixed.
    let nic = axi_ethernet::Config { phy: axi_ethernet::Config::ZYNQMP.phy, ..setup.nic };
    let slot = Slot::Axi(setup.axi, setup.latencies);
    Ok(linked(Card::Axi(nic, MAC), slot, (setup.host.link_rate, setup.host.link_delay)))
}

/// The unit addresses of QEMU's command line.
const VNIC_UNIT: u32 = 0x3000_0003;
const VETH_UNIT: u32 = 0x3000_0002;

fn vnic_plan(v: &Values) -> Plan {
    let setup = ibmvnic::settings::setup(v);
    // Linux takes as many entries as it is granted.
    let granted = vnic::Server::POWERVM.entries;
    let servers = setup.nic.servers.map(|server| vnic::Server { entries: granted, ..server });
    let nic = vnic::Config {
        servers,
        unit_address: VNIC_UNIT.into(),
        mac: MAC,
        crq_vector: unit_interrupt(VNIC_UNIT),
        first_vector: sub_crq_interrupts(VNIC_UNIT),
        ..setup.nic
    };
    hosted(Adapter::Vnic(nic), setup.papr, &setup.host)
}

fn veth_plan(v: &Values) -> Result<Plan, SettingError> {
    let setup = ibmveth::settings::setup(v)?;
    let adapter = veth::Adapter {
        unit: VETH_UNIT.into(),
        mac: MAC,
        vector: unit_interrupt(VETH_UNIT),
        options: Some(veth::Adapter::ALL),
        ..veth::Adapter::new(0, 0)
    };
    // The client alone, with the network right behind the switch.
    let uplink = Some(veth::Uplink { port: 0, pvid: adapter.pvid });
    let lan = veth::Config { adapters: vec![adapter], uplink, ..setup.lan };
    Ok(hosted(Adapter::Veth(lan), setup.papr, &setup.host))
}

/// Returns the machine of an adapter under a hypervisor. Its guest's window begins at 0.
fn hosted(adapter: Adapter, papr: Papr, host: &HostConfig) -> Plan {
    let Papr { call, calls, copy, window, .. } = papr;
    let window = Window { base: 0, multi: true, ..window };
    let slot = Slot::Hypervisor(Hypervisor { call, calls, copy, window });
    linked(Card::Adapter(adapter), slot, (host.link_rate, host.link_delay))
}

#[cfg(test)]
mod tests;
