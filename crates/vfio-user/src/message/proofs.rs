//! A proof for any message: `tools/proofs.sh`.

use super::{MAX_DATA, Request, irq_set, parse};

/// Whatever a client sends: no panic, and what is accepted lies inside the body.
#[kani::proof]
#[kani::unwind(4)]
fn a_request_stays_inside_its_body() {
    let bytes: [u8; 64] = kani::any();
    let body = &bytes[..kani::any_where(|len| *len <= 64)];
    let inside = |part: &[u8]| {
        part.is_empty() || body.as_ptr_range().contains(&part.as_ptr()) && part.len() <= body.len()
    };
    match parse(kani::any(), body) {
        Ok(Request::Read(access)) => assert!(access.count.get() <= MAX_DATA),
        Ok(Request::Write(access, data)) => {
            assert!(access.count.get() as usize == data.len() && 16 + data.len() <= body.len());
            assert!(inside(data));
        }
        Ok(Request::SetIrqs(set, data)) => {
            let bools = set.flags.get() & irq_set::DATA_BOOL != 0;
            assert!(data.len() == if bools { set.count.get() as usize } else { 0 });
            assert!(20 + data.len() <= body.len() && inside(data));
        }
        Ok(Request::WriteMulti(writes)) => {
            assert!(8 + 24 * writes.len() <= body.len());
            assert!(writes.iter().all(|w| w.count.get() <= 8));
        }
        Ok(Request::Version(_, json)) => assert!(json.len() + 4 == body.len()),
        _ => {}
    }
}
