//! Up and down: function, ISSI, pages, initialization.

use super::{super::device::Mlx5, Answer, Phase, answer, check, input, tail};
use doorbell_hal::{Port, Time, fail_if};
use doorbell_layout::mlx5::command::{
    FunctionIn, ISSI_1, ManagePagesIn, ManagePagesOut, QueryAdapterOut, QueryIssiOut,
    QueryPagesOut, SetIssiIn, pages,
};
use doorbell_layout::mlx5::{CmdStatus, event};

/// Mellanox, as an IEEE vendor.
const VENDOR: u32 = 0x2c9;
/// Pages that may be asked for beyond those for booting.
const LIMIT: u32 = 1 << 16;

impl Mlx5 {
    pub(super) fn enable_hca(&mut self, bytes: &[u8]) -> Answer {
        check(input::<FunctionIn>(bytes)?.get(FunctionIn::FUNCTION) == 0)?;
        if self.firmware.phase == Phase::Disabled {
            self.firmware.phase = Phase::Enabled;
        }
        Ok(())
    }

    pub(super) fn disable_hca(&mut self) -> Answer {
        self.power_down(Phase::Disabled);
        self.firmware.pages.clear();
        self.firmware.asked = 0;
        Ok(())
    }

    pub(super) fn query_issi(&mut self, out: &mut [u8]) -> Answer {
        let mut m = QueryIssiOut::ZERO;
        m.set(QueryIssiOut::CURRENT, self.firmware.issi).set(QueryIssiOut::SUPPORTED, ISSI_1);
        answer(out, &m)
    }

    pub(super) fn set_issi(&mut self, bytes: &[u8]) -> Answer {
        let issi = input::<SetIssiIn>(bytes)?.get(SetIssiIn::CURRENT);
        check(issi <= 1)?;
        self.firmware.issi = issi;
        Ok(())
    }

    /// Pages that have to be there in a phase.
    fn needed(&self, phase: Phase) -> u32 {
        let c = &self.cfg;
        match phase {
            Phase::Disabled => 0,
            Phase::Enabled => u32::from(c.boot_pages),
            Phase::Running => u32::from(c.boot_pages) + u32::from(c.init_pages),
        }
    }

    pub(super) fn query_pages(&mut self, op_mod: u32, out: &mut [u8]) -> Answer {
        let held = self.firmware.pages.len() as u32;
        let wanted = match op_mod {
            pages::BOOT => self.needed(Phase::Enabled).saturating_sub(held),
            pages::INIT => self.needed(Phase::Running).saturating_sub(held),
            pages::REGULAR => {
                (self.needed(self.firmware.phase) + self.firmware.asked).wrapping_sub(held)
            }
            _ => return Err(CmdStatus::BadOp),
        };
        let mut m = QueryPagesOut::ZERO;
        m.set(QueryPagesOut::PAGES, wanted);
        answer(out, &m)
    }

    pub(super) fn manage_pages(&mut self, op_mod: u32, bytes: &[u8], out: &mut [u8]) -> Answer {
        let m = input::<ManagePagesIn>(bytes)?;
        check(m.get(ManagePagesIn::FUNCTION) == 0)?;
        let n = m.get(ManagePagesIn::ENTRIES) as usize;
        match op_mod {
            pages::CANNOT_GIVE => {
                self.firmware.asked = 0;
                Ok(())
            }
            pages::GIVE => self.take_given(n, tail(bytes, ManagePagesIn::LEN)),
            pages::TAKE => self.give_back(n, out),
            _ => Err(CmdStatus::BadOp),
        }
    }

    fn take_given(&mut self, n: usize, list: &[u8]) -> Answer {
        let list = n.checked_mul(8).and_then(|n| list.get(..n)).ok_or(CmdStatus::BadInputLength)?;
        let given =
            list.chunks_exact(8).map(|b| u64::from_be_bytes(core::array::from_fn(|i| b[i])));
        check(given.clone().all(|a| a != 0 && a.is_multiple_of(4096)))?;
        let room = (self.needed(Phase::Running) + LIMIT) as usize;
        fail_if(self.firmware.pages.len() + n > room, CmdStatus::ExceedLimit)?;
        self.firmware.pages.extend(given);
        Ok(())
    }

    /// All of them when the device no longer runs; else those beyond what it needs.
    fn give_back(&mut self, n: usize, out: &mut [u8]) -> Answer {
        let f = &mut self.firmware;
        let room =
            out.len().checked_sub(ManagePagesOut::LEN).ok_or(CmdStatus::BadOutputLength)? / 8;
        let kept = if f.phase == Phase::Running {
            usize::from(self.cfg.boot_pages) + usize::from(self.cfg.init_pages)
        } else {
            0
        };
        let n = n.min(room).min(f.pages.len().saturating_sub(kept));
        let back = f.pages.drain(f.pages.len() - n..);
        for (to, page) in out[ManagePagesOut::LEN..].chunks_exact_mut(8).zip(back) {
            to.copy_from_slice(&page.to_be_bytes());
        }
        f.asked = f.asked.saturating_sub(n as u32);
        let mut m = ManagePagesOut::ZERO;
        m.set(ManagePagesOut::ENTRIES, n as u32);
        answer(out, &m)
    }

    pub(super) fn init_hca(&mut self) -> Answer {
        let enough = self.firmware.pages.len() as u32 >= self.needed(Phase::Running);
        fail_if(self.firmware.phase != Phase::Enabled || !enough, CmdStatus::BadSystemState)?;
        self.firmware.phase = Phase::Running;
        Ok(())
    }

    pub(super) fn teardown_hca(&mut self) -> Answer {
        self.power_down(Phase::Enabled);
        Ok(())
    }

    pub(super) fn query_adapter(&mut self, out: &mut [u8]) -> Answer {
        let mut m = QueryAdapterOut::ZERO;
        m.set(QueryAdapterOut::VENDOR, VENDOR);
        m.0[QueryAdapterOut::PSID..].copy_from_slice(&self.cfg.psid);
        answer(out, &m)
    }

    /// Firmware asks the driver for `pages`, or, negative, to take some back: an event.
    pub fn request_pages<P: Port>(&mut self, p: &mut P, at: Time, pages: i16) {
        let f = &mut self.firmware;
        f.asked = f.asked.saturating_add_signed(i32::from(pages)).min(LIMIT);
        let n = i32::from(pages) as u32;
        self.asynchronous_event(p, at, (event::PAGE_REQUEST, 0, &[(0, 0), (1, n)]));
    }

    /// Pages that the driver has given and not got back.
    pub fn pages_held(&self) -> usize {
        self.firmware.pages.len()
    }
}
