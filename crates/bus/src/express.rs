//! PCI Express.
