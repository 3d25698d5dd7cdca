#![no_main]
//! The journal of `--resume`. The first byte says whether records get right numbers and checksums, so that what is in them is
//! reached; whatever is believed must be what would have been written.

use haul_copy::journal::{Fingerprint, RECORD, Record, read};

const COMMAND: Fingerprint = Fingerprint::from_bytes([7; 16]);

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if first & 1 == 1 {
        for (number, record) in (0..).zip(bytes.chunks_exact_mut(RECORD)) {
            let whole: [u8; RECORD] = (*record).try_into().expect("a whole record");
            let fixed = Record::fix_checksum(&whole, number, &COMMAND);
            record.copy_from_slice(&fixed);
        }
    }
    let mut written = Vec::new();
    let mut number = 0;
    let count = read(&mut &bytes[..], &COMMAND, &mut |record| {
        written.extend(record.encode(number, &COMMAND));
        number += 1;
        Ok(())
    });
    assert_eq!(count.expect("memory can be read"), number);
    assert_eq!(written, bytes[..written.len()]);
});
