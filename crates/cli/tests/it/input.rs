//! Wrong input: exit 2, nothing on stdout, a message that says what is allowed.

use crate::common::{doorbell, doorbell_in, names, pcap, program, tcp, wrong, wrong_in};
use insta::assert_snapshot;

const RUN: [&str; 2] = ["run", "mlx5-pktgen-64"];

fn set(setting: &str) -> String {
    wrong(&[RUN[0], RUN[1], "--set", setting])
}

#[test]
fn names_that_do_not_exist() {
    assert_snapshot!(wrong(&["run", "mlx5-pktgen"]), @"doorbell: no scenario is called \
        `mlx5-pktgen`; the nearest is `mlx5-pktgen-64`; `doorbell list` has all; a path that ends \
        in .toml is read as a file");
    assert_snapshot!(
        wrong(&["transfer", "--profile", "mlx5", "--read", "--at", "0", "--bytes", "1"]),
        @"doorbell: no profile is called `mlx5`; the nearest is `mlx5-gen2`; `doorbell list` has \
          all; a path that ends in .toml is read as a file"
    );
    assert_snapshot!(wrong(&["run", "nowhere/x.toml"]), @"doorbell: nowhere/x.toml: No such file \
        or directory (os error 2)");
    assert_snapshot!(wrong(&["compare", "mlx5-pktgen-64", "mlx5-pktgen-65"]), @"doorbell: no \
        scenario is called `mlx5-pktgen-65`; the nearest is `mlx5-pktgen-64`; `doorbell list` has \
        all; a path that ends in .toml is read as a file");
}

#[test]
fn settings_that_do_not_exist_or_fit() {
    assert_snapshot!(set("pcie.memory_latncy=3"), @"doorbell: --set pcie.memory_latncy=3: no key \
        is called `pcie.memory_latncy`; the nearest is `pcie.memory_latency`");
    assert_snapshot!(set("pcie.memory_latency=3 GHz"), @"doorbell: --set pcie.memory_latency=3 \
        GHz: `pcie.memory_latency` cannot be in `GHz`; allowed units: ps, ns, us, ms, s");
    assert_snapshot!(set("pcie.mps=100"), @"doorbell: --set pcie.mps=100: `pcie.mps` cannot be 100 \
        B; allowed: 128, 256, 512, 1024, 2048, 4096 B");
    assert_snapshot!(set("traffic.burst=0.5"), @"doorbell: --set traffic.burst=0.5: \
        `traffic.burst` cannot be 0.5 packets; allowed: whole numbers from 1 to 4096 packets");
    assert_snapshot!(set("driver.mpwqe=maybe"), @"doorbell: --set driver.mpwqe=maybe: \
        `driver.mpwqe` cannot be `maybe`; allowed: on, off");
    assert_snapshot!(set("run.cores=25"), @"doorbell: mlx5-pktgen-64: `run.cores` is 25, but the \
        platform has 24 (`cpu.cores`)");
    assert_snapshot!(set("nonsense"), @"doorbell: --set nonsense: expected key=value, such as \
        pcie.memory_latency=300ns");
    assert_snapshot!(set("nic.max_wqe=128"), @"doorbell: mlx5-pktgen-64: the device could \
        not be opened: the device lacks max_wqe_sz_sq");
    assert_snapshot!(
        wrong(&["run", "mlx5-pktgen-64", "--seed", "18446744073709551615"]),
        @"doorbell: --seed 18446744073709551615: `run.seed` cannot be 1.8446744073709552e19; \
          allowed: whole numbers from 0 to 9007199254740991"
    );
    assert_snapshot!(
        wrong(&["compare", "mlx5-pktgen-64", "--with", "driver.mpwq=off"]),
        @"doorbell: --with driver.mpwq=off: no key is called `driver.mpwq`; the nearest is \
          `driver.mpwqe`"
    );
}

#[test]
fn files_are_refused_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let profile = std::fs::read_to_string("../../profiles/mlx5-gen2.toml").unwrap();
    let broken = profile.replace("unit = \"GHz\"", "unit = \"ns\"");
    std::fs::write(dir.path().join("p.toml"), broken).unwrap();
    let scenario = "name = \"s\"\nabout = \"s\"\nsystem = \"mlx5\"\nprofile = \
        \"p.toml\"\n\n[traffic]\nbursts = 3\n";
    std::fs::write(dir.path().join("s.toml"), scenario).unwrap();
    let transfer = ["transfer", "--profile", "p.toml", "--read", "--at", "0", "--bytes", "1"];
    assert_snapshot!(wrong_in(dir.path(), &transfer), @"doorbell: p.toml:9: `cpu.frequency` cannot \
        be in `ns`; allowed units: Hz, kHz, MHz, GHz");
    assert_snapshot!(wrong_in(dir.path(), &["run", "s.toml"]), @"doorbell: s.toml:7: no key is \
        called `traffic.bursts`; the nearest is `traffic.burst`");
    std::fs::write(dir.path().join("s.toml"), scenario.replace("bursts", "burst")).unwrap();
    assert_snapshot!(wrong_in(dir.path(), &["run", "s.toml"]), @"doorbell: p.toml:9: \
        `cpu.frequency` cannot be in `ns`; allowed units: Hz, kHz, MHz, GHz");
    std::fs::write(dir.path().join("p.toml"), &profile).unwrap();
    assert_eq!(doorbell_in(dir.path(), &["run", "s.toml"]).code, 0, "both files are right now");
    let from_afar = dir.path().join("s.toml");
    assert_eq!(
        doorbell(&["run", from_afar.to_str().unwrap()]).code,
        0,
        "a profile lies beside its scenario"
    );
    std::fs::write(dir.path().join("p.toml"), [0xff, 0xfe]).unwrap();
    assert_snapshot!(wrong_in(dir.path(), &["run", "s.toml"]), @"doorbell: p.toml: it is not \
        UTF-8 text, from byte 0 on");
}

#[test]
fn captures_that_cannot_be_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let write = |name: &str, bytes: &[u8]| std::fs::write(at.join(name), bytes).unwrap();
    let whole = pcap(1, &[tcp(100)]);
    write("cut.pcap", &whole[..whole.len() - 7]);
    write("wifi.pcap", &pcap(105, &[tcp(100)]));
    let mut snapped = whole.clone();
    snapped[36..40].copy_from_slice(&1514_u32.to_le_bytes());
    write("snapped.pcap", &snapped);
    write("text.pcap", b"not a capture at all");
    write("empty.pcap", &pcap(1, &[]));
    write("long.pcap", &pcap(1, &[tcp(100), tcp(3000)]));
    let mut udp = tcp(3000);
    udp[23] = 47; // GRE
    write("gre.pcap", &pcap(1, &[udp]));
    let replay = |args: &[&str]| {
        let all: Vec<&str> = ["run", "mlx5-replay", "--out", "out", "--capture", "wire.pcapng"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        wrong_in(at, &all)
    };
    assert_snapshot!(replay(&["--pcap", "cut.pcap"]), @"doorbell: cut.pcap: byte 24, packet 1: \
        the file is cut short: 163 bytes are left of 170");
    assert_snapshot!(replay(&["--pcap", "wifi.pcap"]), @"doorbell: wifi.pcap: byte 24, packet \
        1: link type 105 (IEEE 802.11) cannot be replayed; allowed are 1 (Ethernet), 113 and 276 \
        (Linux cooked), and with IP inside 101, 228 and 229 (raw), 0 and 108 (loopback), 9 and 50 \
        (PPP), 104 (Cisco HDLC); --skip leaves it out");
    assert_snapshot!(replay(&["--pcap", "snapped.pcap"]), @"doorbell: snapped.pcap: byte 24, \
        packet 1: only 154 of the packet's 1514 bytes were captured; fill it with zeros (--pad), \
        or capture with a larger snap length (tcpdump -s 0); --skip leaves it out");
    assert_snapshot!(replay(&["--pcap", "text.pcap"]), @"doorbell: text.pcap: not a capture file: \
        it starts with 6e 6f 74 20; allowed are pcap (microseconds or nanoseconds) and pcapng, \
        each also in gzip or zstd");
    assert_snapshot!(replay(&["--pcap", "empty.pcap"]), @"doorbell: empty.pcap: the capture has no \
        packets");
    assert_snapshot!(replay(&["--pcap", "nowhere.pcap"]), @"doorbell: nowhere.pcap: No such file \
        or directory (os error 2)");
    assert_snapshot!(replay(&["--pcap", "long.pcap"]), @"doorbell: mlx5-replay: long.pcap: frame 2 \
        has 3054 bytes, more than an MTU of 1500 allows; --gso auto sends it as a large send, \
        --set traffic.mtu=N allows longer frames; --skip leaves it out");
    assert_snapshot!(replay(&["--pcap", "long.pcap", "--gso", "1461"]), @"doorbell: mlx5-replay: \
        long.pcap: frame 2 has 3054 bytes, and segments of 1461 (--gso) make frames of 1515, more \
        than an MTU of 1500 allows; --gso auto makes them fit; --skip leaves it out");
    assert_snapshot!(replay(&["--pcap", "gre.pcap", "--gso", "1448"]), @"doorbell: mlx5-replay: \
        gre.pcap: frame 1 has 3054 bytes, more than an MTU of 1500 allows, and cannot be cut into \
        segments; only whole TCP and UDP datagrams with more payload than a segment can, no \
        fragments; --skip leaves it out");
    assert_snapshot!(replay(&[]), @"doorbell: mlx5-replay: the traffic is a capture, but none is \
        given: --pcap FILE, or `traffic.file`");
    assert_snapshot!(wrong_in(at, &["run", "mlx5-pktgen-64", "--gso", "1448"]), @"doorbell: --gso \
        1448: it is for captures; give one with --pcap FILE");
    assert_snapshot!(wrong_in(at, &["run", "mlx5-pktgen-64", "--pad"]), @"doorbell: --pad: it is \
        for captures; give one with --pcap FILE");
    assert_snapshot!(replay(&["--pcap", "long.pcap", "--times", "mine"]), @"doorbell: --times \
        mine: `traffic.times` cannot be `mine`; allowed: full, own");
    let left = ["cut", "empty", "gre", "long", "snapped", "text", "wifi"];
    assert_eq!(names(at), left.map(|n| format!("{n}.pcap")), "nothing of ours is left behind");
}

#[test]
fn places_that_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::create_dir(at.join("d")).unwrap();
    std::fs::write(at.join("file"), "").unwrap();
    let run = |args: &[&str]| wrong_in(at, &RUN.iter().chain(args).copied().collect::<Vec<_>>());
    assert_snapshot!(run(&["--capture", "nowhere/wire.pcapng"]), @"doorbell: nowhere/wire.pcapng: \
        No such file or directory (os error 2)");
    assert_snapshot!(run(&["--capture", "d"]), @"doorbell: d: a capture can only replace a regular \
        file, which this is not");
    assert_snapshot!(run(&["--out", "file/deep"]), @"doorbell: file/deep: Not a directory (os \
        error 20)");
    assert_snapshot!(run(&["--out", "file"]), @"doorbell: file: it exists and is not a directory");
    assert_snapshot!(
        run(&["--out", "new/and/deep", "--capture", "nowhere/wire.pcapng"]),
        @"doorbell: nowhere/wire.pcapng: No such file or directory (os error 2)"
    );
    assert_eq!(names(at), ["d", "file"]);
    assert_eq!(names(&at.join("d")), [""; 0]);
    let made = doorbell_in(
        at,
        &[&RUN[..], &["--set", "traffic.packets=2400", "--out", "new/and/deep"]].concat(),
    );
    assert_eq!(
        (made.code, names(&at.join("new/and/deep"))),
        (0, vec!["result.json".to_owned()]),
        "{}",
        made.err
    );
}

/// A setting without effect is a mistake, in every form.
#[test]
fn a_setting_without_effect_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::write(at.join("f.pcap"), pcap(1, &[tcp(100), tcp(200)])).unwrap();
    let replay = |args: &[&str]| wrong_in(at, &[args, &["--pcap", "f.pcap"]].concat());
    let over = ["sweep", "mlx5-replay", "--over", "traffic.packets=1,8"];
    assert_snapshot!(replay(&over), @"doorbell: --over traffic.packets=1: `traffic.packets` has no \
        effect on this run: it has an effect where `traffic.kind` is pktgen, and here \
        `traffic.kind` is pcap");
    assert_snapshot!(replay(&["run", "mlx5-replay", "--set", "traffic.size=100"]), @"doorbell: \
        --set traffic.size=100: `traffic.size` has no effect on this run: it has an effect where \
        `traffic.kind` is pktgen, and here `traffic.kind` is pcap");
    assert_snapshot!(replay(&["run", "e1000-pktgen", "--set", "traffic.flows=2"]), @"doorbell: \
        --set traffic.flows=2: `traffic.flows` has no effect on this run: it has an effect where \
        `traffic.kind` is pktgen or arrivals, and here `traffic.kind` is pcap");
    assert_snapshot!(
        replay(&["compare", "mlx5-replay", "--with", "traffic.packets=10"]),
        @"doorbell: --with traffic.packets=10: `traffic.packets` has no effect on this run: it has \
          an effect where `traffic.kind` is pktgen, and here `traffic.kind` is pcap"
    );
    assert_snapshot!(
        replay(&[
            "sweep", "mlx5-replay", "--over", "traffic.rounds=1,2", "--across",
            "traffic.checksum=on,off",
        ]),
        @"doorbell: --across traffic.checksum=on: `traffic.checksum` has no effect on this run: it \
          has an effect where `traffic.kind` is pktgen, and here `traffic.kind` is pcap"
    );
    assert_snapshot!(
        replay(&[
            "rank", "mlx5-replay", "--by", "cycles", "--side", "a:traffic.packets=3", "--side",
            "b:driver.mpwqe=on",
        ]),
        @"doorbell: --side traffic.packets=3: `traffic.packets` has no effect on this run: it has \
          an effect where `traffic.kind` is pktgen, and here `traffic.kind` is pcap"
    );
    assert_snapshot!(set("traffic.gso=1448"), @"doorbell: --set traffic.gso=1448: `traffic.gso` \
        has no effect on this run: it has an effect where `traffic.kind` is pcap, and here \
        `traffic.kind` is pktgen");
    assert_snapshot!(set("run.watchdog=5"), @"doorbell: --set run.watchdog=5: `run.watchdog` has \
        no effect on this run: it has an effect where `run.fault` is given, and here `run.fault` \
        is not given");
    assert_snapshot!(wrong(&["run", "e1000-send", "--set", "pcie.mps=256"]), @"doorbell: --set \
        pcie.mps=256: `pcie.mps` has no effect on this run: it has an effect where `bus.kind` is \
        pcie, and here `bus.kind` is pci");
    assert_snapshot!(
        wrong(&["run", "axienet-receive", "--set", "driver.rx_frames=4"]),
        @"doorbell: --set driver.rx_frames=4: `driver.rx_frames` has no effect on this run: it has \
          an effect where `driver.controller` is fixed, and here `driver.controller` is dim"
    );
    assert_snapshot!(wrong(&["run", "axienet-saturated", "--set", "traffic.hold=4"]), @"doorbell: \
        --set traffic.hold=4: `traffic.hold` has no effect on this run: it has an effect where \
        `traffic.pattern` is steps or on_off, and here `traffic.pattern` is even");
    assert_snapshot!(wrong(&["run", "ibmveth-send", "--set", "traffic.pieces=4"]), @"doorbell: \
        --set traffic.pieces=4: `traffic.pieces` has no effect on this run: it has an effect where \
        `traffic.kind` is packets, and here `traffic.kind` is send");
    assert_snapshot!(
        wrong(&["run", "ibmvnic-transactions", "--set", "traffic.other=100"]),
        @"doorbell: --set traffic.other=100: `traffic.other` has no effect on this run: it has an \
          effect where `traffic.other_share` is above 0 or `traffic.spread` is on, and here \
          `traffic.other_share` is 0 % and `traffic.spread` is off"
    );
    let scenario = "name = \"s\"\nabout = \"s\"\nsystem = \"mlx5\"\nprofile = \
        \"mlx5-gen2\"\n\n[traffic]\nrounds = 3\n";
    std::fs::write(at.join("s.toml"), scenario).unwrap();
    assert_snapshot!(wrong_in(at, &["run", "s.toml"]), @"doorbell: s.toml:7: `traffic.rounds` has \
        no effect on this run: it has an effect where `traffic.kind` is pcap, and here \
        `traffic.kind` is pktgen");
    let budget =
        "scenario = \"mlx5-pktgen-64\"\n[set]\n\"traffic.mtu\" = 9000\n[budget]\npackets = 1\n";
    std::fs::write(at.join("b.toml"), budget).unwrap();
    assert_snapshot!(wrong_in(at, &["check", "b.toml"]), @"doorbell: b.toml:3: `traffic.mtu` has \
        no effect on this run: it has an effect where `traffic.kind` is pcap, and here \
        `traffic.kind` is pktgen");
    // The file's own, which a capture replaces; and one that has its effect on some of several
    // runs.
    assert_eq!(doorbell_in(at, &["run", "e1000-pktgen", "--pcap", "f.pcap"]).code, 0);
    let some = [
        "compare",
        "mlx5-single-stream",
        "--set",
        "traffic.packets=640",
        "--set",
        "driver.sizing=fit",
        "--with",
        "driver.mpwqe=off",
    ];
    assert_eq!(doorbell(&some).code, 0);
}

#[test]
fn a_sweep_takes_each_key_once() {
    let sweep = |more: &[&str]| {
        wrong(&[&["sweep", "mlx5-pktgen-64", "--over", "traffic.burst=1,2"], more].concat())
    };
    assert_snapshot!(sweep(&["--across", "traffic.burst=3,4"]), @"doorbell: --across \
        traffic.burst=3,4: --over has it already, and a run has one value of it");
    assert_snapshot!(sweep(&["--over", "traffic.burst=3,4"]), @"doorbell: --over \
        traffic.burst=3,4: --over has it already, and a run has one value of it");
    assert_snapshot!(sweep(&["--set", "traffic.burst=3"]), @"doorbell: --set traffic.burst=3: \
        --over gives every run a value of it");
    assert_snapshot!(sweep(&["--across", "driver.mpwqe"]), @"doorbell: --across driver.mpwqe: \
        expected key=value,value,… such as pcie.mps=128,256");
    assert_snapshot!(sweep(&["--across", "driver.mpwqe=1..2"]), @"doorbell: --across \
        driver.mpwqe=1: `driver.mpwqe` cannot be `1`; allowed: on, off");
    assert_snapshot!(sweep(&["--across", "pcie.mps=on..off"]), @"doorbell: --across \
        pcie.mps=on..off: a range is of numbers, such as 1..8 or 64..1500:64");
    assert_snapshot!(sweep(&["--show", "speed_of_light"]), @"doorbell: --show speed_of_light: no \
        metric is called `speed_of_light`; `doorbell list --metrics mlx5` has all");
}

#[test]
fn transfers_that_have_no_meaning() {
    let t = |args: &[&str]| {
        wrong(
            &["transfer", "--profile", "mlx5-gen3"].iter().chain(args).copied().collect::<Vec<_>>(),
        )
    };
    assert_snapshot!(t(&["--read", "--at", "0x", "--bytes", "1"]), @"doorbell: --at 0x: allowed \
        are 64-bit addresses, such as 0x100001e02");
    assert_snapshot!(t(&["--read", "--at", "0xffffffffffffffff", "--bytes", "1"]), @"doorbell: \
        --at 0xffffffffffffffff: 1 bytes from there end beyond the last 64-bit address; allowed is \
        up to 0xfffffffffffffffe");
    assert_snapshot!(t(&["--read", "--at", "0", "--bytes", "0"]), @"doorbell: `--bytes` cannot be \
        0 B; allowed: whole numbers from 1 to 16777216 B");
    assert_snapshot!(t(&["--read", "--at", "0", "--bytes", "1ns"]), @"doorbell: `--bytes` cannot \
        be in `ns`; allowed units: B, KiB, MiB");
    assert!(t(&["--at", "0", "--bytes", "1"]).contains("--read"), "one of the two is needed");
    assert!(t(&["--read", "--write", "--at", "0", "--bytes", "1"]).contains("cannot be used with"));
}

#[test]
fn a_sum_of_different_units_is_refused() {
    assert_snapshot!(
        wrong(&["sweep", "mlx5-pktgen-64", "--over", "traffic.burst=1,2", "--show", "cycles+maps"]),
        @"doorbell: --show cycles+maps: `cycles+maps` adds numbers of different units"
    );
    let rank = |more: &[&str]| {
        wrong(
            &[
                &[
                    "rank",
                    "mlx5-pktgen-64",
                    "--side",
                    "driver.mpwqe=on",
                    "--side",
                    "driver.mpwqe=off",
                ],
                more,
            ]
            .concat(),
        )
    };
    assert_snapshot!(
        rank(&["--by", "cycles+maps"]),
        @"doorbell: --by cycles+maps: `cycles+maps` adds numbers of different units"
    );
    assert_snapshot!(
        rank(&["--by", "map"]),
        @"doorbell: --by map: no metric is called `map`; the nearest is `maps`; \
          `doorbell list --metrics mlx5` has all"
    );
    assert_snapshot!(
        rank(&["--by", "maps", "--series", "packets_per_s", "--every", "1000"]),
        @"doorbell: --series packets_per_s: no series of the run has this name; it has none"
    );
}

#[test]
fn charts_that_cannot_be_drawn() {
    let sweep =
        |more: &[&str]| wrong(&[&["sweep", "e1000-send", "--format", "svg"], more].concat());
    let maps = ["--show", "maps"];
    let over = "traffic.mss=64,65,66,67,68,69,70,71,72";
    let many = ["--over", over, "--over", "driver.copy_align=on,off"];
    assert_snapshot!(
        sweep(&[&["--over", "traffic.mss=64,128", "--show", "unmaps"], &maps[..]].concat()),
        @"doorbell: --format svg: a chart shows one number, but --show is given more than once"
    );
    assert_snapshot!(
        sweep(&[&many[..], &maps[..]].concat()),
        @"doorbell: --format svg: 9 lines, but a chart has room for 8; the last --over key is the \
          horizontal axis"
    );
    assert_snapshot!(
        sweep(&["--over", "traffic.mss=64,128", "--shard", "1/2"]),
        @"doorbell: --format svg: a chart shows all rows, but --shard runs a part of them"
    );
    assert_snapshot!(
        wrong(&["sweep", "e1000-send", "--over", "traffic.mss=64", "--show", "map"]),
        @"doorbell: --show map: no metric is called `map`; the nearest is `maps`; \
          `doorbell list --metrics e1000` has all"
    );
}

#[test]
fn usage_faults_exit_2_too() {
    assert_eq!(doorbell(&["serve"]).code, 2);
    assert_eq!(doorbell(&["compare", "mlx5-pktgen-64"]).code, 2);
}

#[test]
fn reproductions_of_nothing_known() {
    assert_snapshot!(wrong(&["reproduce", "mlx4"]), @"doorbell: no published figures are \
        called `mlx4`; there are: mlx5, hardware, e1000, axienet, ibmveth, ibmvnic");
    assert_snapshot!(wrong(&["reproduce", "--set", "pcie.memory_latncy=3"]), @"doorbell: --set \
        pcie.memory_latncy: no constant or choice is called `pcie.memory_latncy`; the nearest is \
        `pcie.memory_latency`");
    assert_snapshot!(wrong(&["reproduce", "--set", "pcie.memory_latency=3 GHz"]), @"doorbell: \
        --set pcie.memory_latency=3 GHz: `pcie.memory_latency` cannot be in `GHz`; allowed units: \
        ps, ns, us, ms, s");
    assert_snapshot!(wrong(&["reproduce", "--set", "pcie.gap=timers"]), @"doorbell: --set \
        pcie.gap=timers: `pcie.gap` cannot be `timers`; allowed: none, dllp, completion, \
        packed");
    assert_snapshot!(wrong(&["reproduce", "--set", "driver.mpwqe=off"]), @"doorbell: --set \
        driver.mpwqe: no constant or choice is called `driver.mpwqe`; the nearest is \
        `native.mpwqe`");
    assert_snapshot!(wrong(&["reproduce", "--set", "pcie.gap"]), @"doorbell: --set pcie.gap: \
        expected key=value, such as pcie.memory_latency=300ns");
    // The unit is that of the system asked for.
    assert_snapshot!(wrong(&["reproduce", "ibmveth", "--set", "link.rate=9000"]), @"doorbell: \
        --set link.rate=9000: `link.rate` cannot be 9000 Gbit/s; allowed: 0.1 to 400 Gbit/s");
    assert_snapshot!(wrong(&["reproduce", "e1000", "--set", "link.rate=25"]), @"doorbell: --set \
        link.rate=25: `link.rate` cannot be 25 Mbit/s; allowed: 10, 100, 1000 Mbit/s");
    let both = ["reproduce", "e1000", "ibmveth", "--set", "link.rate=1 Gbit/s"];
    assert_snapshot!(wrong(&both), @"doorbell: --set link.rate=1 Gbit/s: `link.rate` has another \
        unit for ibmveth than for e1000; name the systems that it is for");
}

#[test]
fn files_that_are_read_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (scenario, plan) = (path("s.toml"), path("p.ndjson"));
    let text = "name = \"s\"\nabout = \"s\"\nsystem = \"mlx5\"\nprofile = \"mlx5-gen2\"\n";
    std::fs::write(&scenario, text).unwrap();
    let points = doorbell(&["sweep", "e1000-send", "--over", "traffic.mss=64,128", "--plan"]);
    std::fs::write(&plan, &points.out).unwrap();
    let new = path("new");
    let same = format!("{}/../{}/s.toml", dir.path().display(), {
        dir.path().file_name().unwrap().to_str().unwrap()
    });
    for args in [
        &["run", &scenario, "--capture", &same][..],
        &["run", &scenario, "--trace", &scenario],
        &["point", &plan, "--out", &plan],
    ] {
        let said = wrong(args);
        assert!(said.contains("it is read, and would be replaced"), "{said}");
    }
    for args in [
        &["run", "e1000-send", "--capture", &new, "--trace", &new][..],
        &["run", "e1000-send", "--out", &new, "--capture", "result.json"],
    ] {
        let said = wrong(args);
        assert!(said.contains("two files would be written to it"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&scenario).unwrap(), text);
    assert_eq!(std::fs::read_to_string(&plan).unwrap(), points.out);
    assert!(!std::path::Path::new(&new).exists());
}

/// Ctrl-C, a closed terminal, a request to terminate: nothing is left of files that were begun.
#[test]
fn an_interrupted_run_leaves_no_files() {
    let measurements = tempfile::tempdir().unwrap();
    let text = "name = \"m\"\nabout = \"m\"\nprofile = \"mlx5-gen2\"\n\
        [[constant]]\nkey = \"cpu.stack\"\n[[row]]\nscenario = \"mlx5-pktgen-64\"\n\
        set = [\"traffic.packets=1000000000\"]\nmetric = \"maps\"\nvalue = 1\nsource = \"m\"\n";
    std::fs::write(measurements.path().join("m.toml"), text).unwrap();
    for signal in ["INT", "TERM", "HUP"] {
        let dir = tempfile::tempdir().unwrap();
        let long = ["mlx5-pktgen-64", "--set", "traffic.packets=1000000000", "--out"];
        let run = [&["run"], &long[..], &["out", "--capture", "wire.pcapng"]].concat();
        let over = ["s.parquet", "--over", "pcie.mps=128,256", "--show", "maps"];
        let sweep = [&["sweep"], &long[..], &over].concat();
        let measured = measurements.path().join("m.toml").to_string_lossy().into_owned();
        let fit = vec!["fit", &measured, "--out", "mine.toml"];
        // A command has begun when its files are there.
        for (args, at, files) in [(&run, "out", 2), (&sweep, ".", 1), (&fit, ".", 1)] {
            let mut child = std::process::Command::new(program())
                .args(args)
                .current_dir(dir.path())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let begun = || std::fs::read_dir(dir.path().join(at)).is_ok_and(|d| d.count() == files);
            for _ in 0..2000 {
                if begun() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert!(begun());
            let kill = std::process::Command::new("kill")
                .args([format!("-{signal}"), child.id().to_string()])
                .status();
            assert!(kill.unwrap().success());
            assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{signal}");
        }
    }
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(doorbell_in(dir.path(), &["new", "scenario", "mine.toml"]).code, 0);
    let written = std::fs::read_to_string(dir.path().join("mine.toml")).unwrap();
    assert_snapshot!(wrong_in(dir.path(), &["new", "profile", "mine.toml"]), @"doorbell: \
        mine.toml: it exists already, and is left as it is");
    assert_eq!(std::fs::read_to_string(dir.path().join("mine.toml")).unwrap(), written);
    assert_snapshot!(wrong_in(dir.path(), &["new", "scenario", "mine"]), @"doorbell: mine: the \
        name has to end in .toml");
    assert_snapshot!(wrong_in(dir.path(), &["new", "scenario", "no/mine.toml"]), @"doorbell: \
        no/mine.toml: No such file or directory (os error 2)");
    assert_snapshot!(
        wrong_in(dir.path(), &["new", "scenario", "yours.toml", "--on", "no.toml"]),
        @"doorbell: no.toml: No such file or directory (os error 2)"
    );
    assert_eq!(names(dir.path()), ["mine.toml"]);
}
