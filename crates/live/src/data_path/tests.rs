use super::*;

#[test]
fn no_frame_is_read_into_a_short_buffer() {
    let mut machine = machine(veth::Config::new(vec![])).unwrap();
    let memory = &mut machine.bus.platform_mut().memory;
    let whole = to_read_into(memory, &mut Vec::new()).unwrap();
    let (len, addr) = (whole.len(), whole.addr());
    let segment = memory.buffer(148, Alignment { align: 1, offset: 0 }).unwrap();
    let mut spare = vec![whole, segment];
    let next = to_read_into(memory, &mut spare).unwrap();
    assert_eq!((next.len(), next.addr(), spare.len()), (len, addr, 0));
}
