//! What the processes of a job send each other beside what the library has to say.

/// One message between two processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Talk {
    /// From one run to another.
    Run(Vec<u8>),
    /// The sender has nothing to do.
    Want,
    /// There is nothing to be had here now.
    No,
    /// Work, for a rank that requested some.
    Work(Vec<u8>),
    /// Text for standard output (true) or standard error of the job, whole lines.
    Text(bool, Vec<u8>),
    /// So many more bytes and entries are done.
    Progress(u64, u64),
    /// The job is to stop.
    Cancel,
    /// Everything is copied.
    End,
    /// What the sender has done, and how it ended.
    Account(Vec<u8>),
    /// The exit status of the job.
    Status(u8),
    /// Somebody asks how far the job is: to rank 0, and from it to all others.
    Ask,
    /// How far the sender is.
    Standing(Vec<u8>),
    /// The name of what the sender could not copy.
    Failed(Vec<u8>),
    /// The sender wants a part of a source.
    Fetch(Vec<u8>),
    /// The answer to the request of this number: the bytes, or none if whoever asked is to read the source itself.
    Part(u64, Vec<u8>),
    /// All ranks have copied what they copy: parts of sources are sent to nobody any more.
    Stop,
    /// The sender sends none.
    Stopped,
}

impl Talk {
    /// As bytes.
    pub fn encode(self) -> Vec<u8> {
        let (kind, mut payload) = match self {
            Talk::Run(bytes) => (0, bytes),
            Talk::Want => (1, Vec::new()),
            Talk::No => (2, Vec::new()),
            Talk::Work(bytes) => (3, bytes),
            Talk::Text(true, text) => (4, text),
            Talk::Text(false, text) => (5, text),
            Talk::Progress(bytes, entries) => (6, [bytes.to_le_bytes(), entries.to_le_bytes()].concat()),
            Talk::Cancel => (7, Vec::new()),
            Talk::End => (8, Vec::new()),
            Talk::Account(bytes) => (9, bytes),
            Talk::Status(status) => (10, vec![status]),
            Talk::Ask => (11, Vec::new()),
            Talk::Standing(bytes) => (12, bytes),
            Talk::Failed(name) => (13, name),
            Talk::Fetch(request) => (14, request),
            Talk::Part(number, mut bytes) => {
                bytes.extend(number.to_le_bytes());
                (15, bytes)
            }
            Talk::Stop => (16, Vec::new()),
            Talk::Stopped => (17, Vec::new()),
        };
        // At the end, where it costs no copy.
        payload.push(kind);
        payload
    }

    /// Whether these bytes are about parts of sources.
    pub fn is_of_sources(bytes: &[u8]) -> bool {
        matches!(bytes.last(), Some(14 | 15))
    }

    /// What the bytes say; `None` if that is nothing.
    pub fn decode(mut bytes: Vec<u8>) -> Option<Talk> {
        let kind = bytes.pop()?;
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(match kind {
            0 => Talk::Run(bytes),
            1 => Talk::Want,
            2 => Talk::No,
            3 => Talk::Work(bytes),
            4 => Talk::Text(true, bytes),
            5 => Talk::Text(false, bytes),
            6 => Talk::Progress(number(0)?, number(8)?),
            7 => Talk::Cancel,
            8 => Talk::End,
            9 => Talk::Account(bytes),
            10 => Talk::Status(*bytes.first()?),
            11 => Talk::Ask,
            12 => Talk::Standing(bytes),
            13 => Talk::Failed(bytes),
            14 => Talk::Fetch(bytes),
            15 => {
                let at = bytes.len().checked_sub(8)?;
                let number = number(at)?;
                bytes.truncate(at);
                Talk::Part(number, bytes)
            }
            16 => Talk::Stop,
            17 => Talk::Stopped,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_understood_as_it_was_meant() {
        for talk in [
            Talk::Run(vec![1, 2]),
            Talk::Want,
            Talk::No,
            Talk::Work(Vec::new()),
            Talk::Text(true, b"a\n".to_vec()),
            Talk::Text(false, b"b\n".to_vec()),
            Talk::Progress(1 << 40, 7),
            Talk::Cancel,
            Talk::End,
            Talk::Account(b"{}".to_vec()),
            Talk::Status(130),
            Talk::Ask,
            Talk::Standing(b"{}".to_vec()),
            Talk::Failed(b"a/b".to_vec()),
            Talk::Fetch(b"{}".to_vec()),
            Talk::Part(7, Vec::new()),
            Talk::Part(u64::MAX, vec![1, 2, 3]),
            Talk::Stop,
            Talk::Stopped,
        ] {
            let of_sources = matches!(talk, Talk::Fetch(_) | Talk::Part(..));
            assert_eq!(Talk::is_of_sources(&talk.clone().encode()), of_sources);
            assert_eq!(Talk::decode(talk.clone().encode()), Some(talk));
        }
        assert_eq!(Talk::decode(Vec::new()), None);
        assert_eq!(Talk::decode(vec![99]), None);
        assert_eq!(Talk::decode(vec![1, 6]), None);
        assert_eq!(Talk::decode(vec![1, 15]), None);
    }
}
