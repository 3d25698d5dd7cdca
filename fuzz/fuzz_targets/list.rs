#![no_main]
//! Lists of what is to be copied. The first byte says whether they begin and end as they must, so that what is in them is
//! reached; whatever is believed must be what would have been written, and can be sorted and split.

use std::num::NonZero;

use haul_copy::list::{self, fix_checksum};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    let bytes = match first & 1 {
        1 => fix_checksum(&[b"haul\0mf2", bytes, &[0; 32]].concat()),
        _ => bytes.to_vec(),
    };
    let Ok(mut list) = list::load(&mut &bytes[..]) else { return };
    let mut written = Vec::new();
    list::save(&list, &mut written).expect("memory takes everything");
    assert_eq!(written, bytes);
    let shards = NonZero::new(u32::from(first >> 1) % 9 + 1).expect("it is not zero");
    let split = list::split(&list, shards);
    let entries: u64 = split.work().iter().map(|work| work.entries).sum();
    assert_eq!(entries, list.len() as u64);
    list::sort(&mut list);
    assert_eq!(list::split(&list, shards).digest(), split.digest());
});
