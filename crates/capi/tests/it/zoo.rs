//! Drivers with a bug each, in the shapes that drivers elsewhere have: a run has to name every one.
//!
//! A bug is a change of `examples/c/mynic.c`. A row has the traffic that shows the bug, and the
//! words that have to be said about it. Those of order show where stores wait for a barrier.

use crate::{compiler, libraries, of_crate, ran};
use std::path::Path;
use std::process::Command;

struct Bug {
    name: &'static str,
    /// The driver's text, and what stands there instead.
    changes: &'static [(&'static str, &'static str)],
    run: &'static str,
    /// Each has to be said.
    told: &'static [&'static str],
}

const SEND: &str = "run mynic-send --set traffic.packets=2000";
const RECEIVE: &str = "run mynic-receive --set traffic.warmup=200us --set traffic.duration=3ms";

const ZOO: &[Bug] = &[
    Bug {
        name: "no FCS is asked for",
        changes: &[("TX_EOP | TX_IFCS | TX_RS", "TX_EOP | TX_RS")],
        run: SEND,
        told: &["handed to the driver 2000, frames on the wire 0", "without IFCS", "SDM 3.3.3"],
    },
    Bug {
        name: "the link is never set up",
        changes: &[
            ("CTRL_SLU | CTRL_FD", "CTRL_FD"),
            ("STATUS) & STATUS_LU)", "STATUS) | STATUS_LU)"),
        ],
        run: SEND,
        told: &["link up: no"],
    },
    Bug {
        name: "a full ring is not noticed",
        changes: &[
            ("\tif (is_full(tx))\n\t\treturn DB_BUSY;\n", ""),
            ("return is_full(&((const struct mynic *)self)->tx);", "return 0 && self;"),
            ("RING - 1,", "1024,"),
        ],
        run: SEND,
        told: &[
            "2000 handed to the driver, 976 came back",
            "TDH 208, TDT 208, of them outstanding 0",
        ],
    },
    Bug {
        name: "the status of the last round counts again",
        changes: &[("for (; tx->head != tx->tail; sent++)", "for (; sent < budget; sent++)")],
        run: "run mynic-send --set traffic.packets=2000 --set traffic.rate=100kpps",
        told: &["calls that were refused", "the first of db_unmap"],
    },
    Bug {
        name: "a doorbell is lost",
        changes: &[("if (!more || is_full(tx)) {", "if (is_full(tx)) {")],
        run: "run mynic-send --set traffic.packets=2000 --set traffic.rate=10kpps",
        told: &["1792 left on the wire", "TDH 0, TDT 0"],
    },
    Bug {
        name: "sent buffers are kept",
        changes: &[(
            "db_sent(m, retire(m, tx));\n\t}\n\tdb_charge",
            "retire(m, tx);\n\t}\n\tdb_charge",
        )],
        run: SEND,
        told: &["0 came back", "with the driver, neither mapped nor given back"],
    },
    Bug {
        name: "receive buffers are kept at the end",
        changes: &[("\tempty(m, &n->rx);\n", "")],
        run: RECEIVE,
        told: &["buffers: taken", "coherent memory: 4096 bytes in 1 areas not released"],
    },
    Bug {
        name: "the address is another one",
        changes: &[("db_iova(m, buffer));", "db_iova(m, buffer) + (1 << 20));")],
        run: SEND,
        told: &["nothing is mapped at"],
    },
    Bug {
        name: "a buffer is released while the card has it",
        changes: &[(
            "f->mem, word);\n\treturn",
            "f->mem, word);\n\tdb_unmap(m, f->mem);\n\treturn",
        )],
        run: SEND,
        told: &["nothing is mapped at", "register: write TDT 0xff at", "DMA: read of 1024 B at"],
    },
    Bug {
        name: "the tail is written before the length",
        changes: &[(
            "\tdb_write32(m, RDLEN, RING * DESCRIPTOR);\n",
            "\tdb_write32(m, RDT, 200);\n\tdb_write32(m, RDLEN, RING * DESCRIPTOR);\n",
        )],
        run: RECEIVE,
        told: &["tails outside of their ring", "SDM 13.4.25"],
    },
    Bug {
        name: "nothing orders descriptors before the transmit tail",
        changes: &[("\t\tdb_wmb(m);\n\t\tdb_write32(m, TDT", "\t\tdb_write32(m, TDT")],
        run: "run mynic-send --set traffic.packets=2000 --order late",
        told: &["a write barrier is missing", "before the write of TDT 0x"],
    },
    Bug {
        name: "nothing orders descriptors before the receive tail",
        changes: &[("\t\tdb_wmb(m);\n\t\tdb_write32(m, RDT", "\t\tdb_write32(m, RDT")],
        run: "run mynic-receive --set traffic.warmup=200us --set traffic.duration=3ms --order late",
        told: &["a write barrier is missing", "before the write of RDT 0xff at"],
    },
];

/// Builds the driver with its bug.
fn built(dir: &Path, bug: &Bug) -> std::path::PathBuf {
    let mut text = std::fs::read_to_string(of_crate("../../examples/c/mynic.c")).unwrap();
    for (from, to) in bug.changes {
        assert!(text.contains(from), "{}: {from}", bug.name);
        text = text.replacen(from, to, 1);
    }
    let source = dir.join("driver.c");
    std::fs::write(&source, text).unwrap();
    let program = dir.join("program");
    ran(compiler()
        .arg("-Wno-unused")
        .arg(source)
        .arg(of_crate("../../examples/c/main.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(libraries())
        .arg("-ldoorbell_capi")
        .arg(format!("-Wl,-rpath,{}", libraries().display())));
    program
}

#[test]
fn every_planted_bug_is_named() {
    let mut unnamed = Vec::new();
    for bug in ZOO {
        let dir = tempfile::tempdir().unwrap();
        let args = bug.run.split(' ').chain(["--no-limits"]);
        let out = Command::new(built(dir.path(), bug)).args(args).output().unwrap();
        let said = [out.stdout, out.stderr].map(|b| String::from_utf8(b).unwrap()).concat();
        let silent: Vec<_> = bug.told.iter().filter(|told| !said.contains(**told)).collect();
        if out.status.code() != Some(1) || !silent.is_empty() {
            let code = out.status.code();
            unnamed.push(format!("{} ({code:?}): {silent:?} is not said in\n{said}", bug.name));
        }
    }
    assert!(unnamed.is_empty(), "{}", unnamed.join("\n"));
}

/// No row is named by a driver that has no bug.
#[test]
fn the_driver_without_a_bug_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    let none = Bug { name: "none", changes: &[], run: SEND, told: &[] };
    let program = built(dir.path(), &none);
    let runs: std::collections::BTreeSet<&str> = ZOO.iter().map(|bug| bug.run).collect();
    for run in runs {
        let out = ran(Command::new(&program).args(run.split(' ').chain(["--no-limits"])));
        let said = String::from_utf8(out.stdout).unwrap();
        assert!(said.contains("audit ok"), "{run}: {said}");
    }
}
