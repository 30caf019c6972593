use super::*;
use std::cell::RefCell;

#[test]
fn a_kernel_that_debian_lacks_is_told_once() {
    let told = RefCell::new(Vec::new());
    let progress = |line: &str| told.borrow_mut().push(line.to_owned());
    let refused = debian_kernel(Arch::X86_64, "4.19", &progress).unwrap_err();
    let allowed = "there are 5.10, 6.1, 6.12, 6.16 to 6.18, 7.2, 7.3, releases of them such as \
                   6.12.43, each with -cloud or -rt, and names of suites";
    assert_eq!(refused.to_string(), format!("Debian's kernel 4.19: {allowed}"));
    assert_eq!(told.into_inner(), [""; 0]);
}
