use super::*;

#[test]
fn the_plugin_is_a_library_for_qemu() {
    assert!(PLUGIN.starts_with(b"\x7fELF"));
    let named = |name: &[u8]| PLUGIN.windows(name.len()).any(|w| w == name);
    assert!(named(b"\0qemu_plugin_install\0") && named(b"\0qemu_plugin_version\0"));
}

#[test]
fn a_damaged_plugin_in_the_cache_is_written_again() {
    let cache = tempfile::tempdir().unwrap();
    let directory = cache.path().join("doorbell");
    let path = kept(&directory).unwrap();
    assert_eq!(fs::read(&path).unwrap(), PLUGIN);
    fs::write(&path, "half").unwrap();
    assert_eq!(kept(&directory).unwrap(), path);
    assert_eq!(fs::read(&path).unwrap(), PLUGIN);
    assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
}
