use super::*;

/// A module with nothing but what it depends on, in the least ELF file that has a section for it.
fn module(depends: &str) -> Vec<u8> {
    use object::write::Object;
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};
    let mut elf = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let section = elf.add_section(Vec::new(), b".modinfo".to_vec(), SectionKind::ReadOnlyData);
    let text = format!("license=GPL\0depends={depends}\0name=x\0");
    elf.append_section_data(section, text.as_bytes(), 1);
    elf.write().unwrap()
}

fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

#[test]
fn modules_are_loaded_behind_all_that_they_need_each_once() {
    let dir = tree(&[
        ("a/nic.ko", &module("lib-one,two")),
        ("b/lib-one.ko", &module("two,built")),
        ("two.ko", &module("")),
        ("modules.builtin", b"kernel/lib/built.ko\n"),
        ("lib/built.ko", b"of an earlier build"),
    ]);
    let all = Modules::below(dir.path()).unwrap();
    assert_eq!(all.order(&["nic", "two"]).unwrap(), ["two", "lib_one", "nic"]);
    assert!(all.has_built_in("built") && !all.has_built_in("lib-one") && !all.has_built_in("no"));
}

#[test]
fn modules_dep_goes_before_what_a_module_says_itself() {
    let dir = tree(&[
        ("nic.ko", &module("gone")),
        ("lib.ko", &module("")),
        ("modules.dep", b"kernel/nic.ko: kernel/lib.ko\nkernel/lib.ko:\n"),
    ]);
    assert_eq!(Modules::below(dir.path()).unwrap().order(&["nic"]).unwrap(), ["lib", "nic"]);
}

#[test]
fn a_replaced_module_brings_its_own_needs() {
    let dir = tree(&[
        ("k/nic.ko", &module("")),
        ("k/extra.ko", &module("")),
        ("k/modules.dep", b"nic.ko:\n"),
        ("own/nic.ko", &module("extra")),
    ]);
    let mut all = Modules::below(&dir.path().join("k")).unwrap();
    all.add(&dir.path().join("own/nic.ko")).unwrap();
    assert_eq!(all.order(&["nic"]).unwrap(), ["extra", "nic"]);
}

#[test]
fn a_replacement_is_a_ko_file_that_exists() {
    let dir = tree(&[("nic.ko", &module("")), ("nic.o", b"")]);
    let mut all = Modules::below(dir.path()).unwrap();
    let mut said = |name: &str| all.add(&dir.path().join(name)).unwrap_err().to_string();
    assert!(said("none.ko").ends_with("none.ko: there is no such file"));
    assert!(said("nic.o").ends_with("nic.o: it has to be a .ko file"));
}

#[test]
fn a_missing_module_is_named_and_a_circle_ends() {
    let dir = tree(&[("a.ko", &module("b")), ("b.ko", &module("a")), ("c.ko", &module("gone"))]);
    let all = Modules::below(dir.path()).unwrap();
    assert_eq!(all.order(&["a"]).unwrap().len(), 2);
    assert_eq!(all.order(&["c"]).unwrap_err(), "gone");
    assert!(Modules::below(tree(&[("x", b"")]).path()).is_err());
}

#[test]
fn compressed_modules_are_unpacked() {
    use std::io::Write;
    let plain = module("two");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&plain).unwrap();
    let dir = tree(&[("nic.ko.gz", &gz.finish().unwrap()), ("bad.ko.xz", b"no")]);
    let all = Modules::below(dir.path()).unwrap();
    assert_eq!(all.text("nic").unwrap(), plain);
    assert!(all.text("bad").unwrap_err().to_string().contains("bad.ko.xz"));
}
