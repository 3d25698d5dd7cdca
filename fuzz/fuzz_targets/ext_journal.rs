#![no_main]

haul_fuzz::target!(ExtJournal);
