use super::*;

#[test]
fn altered_lost_and_moved_bytes_are_not_whole() {
    let good: Vec<u8> = (0..5000).map(|at| byte(0, at)).collect();
    let whole = |bytes: &[u8]| receive(bytes, 0, 5000).unwrap();
    assert_eq!(whole(&good), 5000);
    let mut altered = good.clone();
    altered[17] ^= 4;
    assert_eq!(whole(&altered), 4999);
    assert_eq!(whole(&good[..4990]), 4990);
    let mut moved = good.clone();
    moved.remove(100);
    moved.push(0);
    assert!(whole(&moved) < 300, "{}", whole(&moved));
    let back: Vec<u8> = (0..5000).map(|at| byte(1, at)).collect();
    assert_eq!(whole(&back), 0);
}
