//! Checks that Linux's ibmvnic and ibmveth have in common, behind our hypervisor: a ppc64le guest
//! whose calls the plug-in passes to the server.

use crate::bench::bench;
use crate::rig::{Options, Rig, Vm};
use doorbell_guest::net::text;
use std::path::Path;

shared! {
    SERVER_DIES: server_dies,
        "Without a server the guest's calls are answered H_CLOSED, and it lives on; a new server \
         has a new guest.";
    BILL: bill, "At the end: nothing was lost without a name, and the capture holds the wire.";
}

/// Returns QEMU's arguments for one more adapter.
pub(crate) fn adapter(kind: &str, unit: u32, mac: [u8; 6], socket: &Path) -> [String; 4] {
    let plugin = format!("file={},socket={}", bench().plugin.display(), socket.display());
    let device = format!("doorbell-{kind},reg={unit:#x},mac={}", text(mac));
    ["-plugin".to_owned(), plugin, "-device".to_owned(), device]
}

fn server_dies(rig: &mut Rig) {
    let (directory, server) = rig.serve("dies", "");
    let mut vm = Vm::boot(&rig.device, server.socket(), &directory, &Options::default());
    vm.load(rig.device.driver);
    vm.run("ip link set eth0 up; sleep 1; cat /sys/class/net/eth0/carrier");
    drop(server);
    vm.run("ping -c 2 -i 0.1 -W 1 $HOST; ip link set eth0 down; sleep 1; true");
    assert!(vm.run("echo alive").contains("alive"), "the guest lives on");
    assert!(vm.errors().contains("H_CLOSED"), "the plug-in says so");
    vm.power_off();
}

fn bill(rig: &mut Rig) {
    let report = rig.bill();
    let ledger = report.ledger;
    let calls = ledger.iter().filter(|(n, v)| n.starts_with("hcall") && *v > 0).map(|(n, _)| n);
    for name in calls.chain(["tce_hcalls", "tce_puts", "messages"]) {
        ledger.print_a_frame(report.frames.max(1), &[name]);
    }
}
