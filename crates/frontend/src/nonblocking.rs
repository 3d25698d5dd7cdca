//! Writes that wait for no reader, for what nobody has to see.

use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use haul_sys::Errno;
use haul_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
use haul_sys::rustix::fs::{FileType, Mode, OFlags, fstat, open};
use haul_sys::rustix::io::{self, retry_on_intr};
use haul_sys::rustix::process::{Resource, getrlimit};

/// Where fewer descriptors are allowed, the copy needs them all.
const DESCRIPTORS: u64 = 64;

/// One of the standard streams, which other processes may share.
///
/// O_NONBLOCK would hold for them, too. So a terminal or a pipe is opened again, and what is opened does not wait. Where that is
/// not possible, the stream is asked first whether it has room: the reader may still stop just then.
#[derive(Debug)]
pub(crate) struct NonBlocking<'s> {
    stream: BorrowedFd<'s>,
    reopened: Option<OwnedFd>,
}

impl<'s> NonBlocking<'s> {
    /// Opens it again, if that can be.
    pub(crate) fn new(stream: BorrowedFd<'s>) -> NonBlocking<'s> {
        let few = getrlimit(Resource::Nofile).current.is_some_and(|most| most < DESCRIPTORS);
        // A regular file would be written from its beginning on.
        let is_pipe = || fstat(stream).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        let reopened = (!few && (stream.is_terminal() || is_pipe())).then(|| {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            open(format!("/proc/self/fd/{}", stream.as_raw_fd()), flags, Mode::empty())
        });
        NonBlocking { stream, reopened: reopened.and_then(Result::ok) }
    }

    /// Writes as much of the text as there is room for now; how many bytes. None of them after an error, too.
    pub(crate) fn write(&self, text: &[u8]) -> usize {
        let stream = match &self.reopened {
            Some(reopened) => reopened.as_fd(),
            None if self.has_room(Duration::ZERO) => self.stream,
            None => return 0,
        };
        retry_on_intr(|| io::write(stream, text)).unwrap_or(0)
    }

    /// Writes all of the text, unless there is no room for it within this time.
    pub(crate) fn write_within(&self, time: Duration, text: &[u8]) {
        let end = Instant::now() + time;
        let mut rest = text;
        while !rest.is_empty() && self.has_room(end.saturating_duration_since(Instant::now())) {
            match self.write(rest) {
                0 => return,
                count => rest = &rest[count..],
            }
        }
    }

    fn has_room(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).unwrap_or_default();
            match poll(&mut [PollFd::from_borrowed_fd(self.stream, PollFlags::OUT)], Some(&left)) {
                Err(Errno::INTR) => {}
                ready => return ready.is_ok_and(|count| count > 0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
    use std::sync::mpsc::channel;
    use std::thread;

    use haul_sys::rustix::fs::{fcntl_getfl, fcntl_setfl};
    use haul_testbed::temp_dir;

    use super::*;

    /// Far longer than anything here takes that waits for nobody.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// A pipe with room for nothing.
    fn full_pipe() -> (PipeReader, PipeWriter) {
        let (reader, mut writer) = pipe().unwrap();
        let flags = fcntl_getfl(&writer).unwrap();
        fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
        while writer.write(&[b'.'; 4096]).is_ok() {}
        fcntl_setfl(&writer, flags).unwrap();
        (reader, writer)
    }

    /// Both ways to write: to what was opened again, and after a question.
    fn both(stream: BorrowedFd<'_>) -> [NonBlocking<'_>; 2] {
        let opened = NonBlocking::new(stream);
        assert!(opened.reopened.is_some());
        [opened, NonBlocking { stream, reopened: None }]
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for() {
        let (reader, writer) = full_pipe();
        let (say, heard) = channel();
        thread::spawn(move || {
            let written = both(writer.as_fd()).map(|stream| {
                stream.write_within(Duration::from_millis(1), b"line");
                stream.write(b"bar")
            });
            say.send(written).unwrap();
        });
        assert_eq!(heard.recv_timeout(DEADLINE), Ok([0; 2]));
        drop(reader);
    }

    #[test]
    fn a_pipe_that_is_read_gets_everything_and_stays_as_it_was() {
        let (mut reader, writer) = full_pipe();
        let flags = fcntl_getfl(&writer).unwrap();
        let mut buffer = vec![0; 1 << 20];
        assert!(reader.read(&mut buffer).unwrap() >= 4096);
        both(writer.as_fd()).iter().for_each(|stream| stream.write_within(DEADLINE, b"bar"));
        assert_eq!(fcntl_getfl(&writer).unwrap(), flags);
        drop(writer);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert!(rest.ends_with(b"barbar"));
    }

    #[test]
    fn a_text_for_which_there_is_room_by_and_by_comes_whole() {
        let (mut reader, writer) = full_pipe();
        let text = "0123456789".repeat(50_000);
        let read = thread::spawn(move || {
            let mut all = String::new();
            reader.read_to_string(&mut all).unwrap();
            all
        });
        NonBlocking::new(writer.as_fd()).write_within(DEADLINE, text.as_bytes());
        drop(writer);
        assert!(read.join().unwrap().ends_with(&text));
    }

    #[test]
    fn a_file_is_written_on_where_it_was() {
        let dir = temp_dir();
        let path = dir.path().join("log");
        let mut log = File::create(&path).unwrap();
        log.write_all(b"before ").unwrap();
        assert_eq!(NonBlocking::new(log.as_fd()).write(b"bar"), 3);
        assert_eq!(std::fs::read(path).unwrap(), b"before bar");
    }
}
