use super::*;

#[test]
fn a_datagram_is_a_frame() {
    let wire = Wire::new().unwrap();
    let qemu = UnixDatagram::bind(&wire.theirs).unwrap();
    wire.send(&[1; 60]).unwrap();
    wire.send(&[2; 9000]).unwrap();
    let mut frame = [0; 10_000];
    assert_eq!([qemu.recv(&mut frame).unwrap(), qemu.recv(&mut frame).unwrap()], [60, 9000]);
    qemu.send_to(&[3; 14], &wire.ours).unwrap();
    assert_eq!(wire.receive(Duration::from_secs(1)).unwrap(), Some(vec![3; 14]));
    assert_eq!(wire.receive(Duration::ZERO).unwrap(), None);
    assert_eq!(wire.receive(Duration::from_millis(1)).unwrap(), None);
}

#[test]
fn a_frame_to_nobody_is_an_error() {
    assert!(Wire::new().unwrap().send(&[0; 60]).is_err());
}
