//! The function: bring-up, objects for channels, teardown.

use super::super::{Answer, firmware::Firmware, firmware::Objects};
use super::{queue::CommandQueue, steering::Steering};
use crate::{OpenError, Opened, common::both};
use alloc::{boxed::Box, vec::Vec};
use doorbell_hal::{Coherent, Host, fail_if};
use doorbell_layout::mlx5::command::{
    AccessReg, CAP, CAP_LEN, CURRENT, Cqc, CreateCqIn, CreateEqIn, CreateMkeyIn, CreateRqIn,
    CreateSqIn, Eqc, EthCaps, FunctionIn, GeneralCaps, ISSI_1, ManagePagesIn, ManagePagesOut, Mkc,
    ModifyCqIn, ModifyRqIn, ModifySqIn, NicVport, Numbered, OutHeader, Paos, QueryIssiOut,
    QueryNicVportIn, QueryNicVportOut, QueryPagesOut, QuerySqOut, Rqc, SECOND_PORT, SetIssiIn, Sqc,
    TisIn, Tisc, Wq, access, access_mode, cap_type, modify_cq, op, pages, paos, register, wq_type,
};
use doorbell_layout::mlx5::receive::{LOG_STRIDE_BASE, LOG_STRIDES_BASE, RqContext, RqState};
use doorbell_layout::mlx5::{
    Caps, CmdStatus, CompressionLayout, CqContext, EqContext, SqContext, SqState, WQEBB,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A ConnectX function that is up.
#[derive(Debug)]
pub struct Hca {
    queue: CommandQueue,
    /// Memory given to the firmware, in areas of contiguous pages.
    granted: Vec<Coherent>,
    pages: u32,
    caps: Caps,
    pub(super) mac: [u8; 6],
    pd: u32,
    pub(super) transport_domain: u32,
    /// Transport interfaces of the ports that there are.
    tisns: [u32; 2],
    pub(super) steering: Steering,
}

/// A command: opcode and op_mod.
type Command = (u16, u32);
const PAGE: u32 = 4096;
/// Most pages that the firmware may request: 64 MiB.
const MAX_PAGES: u32 = 16384;
/// Page addresses that the mailboxes of one command hold.
const PAGES_AT_ONCE: u32 = 512;
/// ETH `wqe_inline_mode`: the port decides, or nothing needs to be inline.
const INLINE_VPORT: u32 = 1;
const INLINE_NONE: u32 = 2;

impl Hca {
    /// Brings the function and its port up.
    ///
    /// # Errors
    /// Fails when there is no device that this driver knows, memory runs out, or the firmware
    /// refuses. The function is then disabled again and all memory released, unless disabling fails
    /// too and the device may still use the memory.
    pub fn open<H: Host>(h: &mut H) -> Opened<Hca> {
        let queue = CommandQueue::open(h)?;
        let mut hca = Hca {
            queue,
            granted: Vec::new(),
            pages: 0,
            caps: Caps::default(),
            mac: [0; 6],
            pd: 0,
            transport_domain: 0,
            tisns: [0; 2],
            steering: Steering::default(),
        };
        let started = hca.start(h).and_then(|()| Ok(hca.create_common(h)?));
        Ok(both(hca, started, |hca| hca.close(h))?.0)
    }

    /// Takes the function down and releases all memory. Channels must be closed before.
    pub fn close<H: Host>(mut self, h: &mut H) {
        // Refusals do not matter, except that of the last command.
        for tisn in self.tisns.into_iter().take(1 + usize::from(self.caps.second_port)) {
            let _ = self.execute_on(h, op::DESTROY_TIS, tisn);
        }
        let _ = self.execute_on(h, op::DEALLOC_TRANSPORT_DOMAIN, self.transport_domain);
        let _ = self.execute_on(h, op::DEALLOC_PD, self.pd);
        let _ = self.execute_plain(h, (op::TEARDOWN_HCA, 0), &Numbered::ZERO);
        while self.pages > 0 && self.take_pages(h).is_ok_and(|n| n > 0) {}
        let disabled = self.execute_plain(h, (op::DISABLE_HCA, 0), &FunctionIn::ZERO).is_ok();
        if disabled {
            self.granted.drain(..).for_each(|area| h.release_coherent(area));
            self.queue.release(h);
        }
    }

    /// Returns the port's MAC address.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    // ---- commands ----

    /// Executes a command without lists. Returns its response.
    fn query<H: Host, I: IntoBytes + Immutable, O: FromBytes>(
        &mut self,
        h: &mut H,
        command: Command,
        message: &I,
    ) -> Answer<O> {
        self.queue.execute(h, command, message, &[], 0).map(|(out, _)| out)
    }

    /// Executes a command with a list behind its message. Returns its response.
    pub(super) fn with_list<H: Host, I: IntoBytes + Immutable, O: FromBytes>(
        &mut self,
        h: &mut H,
        opcode: u16,
        message: &I,
        list: &[u8],
    ) -> Answer<O> {
        self.queue.execute(h, (opcode, 0), message, list, 0).map(|(out, _)| out)
    }

    /// Executes a command whose response is a status alone.
    pub(super) fn execute_plain<H: Host, I: IntoBytes + Immutable>(
        &mut self,
        h: &mut H,
        command: Command,
        message: &I,
    ) -> Answer {
        self.query::<H, I, OutHeader>(h, command, message).map(drop)
    }

    /// Executes a command on object `n`.
    pub(super) fn execute_on<H: Host>(&mut self, h: &mut H, opcode: u16, n: u32) -> Answer {
        let mut m = Numbered::ZERO;
        m.set(Numbered::NUMBER, n);
        self.execute_plain(h, (opcode, 0), &m)
    }

    /// Executes a command that creates an object. Returns its number.
    pub(super) fn create<H: Host, I: IntoBytes + Immutable>(
        &mut self,
        h: &mut H,
        opcode: u16,
        message: &I,
        list: &[u8],
    ) -> Answer<u32> {
        let out: Numbered = self.with_list(h, opcode, message, list)?;
        Ok(out.get(Numbered::NUMBER))
    }

    fn capability<H: Host>(&mut self, h: &mut H, group: u32, which: u32) -> Answer<Vec<u8>> {
        let command = (op::QUERY_HCA_CAP, group << 1 | which);
        let (_, caps) =
            self.queue.execute::<H, _, Numbered>(h, command, &Numbered::ZERO, &[], CAP_LEN)?;
        Ok(caps)
    }

    // ---- up ----

    fn start<H: Host>(&mut self, h: &mut H) -> Opened {
        self.execute_plain(h, (op::ENABLE_HCA, 0), &FunctionIn::ZERO)?;
        let issi: QueryIssiOut = self.query(h, (op::QUERY_ISSI, 0), &Numbered::ZERO)?;
        fail_if(issi.get(QueryIssiOut::SUPPORTED) & ISSI_1 == 0, OpenError::Capability("ISSI 1"))?;
        let mut m = SetIssiIn::ZERO;
        m.set(SetIssiIn::CURRENT, 1);
        self.execute_plain(h, (op::SET_ISSI, 0), &m)?;
        self.give_pages(h, pages::BOOT)?;
        let mut m = AccessReg::ZERO;
        m.set(AccessReg::REGISTER, u32::from(register::HOST_ENDIANNESS));
        // 0: little-endian; no structure used here depends on it.
        let write = (op::ACCESS_REG, access::WRITE);
        self.queue.execute::<H, _, AccessReg>(h, write, &m, &[0; 16], 16)?;
        self.choose_capabilities(h)?;
        self.give_pages(h, pages::INIT)?;
        self.execute_plain(h, (op::INIT_HCA, 0), &Numbered::ZERO)?;
        self.read_capabilities(h)
    }

    /// Enables signatures where the device can check them.
    fn choose_capabilities<H: Host>(&mut self, h: &mut H) -> Opened {
        let max = self.capability(h, cap_type::GENERAL, 0)?;
        let mut caps = general(&self.capability(h, cap_type::GENERAL, CURRENT)?);
        let checks = general(&max).get(GeneralCaps::CMDIF_CHECKSUM);
        caps.set(GeneralCaps::CMDIF_CHECKSUM, checks);
        let set = (op::SET_HCA_CAP, cap_type::GENERAL << 1);
        self.queue.execute::<H, _, OutHeader>(h, set, &Numbered::ZERO, &caps.0, 0)?;
        self.queue.set_checksum(checks);
        Ok(())
    }

    fn read_capabilities<H: Host>(&mut self, h: &mut H) -> Opened {
        let general = general(&self.capability(h, cap_type::GENERAL, CURRENT)?);
        if general.get(GeneralCaps::PORT_TYPE) != 1
            || general.get(GeneralCaps::ETH_NET_OFFLOADS) == 0
        {
            return Err(OpenError::Capability("eth_net_offloads"));
        }
        let mut eth = Box::new(EthCaps::ZERO);
        copy(&mut eth.0, &self.capability(h, cap_type::ETH, CURRENT)?);
        let query = (op::QUERY_NIC_VPORT_CONTEXT, 0);
        let vport: QueryNicVportOut = self.query(h, query, &QueryNicVportIn::ZERO)?;
        let vport = vport.part(QueryNicVportOut::CONTEXT);
        self.mac = core::array::from_fn(|i| vport.0[NicVport::ADDRESS + i]);
        self.caps = Caps {
            enhanced_mpw: eth.get(EthCaps::ENHANCED_MPW) == 1,
            max_wqe_sz_sq: general.get(GeneralCaps::MAX_WQE_SZ_SQ) as u16,
            min_inline: match eth.get(EthCaps::INLINE_MODE) {
                INLINE_NONE => 0,
                INLINE_VPORT => vport.get(NicVport::MIN_INLINE).min(3) as u8,
                _ => 1,
            },
            log_max_lso: eth.get(EthCaps::MAX_LSO) as u8,
            csum: eth.get(EthCaps::CSUM) == 1,
            vlan: eth.get(EthCaps::VLAN) == 1,
            swp: eth.get(EthCaps::SWP) == 1 && eth.get(EthCaps::SWP_CSUM) == 1,
            striding: general.get(GeneralCaps::STRIDING_RQ) == 1
                && general.get(GeneralCaps::UMR_PTR_RLKY) == 1
                && eth.get(EthCaps::REG_UMR_SQ) == 1,
            compression: match general.get(GeneralCaps::CQE_COMPRESSION) {
                0 => None,
                _ if general.get(GeneralCaps::ENHANCED_CQE_COMPRESSION) == 1 => {
                    Some(CompressionLayout::Enhanced)
                }
                _ => Some(CompressionLayout::Basic),
            },
            second_port: general.get(GeneralCaps::LAG_TX_PORT_AFFINITY) == 1
                && general.get(GeneralCaps::NUM_LAG_PORTS) >= SECOND_PORT,
        };
        Ok(())
    }

    /// Creates the objects that all channels refer to, and brings the port up.
    fn create_common<H: Host>(&mut self, h: &mut H) -> Answer {
        self.pd = self.create(h, op::ALLOC_PD, &Numbered::ZERO, &[])?;
        self.transport_domain = self.create(h, op::ALLOC_TRANSPORT_DOMAIN, &Numbered::ZERO, &[])?;
        let mut m = TisIn::ZERO;
        m.part_mut(TisIn::TISC).set(Tisc::TRANSPORT_DOMAIN, self.transport_domain);
        self.tisns[0] = self.create(h, op::CREATE_TIS, &m, &[])?;
        if self.caps.second_port {
            m.part_mut(TisIn::TISC).set(Tisc::LAG_TX_PORT_AFFINITY, SECOND_PORT);
            self.tisns[1] = self.create(h, op::CREATE_TIS, &m, &[])?;
        }
        let mut m = AccessReg::ZERO;
        m.set(AccessReg::REGISTER, u32::from(register::PAOS));
        let mut up = Paos::ZERO;
        up.set(Paos::PORT, 1).set(Paos::ADMIN, paos::UP);
        let write = (op::ACCESS_REG, access::WRITE);
        self.queue.execute::<H, _, AccessReg>(h, write, &m, &up.0, Paos::LEN).map(|_| ())
    }

    // ---- pages ----

    /// Gives the firmware the pages that it requests.
    fn give_pages<H: Host>(&mut self, h: &mut H, which: u32) -> Opened {
        let wanted: QueryPagesOut = self.query(h, (op::QUERY_PAGES, which), &Numbered::ZERO)?;
        let mut wanted = wanted.get(QueryPagesOut::PAGES) as i32;
        fail_if(wanted > (MAX_PAGES - self.pages) as i32, OpenError::OutOfMemory)?;
        while wanted > 0 {
            let n = (wanted as u32).min(PAGES_AT_ONCE);
            let area = h.coherent(n * PAGE, PAGE)?;
            let at = area.iova().0;
            self.granted.push(area);
            let list: Vec<u8> =
                (0..n).flat_map(|i| (at + u64::from(i * PAGE)).to_be_bytes()).collect();
            let mut m = ManagePagesIn::ZERO;
            m.set(ManagePagesIn::ENTRIES, n);
            let give = (op::MANAGE_PAGES, pages::GIVE);
            self.queue.execute::<H, _, OutHeader>(h, give, &m, &list, 0)?;
            self.pages += n;
            wanted -= n as i32;
        }
        Ok(())
    }

    /// Takes pages back from the firmware. Returns their number.
    fn take_pages<H: Host>(&mut self, h: &mut H) -> Answer<u32> {
        let n = self.pages.min(PAGES_AT_ONCE);
        let mut m = ManagePagesIn::ZERO;
        m.set(ManagePagesIn::ENTRIES, n);
        let command = (op::MANAGE_PAGES, pages::TAKE);
        let (out, _): (ManagePagesOut, _) =
            self.queue.execute(h, command, &m, &[], n as usize * 8)?;
        let n = out.get(ManagePagesOut::ENTRIES).min(n);
        self.pages -= n;
        Ok(n)
    }
}

fn copy(to: &mut [u8], from: &[u8]) {
    let n = to.len().min(from.len());
    to[..n].copy_from_slice(&from[..n]);
}

fn general(bytes: &[u8]) -> Box<GeneralCaps> {
    let mut caps = Box::new(GeneralCaps::ZERO);
    copy(&mut caps.0, bytes);
    caps
}

fn page_list(ring: u64, bytes: u64) -> Vec<u8> {
    (0..bytes.div_ceil(u64::from(PAGE)))
        .flat_map(|i| (ring + i * u64::from(PAGE)).to_be_bytes())
        .collect()
}

const ENTRY: u64 = 64;

impl<H: Host> Firmware<H> for Hca {
    fn caps(&mut self, _h: &mut H) -> Caps {
        self.caps
    }

    fn alloc_uar(&mut self, h: &mut H) -> Answer<u32> {
        self.create(h, op::ALLOC_UAR, &Numbered::ZERO, &[])
    }

    fn create_mkey(&mut self, h: &mut H) -> Answer<u32> {
        let mut m = CreateMkeyIn::ZERO;
        let c = m.part_mut(CreateMkeyIn::MKC);
        c.set(Mkc::ACCESS_MODE, access_mode::PA).set(Mkc::LOCAL_READ, 1).set(Mkc::LOCAL_WRITE, 1);
        c.set(Mkc::QPN, 0xff_ffff).set(Mkc::LENGTH64, 1).set(Mkc::PD, self.pd);
        Ok(self.create(h, op::CREATE_MKEY, &m, &[])? << 8)
    }

    fn create_page_key(&mut self, h: &mut H, pages: u32) -> Answer<u32> {
        let mut m = CreateMkeyIn::ZERO;
        let c = m.part_mut(CreateMkeyIn::MKC);
        c.set(Mkc::FREE, 1).set(Mkc::UMR, 1).set(Mkc::LOCAL_READ, 1).set(Mkc::LOCAL_WRITE, 1);
        c.set(Mkc::ACCESS_MODE, access_mode::MTT).set(Mkc::QPN, 0xff_ffff).set(Mkc::PD, self.pd);
        c.set(Mkc::OCTWORDS, pages.div_ceil(2)).set(Mkc::LOG_PAGE_SIZE, PAGE.ilog2());
        c.set_quad(Mkc::LENGTH, u64::from(pages) * u64::from(PAGE));
        Ok(self.create(h, op::CREATE_MKEY, &m, &[])? << 8)
    }

    fn create_eq(&mut self, h: &mut H, c: &EqContext) -> Answer<u32> {
        let mut m = CreateEqIn::ZERO;
        m.set_quad(CreateEqIn::EVENTS, c.events);
        let eqc = m.part_mut(CreateEqIn::EQC);
        eqc.set(Eqc::LOG_SIZE, u32::from(c.log_size))
            .set(Eqc::UAR, c.uar)
            .set(Eqc::INTR, u32::from(c.vector));
        self.create(h, op::CREATE_EQ, &m, &page_list(c.ring, ENTRY << c.log_size)).map(|n| n & 0xff)
    }

    fn create_cq(&mut self, h: &mut H, c: &CqContext) -> Answer<u32> {
        let mut m = CreateCqIn::ZERO;
        let cqc = m.part_mut(CreateCqIn::CQC);
        cqc.set(Cqc::LOG_SIZE, u32::from(c.log_size)).set(Cqc::UAR, c.uar).set(Cqc::EQN, c.eqn);
        // The period has 12 bits.
        let period = u32::from(c.period_us).min(Cqc::PERIOD.max());
        cqc.set(Cqc::PERIOD, period)
            .set(Cqc::MAX_COUNT, u32::from(c.max_count))
            .set_quad(Cqc::DBR, c.dbr);
        if let Some(compression) = c.compression {
            let enhanced = compression.layout == CompressionLayout::Enhanced;
            cqc.set(Cqc::COMPRESSION, 1).set(Cqc::COMPRESSION_LAYOUT, enhanced.into());
            cqc.set(Cqc::MINI_FORMAT, compression.format);
        }
        self.create(h, op::CREATE_CQ, &m, &page_list(c.ring, ENTRY << c.log_size))
    }

    fn create_sq(&mut self, h: &mut H, c: &SqContext) -> Answer<u32> {
        let mut m = CreateSqIn::ZERO;
        let sqc = m.part_mut(CreateSqIn::SQC);
        sqc.set(Sqc::FLUSH_IN_ERROR, 1)
            .set(Sqc::MIN_INLINE, u32::from(c.min_inline))
            .set(Sqc::CQN, c.cqn);
        sqc.set(Sqc::ALLOW_SWP, u32::from(self.caps.swp));
        match c.internal {
            true => sqc.set(Sqc::REG_UMR, 1),
            false => {
                sqc.set(Sqc::TIS_LIST_SIZE, 1).set(Sqc::TIS, self.tisns[usize::from(c.second_port)])
            }
        };
        let wq = sqc.part_mut(Sqc::WQ);
        wq.set(Wq::TYPE, wq_type::CYCLIC)
            .set(Wq::PD, self.pd)
            .set(Wq::UAR, c.uar)
            .set_quad(Wq::DBR, c.dbr);
        wq.set(Wq::LOG_STRIDE, WQEBB.ilog2()).set(Wq::LOG_SIZE, u32::from(c.log_size));
        self.create(h, op::CREATE_SQ, &m, &page_list(c.ring, u64::from(WQEBB) << c.log_size))
    }

    fn modify_sq(&mut self, h: &mut H, sqn: u32, from: SqState, to: SqState) -> Answer {
        let mut m = ModifySqIn::ZERO;
        m.set(ModifySqIn::FROM, from as u32).set(ModifySqIn::NUMBER, sqn);
        m.part_mut(ModifySqIn::SQC).set(Sqc::STATE, to as u32);
        self.execute_plain(h, (op::MODIFY_SQ, 0), &m)
    }

    fn query_sq(&mut self, h: &mut H, sqn: u32) -> Answer<SqState> {
        let mut m = Numbered::ZERO;
        m.set(Numbered::NUMBER, sqn);
        let out: QuerySqOut = self.query(h, (op::QUERY_SQ, 0), &m)?;
        SqState::from_bits(out.part(QuerySqOut::SQC).get(Sqc::STATE)).ok_or(CmdStatus::Internal)
    }

    fn create_rq(&mut self, h: &mut H, c: &RqContext) -> Answer<u32> {
        let mut m = CreateRqIn::ZERO;
        let rqc = m.part_mut(CreateRqIn::RQC);
        rqc.set(Rqc::FLUSH_IN_ERROR, c.flush_in_error.into())
            .set(Rqc::NO_VLAN_STRIP, c.keep_vlan.into())
            .set(Rqc::COUNTER_SET, c.counter_set.into())
            .set(Rqc::CQN, c.cqn);
        let wq = rqc.part_mut(Rqc::WQ);
        let kind = if c.strides.is_some() { wq_type::STRIDING } else { wq_type::CYCLIC };
        if let Some(strides) = c.strides {
            // A number of four bits with a sign.
            let count = u32::from(strides.log_count).wrapping_sub(LOG_STRIDES_BASE) & 0xf;
            wq.set(Wq::LOG_STRIDES, count)
                .set(Wq::LOG_STRIDE_SIZE, u32::from(strides.log_size) - LOG_STRIDE_BASE);
        }
        wq.set(Wq::TYPE, kind)
            .set(Wq::END_PADDING, c.end_padding.into())
            .set(Wq::PD, self.pd)
            .set_quad(Wq::DBR, c.dbr);
        wq.set(Wq::LOG_STRIDE, c.log_stride.into()).set(Wq::LOG_SIZE, c.log_size.into());
        let bytes = 1 << (c.log_size + c.log_stride);
        self.create(h, op::CREATE_RQ, &m, &page_list(c.ring, bytes))
    }

    fn moderate_cq(&mut self, h: &mut H, cqn: u32, period_us: u16, max_count: u16) -> Answer {
        let mut m = ModifyCqIn::ZERO;
        m.set(ModifyCqIn::CQN, cqn)
            .set(ModifyCqIn::FIELDS, modify_cq::PERIOD | modify_cq::MAX_COUNT);
        m.part_mut(ModifyCqIn::CQC)
            .set(Cqc::PERIOD, period_us.into())
            .set(Cqc::MAX_COUNT, max_count.into());
        self.execute_plain(h, (op::MODIFY_CQ, 0), &m)
    }

    /// A queue that is ready has its part of the frames that arrive.
    fn modify_rq(&mut self, h: &mut H, rqn: u32, from: RqState, to: RqState) -> Answer {
        let mut m = ModifyRqIn::ZERO;
        m.set(ModifyRqIn::FROM, from as u32).set(ModifyRqIn::NUMBER, rqn);
        m.part_mut(ModifyRqIn::RQC).set(Rqc::STATE, to as u32);
        self.execute_plain(h, (op::MODIFY_RQ, 0), &m)?;
        if to == RqState::Ready { self.include(h, rqn) } else { self.exclude(h, rqn) }
    }

    fn destroy(&mut self, h: &mut H, o: &Objects) {
        // What is refused goes with the function.
        let _ = o.rqn.map(|n| self.exclude(h, n));
        let all = (o.sqns.iter().map(|n| (op::DESTROY_SQ, *n)))
            .chain(o.rqn.map(|n| (op::DESTROY_RQ, n)))
            .chain(o.cqns.iter().map(|n| (op::DESTROY_CQ, *n)))
            .chain([o.eqn, o.second_eqn].into_iter().flatten().map(|n| (op::DESTROY_EQ, n)))
            .chain(
                [o.lkey, o.page_key].into_iter().flatten().map(|key| (op::DESTROY_MKEY, key >> 8)),
            )
            .chain(o.uar.map(|n| (op::DEALLOC_UAR, n)));
        for (opcode, n) in all {
            let _ = self.execute_on(h, opcode, n);
        }
    }
}

const _: () = assert!(CAP == Numbered::LEN);
