use super::super::partition::machine;
use super::*;
use doorbell_devices::veth;
use doorbell_hal::{CpuWork, Host, Hypervisor};

#[test]
fn what_was_counted_before_is_taken_away() {
    let mut m = machine(veth::Config::new(vec![])).unwrap();
    let vm = |n: u64| Frames { taken: n, bytes: n, segments: n, sends: n, refused: n, dropped: n };
    let mut counts = |n: u64| {
        for call in &CALLS {
            m.hcall(Hcall(call.number), &[0]);
        }
        m.charge(CpuWork::Copy(100));
        Counts::of(&m, [vm(n), Frames::default()])
    };
    let (before, after) = (counts(1), counts(3));
    assert_eq!((before.get("hcalls"), before.get("hcall_send")), (CALLS.len() as u64, 1));
    let since = after.clone().since(&before);
    assert_eq!((since.sends, since.segments, since.get("frames")), (2, 2, 2));
    assert_eq!((since.get("copies"), since.get("copied_bytes")), (1, 100));
    for ((now, then), all) in since.all.iter().zip(&before.all).zip(&after.all) {
        assert_eq!((now.0, now.2 + then.2), (all.0, all.2));
    }
}
