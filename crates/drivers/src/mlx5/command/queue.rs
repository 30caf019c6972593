//! The command queue.

use super::super::Answer;
use crate::{OpenError, Opened, common::both, common::wait};
use alloc::vec::Vec;
use doorbell_hal::{Coherent, Fence, Host, Reg, Span, fail_if};
use doorbell_layout::mlx5::CmdStatus;
use doorbell_layout::mlx5::command::{
    Entry, InHeader, Mailbox, checksum, delivery, entry_type, init_segment as seg, mailbox, own,
    xor,
};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Bytes of input and output in an entry.
const INLINE: usize = 16;
/// Mailboxes for input: the page list of the longest ring, a CQ of 65536 entries.
const INPUTS: u32 = 20;
/// Mailboxes for output: a group of capabilities.
const OUTPUTS: u32 = 9;
/// Limit for a command.
const TIMEOUT: Span = Span::from_ms(60_000);
/// Polls without delay; after these one per millisecond.
const FAST_POLLS: u32 = 1000;

/// A command queue with at most one command under way.
#[derive(Debug)]
pub(super) struct CommandQueue {
    entries: Coherent,
    boxes: Coherent,
    stride: u32,
    token: u8,
    /// [`checksum`]: the check of the responses' signatures.
    checksum: u32,
    /// A command timed out; the device may still use the queue.
    dead: bool,
}

/// Reads a register; all are big-endian.
fn read<H: Host>(h: &mut H, offset: u32) -> u32 {
    h.read32(Reg::at(offset)).swap_bytes()
}

fn write<H: Host>(h: &mut H, offset: u32, v: u32) {
    h.write32(Reg::at(offset), v.swap_bytes());
}

/// Waits until the device has started.
fn wait_started<H: Host>(h: &mut H) -> Opened {
    let pause = |h: &mut H| h.delay(Span::from_ms(2));
    let started = wait(h, Span::from_ms(120_000), pause, |h| read(h, seg::INITIALIZING) >> 31 == 0);
    let stuck = OpenError::Device("it does not come out of initialization");
    if started { Ok(()) } else { Err(stuck) }
}

impl CommandQueue {
    /// Checks the device, and sets up the queue.
    pub(super) fn open<H: Host>(h: &mut H) -> Opened<CommandQueue> {
        wait_started(h)?;
        if read(h, seg::CMDIF_REV) >> 16 != seg::CMDIF {
            return Err(OpenError::Device("its command interface has another revision than 5"));
        }
        let shape = read(h, seg::CMDQ_LO) & 0xff;
        let (log_slots, log_stride) = (shape >> 4, shape & 0xf);
        if log_slots > 5 || log_stride < size_of::<Entry>().ilog2() || log_slots + log_stride > 12 {
            return Err(OpenError::Device("its command queue has a shape that cannot be"));
        }
        let entries = h.coherent(4096, 4096)?;
        let boxes = h.coherent((INPUTS + OUTPUTS) * mailbox::ALIGN, mailbox::ALIGN);
        let (entries, boxes) = both(entries, boxes, |entries| h.release_coherent(entries))?;
        let at = entries.iova().0;
        h.fence(Fence::Write);
        write(h, seg::CMDQ_HI, (at >> 32) as u32);
        write(h, seg::CMDQ_LO, at as u32);
        let q = CommandQueue {
            entries,
            boxes,
            stride: 1 << log_stride,
            token: 0,
            checksum: checksum::DISABLED,
            dead: false,
        };
        let started = wait_started(h);
        Ok(both(q, started, |q| q.release(h))?.0)
    }

    pub(super) fn set_checksum(&mut self, checksum: u32) {
        self.checksum = checksum;
    }

    /// Releases the memory; the device must be disabled.
    pub(super) fn release<H: Host>(self, h: &mut H) {
        h.release_coherent(self.entries);
        h.release_coherent(self.boxes);
    }

    /// Executes a command: `message` with its header filled in, then `list`. Returns the response,
    /// an `O`, and `more` bytes behind it.
    pub(super) fn execute<H: Host, I: IntoBytes + Immutable, O: FromBytes>(
        &mut self,
        h: &mut H,
        (opcode, op_mod): (u16, u32),
        message: &I,
        list: &[u8],
        more: usize,
    ) -> Answer<(O, Vec<u8>)> {
        let mut header = InHeader::ZERO;
        header.set(InHeader::OPCODE, u32::from(opcode)).set(InHeader::OP_MOD, op_mod);
        let mut input = [message.as_bytes(), list].concat();
        // An input has at least the bytes that an entry holds.
        input.resize(input.len().max(INLINE), 0);
        input[..InHeader::LEN].copy_from_slice(&header.0);
        let wanted = size_of::<O>() + more;
        let mut out = self.run(h, &input, wanted.max(INLINE))?;
        let status = out.first().copied().and_then(CmdStatus::from_byte);
        if let Some(status) = status {
            return Err(status);
        }
        let rest = out.split_off(size_of::<O>());
        let o = O::read_from_bytes(&out[..size_of::<O>()]).map_err(|_| CmdStatus::Undelivered)?;
        Ok((o, rest))
    }

    fn run<H: Host>(&mut self, h: &mut H, input: &[u8], wanted: usize) -> Answer<Vec<u8>> {
        let (inputs, outputs) = (blocks(input.len()), blocks(wanted));
        fail_if(self.dead || inputs > INPUTS || outputs > OUTPUTS, CmdStatus::Undelivered)?;
        self.token = self.token.wrapping_add(1).max(1);
        for i in 0..inputs {
            let from = INLINE + i as usize * mailbox::DATA;
            let data = &input[from..input.len().min(from + mailbox::DATA)];
            self.put(h, i, i, i + 1 == inputs, data);
        }
        for i in 0..outputs {
            self.put(h, INPUTS + i, i, i + 1 == outputs, &[]);
        }
        let mut entry = Entry::new_zeroed();
        entry.kind = entry_type::PCIE;
        entry.input_length = U32::new(input.len() as u32);
        entry.input_mailbox = U64::new(if inputs > 0 { self.address(0) } else { 0 });
        entry.input.copy_from_slice(&input[..INLINE]);
        entry.output_mailbox = U64::new(if outputs > 0 { self.address(INPUTS) } else { 0 });
        entry.output_length = U32::new(wanted as u32);
        entry.token = self.token;
        entry.status_own = own::HARDWARE;
        entry.sign();
        h.store(&self.entries, 0, entry);
        h.fence(Fence::Write);
        write(h, seg::DOORBELL, 1);
        let entry = self.answered(h)?;
        fail_if(entry.status_own >> 1 != delivery::OK, CmdStatus::Undelivered)?;
        let mut out = entry.output.to_vec();
        for i in 0..outputs {
            let m: Mailbox = h.load(&self.boxes, (INPUTS + i) * mailbox::ALIGN);
            if self.checksum == checksum::ENABLED
                && (xor(m.as_bytes()) != 0xff || m.token != self.token)
            {
                return Err(CmdStatus::Undelivered);
            }
            out.extend_from_slice(&m.data);
        }
        out.truncate(wanted);
        Ok(out)
    }

    fn address(&self, n: u32) -> u64 {
        self.boxes.iova().0 + u64::from(n * mailbox::ALIGN)
    }

    /// Fills mailbox `n`, which is block `number` of its chain.
    fn put<H: Host>(&self, h: &mut H, n: u32, number: u32, last: bool, data: &[u8]) {
        let mut m = Mailbox::new_zeroed();
        m.data[..data.len()].copy_from_slice(data);
        m.next = U64::new(if last { 0 } else { self.address(n + 1) });
        m.block_number = U32::new(number);
        m.token = self.token;
        m.sign();
        h.store(&self.boxes, n * mailbox::ALIGN, m);
    }

    /// Waits until the driver owns the entry again.
    fn answered<H: Host>(&mut self, h: &mut H) -> Answer<Entry> {
        let last = core::mem::offset_of!(Entry, status_own) as u32;
        debug_assert!(self.stride > last);
        let end = h.now() + TIMEOUT;
        let mut polls = 0;
        while h.load::<u8>(&self.entries, last) & own::HARDWARE != 0 {
            if h.now() >= end {
                self.dead = true;
                return Err(CmdStatus::Undelivered);
            }
            polls += 1;
            if polls < FAST_POLLS {
                h.relax();
            } else {
                h.delay(Span::from_ms(1));
            }
        }
        h.fence(Fence::DmaRead);
        let entry: Entry = h.load(&self.entries, 0);
        // The signature is made while the entry is still the device's.
        let signed = xor(entry.as_bytes()) ^ own::HARDWARE == 0xff;
        fail_if(self.checksum != checksum::DISABLED && !signed, CmdStatus::Undelivered)?;
        Ok(entry)
    }
}

fn blocks(length: usize) -> u32 {
    length.saturating_sub(INLINE).div_ceil(mailbox::DATA) as u32
}
