//! The plug-in in real guests: each program's instructions are counted to the last one.

use super::programs::{Program, device_loop, memory_and_fault_loops};
use crate::instructions::{Counter, Snapshot};
use crate::{Arch, Machine, fetch::debian_kernel};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A guest whose init is a program.
struct Guest {
    process: Child,
    counter: Counter,
    _directory: tempfile::TempDir,
}

/// Returns the kernel, and the machine and CPU, of an architecture.
fn machine(arch: Arch) -> (&'static str, &'static str) {
    match arch {
        Arch::X86_64 => ("6.12", "-M q35 -cpu max"),
        Arch::Arm64 => ("7.3", "-M virt,gic-version=3 -cpu cortex-a57"),
        Arch::Ppc64 => (
            "6.12",
            "-M pseries,x-vof=on,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off",
        ),
    }
}

/// Returns an initramfs (cpio, "newc") with the program as init, and the devices that it uses.
fn initramfs(program: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    let entries = [
        ("dev", 0o40755, (0, 0), &[][..]),
        ("dev/console", 0o20600, (5, 1), &[]),
        ("dev/mem", 0o20600, (1, 1), &[]),
        ("init", 0o100755, (0, 0), program),
        ("TRAILER!!!", 0, (0, 0), &[]),
    ];
    for (inode, (name, mode, (major, minor), data)) in entries.into_iter().enumerate() {
        let fields = [inode, mode, 0, 0, 1, 0, data.len(), 0, 0, major, minor, name.len() + 1, 0];
        archive.extend(b"070701");
        archive.extend(fields.map(|f| format!("{f:08x}")).concat().into_bytes());
        archive.extend(name.bytes().chain([0]));
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(data);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }
    archive
}

impl Guest {
    fn start(arch: Arch, program: &Program, cpus: u32) -> Guest {
        let directory = tempfile::tempdir().unwrap();
        let mut counter = Counter::bind(directory.path().join("count")).unwrap();
        if program.accesses != 0 {
            counter = counter.with_mmio();
        }
        let initrd = directory.path().join("initrd");
        std::fs::write(&initrd, initramfs(&program.elf)).unwrap();
        let (kernel, options) = machine(arch);
        let said = |line: &str| eprintln!("{line}");
        let machine = Machine::fetch(arch, &said).unwrap();
        let kernel = debian_kernel(arch, kernel, &said).unwrap();
        let plugin = crate::plugin().unwrap();
        let console = arch.console();
        let process = machine
            .emulator()
            .args(options.split(' '))
            .args(
                "-accel tcg -m 512M -nodefaults -display none -no-reboot -serial stdio".split(' '),
            )
            .args(["-smp", &cpus.to_string(), "-kernel"])
            .arg(kernel.join("vmlinuz"))
            .arg("-initrd")
            .arg(&initrd)
            .arg("-append")
            .arg(format!(
                "console={console} quiet panic=-1 no_timer_check iomem=relaxed \
                 cryptomgr.notests=1"
            ))
            .arg("-plugin")
            .arg(format!("file={},{}", plugin.display(), counter.argument()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Guest { process, counter, _directory: directory }
    }

    /// Reads until the program has executed its last instruction.
    fn finished(&mut self, program: &Program) -> Snapshot {
        let start = Instant::now();
        loop {
            let now = self.counter.read().expect("the guest's counts");
            let (code, instructions) = program.loops.last().expect("a loop");
            let work = now.since(&Snapshot::default()).within(code.clone());
            if work.instructions >= *instructions {
                return now;
            }
            assert!(start.elapsed() < Duration::from_secs(300), "the program stands at {work:?}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn check(arch: Arch, program: &Program, cpus: u32) {
    let mut guest = Guest::start(arch, program, cpus);
    let began = Instant::now();
    guest.finished(program);
    println!("{arch:?}: a boot: {:.1} s", began.elapsed().as_secs_f64());
    // What it should not execute any more would come now.
    std::thread::sleep(Duration::from_secs(2));
    let all = guest.counter.read().unwrap().since(&Snapshot::default());
    let mut accesses = (0, 0);
    for (code, instructions) in &program.loops {
        let work = all.within(code.clone());
        println!("{arch:?}: {work:?} of {instructions} instructions");
        assert_eq!(work.instructions, *instructions);
        accesses = (accesses.0 + work.loads, accesses.1 + work.stores);
    }
    assert_eq!(accesses, (program.accesses, program.accesses));
}

/// Checks all programs of an architecture.
fn check_all(arch: Arch) {
    check(arch, &memory_and_fault_loops(arch, 1_234_567, 100), 1);
    if let Some(program) = device_loop(arch, 12_345) {
        check(arch, &program, 2);
    }
}

#[test]
#[ignore = "boots a kernel, which is fetched; `make test-guest` runs it"]
fn counts_x86_64_exactly() {
    check_all(Arch::X86_64);
}

#[test]
#[ignore = "boots a kernel, which is fetched; `make test-guest` runs it"]
fn counts_arm64_exactly() {
    check_all(Arch::Arm64);
}

#[test]
#[ignore = "boots a kernel, which is fetched; `make test-guest` runs it"]
fn counts_ppc64_exactly() {
    check_all(Arch::Ppc64);
}
