#![no_main]

haul_fuzz::target!(Vdi);
