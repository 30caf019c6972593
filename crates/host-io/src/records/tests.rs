use super::*;
use std::fs::File;
use std::os::fd::BorrowedFd;

/// A file on a disk with so much room.
struct Disk {
    file: File,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.room.min(bytes.len());
        if n == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= n;
        self.file.write(&bytes[..n])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Disk {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl AsFd for Disk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[test]
fn a_full_disk_leaves_whole_records() {
    const RECORD: usize = 1000;
    let file = tempfile::tempfile().unwrap();
    let mut r = Records::new(Disk { file, room: CHUNK + CHUNK / 2 });
    let mut ended = Ok(());
    for n in 0..=255u8 {
        r.write_all(&[n; RECORD]).unwrap();
        ended = r.end_record();
        if ended.is_err() {
            break;
        }
    }
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::StorageFull);
    let mut disk = r.into_file();
    let kept = disk.file.metadata().unwrap().len() as usize;
    assert!(kept >= CHUNK && kept.is_multiple_of(RECORD), "{kept}");
    assert_eq!(disk.stream_position().unwrap() as usize, kept, "a next write goes there");
}
