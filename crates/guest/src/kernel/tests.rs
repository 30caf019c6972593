use super::packages;

#[test]
fn packages_are_told_from_the_plus_of_a_version() {
    let one = "/tmp/linux-image-6.12.43+deb12-amd64_6.12.43-1~bpo12+1_amd64.deb";
    assert_eq!(packages(one), [one]);
    assert_eq!(packages(&format!("{one}+modules.deb")), [one, "modules.deb"]);
    assert_eq!(packages("bzImage"), ["bzImage"]);
}
