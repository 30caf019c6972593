//! Fetch and answer: entries, mailboxes, tokens, signatures.
//!
//! An entry that does not belong to the device, or that memory does not give, has no
//! answer. For everything else the first thing that is wrong, in the order entry,
//! input, output, is the delivery status.

use super::super::device::Mlx5;
use alloc::vec::Vec;
use doorbell_hal::{DmaFault, Iova, Port, Time, fail_if};
use doorbell_layout::mlx5::command::{
    Entry, Mailbox, checksum, delivery, entry_type, mailbox, own, xor,
};
use zerocopy::{FromZeros, IntoBytes};

/// Bytes of input or output at the most: the page list of the longest ring, twice.
const LIMIT: usize = 64 << 10;
/// Bytes of input and output in the entry.
const INLINE: usize = 16;
/// Bytes of a header, without which there is no command.
const HEADER: usize = 8;

/// A command on the device.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) slot: u8,
    pub(super) at: Time,
    /// Delivery status; if it is not OK, it is not executed.
    pub(super) status: u8,
    /// Address of the entry.
    from: Iova,
    entry: Entry,
    pub(super) input: Vec<u8>,
    /// Addresses and heads of the output mailboxes.
    outputs: Vec<(u64, Head)>,
}

/// A mailbox from behind its data to its end.
type Head = [u8; size_of::<Mailbox>() - mailbox::CONTROL];
const NEXT: usize = 48;
const BLOCK: usize = 56;
const TOKEN: usize = 61;
const CONTROL_SIGNATURE: usize = 62;
const SIGNATURE: usize = 63;

impl Fetched {
    /// Bytes of output to be made; a header's at least, of which no more may be written.
    pub(super) fn output_length(&self) -> usize {
        if self.status == delivery::OK { self.entry.output_length.get() as usize } else { HEADER }
    }
}

fn mailboxes(length: usize) -> usize {
    length.saturating_sub(INLINE).div_ceil(mailbox::DATA)
}

impl Mlx5 {
    /// Reads the command in `slot`; `None` if there is none.
    pub(super) fn fetch_entry<P: Port>(&mut self, p: &mut P, t: Time, slot: u8) -> Option<Fetched> {
        let from = Iova(self.firmware.cmdq) + u64::from(slot) * size_of::<Entry>() as u64;
        let mut entry = Entry::new_zeroed();
        let at = p.read(t, from, entry.as_mut_bytes()).ok()?;
        if entry.status_own & own::HARDWARE == 0 {
            return None;
        }
        let (input, outputs) = (Vec::new(), Vec::new());
        let mut c = Fetched { slot, at, status: delivery::OK, from, entry, input, outputs };
        if let Err(why) = self.collect(p, &mut c) {
            c.status = why;
        }
        c.at += self.cfg.command_time;
        Some(c)
    }

    /// Checks the entry, and follows both chains of mailboxes as far as the lengths say.
    fn collect<P: Port>(&self, p: &mut P, c: &mut Fetched) -> Result<(), u8> {
        let Entry { kind, rsvd1, rsvd62, token, .. } = c.entry;
        fail_if(kind != entry_type::PCIE, delivery::DESCRIPTOR)?;
        if self.firmware.checksum >= checksum::ENTRY && xor(c.entry.as_bytes()) != 0xff {
            return Err(delivery::SIGNATURE);
        }
        fail_if(rsvd1 != [0; 3] || rsvd62 != 0, delivery::RESERVED)?;
        let (input, output) =
            (c.entry.input_length.get() as usize, c.entry.output_length.get() as usize);
        fail_if(!(HEADER..=LIMIT).contains(&input), delivery::INPUT_LENGTH)?;
        fail_if(!(HEADER..=LIMIT).contains(&output), delivery::OUTPUT_LENGTH)?;
        let signed = self.firmware.checksum == checksum::ENABLED;
        c.input.extend_from_slice(&c.entry.input);
        let mut next = c.entry.input_mailbox.get();
        for block in 0..mailboxes(input) as u32 {
            let mut m = Mailbox::new_zeroed();
            let from = pointer(next, delivery::INPUT_LENGTH, delivery::INPUT_POINTER)?;
            c.at = p.read(c.at, from, m.as_mut_bytes()).map_err(|_| delivery::FIRMWARE)?;
            let head = &m.as_bytes()[mailbox::CONTROL..];
            check_head(head, block, token, signed)?;
            fail_if(signed && xor(m.as_bytes()) != 0xff, delivery::SIGNATURE)?;
            fail_if(m.rsvd != [0; 48], delivery::RESERVED)?;
            c.input.extend_from_slice(&m.data);
            next = m.next.get();
        }
        c.input.truncate(input);
        let mut next = c.entry.output_mailbox.get();
        for block in 0..mailboxes(output) as u32 {
            let mut head = [0; size_of::<Head>()];
            let at = pointer(next, delivery::OUTPUT_LENGTH, delivery::OUTPUT_POINTER)?;
            let from = at + mailbox::CONTROL as u64;
            c.at = p.read(c.at, from, &mut head).map_err(|_| delivery::FIRMWARE)?;
            check_head(&head, block, token, signed)?;
            c.outputs.push((at.0, head));
            next = u64::from_be_bytes(core::array::from_fn(|i| head[NEXT + i]));
        }
        Ok(())
    }

    /// Writes output and status, and hands the entry back.
    pub(super) fn respond<P: Port>(
        &self,
        p: &mut P,
        at: Time,
        c: &Fetched,
        out: &[u8],
    ) -> Result<(), DmaFault> {
        let mut entry = c.entry;
        let mut status = c.status;
        if status == delivery::OK {
            let n = out.len().min(INLINE);
            entry.output[..n].copy_from_slice(&out[..n]);
            let signed = self.firmware.checksum == checksum::ENABLED;
            for (&(to, head), data) in c.outputs.iter().zip(out[n..].chunks(mailbox::DATA)) {
                if write_mailbox(p, at, to, head, data, signed).is_err() {
                    status = delivery::FIRMWARE;
                    break;
                }
            }
            p.write(at, c.from + core::mem::offset_of!(Entry, output) as u64, &entry.output)?;
        }
        // As firmware does: the signature holds while the entry is still the device's.
        entry.status_own = status << 1 | own::HARDWARE;
        entry.sign();
        entry.status_own = status << 1;
        let last = core::mem::offset_of!(Entry, token);
        p.write(at, c.from + last as u64, &entry.as_bytes()[last..])?;
        Ok(())
    }
}

/// A mailbox pointer, followed.
fn pointer(at: u64, missing: u8, crooked: u8) -> Result<Iova, u8> {
    fail_if(at == 0, missing)?;
    fail_if(!at.is_multiple_of(u64::from(mailbox::ALIGN)), crooked)?;
    Ok(Iova(at))
}

fn check_head(head: &[u8], block: u32, token: u8, signed: bool) -> Result<(), u8> {
    fail_if(signed && xor(&head[..=CONTROL_SIGNATURE]) != 0xff, delivery::SIGNATURE)?;
    fail_if(head[TOKEN] != token, delivery::TOKEN)?;
    fail_if(head[BLOCK..BLOCK + 4] != block.to_be_bytes(), delivery::BLOCK_NUMBER)?;
    Ok(())
}

fn write_mailbox<P: Port>(
    p: &mut P,
    at: Time,
    to: u64,
    mut head: Head,
    data: &[u8],
    signed: bool,
) -> Result<(), DmaFault> {
    if !signed {
        p.write(at, Iova(to), data)?;
        return Ok(());
    }
    let mut whole = [0; mailbox::DATA];
    whole[..data.len()].copy_from_slice(data);
    head[CONTROL_SIGNATURE] = 0;
    head[SIGNATURE] = 0;
    head[CONTROL_SIGNATURE] = !xor(&head);
    head[SIGNATURE] = !(xor(&whole) ^ xor(&head));
    p.write(at, Iova(to), &whole)?;
    p.write(at, Iova(to) + mailbox::CONTROL as u64, &head)?;
    Ok(())
}
