//! A device that writes anything.

use super::*;
use alloc::collections::{BTreeMap, BTreeSet};

proptest::proptest! {
    /// Whatever the device writes into descriptors and status, the driver goes on: no
    /// panic, and at the end every buffer has come back, once.
    #[test]
    fn a_device_that_writes_anything_costs_no_buffer(
        steps in
            proptest::collection::vec(
                (
                    0u32..2,
                    0u32..18,
                    proptest::array::uniform6(proptest::num::u32::ANY),
                    0u8..8,
                    1u32..5,
                ),
                1..60,
            ),
    ) {
        let (mut h, mut nic) = open_with(|c| c.tx_ring = 18);
        let mut up = Up::default();
        // By length, all that there ever were.
        let mut seen = BTreeMap::<u32, BTreeSet<u64>>::new();
        let posted = |h: &mut Host, seen: &mut BTreeMap<u32, BTreeSet<u64>>| {
            for i in 0..8 {
                seen.entry(1522)
                    .or_default()
                    .insert(word(h, S2MM, i, Descriptor::BUFFER_AT).into());
            }
        };
        posted(&mut h, &mut seen);
        for (channel, i, words, irq, budget) in steps {
            let at = [MM2S, S2MM][channel as usize];
            let i = if at == S2MM { i % 8 } else { i };
            // Often done, now and then without an error, or with a sensible length.
            let mut status = words[0] | if words[5] & 3 != 0 { Descriptor::CMPLT } else { 0 };
            if words[5] & 4 != 0 {
                status = status & !Descriptor::ERRORS | Descriptor::EOF;
            }
            set_word(&mut h, at, i, Descriptor::STATUS_AT, status);
            for n in 1..5 {
                let v = if n == 4 && words[5] & 8 != 0 { words[n] % 1600 } else { words[n] };
                set_word(&mut h, at, i, Descriptor::APP_AT + 4 * n as u32, v);
            }
            *h.device.dma(at, dma::SR) = u32::from(irq) << 12 | sr::HALTED;
            let p = pieces(&mut h, 1 + (words[1] % 18) as usize);
            for q in p.pieces() {
                seen.entry(q.buf.len()).or_default().insert(q.buf.addr());
            }
            if let Tx::Busy(p) | Tx::Dropped(p) = nic.transmit(&mut h, p, false) {
                p.release(&mut h);
            }
            for line in [line::TX, line::RX, line::MAC] {
                let _ = nic.interrupt(&mut h, line);
            }
            if nic.poll(&mut h, budget, &mut up) == Poll::Work {
                nic.work(&mut h);
            }
            posted(&mut h, &mut seen);
            if words[2] & 1 != 0 {
                up.sent.drain(..).for_each(|(b, ..)| h.release(b));
                up.received.drain(..).for_each(|(p, _)| p.release(&mut h));
            }
        }
        up.sent.drain(..).for_each(|(b, ..)| h.release(b));
        up.received.drain(..).for_each(|(p, _)| p.release(&mut h));
        nic.close(&mut h);
        for (len, addresses) in seen {
            // One that was lost would be replaced by a new one, one given back twice would come
            // twice.
            let again: BTreeSet<u64> = addresses
                .iter()
                .map(|_| h.buffer(len, Alignment { align: 64, offset: 2 }).unwrap().addr())
                .collect();
            proptest::prop_assert_eq!(again, addresses);
        }
    }
}
