//! A driver of C as a registry: its functions checked, from a program or from a shared object.

use crate::VERSION;
use crate::driver::{CCard, DRIVER, DbDriver, Given, POINTERS};
use crate::trap;
use doorbell_devices::e1000::Config;
use doorbell_systems::{Registry, card::system, system::System};
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};
use thiserror::Error;

/// The cards by their names.
const CARDS: [(&str, Config); 3] =
    [("82540em", Config::I82540EM), ("82544gc", Config::I82544GC), ("82545em", Config::I82545EM)];

/// The reason why a driver is not taken.
#[derive(Debug, Error)]
pub enum Wrong {
    /// A null pointer.
    #[error("there is no driver")]
    None,
    /// A struct of another length.
    #[error(
        "struct db_driver is {0} bytes long and {own} here: the header is of another version \
         (`doorbell new header` writes that of this one, {VERSION})",
        own = size_of::<DbDriver>()
    )]
    Size(usize),
    /// The header is of another version.
    #[error(
        "`version` of the driver is {0}, and this is version {VERSION} of the interface: set it to \
         DB_VERSION of the header that `doorbell new header` writes"
    )]
    Version(u32),
    /// A member that is a null pointer.
    #[error("`{0}` of the driver is NULL")]
    Null(&'static str),
    /// A string that is none.
    #[error("`{0}` of the driver is not UTF-8")]
    NoText(&'static str),
    /// A name that no system can have.
    #[error("`name` is `{0}`; allowed are small letters, digits and dashes, a letter first")]
    Name(String),
    /// A card that is not modelled.
    #[error("`card` is `{0}`; allowed are 82540em, 82544gc, 82545em")]
    Card(String),
    /// A number of frames that is not allowed.
    #[error("`in_flight` is {0}; allowed are 1 to 65536")]
    InFlight(u32),
    /// Flags that are none.
    #[error("`flags` is {0:#x}; allowed are 0 and DB_POINTERS")]
    Flags(u32),
    /// A processor whose instructions are not decoded.
    #[error("`flags`: DB_POINTERS needs Linux on x86-64")]
    Pointers,
    /// A second driver.
    #[error("another driver was taken before, and a process has one driver")]
    Second,
    /// A file that the dynamic linker refuses.
    #[error("{0}; it takes a shared object (cc -shared -fPIC) of doorbell.h, version {VERSION}")]
    Linker(String),
    /// A file that is not there.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// A shared object without the driver.
    #[error("it exports no symbol `db_driver`, which is a `const struct db_driver`")]
    NoSymbol,
}

/// The driver that a process has loaded: a file, its card, and the systems.
#[derive(Clone, Debug)]
pub struct Loaded {
    file: PathBuf,
    card: Option<String>,
    /// The driver's system, with a profile and scenarios.
    pub registry: &'static Registry,
}

/// Loads the driver `db_driver` of a shared object, on this card or on the one that it names. The
/// same file and card may be loaded again.
///
/// # Errors
/// It is no shared object, needs what is not here, or has no driver of this version.
pub fn load(file: &Path, card: Option<&str>) -> Result<Loaded, Wrong> {
    static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let file = file.canonicalize()?;
    if let Some(of) = loaded.as_ref().filter(|of| of.file == file && of.card.as_deref() == card) {
        return Ok(of.clone());
    }
    let symbol = linked(&file)?;
    // SAFETY: The object stays loaded. A symbol of this name is a driver, whose length is looked
    // at first.
    let registry = unsafe { take(symbol.cast(), card)? };
    let of = Loaded { file, card: card.map(str::to_owned), registry };
    Ok(loaded.insert(of).clone())
}

/// Loads a shared object for good, and returns its driver.
fn linked(file: &Path) -> Result<*mut c_void, Wrong> {
    let path = CString::new(file.as_os_str().as_bytes()).map_err(|_| Wrong::NoSymbol)?;
    // SAFETY: The string ends with a zero. The object runs initialisers of its own, which is what
    // loading a driver asks for.
    let object = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if object.is_null() {
        // SAFETY: After a failure it is a string, valid until the next call of this thread.
        let why = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(Wrong::Linker(why.to_string_lossy().into_owned()));
    }
    // SAFETY: The object is loaded, and the name ends with a zero.
    let symbol = unsafe { libc::dlsym(object, c"db_driver".as_ptr()) };
    if symbol.is_null() { Err(Wrong::NoSymbol) } else { Ok(symbol) }
}

/// Takes the driver of this process, on this card or on the one that it names. Returns its system,
/// with a profile and scenarios.
///
/// # Errors
/// The driver is not as the header says, or is not the first.
///
/// # Safety
/// The pointer is null or that of a driver, whose pointers are null or what the header says.
pub unsafe fn take(
    driver: *const DbDriver,
    card: Option<&str>,
) -> Result<&'static Registry, Wrong> {
    if driver.is_null() {
        return Err(Wrong::None);
    }
    // SAFETY: The caller's. The first member of every version is its length.
    let size = unsafe { ptr::read(driver.cast::<usize>()) };
    if size != size_of::<DbDriver>() {
        return Err(Wrong::Size(size));
    }
    // SAFETY: The caller's, and it is as long as here.
    let driver = unsafe { &*driver };
    if driver.version != VERSION {
        return Err(Wrong::Version(driver.version));
    }
    let text = |at: *const c_char, what| {
        if at.is_null() {
            return Err(Wrong::Null(what));
        }
        // SAFETY: The caller's: a string with its end.
        unsafe { CStr::from_ptr(at) }.to_str().map_err(|_| Wrong::NoText(what))
    };
    let name = text(driver.name, "name")?;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_name) {
        return Err(Wrong::Name(name.escape_debug().to_string()));
    }
    let card = card.map_or_else(|| text(driver.card, "card"), Ok)?;
    let device = CARDS.iter().find(|(name, _)| *name == card);
    let (_, device) = device.ok_or_else(|| Wrong::Card(card.escape_debug().to_string()))?;
    if !(1..=1 << 16).contains(&driver.in_flight) {
        return Err(Wrong::InFlight(driver.in_flight));
    }
    if driver.flags & !POINTERS != 0 {
        return Err(Wrong::Flags(driver.flags));
    }
    if driver.flags & POINTERS != 0 && !trap::install() {
        return Err(Wrong::Pointers);
    }
    let given = Given {
        device: *device,
        in_flight: driver.in_flight,
        pointers: driver.flags & POINTERS != 0,
        open: driver.open.ok_or(Wrong::Null("open"))?,
        close: driver.close.ok_or(Wrong::Null("close"))?,
        send: driver.send.ok_or(Wrong::Null("send"))?,
        poll: driver.poll.ok_or(Wrong::Null("poll"))?,
        irq: driver.irq.ok_or(Wrong::Null("irq"))?,
        stopped: driver.stopped.ok_or(Wrong::Null("stopped"))?,
        alarm: driver.alarm,
    };
    DRIVER.set(given).map_err(|_| Wrong::Second)?;
    Ok(registry(name))
}

/// Returns the systems of this process: the driver's, with a profile and scenarios.
fn registry(name: &str) -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let leaked = |text: String| -> &'static str { text.leak() };
        let own = |text: &str| leaked(text.replace("mynic", name));
        let named = leaked(name.to_owned());
        let one: &'static System =
            Box::leak(Box::new(system::<CCard>(named, "a driver of one's own, in C")));
        let files = |all: &[(&str, &str)]| {
            let all = all.iter().map(|(file, text)| (own(file), own(text)));
            &*all.collect::<Vec<_>>().leak()
        };
        Registry {
            systems: Box::leak(Box::new([one])),
            profiles: files(&[("mynic", include_str!("../../../examples/driver/profile.toml"))]),
            scenarios: files(&[
                ("mynic-send", include_str!("../../../examples/driver/send.toml")),
                ("mynic-receive", include_str!("../../../examples/driver/receive.toml")),
                ("mynic-tcp", include_str!("../../../examples/driver/tcp.toml")),
            ]),
        }
    })
}
