//! Capabilities: what `QUERY_HCA_CAP` says, made from the [`Config`](super::super::Config).
//!
//! The values are those with which an unmodified driver comes up, less what this
//! device does not do: no LRO, no tunnels, no RDMA, no embedded switch. The software parser serves
//! checksums alone.

use super::super::steering::{FIELD_SUPPORT, LOG_COPIES, LOG_MAX_SIZE};
use super::super::{LOG_MAX_CQ_SZ, LOG_MAX_EQ_SZ, LOG_MAX_WQ, MAX_EQS};
use super::super::{device::Mlx5, registers::CLOCK_KHZ, rss::LOG_MAX_RQT};
use super::{Answer, CmdStatus, answer_prefix, check, input};
use alloc::boxed::Box;
use doorbell_hal::fail_if;
use doorbell_layout::mlx5::CompressionLayout;
use doorbell_layout::mlx5::command::{
    CAP, CAP_LEN, CURRENT, EthCaps, FlowTableCaps, GeneralCaps, Numbered, SECOND_PORT, cap_type,
    checksum,
};

/// log2 of objects of a kind.
const LOG_OBJECTS: u32 = 10;

impl Mlx5 {
    fn general(&self, current: bool) -> Box<[u8]> {
        use GeneralCaps as G;
        let mut c = Box::new(G::ZERO);
        c.set(G::LOG_MAX_QP_SZ, 15).set(G::LOG_MAX_QP, LOG_OBJECTS);
        c.set(G::LOG_MAX_CQ_SZ, LOG_MAX_CQ_SZ).set(G::LOG_MAX_CQ, LOG_OBJECTS);
        c.set(G::LOG_MAX_EQ_SZ, LOG_MAX_EQ_SZ).set(G::LOG_MAX_EQ, 7);
        c.set(G::MAX_NUM_EQS, MAX_EQS as u32);
        c.set(G::LOG_MAX_MKEY, LOG_OBJECTS);
        c.set(G::NIC_FLOW_TABLE, 1).set(G::PORT_TYPE, 1).set(G::NUM_PORTS, 1).set(G::MAX_TC, 8);
        c.set(G::CQE_VERSION, 1).set(G::ETH_NET_OFFLOADS, 1);
        c.set(G::CQ_MODERATION, 1).set(G::CQ_PERIOD_MODE_MODIFY, 1);
        c.set(G::LOG_PG_SZ, 12).set(G::BF, 1).set(G::LOG_BF_REG_SIZE, 9);
        c.set(G::MAX_WQE_SZ_SQ, u32::from(self.cfg.caps.max_wqe_sz_sq)).set(G::MAX_WQE_SZ_RQ, 512);
        c.set(G::LOG_MAX_TD, LOG_OBJECTS).set(G::LOG_MAX_PD, LOG_OBJECTS);
        c.set(G::LOG_MAX_RQ, LOG_OBJECTS).set(G::LOG_MAX_SQ, LOG_OBJECTS);
        c.set(G::LOG_MAX_TIR, LOG_OBJECTS).set(G::LOG_MAX_TIS, LOG_OBJECTS);
        c.set(G::BASIC_CYCLIC_RCV_WQE, 1).set(G::LOG_MAX_WQ_SZ, LOG_MAX_WQ);
        c.set(G::LOG_MAX_RQT, LOG_OBJECTS).set(G::LOG_MAX_RQT_SIZE, 11);
        c.set(G::LOG_MAX_VLAN_LIST, 12).set(G::LOG_MAX_MC_LIST, 11).set(G::LOG_MAX_UC_LIST, 7);
        c.set(G::FREQUENCY_MHZ, CLOCK_KHZ / 1000).set(G::FREQUENCY_KHZ, CLOCK_KHZ);
        if self.cfg.caps.striding {
            c.set(G::STRIDING_RQ, 1).set(G::UMR_PTR_RLKY, 1).set(G::EXT_STRIDE_NUM_RANGE, 1);
        }
        if let Some(layout) = self.cfg.caps.compression {
            c.set(G::CQE_COMPRESSION, 1)
                .set(G::MINI_CQE_STRIDE_INDEX, self.cfg.caps.striding.into());
            c.set(G::ENHANCED_CQE_COMPRESSION, (layout == CompressionLayout::Enhanced).into());
            c.set(G::CQE_COMPRESSION_MAX_NUM, self.cfg.compress.most.into());
        }
        if self.cfg.caps.second_port {
            c.set(G::LAG_TX_PORT_AFFINITY, 1).set(G::NUM_LAG_PORTS, SECOND_PORT);
        }
        c.set(G::CMDIF_CHECKSUM, if current { self.firmware.checksum } else { checksum::ENABLED });
        Box::from(&c.0[..])
    }

    fn eth(&self) -> Box<[u8]> {
        use EthCaps as E;
        let caps = &self.cfg.caps;
        let mut c = Box::new(E::ZERO);
        c.set(E::CSUM, u32::from(caps.csum)).set(E::VLAN, u32::from(caps.vlan));
        c.set(E::SELF_LB_MODIFIABLE, 1).set(E::MAX_LSO, caps.log_max_lso.into());
        c.set(E::RSS_IND_TBL, LOG_MAX_RQT.into());
        // Not for large sends, so Linux does not offer GENEVE's offloads on it.
        c.set(E::SWP, caps.swp.into()).set(E::SWP_CSUM, caps.swp.into());
        c.set(E::CHECKSUM_FULL, u32::from(self.cfg.checksum_full));
        c.set(E::REG_UMR_SQ, caps.striding.into());
        c.set(E::ENHANCED_MPW, u32::from(caps.enhanced_mpw));
        let mode = match caps.min_inline {
            0 => INLINE_NONE,
            1 => INLINE_L2,
            _ => INLINE_VPORT,
        };
        c.set(E::INLINE_MODE, mode);
        Box::from(&c.0[..])
    }

    fn flow_table(&self) -> Box<[u8]> {
        use FlowTableCaps as F;
        let mut c = Box::new(F::ZERO);
        c.set(F::RX_SUPPORT, 1).set(F::RX_LOG_MAX_SIZE, LOG_MAX_SIZE.into());
        c.set(F::RX_MAX_LEVEL, 64).set(F::RX_LOG_MAX_TABLES, 10);
        c.set(F::RX_LOG_MAX_DESTINATIONS, LOG_COPIES.into()).set(F::RX_LOG_MAX_FLOWS, 16);
        c.0[F::RX_FIELDS..F::RX_FIELDS + 4].copy_from_slice(&FIELD_SUPPORT.to_be_bytes());
        Box::from(&c.0[..])
    }

    pub(super) fn query_hca_cap(&mut self, group: u32, which: u32, out: &mut [u8]) -> Answer {
        check(out.len() > CAP).map_err(|_| CmdStatus::BadOutputLength)?;
        let caps = match group {
            cap_type::GENERAL => self.general(which == CURRENT),
            cap_type::ETH => self.eth(),
            cap_type::FLOW_TABLE => self.flow_table(),
            _ => return Err(CmdStatus::BadParam),
        };
        answer_prefix(out, CAP, &caps);
        Ok(())
    }

    /// Of what a driver sets, only the checking of signatures is its to choose.
    pub(super) fn set_hca_cap(&mut self, group: u32, bytes: &[u8]) -> Answer {
        input::<Numbered>(bytes)?;
        fail_if(self.firmware.phase == super::Phase::Running, CmdStatus::BadSystemState)?;
        check(group == cap_type::GENERAL)?;
        let set = bytes.get(CAP..).ok_or(CmdStatus::BadInputLength)?;
        let mut caps = Box::new(GeneralCaps::ZERO);
        let n = set.len().min(CAP_LEN);
        fail_if(n < GeneralCaps::CMDIF_CHECKSUM.at + 4, CmdStatus::BadInputLength)?;
        caps.0[..n].copy_from_slice(&set[..n]);
        self.firmware.checksum = caps.get(GeneralCaps::CMDIF_CHECKSUM);
        Ok(())
    }
}

/// ETH `wqe_inline_mode`.
const INLINE_L2: u32 = 0;
const INLINE_VPORT: u32 = 1;
const INLINE_NONE: u32 = 2;
