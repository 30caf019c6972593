use super::*;
use std::path::PathBuf;

#[test]
fn a_comma_in_a_path_is_written_twice() {
    assert_eq!(escaped(Path::new("/a,b/c d")), "/a,,b/c d");
}

#[test]
fn the_plug_in_counts_and_passes_calls_with_one_option() {
    let machine = Machine::at(Arch::Ppc64, PathBuf::from("/cache"));
    let parts = Parts {
        device: Device::find("vnic").unwrap(),
        mac: [0x52, 0x54, 0, 0xdb, 0, 1],
        socket: Some(Path::new("/t/socket")),
        plugin: Some(Path::new("/p/x.so")),
        counting: Some("count=/t/count"),
        in_process: None,
        cpus: 2,
        image: Path::new("/k/vmlinuz"),
        initramfs: Path::new("/t/i"),
        more: &["-device".to_owned(), "other".to_owned()],
        directory: Path::new("/t"),
    };
    let command = command(&machine, &parts).unwrap();
    let words: Vec<String> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
    let behind = |option: &str| {
        let at = words.iter().position(|w| w == option).unwrap();
        words[at + 1].clone()
    };
    assert_eq!(behind("-plugin"), "file=/p/x.so,socket=/t/socket,count=/t/count");
    assert_eq!(behind("-smp"), "2");
    assert!(behind("-append").starts_with("console=hvc0 "));
    assert_eq!(words.last().unwrap(), "other");
    assert!(words.contains(&"doorbell-vnic,reg=0x30000003,mac=52:54:00:db:00:01".to_owned()));
}
