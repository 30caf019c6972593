//! Objects that queues refer to: doorbell pages, protection and transport domains, memory keys,
//! transport interfaces, counter sets.

use super::super::queues::{Mkey, Pages};
use super::super::ring::{LOG_PAGE, Ring};
use super::super::{Answer, BAR_PAGES, LIMIT, device::Mlx5};
use super::{answer, answer_prefix, check, input, tail};
use alloc::{boxed::Box, vec::Vec};
use doorbell_hal::fail_if;
use doorbell_layout::mlx5::CmdStatus;
use doorbell_layout::mlx5::command::{
    CreateMkeyIn, Mkc, PAS_LIST, QueryMkeyOut, QueryQCounterIn, QueryQCounterOut, QueryTisOut,
    SECOND_PORT, TisIn, Tisc, access_mode,
};

/// Counter sets: eight bits, and 0 is none.
const COUNTER_SETS: usize = 255;
/// Translations that UMRs can change, of all keys together: each has its place on the device.
const MAX_TRANSLATIONS: usize = 1 << 20;

impl Mlx5 {
    /// The index of a doorbell page.
    pub(in super::super) fn alloc_uar(&mut self) -> Answer<u32> {
        self.uars.insert((), (BAR_PAGES - Mlx5::FIRST_UAR) as usize)
    }

    pub(super) fn dealloc_uar(&mut self, n: u32) -> Answer {
        let events = self.eqs.any(|q| q.ctx.uar == n) || self.cqs.any(|q| q.ctx.uar == n);
        let work = self.rx.rqs.any(|q| q.uar == n) || self.sqs.any(|q| q.ctx.uar == n);
        self.uars.destroy(n, events || work)
    }

    pub(super) fn dealloc_pd(&mut self, n: u32) -> Answer {
        let queues = self.sqs.any(|q| q.pd == n) || self.rx.rqs.any(|q| q.pd == n);
        self.pds.destroy(n, queues || self.mkeys.any(|k| k.pd == n))
    }

    pub(super) fn dealloc_td(&mut self, n: u32) -> Answer {
        let tirs = self.rx.paths.tirs.any(|t| t.ctx.transport_domain == n);
        self.tds.destroy(n, tirs || self.tis.any(|t| t.get(Tisc::TRANSPORT_DOMAIN) == n))
    }

    pub(super) fn on_create_mkey(&mut self, bytes: &[u8]) -> Answer<u32> {
        let m = input::<CreateMkeyIn>(bytes)?;
        let c = m.part(CreateMkeyIn::MKC);
        let pd = c.get(Mkc::PD);
        self.pds.find(pd)?;
        // A free key is one that a UMR fills in.
        let (free, umr) = (c.get(Mkc::FREE) == 1, c.get(Mkc::UMR) == 1);
        check(!(free || umr) || (self.cfg.caps.striding && umr))?;
        let whole = c.get(Mkc::LENGTH64) == 1;
        let (start, length) =
            (c.quad(Mkc::START), if whole { u64::MAX } else { c.quad(Mkc::LENGTH) });
        let pages = match c.get(Mkc::ACCESS_MODE) {
            access_mode::PA => {
                check(!umr)?;
                Pages::None
            }
            access_mode::MTT => {
                let log_page = c.get(Mkc::LOG_PAGE_SIZE);
                check(!whole && log_page >= LOG_PAGE)?;
                let from_page = start & ((1 << log_page) - 1);
                let bytes_of_pages = from_page.checked_add(length).ok_or(CmdStatus::BadParam)?;
                let list = tail(bytes, PAS_LIST);
                let entries = m.get(CreateMkeyIn::OCTWORDS) as usize * 2;
                let list = list.get(..list.len().min(entries * 8)).unwrap_or_default();
                match umr {
                    false => Pages::List(Ring::new(list, log_page, bytes_of_pages)?),
                    true => Pages::Table(self.translations(c.get(Mkc::OCTWORDS), list)?),
                }
            }
            _ => return Err(CmdStatus::BadParam),
        };
        let key = Mkey {
            pd,
            key: c.get(Mkc::KEY) as u8,
            start,
            length,
            log_page: c.get(Mkc::LOG_PAGE_SIZE),
            readable: c.get(Mkc::LOCAL_READ) == 1,
            writable: c.get(Mkc::LOCAL_WRITE) == 1,
            everything: matches!(pages, Pages::None) && whole,
            free,
            pages,
        };
        self.mkeys.insert(key, LIMIT)
    }

    /// Returns a table of so many octowords that begins with `list`.
    fn translations(&self, octowords: u32, list: &[u8]) -> Answer<Box<[u64]>> {
        let entries = 2 * octowords as usize;
        let held = |k: &Mkey| if let Pages::Table(t) = &k.pages { t.len() } else { 0 };
        let all: usize = self.mkeys.iter().map(|(_, k)| held(k)).sum();
        fail_if(all.saturating_add(entries) > MAX_TRANSLATIONS, CmdStatus::NoResources)?;
        let mut table: Vec<u64> = alloc::vec![0; entries];
        for (entry, bytes) in table.iter_mut().zip(list.as_chunks().0) {
            *entry = u64::from_be_bytes(*bytes);
        }
        Ok(table.into_boxed_slice())
    }

    pub(super) fn query_mkey(&self, n: u32, out: &mut [u8]) -> Answer {
        let k = self.mkeys.find(n)?;
        let whole = k.length == u64::MAX;
        let mut m = QueryMkeyOut::ZERO;
        let c = m.part_mut(QueryMkeyOut::MKC);
        c.set(Mkc::PD, k.pd).set(Mkc::KEY, k.key.into()).set(Mkc::LENGTH64, whole.into());
        c.set(Mkc::LOCAL_READ, k.readable.into()).set(Mkc::LOCAL_WRITE, k.writable.into());
        let mode = if matches!(k.pages, Pages::None) { access_mode::PA } else { access_mode::MTT };
        c.set(Mkc::ACCESS_MODE, mode).set(Mkc::FREE, k.free.into());
        c.set(Mkc::UMR, matches!(k.pages, Pages::Table(_)).into());
        c.set(Mkc::QPN, 0xff_ffff).set(Mkc::LOG_PAGE_SIZE, k.log_page);
        c.set_quad(Mkc::START, k.start).set_quad(Mkc::LENGTH, if whole { 0 } else { k.length });
        answer(out, &m)
    }

    pub(super) fn create_tis(&mut self, bytes: &[u8]) -> Answer<u32> {
        let context = *input::<TisIn>(bytes)?.part(TisIn::TISC);
        self.tds.find(context.get(Tisc::TRANSPORT_DOMAIN))?;
        let most = if self.cfg.caps.second_port { SECOND_PORT } else { 0 };
        check(context.get(Tisc::LAG_TX_PORT_AFFINITY) <= most)?;
        self.tis.insert(context, LIMIT)
    }

    /// Its priority can be changed.
    pub(super) fn modify_tis(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<TisIn>(bytes)?;
        let tis = self.tis.find_mut(m.get(TisIn::TISN))?;
        tis.set(Tisc::PRIO, m.part(TisIn::TISC).get(Tisc::PRIO));
        Ok(())
    }

    pub(super) fn query_tis(&self, n: u32, out: &mut [u8]) -> Answer {
        let mut m = QueryTisOut::ZERO;
        *m.part_mut(QueryTisOut::TISC) = *self.tis.find(n)?;
        answer(out, &m)
    }

    pub(super) fn destroy_tis(&mut self, n: u32) -> Answer {
        self.tis.destroy(n, self.sqs.any(|q| q.tis == Some(n)))
    }

    pub(super) fn alloc_q_counter(&mut self) -> Answer<u32> {
        let n = self.counter_sets.insert((), COUNTER_SETS)?;
        self.rx.out_of_buffer(n as u8, true);
        Ok(n)
    }

    pub(super) fn dealloc_q_counter(&mut self, n: u32) -> Answer {
        let used = self.rx.rqs.any(|q| u32::from(q.ctx.counter_set) == n);
        self.counter_sets.destroy(n, used)
    }

    pub(super) fn query_q_counter(&mut self, bytes: &[u8], out: &mut [u8]) -> Answer {
        let q = input::<QueryQCounterIn>(bytes)?;
        let set = q.get(QueryQCounterIn::SET);
        self.counter_sets.find(set)?;
        let lost = self.rx.out_of_buffer(set as u8, q.get(QueryQCounterIn::CLEAR) == 1);
        let mut m = QueryQCounterOut::ZERO;
        // 32 bits that wrap.
        m.set(QueryQCounterOut::OUT_OF_BUFFER, lost as u32);
        answer_prefix(out, 0, &m.0);
        Ok(())
    }
}
