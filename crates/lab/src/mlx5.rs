//! The mlx5 system: ConnectX on PCI Express.

use doorbell_bus::{Machine, Pcie};
use doorbell_devices::mlx5::Mlx5;
use doorbell_drivers::mlx5::Firmware;
use doorbell_layout::mlx5::{Caps, CmdStatus, CqContext, EqContext, SqContext, SqState};

/// The machine of this system.
pub type System = Machine<Pcie, Mlx5>;

/// Objects made by calling the device directly. The command interface will take
/// this place.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Firmware<System> for Direct {
    fn caps(&mut self, h: &mut System) -> Caps {
        h.device.caps()
    }
    fn alloc_uar(&mut self, h: &mut System) -> Result<u32, CmdStatus> {
        h.device.alloc_uar()
    }
    fn create_mkey(&mut self, h: &mut System) -> Result<u32, CmdStatus> {
        h.device.create_mkey()
    }
    fn create_eq(&mut self, h: &mut System, c: &EqContext) -> Result<u32, CmdStatus> {
        h.device.create_eq(c)
    }
    fn create_cq(&mut self, h: &mut System, c: &CqContext) -> Result<u32, CmdStatus> {
        h.device.create_cq(c)
    }
    fn create_sq(&mut self, h: &mut System, c: &SqContext) -> Result<u32, CmdStatus> {
        h.device.create_sq(c)
    }
    fn modify_sq(&mut self, h: &mut System, sqn: u32, from: SqState, to: SqState) -> Result<(), CmdStatus> {
        h.outside(|d, _, _| d.modify_sq(sqn, from, to))
    }
    fn query_sq(&mut self, h: &mut System, sqn: u32) -> Result<SqState, CmdStatus> {
        h.outside(|d, _, _| d.query_sq(sqn))
    }
    fn destroy(&mut self, h: &mut System, sqn: u32, cqn: u32, eqn: u32, lkey: u32) {
        h.outside(|d, _, _| {
            let gone = [d.destroy_sq(sqn), d.destroy_cq(cqn), d.destroy_eq(eqn), d.destroy_mkey(lkey)];
            debug_assert!(gone.iter().all(Result::is_ok), "{gone:?}");
        });
    }
}
