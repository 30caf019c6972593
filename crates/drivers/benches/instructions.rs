//! The driver's own instructions a packet, counted by Callgrind.
//!
//! The driver runs on the bare host: flat memory, no ledger, no guard, nothing priced. The bench
//! itself writes the CQE of each batch. Callgrind counts only inside the two functions below that
//! call the driver, and each number is the difference of two runs with different numbers of
//! packets. Included are the caller's costs: taking each packet out and passing it in (12
//! instructions or so), and a push for each buffer that is returned (10). Making the packets is
//! not.
//!
//! `cargo bench -p doorbell-drivers --bench instructions` runs itself under valgrind, if there is
//! one.

use doorbell_drivers::mlx5::{Channel, Config, Firmware, Objects};
use doorbell_drivers::{Driver, Sink, Tx};
use doorbell_hal::{Alignment, Buf, Host};
use doorbell_layout::mlx5::receive::{RqContext, RqState};
use doorbell_layout::mlx5::{
    CQE_TAIL, Caps, CmdStatus, CqContext, CqeTail, EqContext, SqContext, SqState, cqe_opcode,
};
use doorbell_packet::{Fragment, Packet};
use doorbell_testkit::{DirectHost, NoDevice};
use std::cell::Cell;
use std::process::Command;
use std::rc::Rc;
use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::{U16, U32};

const SIZE: u32 = 64;

/// Firmware that says yes, and remembers where the CQ is.
#[derive(Clone, Default)]
struct Yes {
    cq: Rc<Cell<u64>>,
}

impl<H: Host> Firmware<H> for Yes {
    fn caps(&mut self, _: &mut H) -> Caps {
        Caps {
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
        }
    }
    fn alloc_uar(&mut self, _: &mut H) -> Result<u32, CmdStatus> {
        Ok(0x10)
    }
    fn create_mkey(&mut self, _: &mut H) -> Result<u32, CmdStatus> {
        Ok(0x1000 << 8)
    }
    fn create_eq(&mut self, _: &mut H, _: &EqContext) -> Result<u32, CmdStatus> {
        Ok(4)
    }
    fn create_cq(&mut self, _: &mut H, c: &CqContext) -> Result<u32, CmdStatus> {
        // The send queue's is the first.
        if self.cq.get() == 0 {
            self.cq.set(c.ring);
        }
        Ok(0x400)
    }
    fn create_sq(&mut self, _: &mut H, _: &SqContext) -> Result<u32, CmdStatus> {
        Ok(0x100)
    }
    fn modify_sq(&mut self, _: &mut H, _: u32, _: SqState, _: SqState) -> Result<(), CmdStatus> {
        Ok(())
    }
    fn query_sq(&mut self, _: &mut H, _: u32) -> Result<SqState, CmdStatus> {
        Ok(SqState::Ready)
    }
    fn create_rq(&mut self, _: &mut H, _: &RqContext) -> Result<u32, CmdStatus> {
        Err(CmdStatus::BadOp)
    }
    fn modify_rq(&mut self, _: &mut H, _: u32, _: RqState, _: RqState) -> Result<(), CmdStatus> {
        Err(CmdStatus::BadOp)
    }
    fn destroy(&mut self, _: &mut H, _: &Objects) {}
}

struct Pool(Vec<Buf>);

impl Sink for Pool {
    #[inline(always)]
    fn sent(&mut self, b: Buf, _cookie: u32, _last: bool) {
        self.0.push(b);
    }
    fn received(&mut self, _p: Packet, _verified: bool) {}
}

type Under = Channel<Yes>;

/// Sends `packets`, last first, as one batch; whether all were taken.
#[inline(never)]
fn counted_transmit(
    c: &mut Under,
    h: &mut DirectHost<NoDevice>,
    packets: &mut Vec<Packet>,
) -> bool {
    while let Some(p) = packets.pop() {
        let more = !packets.is_empty();
        if !matches!(c.transmit(h, p, more), Tx::Ok) {
            return false;
        }
    }
    true
}

#[inline(never)]
fn counted_poll(c: &mut Under, h: &mut DirectHost<NoDevice>, pool: &mut Pool) {
    c.poll(h, 64, pool);
}

/// Sends `packets` packets in bursts of `burst`; polls after each burst.
fn send(mpwqe: bool, burst: u32, packets: u32) -> Option<u64> {
    let mut h = DirectHost::new(4 << 20, NoDevice);
    let fw = Yes::default();
    let cq = Rc::clone(&fw.cq);
    let config = Config { mpwqe, ..Config::DEFAULT };
    let mut channel = Channel::open(&mut h, fw, &config).ok()?;
    let mut pool = Pool(Vec::new());
    for _ in 0..burst {
        pool.0.push(h.buffer(SIZE, Alignment::ANY).ok()?);
    }
    let mut batch = Vec::with_capacity(burst as usize);
    for cqe in 0..packets / burst {
        batch.extend(
            pool.0.drain(..).map(|buf| Packet::linear(Fragment { buf, start: 0, len: SIZE })),
        );
        if !counted_transmit(&mut channel, &mut h, &mut batch) {
            return None;
        }
        // The device: one CQE for the last WQE, in its slot, with the owner bit of its round.
        let wqe = channel.last_announced();
        let tail = CqeTail {
            sop_drop_qpn: U32::new(0x100),
            wqe_counter: U16::new(wqe),
            signature: 0,
            op_own: cqe_opcode::REQ << 4 | (cqe >> config.log_cq & 1) as u8,
        };
        let at = cq.get() + u64::from(cqe & ((1 << config.log_cq) - 1)) * 64 + u64::from(CQE_TAIL);
        h.port.at(at, size_of::<CqeTail>()).copy_from_slice(tail.as_bytes());
        counted_poll(&mut channel, &mut h, &mut pool);
    }
    Some(channel.stats().packets)
}

/// Instructions that Callgrind counts for a run of this program.
fn count(mode: &str, burst: u32, packets: u32) -> Result<u64, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted_*"])
        .arg(me)
        .args(["child", mode, &burst.to_string(), &packets.to_string()])
        .output()
        .map_err(|e| format!("valgrind does not start ({e}); install it to count instructions"))?;
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    let collected = text.lines().find_map(|l| l.split("Collected :").nth(1)?.trim().parse().ok());
    collected.filter(|_| out.status.success()).ok_or(text)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, word, mode, burst, packets] = args.as_slice()
        && word == "child"
        && let (Ok(burst), Ok(packets)) = (burst.parse(), packets.parse())
    {
        let sent = send(mode == "MPWQE", burst, packets);
        assert_eq!(sent, Some(u64::from(packets / burst * burst)));
        return;
    }
    println!(
        "mlx5 transmit on the bare host: instructions a {SIZE}-byte packet, \
         transmit, doorbell and completion"
    );
    println!("{:<8} {:>8} {:>8} {:>8} {:>8}", "burst", "1", "8", "32", "128");
    for mode in ["SEND", "MPWQE"] {
        print!("{mode:<8}");
        for burst in [1u32, 8, 32, 128] {
            let (few, many) = (burst * 100, burst * 100 + 12_800);
            match (count(mode, burst, few), count(mode, burst, many)) {
                (Ok(a), Ok(b)) => print!(" {:>8.1}", (b - a) as f64 / 12_800.0),
                (Err(why), _) | (_, Err(why)) => return println!("\n{why}"),
            }
        }
        println!();
    }
}
