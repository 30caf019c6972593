//! Objects that queues refer to: doorbell pages, protection and transport domains, memory keys,
//! transport interfaces, counter sets.

use super::super::ring::{LOG_PAGE, Ring};
use super::super::{Answer, BAR_PAGES, LIMIT, device::Mlx5, queues::Mkey};
use super::{answer, answer_prefix, check, input, tail};
use doorbell_layout::mlx5::CmdStatus;
use doorbell_layout::mlx5::command::{
    CreateMkeyIn, Mkc, PAS_LIST, QueryMkeyOut, QueryQCounterIn, QueryQCounterOut, QueryTisOut,
    TisIn, Tisc, access_mode,
};

/// Counter sets: eight bits, and 0 is none.
const COUNTER_SETS: usize = 255;

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
        let tirs = self.rx.tirs.any(|t| t.ctx.transport_domain == n);
        self.tds.destroy(n, tirs || self.tis.any(|t| t.get(Tisc::TRANSPORT_DOMAIN) == n))
    }

    pub(super) fn on_create_mkey(&mut self, bytes: &[u8]) -> Answer<u32> {
        let m = input::<CreateMkeyIn>(bytes)?;
        let c = m.part(CreateMkeyIn::MKC);
        let pd = c.get(Mkc::PD);
        self.pds.find(pd)?;
        // A free key is one that a UMR would fill in.
        check(c.get(Mkc::FREE) == 0)?;
        let whole = c.get(Mkc::LENGTH64) == 1;
        let (start, length) =
            (c.quad(Mkc::START), if whole { u64::MAX } else { c.quad(Mkc::LENGTH) });
        let pages = match c.get(Mkc::ACCESS_MODE) {
            access_mode::PA => None,
            access_mode::MTT => {
                let log_page = c.get(Mkc::LOG_PAGE_SIZE);
                check(!whole && log_page >= LOG_PAGE)?;
                let from_page = start & ((1 << log_page) - 1);
                let bytes_of_pages = from_page.checked_add(length).ok_or(CmdStatus::BadParam)?;
                let list = tail(bytes, PAS_LIST);
                let entries = m.get(CreateMkeyIn::OCTWORDS) as usize * 2;
                let list = list.get(..list.len().min(entries * 8)).unwrap_or_default();
                Some(Ring::new(list, log_page, bytes_of_pages)?)
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
            everything: pages.is_none() && whole,
            pages,
        };
        self.mkeys.insert(key, LIMIT)
    }

    pub(super) fn query_mkey(&self, n: u32, out: &mut [u8]) -> Answer {
        let k = self.mkeys.find(n)?;
        let whole = k.length == u64::MAX;
        let mut m = QueryMkeyOut::ZERO;
        let c = m.part_mut(QueryMkeyOut::MKC);
        c.set(Mkc::PD, k.pd).set(Mkc::KEY, k.key.into()).set(Mkc::LENGTH64, whole.into());
        c.set(Mkc::LOCAL_READ, k.readable.into()).set(Mkc::LOCAL_WRITE, k.writable.into());
        c.set(Mkc::ACCESS_MODE, if k.pages.is_some() { access_mode::MTT } else { access_mode::PA });
        c.set(Mkc::QPN, 0xff_ffff).set(Mkc::LOG_PAGE_SIZE, k.log_page);
        c.set_quad(Mkc::START, k.start).set_quad(Mkc::LENGTH, if whole { 0 } else { k.length });
        answer(out, &m)
    }

    pub(super) fn create_tis(&mut self, bytes: &[u8]) -> Answer<u32> {
        let context = *input::<TisIn>(bytes)?.part(TisIn::TISC);
        self.tds.find(context.get(Tisc::TRANSPORT_DOMAIN))?;
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
