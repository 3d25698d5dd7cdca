#![no_main]

haul_fuzz::target!(Exfat);
