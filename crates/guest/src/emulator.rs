//! QEMU's command line for each architecture and device.

use crate::device::{CONVENTIONAL, Device, Reached};
use crate::net::text;
use crate::price::Prices;
use crate::{Arch, Error, Machine, tree};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Memory of a guest.
const MEMORY: &str = "512M";
/// The slot on the root bus of the device that a device tree describes.
const SLOT: u8 = 8;

/// The parts that QEMU makes a guest of.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// The device.
    pub device: Device,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The server's socket; QEMU's own devices have none.
    pub socket: Option<&'a Path>,
    /// The plug-in, if it is needed: for hypervisor calls, and for counts of instructions.
    pub plugin: Option<&'a Path>,
    /// Arguments of the plug-in that count.
    pub counting: Option<&'a str>,
    /// The device is in QEMU's process, and its clock is virtual.
    pub in_process: Option<InProcess<'a>>,
    /// CPUs.
    pub cpus: u32,
    /// The kernel's image.
    pub image: &'a Path,
    /// A file with the first file system.
    pub initramfs: &'a Path,
    /// Further arguments of QEMU.
    pub more: &'a [String],
    /// A directory for files of the run, and for the logs of console and QEMU.
    pub directory: &'a Path,
}

/// A device that the plug-in has in QEMU's process.
#[derive(Clone, Copy, Debug)]
pub struct InProcess<'a> {
    /// A file with the numbers of its machine.
    pub plan: &'a Path,
    /// A directory for the answers to the guest's words.
    pub words: &'a Path,
    /// The socket at which a host gives the guest its lines.
    pub talk: Option<&'a Path>,
    /// The costs of instructions.
    pub prices: &'a Prices,
    /// Instructions are counted.
    pub instructions: bool,
    /// Accesses to I/O memory are counted.
    pub mmio: bool,
    /// Calls of the driver's functions are followed.
    pub inclusive: bool,
}

impl InProcess<'_> {
    /// Adds the options that make a guest's time its instructions, and its randomness a seed's.
    fn clock(&self, command: &mut Command) {
        command.arg("-icount").arg(format!("shift={},sleep=off", self.prices.shift()));
        command.args(["-seed", "1", "-rtc", "base=2020-01-01,clock=vm"]);
    }

    /// Returns the arguments of the plug-in.
    fn argument(&self) -> OsString {
        let mut text = OsString::from(",machine=");
        text.push(escaped(self.plan));
        text.push(",words=");
        text.push(escaped(self.words));
        if let Some(talk) = self.talk {
            text.push(",talk=");
            text.push(escaped(talk));
        }
        if let Some(each) = self.prices.of_plugin() {
            text.push(format!(",price={each}"));
        }
        if self.instructions {
            text.push(",instructions=on");
            text.push(if self.mmio { ",mmio=on" } else { "" });
            text.push(if self.inclusive { ",inside=on" } else { "" });
        }
        text
    }
}

/// Returns the command that runs the guest, with its console on standard input and output, or in
/// virtual time in a file.
pub(crate) fn command(machine: &Machine, parts: &Parts<'_>) -> Result<Command, Error> {
    let mut command = machine.emulator();
    let arch = machine.arch;
    let kind = match arch {
        Arch::X86_64 => "q35,memory-backend=ram",
        // MSI-X needs an ITS, which came with GICv3.
        Arch::Arm64 => "virt,gic-version=3,memory-backend=ram",
        // Mitigations for speculation need KVM; x-vof leaves no firmware to wait for.
        Arch::Ppc64 => {
            "pseries,x-vof=on,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off,\
             memory-backend=ram"
        }
    };
    command.args([
        "-machine",
        kind,
        "-smp",
        &parts.cpus.to_string(),
        "-accel",
        if parts.in_process.is_some() { "tcg,thread=single" } else { "tcg" },
        "-m",
        MEMORY,
    ]);
    match arch {
        Arch::X86_64 => command.args(["-cpu", "max"]),
        Arch::Arm64 => command.args(["-cpu", "cortex-a57"]),
        Arch::Ppc64 => &mut command,
    };
    let memory = format!("memory-backend-memfd,id=ram,size={MEMORY},share=on");
    command.args(["-object", &memory, "-nodefaults", "-no-user-config", "-no-reboot"]);
    command.args(["-display", "none", "-serial"]);
    match &parts.in_process {
        None => command.arg("stdio"),
        Some(in_process) => {
            let mut file = OsString::from("file:");
            file.push(escaped(&parts.directory.join("console.log")));
            command.arg(file);
            in_process.clock(&mut command);
            &mut command
        }
    };
    let mut boot = format!(
        "console={} quiet panic=-1 net.ifnames=0 ipv6.disable=1 module.sig_enforce=0 \
         cryptomgr.notests=1",
        arch.console()
    );
    if arch == Arch::X86_64 {
        // The kernel counts its timer's interrupts for ten ticks, and panics where an emulated CPU
        // gets no time.
        boot += " no_timer_check";
    }
    if parts.in_process.is_some() {
        // Addresses are the same in each boot.
        boot += " nokaslr";
    }
    command.arg("-append").arg(boot);
    command.arg("-kernel").arg(parts.image).arg("-initrd").arg(parts.initramfs);
    if let Some(plugin) = parts.plugin {
        let mut text = OsString::from("file=");
        text.push(escaped(plugin));
        if let (Reached::Calls { .. }, Some(socket)) = (parts.device.reached, parts.socket) {
            text.push(",socket=");
            text.push(escaped(socket));
        }
        if let Some(in_process) = &parts.in_process {
            text.push(in_process.argument());
            // QEMU sizes the guest's TLB by a time that the plug-in gives it.
            command.env("LD_PRELOAD", plugin);
        }
        if let Some(counting) = parts.counting {
            text.push(",");
            text.push(counting);
        }
        command.arg("-plugin").arg(text);
    }
    device(&mut command, machine, parts)?;
    command.args(parts.more);
    Ok(command)
}

/// Adds the device.
fn device(command: &mut Command, machine: &Machine, parts: &Parts<'_>) -> Result<(), Error> {
    // QEMU takes socket addresses in JSON, in which any path can be written.
    let user = |bus: &str, more: &str| {
        let path = parts.socket.unwrap_or(Path::new("")).to_string_lossy();
        let path = path.replace('\\', "\\\\").replace('"', "\\\"");
        format!(
            "{{\"driver\":\"vfio-user-pci\",\"bus\":\"{bus}\",{more}\
             \"socket\":{{\"type\":\"unix\",\"path\":\"{path}\"}}}}"
        )
    };
    match parts.device.reached {
        Reached::VfioUser { .. } | Reached::Socket { .. } => {
            let slot = !matches!(parts.device.reached, Reached::VfioUser { slot: false });
            if slot {
                command.args(["-device", "pcie-root-port,id=root,chassis=1,slot=1"]);
            }
            let bus = if slot { "root" } else { "pcie.0" };
            let device = match parts.in_process {
                Some(_) => format!("doorbell-nic,bus={bus}"),
                None => user(bus, ""),
            };
            command.args(["-device", &device]);
        }
        Reached::DeviceTree => {
            let blob = tree::of_machine(machine, parts.cpus, parts.directory)?;
            let with_device = tree::with_axi_ethernet(&blob, parts.mac, SLOT)?;
            let file = parts.directory.join("guest.dtb");
            std::fs::write(&file, with_device).map_err(Error::io(file.display()))?;
            command.arg("-dtb").arg(file);
            let device = match parts.in_process {
                Some(_) => format!("doorbell-nic,bus=pcie.0,addr={SLOT:02x}.0"),
                None => user("pcie.0", &format!("\"addr\":\"{SLOT:02x}.0\",")),
            };
            command.args(["-device", &device]);
        }
        Reached::Calls { unit, device } => {
            command.args(["-device", &format!("{device},reg={unit:#x},mac={}", text(parts.mac))]);
        }
        Reached::Qemu { model } => {
            let tap = "tap,id=net,ifname=tap0,script=no,downscript=no";
            command.args(["-netdev", tap]);
            command.args(["-device", "pcie-root-port,id=root,chassis=1,slot=1"]);
            let bus = if CONVENTIONAL.contains(&model) { "pcie.0" } else { "root" };
            let device = format!("{model},netdev=net,bus={bus},mac={}", text(parts.mac));
            command.args(["-device", &device]);
        }
    }
    Ok(())
}

/// Returns a path as a value in a list of options: a comma is written twice.
fn escaped(path: &Path) -> OsString {
    path.to_string_lossy().replace(',', ",,").into()
}

#[cfg(test)]
mod tests;
