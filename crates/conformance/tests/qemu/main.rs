//! Drivers on QEMU's models of the devices, one program. Needs QEMU and its qtest accelerator.

mod axienet;
mod e1000;
mod ibmveth;
mod qtest_host;
