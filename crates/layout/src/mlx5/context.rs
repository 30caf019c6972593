//! Contexts of queues as plain values. [`super::command`] has their form in commands.

use zerocopy::TryFromBytes;

/// Context of a completion queue (the fields used of `cqc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqContext {
    /// log2 of its entries.
    pub log_size: u8,
    /// Bus address of entry 0.
    pub ring: u64,
    /// Bus address of its doorbell record.
    pub dbr: u64,
    /// The event queue it reports to.
    pub eqn: u32,
    /// The doorbell page that it is armed on.
    pub uar: u32,
    /// Moderation: microseconds after the first unreported entry; 0 with `max_count` 0 is off.
    pub period_us: u16,
    /// Moderation: entries that end the wait.
    pub max_count: u16,
    /// Entries of frames may be compressed.
    pub compression: Option<Compression>,
}

/// Layouts of blocks of compressed entries (`cqc.cqe_comp_layout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionLayout {
    /// The entries between arrays stay as they were, and the driver gives them the right owner.
    Basic,
    /// Arrays are entries.
    Enhanced,
}

/// Compression of a completion queue's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Places of the arrays.
    pub layout: CompressionLayout,
    /// [`mini_format`](super::receive::mini_format).
    pub format: u32,
}

/// Context of an event queue (the fields used of `eqc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqContext {
    /// log2 of its entries.
    pub log_size: u8,
    /// Bus address of entry 0.
    pub ring: u64,
    /// MSI-X vector.
    pub vector: u16,
    /// The doorbell page that it is armed on.
    pub uar: u32,
    /// Events other than completions that it takes: bit n is [`super::event`] n.
    pub events: u64,
}

/// Context of a send queue (the fields used of `sqc` and its `wq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqContext {
    /// log2 of its basic blocks.
    pub log_size: u8,
    /// Bus address of block 0.
    pub ring: u64,
    /// Bus address of its doorbell record.
    pub dbr: u64,
    /// The completion queue it reports to.
    pub cqn: u32,
    /// The doorbell page that it is rung on.
    pub uar: u32,
    /// Minimum inline mode: 0 none, 1 L2, 2 IP, 3 TCP/UDP.
    pub min_inline: u8,
    /// A queue for internal operations: it has no transport interface, and executes UMRs.
    pub internal: bool,
    /// It sends at the second port.
    pub second_port: bool,
}

/// States of a send queue (`sqc.state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u8)]
pub enum SqState {
    /// Doorbells are ignored; counters are zero.
    Reset = 0,
    /// WQEs are executed.
    Ready = 1,
    /// WQEs are flushed.
    Error = 3,
}

impl SqState {
    /// From a context.
    pub fn from_bits(v: u32) -> Option<SqState> {
        SqState::try_read_from_bytes(&[u8::try_from(v).ok()?]).ok()
    }
}

/// Capabilities of the device (`QUERY_HCA_CAP`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// ETH `enhanced_multi_pkt_send_wqe`.
    pub enhanced_mpw: bool,
    /// GENERAL `max_wqe_sz_sq`, bytes.
    pub max_wqe_sz_sq: u16,
    /// ETH `wqe_inline_mode` resolved: the minimum inline mode, 0 to 3.
    pub min_inline: u8,
    /// ETH `max_lso_cap`, log2 of the largest LSO payload; 0: no LSO.
    pub log_max_lso: u8,
    /// ETH `csum_cap`.
    pub csum: bool,
    /// ETH `vlan_cap`.
    pub vlan: bool,
    /// ETH `swp` and `swp_csum`: a WQE may say where the headers are.
    pub swp: bool,
    /// GENERAL `striding_rq` and `umr_ptr_rlky`, ETH `reg_umr_sq`: receive queues with strides, in
    /// memory that send queues map.
    pub striding: bool,
    /// GENERAL `cqe_compression`; with `enhanced_cqe_compression`, in that layout.
    pub compression: Option<CompressionLayout>,
    /// GENERAL `lag_tx_port_affinity`, with `num_lag_ports` of 2: a send queue's transport
    /// interface names the port that it sends at.
    pub second_port: bool,
}

/// Status of a firmware command (cmd.c `mlx5_cmd_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u8)]
pub enum CmdStatus {
    /// The device failed inside.
    Internal = 0x01,
    /// There is no such command, or not with this modifier.
    BadOp = 0x02,
    /// The parameters are not valid.
    BadParam = 0x03,
    /// The device is not in a state for it: before `INIT_HCA`, after `TEARDOWN_HCA`.
    BadSystemState = 0x04,
    /// A resource named does not exist.
    BadResource = 0x05,
    /// The resource is in use by another.
    ResourceBusy = 0x06,
    /// A limit was exceeded.
    ExceedLimit = 0x08,
    /// The resource is not in the state that was said, or others still refer to it.
    BadResourceState = 0x09,
    /// An index is out of range.
    BadIndex = 0x0a,
    /// No resources left.
    NoResources = 0x0f,
    /// The input is too short for the command.
    BadInputLength = 0x50,
    /// The output is too short for the command.
    BadOutputLength = 0x51,
    /// The command was not delivered, or not answered in time: no status at all.
    Undelivered = 0xff,
}

impl CmdStatus {
    /// From a command's output; `None` is success. An unknown status is [`CmdStatus::Internal`].
    pub fn from_byte(b: u8) -> Option<CmdStatus> {
        let known = CmdStatus::try_read_from_bytes(&[b]).ok();
        let answer = known.filter(|s| *s != CmdStatus::Undelivered).unwrap_or(CmdStatus::Internal);
        (b != 0).then_some(answer)
    }
}
