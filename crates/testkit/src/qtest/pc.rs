//! QEMU's `pc` board (i440FX and PIIX3) with one PCI network device.

use super::process::option_path;
use super::{
    Apertures, Backing, Bar, Error, Function, Irq, Launch, QtestHost, Ram, Region, Wire, pci,
};

/// The configuration of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Pc<'a> {
    /// QEMU's name of the device and its properties: `e1000,mac=52:54:00:12:34:56`.
    /// The first three 8254x models are `e1000` (82540EM), `e1000-82544gc` and
    /// `e1000-82545em`.
    pub nic: &'a str,
    /// Its cable.
    pub wire: &'a Wire,
    /// Access to its memory.
    pub backing: Backing,
}

const MEMORY_MIB: u64 = 64;
/// Without firmware all memory is free; the first MiB has holes.
const FREE_FROM: u64 = 1 << 20;
const SLOT: u8 = 4;
/// PIIX3's ISA bridge: its registers at 0x60 route the four PCI interrupt pins.
const BRIDGE: Function = Function { device: 1, function: 0 };
const PIRQ_ROUTES: u8 = 0x60;
const IRQ: u32 = 11;

impl Pc<'_> {
    /// Starts the machine and does what its firmware would: places the device's
    /// regions, enables it, routes its interrupt.
    ///
    /// # Errors
    /// When QEMU does not start, or has no such device.
    pub fn start(self) -> Result<QtestHost, Error> {
        let mut launch = Launch::new("x86_64")?;
        let file = launch.dir().join("ram");
        let machine = match self.backing {
            Backing::Mapped => {
                let path = option_path(&file);
                let backend = format!(
                    "memory-backend-file,id=ram,size={MEMORY_MIB}M,share=on,mem-path={path}"
                );
                launch.args(["-object", &backend]);
                "pc,usb=off,memory-backend=ram"
            }
            Backing::Socket => "pc,usb=off",
        };
        launch.args(["-machine", machine, "-m", &MEMORY_MIB.to_string()]);
        launch.args(["-netdev", &self.wire.netdev("wire")]);
        launch.args(["-device", &format!("{},netdev=wire,addr={SLOT}", self.nic)]);
        let mut q = launch.start()?;

        let ram = match self.backing {
            Backing::Mapped => Ram::mapped(&file, (MEMORY_MIB << 20) as usize)?,
            Backing::Socket => Ram::SOCKET,
        };
        let nic = Function { device: SLOT, function: 0 };
        if nic.read(&mut q, pci::ID)? == !0 {
            return Err(Error::Device(format!("no PCI device in slot {SLOT}")));
        }
        let regions = nic.place_bars(&mut q, &mut Apertures::pc())?.map(|bar| match bar {
            Some(Bar::Memory(at)) => Region::Memory(at),
            Some(Bar::Io(at)) => Region::Io(at),
            None => Region::Absent,
        });
        nic.enable(&mut q)?;
        // Whichever pin the device has, its interrupt comes in at one place.
        BRIDGE.write(&mut q, PIRQ_ROUTES, u32::from_le_bytes([IRQ as u8; 4]))?;
        let irq = Irq { controller: "ioapic", line: IRQ };
        QtestHost::new(q, ram, FREE_FROM..MEMORY_MIB << 20, regions.to_vec(), irq)
    }
}
