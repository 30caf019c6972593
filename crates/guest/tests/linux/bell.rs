//! Pages that the guest writes without a trap: QEMU maps them, and the server sees each write.

use crate::bench::bench;
use crate::host::{OrFail, PATIENCE, fresh, until};
use crate::rig::{Options, Vm};
use doorbell_guest::Device;
use doorbell_host_io::child::ChildGuard;
use std::path::Path;
use std::process::{Command, Stdio};

checks! { pub(crate) CHECKS:
    alone doorbell_pages:
        "Pages that the guest writes without a trap: QEMU maps them, and the server sees each \
         write.";
}

fn doorbell_pages(express: &Device) {
    let directory = Path::new("bell");
    fresh(directory);
    let (socket, said) = (directory.join("socket"), directory.join("bell.log"));
    let mut command = Command::new(&bench().bell);
    let log = std::fs::File::create(&said).or_fail();
    command.arg(&socket).stdin(Stdio::null()).stdout(log);
    let mut bell = ChildGuard::spawn("bell", &mut command).or_fail();
    assert!(until(|| socket.exists()), "bell has no socket");
    let mut vm = Vm::boot(express, &socket, directory, &Options::default());
    let device = "/sys/bus/pci/devices/0000:01:00.0";
    let speed = vm.run(format!("cat {device}/current_link_speed"));
    assert!(speed.starts_with("8.0 GT/s"), "the link has `{speed}`");
    vm.run(format!("echo 1 >{device}/enable; B=$(head -1 {device}/resource | cut -d' ' -f1)"));
    let read = |vm: &mut Vm, at: &str, bits: u32| {
        let said = vm.run(format!("devmem $((B + {at})) {bits}"));
        let digits = said.trim().trim_start_matches("0x");
        u64::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("devmem: {said}"))
    };
    // Words of several pages, and one that is no doorbell.
    for (n, at) in (1..).zip(["0x10800", "0x10900", "0x11020", "0x4f040"]) {
        vm.run(format!("devmem $((B + {at})) 64 {}", 0x1000 + n));
        // The server looks when it has the CPU.
        vm.run(format!(
            "for i in $(seq 500); do [ $(($(devmem $B 32))) = {n} ] && break; usleep 20000; done"
        ));
        let seen = [read(&mut vm, "0", 32), read(&mut vm, "4", 32)];
        assert_eq!(seen, [n, 0x1000 + n], "ring {n} at {at}");
        assert_eq!(read(&mut vm, at, 64), 0, "the server has taken it");
    }
    vm.run("devmem $((B + 0x10808)) 64 1; usleep 20000");
    vm.power_off();
    bell.wait(PATIENCE).or_fail();
    let rung = std::fs::read_to_string(said).or_fail();
    assert_eq!(rung.trim(), "4 0", "rung and trapped");
}
