//! `doorbell completions` and `doorbell man`, made from the description of the command line.

use crate::args::Args;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use doorbell_console::output::{Folder, print};
use doorbell_console::{DONE, Error};
use std::path::Path;

pub(crate) fn completions(shell: Shell) -> Result<u8, Error> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "doorbell", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(DONE)
}

pub(crate) fn pages(out: Option<&Path>) -> Result<u8, Error> {
    if let Some(dir) = out {
        Folder::open(dir)?.write(&[])?;
        clap_mangen::generate_to(Args::command(), dir).map_err(Error::at(dir.display()))?;
    } else {
        let mut text = Vec::new();
        Man::new(Args::command()).render(&mut text).map_err(Error::at("the page"))?;
        print(&String::from_utf8_lossy(&text))?;
    }
    Ok(DONE)
}
