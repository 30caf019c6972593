use super::super::{EventFd, Window, memfd};
use super::Guard;
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, ftruncate, memfd_create};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Memory that cannot be sealed.
fn open_memory(len: u64) -> File {
    let file = File::from(memfd_create(c"open", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(len).unwrap();
    file
}

#[test]
fn a_truncated_window_is_lost_alone() {
    let _guard = Guard::new().unwrap();
    let (file, other) = (open_memory(1 << 20), memfd(c"other", 8192).unwrap());
    let window = Window::map(&file, 0, 1 << 20, true).unwrap();
    let other = Window::map(&other, 0, 8192, true).unwrap();
    assert!(window.write(0, &[7; 64]) && other.write(0, &[8; 64]));
    ftruncate(&file, 8192).unwrap();
    let mut seen = [1; 8192];
    assert!(window.read(0, &mut seen) && !window.lost(), "it has these pages still");
    assert!(!window.read(4096, &mut seen), "the second page of these is gone");
    assert_eq!(seen, [0; 8192]);
    assert!(window.lost() && !window.write(1 << 19, &[1; 9]), "lost for good");
    assert!(other.read(0, &mut seen) && !other.lost());
    assert_eq!(seen[..64], [8; 64]);
    drop(window);
    let again = Window::map(&open_memory(8192), 0, 8192, true).unwrap();
    assert!(!again.lost() && again.read(0, &mut seen), "a new window is not lost");
}

#[test]
fn a_wait_for_a_full_counter_ends() {
    let _guard = Guard::new().unwrap();
    let fd = EventFd::new().unwrap();
    rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    assert!(fd.signal(), "full, and not blocking");
    fcntl_setfl(&fd, OFlags::empty()).unwrap();
    assert!(!fd.signal());
    assert_eq!((fd.take(), fd.take()), (u64::MAX - 1, 0), "an empty one is not waited for");
}

/// Set in the process that is expected to die.
const DIES: &str = "DOORBELL_TEST_DIES";

#[test]
fn a_page_of_no_window_ends_the_process() {
    if std::env::var_os(DIES).is_some() {
        let _guard = Guard::new().unwrap();
        let file = open_memory(4096);
        let memory = memmap2::MmapRaw::map_raw(&file).unwrap();
        ftruncate(&file, 0).unwrap();
        // SAFETY: inside the mapping, which the kernel answers with a signal.
        unsafe { memory.as_ptr().read_volatile() };
        return;
    }
    let name = "shared::guard::tests::a_page_of_no_window_ends_the_process";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let status = child.args(["--exact", name]).env(DIES, "1").output().unwrap().status;
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
}
