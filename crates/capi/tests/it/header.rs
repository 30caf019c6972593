//! The header says what the library has. The compiler judges.

use crate::{compiler, of_crate, ran};
use doorbell::hal::WorkKind;
use doorbell_c_driver::{DbDriver, DbFrame, VERSION};
use doorbell_capi::{MAIN, PROTOTYPES};
use std::fmt::Write;
use std::mem::offset_of;

/// Asserts that C has fields where Rust has them.
macro_rules! fields {
    ($text:ident, $c:literal, $rust:ty: $($field:ident)*) => {
        $(writeln!(
            $text,
            "_Static_assert(offsetof({}, {}) == {}, \"{}\");",
            $c, stringify!($field), offset_of!($rust, $field), stringify!($field)
        ).unwrap();)*
        writeln!($text, "_Static_assert(sizeof({}) == {}, \"size\");", $c, size_of::<$rust>())
            .unwrap();
    };
}

#[test]
fn the_header_declares_what_the_library_has() {
    let mut text = String::from("#include <doorbell.h>\n");
    // A second declaration that differs is an error.
    for prototype in PROTOTYPES.iter().chain([&MAIN]) {
        let [to, name, args @ ..] = prototype else { panic!("{prototype:?}") };
        let args = if args.is_empty() { "void".to_owned() } else { args.join(", ") };
        writeln!(text, "{to} {name}({args});").unwrap();
    }
    fields!(text, "struct db_driver", DbDriver: size version name card in_flight flags open
        close send poll irq stopped alarm);
    fields!(text, "struct db_frame", DbFrame: mem start len flags checksum_start checksum_offset);
    writeln!(text, "_Static_assert(DB_VERSION == {VERSION}, \"version\");").unwrap();
    for kind in WorkKind::ALL {
        let name = match kind {
            WorkKind::Poll => "polled".to_owned(),
            kind => kind.name().to_owned(),
        };
        let upper = name.to_uppercase();
        writeln!(text, "_Static_assert(DB_{upper} == {}, \"{name}\");", kind as usize).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("header.c");
    std::fs::write(&file, text).unwrap();
    ran(compiler().arg("-c").arg(&file).arg("-o").arg(dir.path().join("header.o")));
}

#[test]
fn the_header_has_no_other_function() {
    let header = std::fs::read_to_string(of_crate("include/doorbell.h")).unwrap();
    let declared = header.lines().filter(|l| !l.starts_with(['\t', ' ', '/'])).filter_map(|l| {
        let (before, _) = l.split_once('(')?;
        before.split_whitespace().last()?.trim_start_matches('*').strip_prefix("db_")
    });
    let declared: Vec<String> = declared.map(|name| format!("db_{name}")).collect();
    let (version, others) = PROTOTYPES.split_first().unwrap();
    let library = [version, &MAIN].into_iter().chain(others).map(|p| p[1]);
    let library: Vec<&str> = library.collect();
    assert_eq!(declared, library);
}
