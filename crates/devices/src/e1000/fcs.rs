//! The frame check sequence: CRC-32 of IEEE 802.3, eight bytes a turn.
//!
//! The seam's frames have none. The device makes it where it becomes visible: in
//! receive buffers, unless RCTL.SECRC strips it; and it checks the one that a
//! driver sends along when it does not set IFCS.

const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut t = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 };
            bit += 1;
        }
        t[0][i] = c;
        i += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut i = 0;
        while i < 256 {
            t[n][i] = t[n - 1][i] >> 8 ^ t[0][(t[n - 1][i] & 0xff) as usize];
            i += 1;
        }
        n += 1;
    }
    t
}

/// The four bytes that follow `frame` on the wire.
pub(crate) fn of(frame: &[u8]) -> [u8; 4] {
    let mut c = !0u32;
    let (chunks, rest) = frame.as_chunks::<8>();
    for b in chunks {
        let x = c.to_le_bytes();
        c = TABLES[7][usize::from(b[0] ^ x[0])]
            ^ TABLES[6][usize::from(b[1] ^ x[1])]
            ^ TABLES[5][usize::from(b[2] ^ x[2])]
            ^ TABLES[4][usize::from(b[3] ^ x[3])]
            ^ TABLES[3][usize::from(b[4])]
            ^ TABLES[2][usize::from(b[5])]
            ^ TABLES[1][usize::from(b[6])]
            ^ TABLES[0][usize::from(b[7])];
    }
    for &b in rest {
        c = c >> 8 ^ TABLES[0][(c as u8 ^ b) as usize];
    }
    (!c).to_le_bytes()
}

#[cfg(test)]
mod tests;
