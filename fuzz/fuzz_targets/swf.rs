//! Logs in the Standard Workload Format: any bytes, in pieces of any size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_sched::swf::{Cleaning, Conformity, MAX_NAMED_LINES, SwfReader, SwfRecord};

fuzz_target!(|input: (bool, u8, Vec<u8>)| {
    let (strict, piece, bytes) = input;
    let conformity = if strict { Conformity::Strict } else { Conformity::Lenient };
    let mut reader = SwfReader::new(conformity);
    let mut records: Vec<SwfRecord> = Vec::new();
    for piece in bytes.chunks(usize::from(piece).max(1)) {
        reader.push(piece, &mut |record| records.push(record));
    }
    let contents = reader.finish(&mut |record| records.push(record));
    assert_eq!(contents.records, records.len() as u64);
    assert!(contents.damaged.len() <= MAX_NAMED_LINES);
    let mut cleaning = Cleaning::default();
    for record in &records {
        // A record that was read is written so that it reads the same again.
        assert_eq!(SwfRecord::parse(record.to_string().as_bytes()), Ok(*record));
        cleaning.add(record);
    }
    let cleaned = cleaning.for_machine(1 << 20);
    let whole = cleaned.jobs.len() as u64 + cleaned.drops.total();
    assert_eq!(whole, records.len() as u64);
    assert!(cleaned.jobs.iter().all(|job| job.run_s > 0 && job.run_s <= job.estimate_s));
});
