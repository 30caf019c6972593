use super::*;
use doorbell_systems::DOORBELL;

const OUTPUTS: &str = "\
$ ethtool -c eth0
Coalesce parameters for eth0:
Adaptive RX: off  TX: off
stats-block-usecs:	n/a
sample-interval:	n/a

rx-usecs:	8
rx-frames:	12
tx-usecs:	16
tx-frames:	32

CQE mode RX: off  TX: off

Ring parameters for eth0:
Pre-set maximums:
RX:		8192
RX Mini:	n/a
TX:		8192
Current hardware settings:
RX:		512
RX Mini:	n/a
TX:		1024
Features for eth0:
rx-checksumming: on
tx-checksumming: on
	tx-checksum-ipv4: off [fixed]
tcp-segmentation-offload: off
Channel parameters for eth0:
Pre-set maximums:
RX:		n/a
TX:		16
Current hardware settings:
RX:		n/a
TX:		4
# lspci -vv
3b:00.0 Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]
	Subsystem: Mellanox Technologies Device 0016
		DevCap:	MaxPayload 512 bytes, PhantFunc 0
		DevCtl:	CorrErr- NonFatalErr+ FatalErr+ UnsupReq-
			MaxPayload 256 bytes, MaxReadReq 512 bytes
		LnkCap:	Port #0, Speed 16GT/s, Width x16, ASPM not supported
		LnkSta:	Speed 8GT/s (downgraded), Width x8 (downgraded)
		LnkSta2: Current De-emphasis Level: -6dB
";

fn of(system: &str, text: &str) -> Vec<String> {
    let all = read(system, "x", text).unwrap_or_else(|e| panic!("{e}"));
    all.into_iter().map(|s| s.text).collect()
}

fn refused(system: &str, text: &str) -> String {
    read(system, "x", text).expect_err("it is refused").to_string()
}

#[test]
fn each_system_has_its_own_keys() {
    let keys = [
        (
            "mlx5",
            "moderation_period=16 moderation_count=32 queue=1024 pcie.mps=256 pcie.mrrs=512 \
             pcie.generation=3 pcie.lanes=8",
        ),
        ("e1000", "throttle=125000 rx_ring=512 tx_ring=1024 traffic.tx_checksum=on"),
        (
            "axienet",
            "controller=fixed rx_usecs=8 rx_frames=12 tx_usecs=16 tx_frames=32 rx_ring=512 \
             tx_ring=1024",
        ),
        ("ibmveth", "checksum=on large_send=off"),
        ("ibmvnic", "rx_entries=512 tx_entries=1024 checksum=on queues=4"),
    ];
    for (system, expected) in keys {
        let full = |s: &str| if s.contains('.') { s.to_owned() } else { format!("driver.{s}") };
        let expected: Vec<String> = expected.split_whitespace().map(full).collect();
        assert_eq!(of(system, OUTPUTS), expected, "{system}");
    }
    assert_eq!(read("mlx5", "x", OUTPUTS).unwrap()[0].place, "x:9");
}

#[test]
fn every_setting_is_one_of_the_system() {
    for scenario in ["mlx5-replay", "e1000-send", "axienet-receive", "ibmveth-send", "ibmvnic-bulk"]
    {
        let mut plan = DOORBELL.plan(scenario).unwrap();
        let text = OUTPUTS.replace("rx-usecs:	8", "rx-usecs:	50");
        let all = read(plan.system.name, "x", &text).unwrap();
        let keys = plan.values.keys();
        for setting in &all {
            let name = setting.text.split('=').next().unwrap();
            assert!(keys.iter().any(|key| key.name == name), "{scenario} {name}");
        }
        let _ = plan.lay(&all).unwrap_or_else(|e| panic!("{scenario}: {e}"));
    }
}

#[test]
fn e1000_has_modes_for_small_times() {
    let of = |n: u32| of("e1000", &format!("Coalesce parameters for eth0:\nrx-usecs: {n}\n"));
    let words = [(0, "off"), (1, "dynamic"), (3, "conservative"), (125, "8000")];
    for (n, word) in words {
        assert_eq!(of(n), [format!("driver.throttle={word}")]);
    }
    let why = refused("e1000", "Coalesce parameters for eth0:\nrx-usecs: 4\n");
    assert_eq!(why, "x:2: `rx-usecs` is 4, which `driver.throttle` has not");
}

#[test]
fn what_is_of_no_tool_is_refused_with_its_line() {
    assert_eq!(
        refused("mlx5", "\nhello: 5\n"),
        "x:2: `hello: 5` is in no output of ethtool -c, -g, -k or -l, or of lspci -vv"
    );
    let ring = "Ring parameters for eth0:\nCurrent hardware settings:\n";
    let line = |line: &str| refused("mlx5", &format!("{ring}{line}\n"));
    assert_eq!(line("TX 1024"), "x:3: `TX 1024` is no line `NAME: VALUE`");
    assert_eq!(line("TX: 1k"), "x:3: `TX` is 1k, which `driver.queue` has not");
    assert_eq!(line("TX: 1024\nTX: 512"), "x:4: x:3 says `driver.queue=1024`");
    let two = "3b:00.0 Ethernet controller: a\n3b:00.1 Ethernet controller: b\n";
    assert_eq!(refused("mlx5", two), "x:2: a second device begins here; keep the lines of one");
    let slow = "0000:3b:00.0 Ethernet controller: a\n\tLnkSta: Speed 3GT/s, Width x8\n";
    assert_eq!(refused("mlx5", slow), "x:2: `Speed` is 3GT/s, which `pcie.generation` has not");
    assert_eq!(of("other", OUTPUTS), [""; 0]);
}
