use super::*;

/// The pins as Linux's e1000_hw.c drives them.
struct Pins(Eeprom);

impl Pins {
    fn out(&mut self, bits: u32, n: u32) {
        for i in (0..n).rev() {
            let di = if bits >> i & 1 == 1 { DI } else { 0 };
            self.0.pins(CS | di);
            self.0.pins(CS | di | SK);
            self.0.pins(CS | di);
        }
    }
    fn take(&mut self) -> u16 {
        (0..16).fold(0, |v, _| {
            self.0.pins(CS | SK);
            let v = v << 1 | u16::from(self.0.data_out);
            self.0.pins(CS);
            v
        })
    }
    fn standby(&mut self) {
        for eecd in [0, SK, CS | SK, CS] {
            self.0.pins(eecd);
        }
    }
    fn read(&mut self, at: u32) -> u16 {
        self.standby();
        self.out(0b110, 3);
        self.out(at, 6);
        self.take()
    }
    fn write(&mut self, at: u32, v: u16) {
        self.standby();
        self.out(0b101, 3);
        self.out(at, 6);
        self.out(v.into(), 16);
        self.standby();
    }
}

fn card() -> Pins {
    Pins(Eeprom::new(0x100e, [0x00, 0x11, 0x22, 0x33, 0x44, 0x55]))
}

#[test]
fn words_sum_to_baba_and_begin_with_the_address() {
    let e = card().0;
    assert_eq!(e.words.iter().fold(0u16, |s, w| s.wrapping_add(*w)), 0xbaba);
    assert_eq!(e.words[..3], [0x1100, 0x3322, 0x5544]);
    assert_eq!(e.mac(), [0x00, 0x11, 0x22, 0x33, 0x44, 0x55]);
    assert_eq!(e.word(64), 0xffff);
}

#[test]
fn bit_banging_reads_what_eerd_reads() {
    let mut e = card();
    for at in 0..64 {
        assert_eq!(e.read(at), e.0.word(at), "word {at}");
    }
}

#[test]
fn a_read_goes_on_with_the_next_word() {
    let mut e = card();
    assert_eq!([e.read(0), e.take(), e.take()], [0x1100, 0x3322, 0x5544]);
    e.read(63);
    assert_eq!(e.take(), 0x1100, "and starts again after the last");
}

#[test]
fn writing_must_be_enabled() {
    let mut e = card();
    e.write(5, 0x1234);
    assert_eq!(e.read(5), 0xffff);
    e.standby();
    e.out(0b10011, 5);
    e.out(0, 4);
    e.write(5, 0x1234);
    assert!(e.0.data_out, "ready");
    assert_eq!(e.read(5), 0x1234);
    e.standby();
    e.out(0b10000, 5);
    e.out(0, 4);
    e.write(5, 0);
    assert_eq!(e.read(5), 0x1234);
}

#[test]
fn deselecting_forgets_half_an_instruction() {
    let mut e = card();
    e.standby();
    e.out(0b110, 3);
    e.out(0, 3);
    assert_eq!(e.read(1), 0x3322);
}
