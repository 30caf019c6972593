//! `doorbell transfer`: the bus transactions of one DMA transfer.

use crate::args::Transfer;
use doorbell_bus::pcie::{LinkDirection, Operation};
use doorbell_console::render::{self, Format};
use doorbell_console::{DONE, Error, input, output::print};
use doorbell_spec::key::{Key, Value};
use doorbell_systems::Registry;
use schemars::JsonSchema;
use serde::Serialize;

const BYTES: Key = Key::steps("--bytes", "B", (1.0, 16_777_216.0, 1.0), "length of the transfer");

/// The transactions of a transfer, for programs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Transferred<'a> {
    profile: &'a str,
    set: &'a [String],
    /// `read` or `write`.
    operation: &'static str,
    #[schemars(regex(pattern = "^0x[0-9a-f]+$"))]
    address: String,
    bytes: u32,
    transactions: Vec<Transaction>,
}

#[derive(Serialize, JsonSchema)]
struct Transaction {
    #[schemars(regex(pattern = "^0x[0-9a-f]+$"))]
    address: String,
    command: &'static str,
    bytes: u32,
    /// PCIe only.
    #[serde(skip_serializing_if = "Option::is_none")]
    wire_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toward: Option<&'static str>,
}

pub(crate) fn transfer(registry: &'static Registry, args: &Transfer) -> Result<u8, Error> {
    let mut profile = registry.profile(&args.profile)?;
    for set in &args.sets {
        profile.values.set(set)?;
    }
    let Value::Number(bytes) = BYTES.parse(&args.bytes).map_err(|e| input!("{e}"))? else {
        return Err(input!("--bytes: not a number"));
    };
    let (text, bytes) = (&args.at, bytes as u32);
    let at = address(text)
        .ok_or_else(|| input!("--at {text}: allowed are 64-bit addresses, such as 0x100001e02"))?;
    if at.checked_add(u64::from(bytes)).is_none() {
        let last = u64::MAX - u64::from(bytes);
        return Err(input!(
            "--at {text}: {bytes} bytes from there end beyond the last 64-bit address; allowed is \
             up to {last:#x}"
        ));
    }
    let operation = if args.read { Operation::Read } else { Operation::Write };
    let transactions = (profile.system.transfer)(&profile.values, operation, at, bytes)
        .map_err(|e| input!("{e}"))?
        .map(|t| Transaction {
            address: format!("{:#x}", t.addr),
            command: t.command,
            bytes: t.bytes,
            wire_bytes: t.packet.map(|p| p.wire_bytes),
            toward: t.packet.map(|p| match p.toward {
                LinkDirection::Upstream => "host",
                LinkDirection::Downstream => "device",
            }),
        });
    print(&match args.output.format {
        Format::Json => {
            let data = Transferred {
                profile: &profile.name,
                set: &args.sets,
                operation: if args.read { "read" } else { "write" },
                address: format!("{at:#x}"),
                bytes,
                transactions: transactions.collect(),
            };
            render::json("transfer", &data)
        }
        format @ (Format::Csv | Format::Ndjson) => {
            render::records(format, &render::flat(transactions))
        }
        _ => transactions.map(|t| format!("{} {} {}\n", t.address, t.command, t.bytes)).collect(),
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
