//! Capabilities of an instance, and the assumptions about its inside.

use doorbell_hal::Span;
use doorbell_layout::mlx5::Caps;

/// Capabilities and inner limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Capabilities that the firmware reports.
    pub caps: Caps,
    /// Largest read of WQEs, in bytes: 64 to 4096.
    pub fetch_chunk: u32,
    /// Bytes of WQEs fetched and not yet executed, over all queues.
    pub fetch_ahead: u32,
    /// A WQE cut by the end of a chunk is read again from its start.
    pub refetch: bool,
    /// Least time from one packet's start of execution to the next one's.
    pub packet_time: Span,
    /// From the arrival of a packet's last byte to its first bit on the wire.
    pub pipeline_delay: Span,
    /// Time of one byte on the wire, in 1/1024 ps (100 Gbit/s: 80 ps).
    pub wire_byte_1024th_ps: u32,
    /// Largest frame, without FCS.
    pub max_frame: u32,
    /// Largest read of receive WQEs, in bytes: 64 to 4096.
    pub rx_fetch_chunk: u32,
    /// Bytes of received frames on chip.
    pub rx_fifo: u32,
    /// Writes of received data on their way at the most.
    pub writes_outstanding: u16,
    /// Moments at which the device compresses CQEs of received frames.
    pub compress: Compress,
    /// ETH `cqe_checksum_full`: the sum in a CQE is of all bytes behind the Ethernet header.
    pub checksum_full: bool,
    /// From a command's arrival on the device to its execution.
    pub command_time: Span,
    /// Firmware revision: major, minor, sub minor.
    pub firmware: (u16, u16, u16),
    /// The board's identity (PSID).
    pub psid: [u8; 16],
    /// MSI-X vectors of the function.
    pub vectors: u16,
    /// The port's address.
    pub mac: [u8; 6],
    /// Pages that firmware asks for to boot.
    pub boot_pages: u16,
    /// Pages more that it asks for to run.
    pub init_pages: u16,
    /// Doorbell pages are memory that is looked at: of two rings of one word the first can be
    /// gone ([`Mlx5::look_again`](super::Mlx5::look_again)). EQs are then armed at all times,
    /// since their arms are in no memory.
    pub polled_doorbells: bool,
    /// One WQE in so many fails as if its opcode were unknown, to see a driver recover; 0: none
    /// does.
    pub fail_every: u32,
}

/// The policy of compression, which is not public: CQEs of a queue that follow each other wait for
/// more of them. Each value is an assumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compress {
    /// Writes of received data on their way from which a block is begun.
    pub pressure: u16,
    /// Longest time from a block's first frame to its last.
    pub wait: Span,
    /// Frames of a block at the most: 2 to 64.
    pub most: u16,
}

impl Config {
    /// A ConnectX-5 or -6 Dx port at 100 Gbit/s.
    pub const CONNECTX: Config = Config {
        caps: Caps {
            enhanced_mpw: true,
            max_wqe_sz_sq: 1024,
            min_inline: 0,
            log_max_lso: 18,
            csum: true,
            vlan: true,
            swp: true,
            striding: false,
            compression: None,
            second_port: false,
        },
        fetch_chunk: 1024,
        fetch_ahead: 16 * 1024,
        refetch: false,
        packet_time: Span::from_ps(4_000),
        pipeline_delay: Span::from_ns(100),
        wire_byte_1024th_ps: 80 * 1024,
        max_frame: 9978 - 4,
        rx_fetch_chunk: 256,
        rx_fifo: 512 * 1024,
        writes_outstanding: 64,
        compress: Compress { pressure: 32, wait: Span::from_ns(1_000), most: 6 },
        checksum_full: false,
        // No figure is published. What waits for a command is not measured.
        command_time: Span::ZERO,
        firmware: (16, 35, 3000),
        psid: *b"MT_0000000008\0\0\0",
        vectors: 64,
        mac: [0x02, 0x00, 0x00, 0x10, 0x17, 0x01],
        boot_pages: 16,
        init_pages: 32,
        polled_doorbells: false,
        fail_every: 0,
    };

    /// The same with every value in its range, as hardware would round it.
    pub(super) fn clamped(mut self) -> Config {
        self.fetch_chunk = self.fetch_chunk.clamp(64, 4096) / 64 * 64;
        self.fetch_ahead = self.fetch_ahead.max(self.fetch_chunk);
        // A capability of five bits.
        self.caps.log_max_lso = self.caps.log_max_lso.min(31);
        self.max_frame = self.max_frame.clamp(60, 16 * 1024);
        self.rx_fetch_chunk = self.rx_fetch_chunk.clamp(64, 4096) / 64 * 64;
        self.compress.most = self.compress.most.clamp(2, 64);
        self.writes_outstanding = self.writes_outstanding.clamp(1, 4096);
        self
    }
}
