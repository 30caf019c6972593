use super::*;
use proptest::prelude::*;

fn access(count: u32, data: usize) -> Vec<u8> {
    let mut body =
        Access { offset: 8.into(), region: 0.into(), count: count.into() }.as_bytes().to_vec();
    body.resize(body.len() + data, 7);
    body
}

#[test]
fn the_structures_have_the_sizes_of_the_specification() {
    assert_eq!([HEADER, size_of::<Map>(), size_of::<Unmap>()], [16, 32, 24]);
    assert_eq!(
        [size_of::<DeviceInfo>(), size_of::<RegionInfo>(), size_of::<IrqInfo>()],
        [16, 32, 16]
    );
    assert_eq!(
        [size_of::<SetIrqs>(), size_of::<Access>(), size_of::<ShortWrite>(), size_of::<Dma>()],
        [20, 16, 24, 16]
    );
    assert_eq!(size_of::<Sparse>(), 32);
}

#[test]
fn a_write_with_fewer_bytes_than_it_says_is_refused() {
    assert!(matches!(
        parse(command::REGION_WRITE, &access(4, 4)),
        Ok(Request::Write(_, [7, 7, 7, 7]))
    ));
    assert_eq!(parse(command::REGION_WRITE, &access(4, 3)), Err(libc::EINVAL));
    assert_eq!(parse(command::REGION_WRITE, &access(u32::MAX, 4)), Err(libc::EINVAL));
    assert_eq!(parse(command::REGION_READ, &access(MAX_DATA + 1, 0)), Err(libc::E2BIG));
}

#[test]
fn coalesced_writes_are_as_many_as_the_message_holds() {
    let one = ShortWrite { offset: 0.into(), region: 0.into(), count: 4.into(), data: [1; 8] };
    let mut body = 2u64.to_ne_bytes().to_vec();
    body.extend_from_slice(one.as_bytes());
    assert_eq!(parse(command::REGION_WRITE_MULTI, &body), Err(libc::EINVAL));
    body.extend_from_slice(one.as_bytes());
    assert_eq!(parse(command::REGION_WRITE_MULTI, &body), Ok(Request::WriteMulti(&[one, one])));
    body[..8].fill(0xff);
    assert_eq!(parse(command::REGION_WRITE_MULTI, &body), Err(libc::EINVAL));
}

#[test]
fn commands_of_a_server_and_unknown_ones_are_not_supported() {
    for c in [0, command::DMA_READ, command::DMA_WRITE, 14, 16, 17, 18, u16::MAX] {
        assert_eq!(parse(c, &[0; 64]), Err(libc::ENOTSUP));
    }
}

proptest! {
    /// Whatever is accepted lies inside the body.
    #[test]
    fn no_body_leads_outside_itself(
        command in 0u16..20,
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        match parse(command, &body) {
            Ok(Request::Write(a, data)) => prop_assert_eq!(a.count.get() as usize, data.len()),
            Ok(Request::SetIrqs(s, data)) if s.flags.get() & irq_set::DATA_BOOL != 0 => {
                prop_assert_eq!(s.count.get() as usize, data.len());
            }
            Ok(Request::WriteMulti(w)) => prop_assert!(8 + w.len() * 24 <= body.len()),
            Ok(Request::Read(a)) => prop_assert!(a.count.get() <= MAX_DATA),
            _ => {}
        }
    }
}
