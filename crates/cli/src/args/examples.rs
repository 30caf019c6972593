//! Examples at the end of each command's help. The tests run them.

pub(super) const REPRODUCE: &str = "\
Examples:
  doorbell reproduce
  doorbell reproduce mlx5 --sensitivity";

pub(super) const RUN: &str = "\
Examples:
  doorbell run mlx5-pktgen-64
  doorbell run mlx5-replay --pcap mine.pcap.gz --set driver.mpwqe=off";

pub(super) const REPEAT: &str = "\
Examples:
  doorbell repeat result.json
  doorbell repeat points.parquet --sample 1%";

pub(super) const ARCHIVE: &str = "\
Examples:
  doorbell archive result.json points.parquet --out paper.tar.gz
  doorbell repeat paper.tar.gz --sample 1%";

pub(super) const COMPARE: &str = "\
Examples:
  doorbell compare mlx5-replay --pcap mine.pcap.gz --with driver.mpwqe=off
  doorbell compare e1000-pktgen axienet-saturated";

pub(super) const SWEEP: &str = "\
Examples:
  doorbell sweep mlx5-full-rate --over traffic.size=64..1024:x2 --show packets_per_s
  doorbell sweep mlx5-single-stream --over traffic.burst=1..32:x2 --across driver.mpwqe=off,on";

pub(super) const POINT: &str = "\
Examples:
  doorbell sweep mlx5-pktgen-64 --over pcie.mps=128,256 --plan | doorbell point --cache points";

pub(super) const RANK: &str = "\
Examples:
  doorbell rank mlx5-single-stream --side driver.mpwqe=on --side driver.mpwqe=off --by cycles
  doorbell rank axienet-bursts --where lost_share=0 --side driver.controller=trains --by cycles";

pub(super) const ADVISE: &str = "\
Examples:
  doorbell advise mlx5-single-stream --keep 'latency_ns.p99<20us'
  doorbell advise mlx5-replay --pcap mine.pcap.gz --set run.cores=8 --goal cycles";

pub(super) const FIT: &str = "\
Examples:
  doorbell fit measured.toml
  doorbell fit measured.toml --out mine.toml --format markdown";

pub(super) const CHECK: &str = "\
Examples:
  doorbell check budget.toml
  doorbell run mlx5-pktgen-64 --format json | doorbell check budget.toml --report -";

pub(super) const TRANSFER: &str = "\
Examples:
  doorbell transfer --profile mlx5-gen3 --read --at 0x1000 --bytes 1500";

pub(super) const SERVE: &str = "\
Examples:
  doorbell serve mlx5 --socket nic.sock --uplink reflect
  doorbell serve vnic --plugin-socket nic.sock --uplink tap:tap0";

pub(super) const GUEST: &str = "\
Examples:
  doorbell guest mlx5 --kernel debian:6.1,debian:6.12
  doorbell guest mlx5 --across ethtool.priv.skb_tx_mpwqe=off,on
  doorbell guest e1000 --kernel arch/x86/boot/bzImage --modules .";

pub(super) const LIVE: &str = "\
Examples:
  doorbell live --seconds 10";

pub(super) const LIST: &str = "\
Examples:
  doorbell list mlx5
  doorbell list --keys mlx5 burst
  doorbell list --metrics e1000 pci_";
