//! Flow tables that give a function its own frames back, and a queue that sends them.

use super::{CommandHarness, Common, RecordingPort};
use doorbell_hal::Device;
use doorbell_layout::mlx5::command::{
    CRITERIA_LIST, CreateFlowGroupIn, CreateFlowTableIn, CreateTirIn, DESTINATION_LIST,
    FlowContext, FlowTableContext, FlowTableIn, ModifyNicVportIn, NicVport, SetFteIn, Tirc,
    destination, flow_action, miss_action, op, vport_field,
};
use doorbell_layout::mlx5::receive::self_lb_block;
use doorbell_layout::mlx5::steering::{PARAM, SET, criteria};
use doorbell_layout::mlx5::{CtrlSeg, DataSeg, EthSeg, opcode};
use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::{U32, U64};

/// Bytes of a frame, and those from the start of one to that of the next.
const FRAME: u32 = 60;
const FRAME_STRIDE: u64 = 64;

impl<D: Device<RecordingPort>> CommandHarness<D> {
    /// log2 of the blocks of the send queue.
    pub const LOG_SQ: u32 = 12;
    /// The page of the rings at which it begins.
    const SQ_PAGE: u64 = 16;
    /// Its doorbell record.
    const SQ_DBR: u64 = Self::DBR + 128;

    /// Creates a flow table. Returns its number.
    pub fn flow_table(&mut self, level: u32, miss: Option<u32>) -> u32 {
        let mut m = CreateFlowTableIn::ZERO;
        let context = m.part_mut(CreateFlowTableIn::CONTEXT);
        context.set(FlowTableContext::LEVEL, level).set(FlowTableContext::LOG_SIZE, 16);
        if let Some(next) = miss {
            context.set(FlowTableContext::MISS_ACTION, miss_action::TABLE);
            context.set(FlowTableContext::MISS_TABLE, next);
        }
        self.ok(op::CREATE_FLOW_TABLE, 0, &m, &[]).number()
    }

    /// Creates a group of a table over these indices, with a mask on the outer headers.
    pub fn flow_group(&mut self, table: u32, (start, end): (u32, u32), mask: &[u8; SET]) -> u32 {
        let mut m = CreateFlowGroupIn::ZERO;
        m.set(CreateFlowGroupIn::TABLE, table);
        m.set(CreateFlowGroupIn::CRITERIA, criteria::OUTER.into());
        m.set(CreateFlowGroupIn::START, start).set(CreateFlowGroupIn::END, end);
        let mut list = [0; PARAM];
        list[..SET].copy_from_slice(mask);
        assert_eq!(size_of_val(&m), CRITERIA_LIST);
        self.ok(op::CREATE_FLOW_GROUP, 0, &m, &list).number()
    }

    /// Returns the input of SET_FLOW_TABLE_ENTRY: what matches goes to so many TIRs.
    pub fn flow_entry(table: u32, group: u32, index: u32, tirs: &[u32]) -> (SetFteIn, Vec<u8>) {
        let mut m = SetFteIn::ZERO;
        m.set(SetFteIn::TABLE, table).set(SetFteIn::INDEX, index);
        let context = m.part_mut(SetFteIn::CONTEXT);
        context.set(FlowContext::GROUP, group).set(FlowContext::ACTION, flow_action::FORWARD);
        context.set(FlowContext::DESTINATIONS, tirs.len() as u32);
        assert_eq!(size_of_val(&m), DESTINATION_LIST);
        let to = |n: &u32| [(destination::TIR << 24 | n).to_be_bytes(), [0; 4]].concat();
        (m, tirs.iter().flat_map(to).collect())
    }

    /// Creates a TIR that takes what the function sends to its address, through so many masks, to a
    /// queue without buffers.
    ///
    /// # Panics
    /// Panics if the device refuses it.
    pub fn loop_back(&mut self, o: &Common, own: [u8; 6], masks: u32) {
        let rqn = self.rq(o, 4, Self::DBR + 64, &[Self::page(2)]).number();
        assert_eq!(self.modify_rq(rqn, 0, 1), None);
        let mut m = CreateTirIn::ZERO;
        let tirc = m.part_mut(CreateTirIn::TIRC);
        tirc.set(Tirc::TRANSPORT_DOMAIN, o.td).set(Tirc::INLINE_RQN, rqn);
        tirc.set(Tirc::SELF_LB_BLOCK, self_lb_block::UNICAST.into());
        let tir = self.ok(op::CREATE_TIR, 0, &m, &[]).number();
        let mut m = ModifyNicVportIn::ZERO;
        m.set(ModifyNicVportIn::FIELDS, vport_field::ADDRESSES);
        m.part_mut(ModifyNicVportIn::CONTEXT).set(NicVport::LIST_SIZE, 1);
        self.ok(op::MODIFY_NIC_VPORT_CONTEXT, 0, &m, &[&[0, 0], &own[..]].concat());
        let last = self.flow_table(1, None);
        let any = self.flow_group(last, (0, 0), &[0; SET]);
        let (m, list) = Self::flow_entry(last, any, 0, &[tir; 8]);
        self.ok(op::SET_FLOW_TABLE_ENTRY, 0, &m, &list);
        let first = self.flow_table(0, Some(last));
        for n in 0..masks {
            let mut mask = [0; SET];
            mask[SET - 1] = n as u8 + 1;
            self.flow_group(first, (n, n), &mask);
        }
        let mut m = FlowTableIn::ZERO;
        m.set(FlowTableIn::TABLE, first);
        self.ok(op::SET_FLOW_TABLE_ROOT, 0, &m, &[]);
    }

    /// Creates a send queue of so many blocks. Returns its number.
    ///
    /// # Panics
    /// Panics if the device refuses it.
    pub fn send_queue(&mut self, o: &Common) -> u32 {
        let pages: Vec<u64> = (0..64).map(|n| Self::page(Self::SQ_PAGE + n)).collect();
        let sqn = self.sq(o, Self::LOG_SQ, Self::SQ_DBR, &pages).number();
        assert_eq!(self.modify_sq(sqn, 0, 1), None);
        sqn
    }

    /// Fills the send queue with WQEs of a frame each, from WQE `first` on: frames of 60 bytes with
    /// these heads, by the place in the queue. Returns the first words of the WQEs, which are their
    /// doorbells.
    pub fn fill<const N: usize>(
        &mut self,
        sqn: u32,
        mkey: u32,
        first: u16,
        head: impl Fn(usize) -> [u8; N],
    ) -> Vec<u64> {
        let memory = &mut self.port.memory;
        let (frames, ring) = (Self::DATA, Self::page(Self::SQ_PAGE) as usize);
        let mut words = Vec::new();
        for n in 0..1 << Self::LOG_SQ {
            let at = frames + n as u64 % 256 * FRAME_STRIDE;
            memory[at as usize..][..N].copy_from_slice(&head(n % 256));
            let (byte_count, lkey, addr) = (U32::new(FRAME), U32::new(mkey << 8), U64::new(at));
            let data = DataSeg { byte_count, lkey, addr };
            let ctrl = CtrlSeg::new(first.wrapping_add(n as u16), opcode::SEND, sqn, 3);
            let block = &mut memory[ring + n * 64..][..64];
            block[..16].copy_from_slice(ctrl.as_bytes());
            block[16..32].copy_from_slice(EthSeg::default().as_bytes());
            block[32..48].copy_from_slice(data.as_bytes());
            words.push(u64::from_le_bytes(*block.first_chunk().expect("a segment")));
        }
        let end = u32::from(first.wrapping_add(1 << Self::LOG_SQ));
        memory[Self::SQ_DBR as usize + 4..][..4].copy_from_slice(&end.to_be_bytes());
        words
    }
}
