//! Pipes and other files without offsets.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::thread;

use haul_io::engine::EngineName;
use haul_io::engine::{End, Job, Moved, Needs, Refusal, Zeros};
use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_testbed::{create_painted, painted, temp_dir};

use crate::harness::{copy_in_jobs, dest, engine, engine_on, job, moving, run, source, stream};
use crate::places::Places;

const SIZE: usize = 3 * (1 << 20) + 333;

fn streaming() -> impl Iterator<Item = EngineName> {
    moving().filter(|name| name.caps().streams)
}

/// The reading end of a pipe that another thread feeds in odd pieces.
fn fed_pipe(bytes: Vec<u8>) -> std::io::PipeReader {
    let (reader, mut writer) = std::io::pipe().unwrap();
    thread::spawn(move || {
        for (number, piece) in bytes.chunks(10_007).enumerate() {
            if writer.write_all(&piece[..piece.len() / (number % 3 + 1)]).is_err()
                || writer.write_all(&piece[piece.len() / (number % 3 + 1)..]).is_err()
            {
                return; // the reader has gone away
            }
        }
    });
    reader
}

#[test]
fn a_pipe_is_copied_into_a_file() {
    for place in &Places::new() {
        let dir = &place.dir;
        for name in streaming() {
            let b = dir.join("b");
            let source = stream(fed_pipe(painted(SIZE)));
            copy_in_jobs(&mut *engine(name), &source, &dest(&b), 1 << 20, Zeros::Write);
            assert!(fs::read(&b).unwrap() == painted(SIZE), "{name} on {}", place.name);
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn a_file_is_copied_into_a_pipe() {
    let dir = temp_dir();
    let a = dir.path().join("a");
    create_painted(&a, SIZE as u64);
    for name in streaming() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let far_end = thread::spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let dest = stream(writer);
        copy_in_jobs(
            &mut *engine(name),
            &source(&a),
            &dest,
            1 << 20,
            Zeros::Skip(4096).only_if(engine(name).caps().sees_bytes),
        );
        drop(dest);
        assert!(far_end.join().unwrap() == painted(SIZE), "{name}");
    }
}

trait OnlyIf {
    fn only_if(self, condition: bool) -> Self;
}

impl OnlyIf for Zeros {
    fn only_if(self, condition: bool) -> Zeros {
        if condition { self } else { Zeros::Write }
    }
}

#[test]
fn zeros_are_written_into_a_pipe_even_where_holes_are_wanted() {
    let dir = temp_dir();
    let a = dir.path().join("a");
    fs::write(&a, vec![0; 20_000]).unwrap();
    for name in streaming().filter(|name| name.caps().sees_bytes) {
        for zeros in [Zeros::Skip(4096), Zeros::Punch(4096)] {
            let (mut reader, writer) = std::io::pipe().unwrap();
            let dest = stream(writer);
            let outcome = run(&mut *engine(name), Job { zeros, ..job(&source(&a), &dest, 0, 20_000) });
            assert_eq!(outcome.moved, Moved { written: 20_000, ..Moved::default() }, "{name}");
            drop(dest);
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, vec![0; 20_000], "{name}");
        }
    }
}

#[test]
fn zeros_from_a_pipe_become_holes() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let mut bytes = vec![0; SIZE];
    bytes[70_000..80_000].copy_from_slice(&painted(10_000));
    for name in streaming().filter(|name| name.caps().sees_bytes) {
        let b = dir.join("b");
        let source = stream(fed_pipe(bytes.clone()));
        let done = copy_in_jobs(&mut *engine(name), &source, &dest(&b), 1 << 20, Zeros::Skip(4096));
        assert!(fs::read(&b).unwrap() == bytes, "{name}");
        assert_eq!(done.moved.written, 12_288, "{name}: the three blocks that the data touches");
        fs::remove_file(&b).unwrap();
    }
}

#[test]
fn engines_that_need_offsets_refuse_streams_and_lose_nothing_of_them() {
    for place in &Places::new() {
        for name in moving().filter(|name| !name.caps().streams) {
            let source = stream(fed_pipe(painted(SIZE)));
            let b = place.dir.join("b");
            let done = copy_in_jobs(&mut *engine(name), &source, &dest(&b), 1 << 20, Zeros::Write);
            let context = format!("{name} on {}: {done:?}", place.name);
            match done.refused {
                Some(refused) => {
                    let can_do_one_side = name.caps().needs == Needs::Direct;
                    let reason = if can_do_one_side { refused.1 } else { Refusal::NotSeekable };
                    assert_eq!(refused, (0, reason), "{context}");
                }
                // The file beside the stream is what it needs.
                None => assert!(name.caps().needs == Needs::Direct && place.direct, "{context}"),
            }
            assert!(fs::read(&b).unwrap() == painted(SIZE), "{context}");
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn direct_takes_a_pipe_into_a_file() {
    for place in Places::new().where_there_is("direct I/O", |place| place.direct) {
        let b = place.dir.join("b");
        let source = stream(fed_pipe(painted(SIZE)));
        let done = copy_in_jobs(&mut *engine(EngineName::Direct), &source, &dest(&b), 1 << 20, Zeros::Write);
        assert_eq!(done.refused, None, "{}", place.name);
        assert!(fs::read(&b).unwrap() == painted(SIZE), "{}", place.name);
    }
}

/// splice works from the source into the pipe, and then refuses to write.
#[derive(Debug)]
struct OneWay;

impl Kernel for OneWay {
    fn splice(&self, source: (Fd<'_>, Option<u64>), dest: (Fd<'_>, Option<u64>), len: usize) -> Result<usize, Errno> {
        if dest.1.is_some() { Err(Errno::INVAL) } else { Linux.splice(source, dest, len) }
    }
}

#[test]
fn bytes_in_the_pipe_are_not_lost_when_splice_turns_out_unsupported() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let b = dir.join("b");
    let source = stream(fed_pipe(painted(SIZE)));
    let done = copy_in_jobs(&mut *engine_on(OneWay, EngineName::Splice), &source, &dest(&b), 1 << 20, Zeros::Write);
    let (at, refusal) = done.refused.unwrap();
    assert_eq!(refusal, Refusal::Unsupported(Errno::INVAL));
    assert!(at > 0, "they were taken from the stream");
    assert!(fs::read(&b).unwrap() == painted(SIZE));
}

#[test]
fn an_empty_pipe_ends_at_once() {
    let dir = temp_dir();
    for name in streaming() {
        let source = stream(fed_pipe(Vec::new()));
        let outcome = run(&mut *engine(name), job(&source, &dest(dir.path().join("b")), 0, u64::MAX));
        assert_eq!((outcome.end, outcome.moved), (End::SourceEnd, Moved::default()), "{name}");
    }
}

#[test]
fn a_device_without_an_end_is_copied_as_far_as_the_job_goes() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    for name in streaming() {
        let source = stream(File::open("/dev/zero").unwrap());
        let b = dir.join("b");
        let mut engine = engine(name);
        let outcome = run(&mut *engine, job(&source, &dest(&b), 0, 300_001));
        assert_eq!((outcome.end, outcome.moved.total()), (End::Complete, 300_001), "{name}");
        assert!(fs::read(&b).unwrap() == vec![0; 300_001], "{name}");
        fs::remove_file(&b).unwrap();
    }
}
