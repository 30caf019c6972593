use super::*;

/// The words by the Power ISA's tables of instruction forms.
#[test]
fn the_firmware_is_27_instructions_in_a_loop() {
    let image = firmware();
    let word = |i: usize| u32::from_be_bytes(image[ENTRY + 4 * i..][..4].try_into().unwrap());
    let code: Vec<u32> = (0..(image.len() - ENTRY) / 4).map(word).collect();
    assert_eq!(code.len(), 27);
    // lis r31,1; ld r0,0(r31); cmpdi r0,0; beq .-8; lwsync; ld r3,8(r31) ...
    assert_eq!(
        code[..6],
        [0x3fe0_0001, 0xe81f_0000, 0x2c20_0000, 0x4182_fff8, 0x7c20_04ac, 0xe87f_0008]
    );
    // ... ld r12,80(r31); sc 1; std r3,128(r31) ...
    assert_eq!(code[14..17], [0xe99f_0050, 0x4400_0022, 0xf87f_0080]);
    // ... std r9,176(r31); lwsync; li r0,0; std r0,0(r31); b .-100
    assert_eq!(code[22..], [0xf93f_00b0, 0x7c20_04ac, 0x3800_0000, 0xf81f_0000, 0x4bff_ff9c]);
}
