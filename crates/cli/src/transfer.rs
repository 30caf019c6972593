//! `doorbell transfer`: what one DMA transfer becomes on the bus.

use crate::args::{Format, Transfer};
use crate::output::print;
use crate::{DONE, Error};
use doorbell_bus::pcie::{LinkDirection, Operation};
use doorbell_lab::Profile;
use doorbell_lab::key::{Key, Value};
use serde::Serialize;

const BYTES: Key = Key::steps("--bytes", "B", (1.0, 16_777_216.0, 1.0), "length of the transfer");

/// One transaction, as programs read it.
#[derive(Serialize)]
struct Line {
    address: String,
    command: &'static str,
    bytes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    wire_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toward: Option<&'static str>,
}

pub(crate) fn transfer(args: &Transfer) -> Result<u8, Error> {
    let mut profile = Profile::load(&args.profile)?;
    for set in &args.sets {
        profile.values.set(set)?;
    }
    let bytes = match BYTES.parse(&args.bytes).map_err(Error::input)? {
        Value::Number(n) => n as u32,
        Value::Word(_) | Value::Text(_) => return Err(Error::input("--bytes: not a number")),
    };
    let at = address(&args.at).ok_or_else(|| {
        Error::input(format!("--at {}: allowed are 64-bit addresses, such as 0x100001e02", args.at))
    })?;
    if at.checked_add(u64::from(bytes)).is_none() {
        let what = format!("{bytes} bytes from there end beyond the last 64-bit address");
        return Err(Error::input(format!(
            "--at {}: {what}; allowed is up to {:#x}",
            args.at,
            u64::MAX - u64::from(bytes)
        )));
    }
    let what = if args.read { Operation::Read } else { Operation::Write };
    let lines = (profile.rig.transfer)(&profile.values, what, at, bytes)
        .map_err(Error::input)?
        .map(|t| Line {
            address: format!("{:#x}", t.addr),
            command: t.command,
            bytes: t.bytes,
            wire_bytes: t.packet.map(|p| p.wire_bytes),
            toward: t.packet.map(|p| match p.toward {
                LinkDirection::Upstream => "host",
                LinkDirection::Downstream => "device",
            }),
        });
    print(&match args.format {
        Format::Table => {
            lines.map(|l| format!("{} {} {}\n", l.address, l.command, l.bytes)).collect()
        }
        Format::Json => {
            let all: Vec<Line> = lines.collect();
            serde_json::to_string_pretty(&all)
                .unwrap_or_else(|e| unreachable!("plain lines serialise: {e}"))
                + "\n"
        }
    })?;
    Ok(DONE)
}

fn address(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
