#![no_main]

haul_fuzz::target!(Qcow2);
