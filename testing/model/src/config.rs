//! What is simulated: plain data, and the names of the parameters.

/// A parameter.
#[derive(Debug)]
pub(crate) struct Key {
    /// The field of [`Config`]. Users write hyphens.
    field: &'static str,
    /// What it says, for people.
    pub help: &'static str,
    /// What it sets.
    pub value: Value,
}

impl Key {
    /// Its name on the command line and in a file.
    pub(crate) fn name(&self) -> String {
        self.field.replace('_', "-")
    }
}

/// A field that a parameter sets.
#[derive(Debug)]
pub(crate) enum Value {
    Count(fn(&mut Config) -> &mut Count),
    Seconds(fn(&mut Config) -> &mut Seconds),
    Rate(fn(&mut Config) -> &mut Rate),
    Slow,
    Sizes,
}

type Count = u64;
type Seconds = f64;
type Rate = f64;

/// Each parameter with its documentation, its default value, and what it says to users.
macro_rules! parameters {
    ($($(#[$doc:meta])* $field:ident: $kind:ident = $default:expr, $help:literal;)*) => {
        /// A cluster, its storage, a tree, and a run. Times are in seconds, sizes in bytes, rates per second; a rate of 0
        /// has no limit.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Config {
            $($(#[$doc])* pub $field: $kind,)*
            /// Ranks that are slower than the others, and how many times.
            pub slow: Vec<(u64, f64)>,
            /// Sizes of the regular files, each as frequent as the others. If there are any, they count instead of the
            /// distribution.
            pub sizes: Vec<u64>,
        }

        impl Default for Config {
            /// One rank with one thread on one processor, storage without limits, 100,000 files of 4 KiB.
            fn default() -> Config {
                Config { $($field: $default,)* slow: Vec::new(), sizes: Vec::new() }
            }
        }

        /// All parameters.
        pub(crate) const KEYS: &[Key] = &[
            $(Key { field: stringify!($field), help: $help, value: Value::$kind(|config| &mut config.$field) },)*
            Key { field: "slow", help: "slower ranks, RANK:FACTOR,...", value: Value::Slow },
            Key { field: "sizes", help: "sizes of files instead of a distribution, SIZE,...", value: Value::Sizes },
        ];
    };
}

parameters! {
    /// Processes of the job.
    ranks: Count = 1, "processes of the job";
    /// Ranks on one node; the last node may have fewer.
    ranks_per_node: Count = 1, "ranks on one node";
    /// Processors of a node. All ranks on it share them.
    cores_per_node: Count = 1, "processors of a node";
    /// Threads of a rank that copy. 0: the processors of the node divided by the ranks on it, at least one.
    threads: Count = 1, "threads of a rank; 0: processors of the node by its ranks";

    /// Processor time for a regular file, without its bytes.
    cpu_per_file: Seconds = 40e-6, "CPU time for a file without its bytes";
    /// Processor time for a directory.
    cpu_per_directory: Seconds = 60e-6, "CPU time for a directory";
    /// Processor time for a byte that is copied.
    cpu_per_byte: Seconds = 0.3e-9, "CPU time for a byte";
    /// Part of a processor that the communication thread of each rank takes all the time.
    communication_share: Rate = 0.0, "part of a processor that each communication thread takes";
    /// Time until the job has started, and once more for each rank.
    start: Seconds = 0.0, "time until the job has started";
    /// See [`Config::start`].
    start_per_rank: Seconds = 0.0, "and once more for each rank";

    /// Time of a message between two nodes.
    network_latency: Seconds = 5e-6, "time of a message between nodes";
    /// Time of a message within a node.
    local_latency: Seconds = 1e-6, "time of a message within a node";
    /// Bytes per second of messages between two nodes.
    network_bandwidth: Rate = 10e9, "bytes/s of messages between nodes";
    /// Time that a communication thread takes to send or to receive a message.
    message_cost: Seconds = 2e-6, "time to send or receive a message";
    /// The longest rest of a communication thread between two looks for messages: one that comes waits for a part of it.
    poll: Seconds = 500e-6, "longest rest of a communication thread between two looks for messages";
    /// How long a rank that has nothing to share keeps a request for work before it says no.
    hold: Seconds = 0.020, "how long a request for work waits before the answer is no";
    /// The same for a rank of which no thread has work. 0: as [`Config::hold`].
    idle_hold: Seconds = 0.001, "the same where no thread has work; 0: as hold";
    /// How long a rank that has asked all others in vain waits before it asks again: the first time, and at most. Each time
    /// is twice as long as the one before.
    pause: Seconds = 0.001, "how long a rank waits that has asked all others in vain, the first time";
    /// See [`Config::pause`].
    longest_pause: Seconds = 0.100, "and at most";

    /// Metadata servers. A directory and the files in it belong to one of them.
    metadata_servers: Count = 1, "metadata servers";
    /// Operations per second of each of them.
    metadata_rate: Rate = 0.0, "operations/s of each; 0: no limit";
    /// What an operation takes beside the time on the server: the way there and back.
    metadata_latency: Seconds = 0.0, "way to the server and back";
    /// Operations for a regular file, at its source and at its destination together.
    operations_per_file: Rate = 5.0, "metadata operations for a file, source and destination together";
    /// Operations to make and enter a directory.
    operations_per_directory: Rate = 6.0, "metadata operations to make and enter a directory";
    /// Operations to set the attributes of a directory that is full.
    operations_per_finish: Rate = 2.0, "metadata operations to finish a directory";
    /// Names that one request of a directory brings.
    names_per_request: Count = 1000, "names that one request of a directory brings";

    /// Bytes per second that all clients together can read.
    read_bandwidth: Rate = 0.0, "bytes/s that all clients can read; 0: no limit";
    /// Bytes per second that all clients together can write.
    write_bandwidth: Rate = 0.0, "bytes/s that all clients can write; 0: no limit";
    /// Bytes per second that one node can read, and as many that it can write.
    client_bandwidth: Rate = 0.0, "bytes/s that one node can read, and write; 0: no limit";
    /// What a request for data takes beside the transfer. A file that is not empty has two: read and write.
    data_latency: Seconds = 0.0, "what a request for data takes beside the transfer";
    /// Time until another node sees a new directory or file.
    visibility: Seconds = 0.0, "time until another node sees a new directory";

    /// Regular files, without the large ones.
    files: Count = 100_000, "files without the large ones";
    /// Regular files in one directory.
    files_per_directory: Count = 100, "files in a directory";
    /// Levels of directories below the first; 0 puts all files into one.
    depth: Count = 2, "levels of directories; 0: one directory";
    /// How unequal neighbouring subtrees are: 0 equal, towards 1 one of two has nearly everything.
    skew: Rate = 0.5, "how unequal neighbouring subtrees are, 0 to 0.999";
    /// Mean size of the regular files.
    mean_size: Rate = 4096.0, "mean size of the files";
    /// Sigma of the lognormal distribution of their sizes; 0 gives all files the mean size.
    sigma: Rate = 0.0, "sigma of the lognormal distribution of sizes; 0: all equal";
    /// Large files, spread over the tree.
    large_files: Count = 0, "large files";
    /// Size of each of them.
    large_size: Count = 4 << 30, "size of each large file";
    /// Part of the regular files that have several names.
    links: Rate = 0.0, "part of the files that have several names";
    /// Part of the regular files that cannot be copied; each sends a message to rank 0.
    errors: Rate = 0.0, "part of the files that cannot be copied";
    /// Bytes of a name.
    name_bytes: Count = 24, "bytes of a name";

    /// Bytes of a chunk. Files of at least two chunks are shared between ranks.
    chunk: Count = 64 << 20, "bytes of a chunk of a large file";
    /// How often each rank tells rank 0 how far it is; 0: never.
    progress_interval: Seconds = 0.25, "how often each rank tells rank 0 how far it is; 0: never";
    /// Files of one directory that are simulated as one step. 0: as many as keep the simulation quick.
    batch: Count = 0, "files simulated as one step; 0: found";
    /// What chance begins with.
    seed: Count = 1, "what chance begins with";
    /// The simulation fails after so many events.
    most_events: Count = 2_000_000_000, "give up after so many events";
}

/// Regular files of a simulation are done in about so many steps, unless [`Config::batch`] says otherwise.
const STEPS: u64 = 4_000_000;

/// But each thread has so many steps at least, so that the end of the job is not one step long.
const STEPS_OF_A_THREAD: u64 = 200;

impl Config {
    /// Nodes of the cluster.
    pub(crate) fn nodes(&self) -> u64 {
        self.ranks.div_ceil(self.ranks_per_node)
    }

    /// Threads of each rank that copy.
    pub(crate) fn threads_of_a_rank(&self) -> u64 {
        match self.threads {
            0 => (self.cores_per_node / self.ranks_per_node.min(self.ranks)).max(1),
            threads => threads,
        }
    }

    /// Files of one directory that are simulated as one step, at most.
    pub(crate) fn files_of_a_step(&self) -> u64 {
        let threads = self.ranks * self.threads_of_a_rank();
        match self.batch {
            0 => (self.files / STEPS).min(self.files / (threads * STEPS_OF_A_THREAD)).max(1),
            batch => batch,
        }
    }

    /// Whether this can be simulated.
    ///
    /// # Errors
    /// The first value that cannot be, and what it has to be.
    pub fn check(&self) -> Result<(), String> {
        let counts = [
            ("ranks", self.ranks, 1, 1 << 20),
            ("ranks-per-node", self.ranks_per_node, 1, 1 << 20),
            ("cores-per-node", self.cores_per_node, 1, 1 << 16),
            ("threads", self.threads, 0, 1 << 12),
            ("metadata-servers", self.metadata_servers, 1, 1 << 20),
            ("names-per-request", self.names_per_request, 1, 1 << 30),
            ("files", self.files, 0, 1 << 50),
            ("files-per-directory", self.files_per_directory, 1, 1 << 50),
            ("depth", self.depth, 0, 1000),
            ("large-files", self.large_files, 0, 1 << 40),
            ("large-size", self.large_size, 0, 1 << 60),
            ("chunk", self.chunk, 4096, 1 << 60),
        ];
        for (name, value, least, most) in counts {
            if !(least..=most).contains(&value) {
                return Err(format!("{name} is {value}, it must be from {least} to {most}"));
            }
        }
        let shares = [
            ("skew", self.skew, 0.999),
            ("links", self.links, 1.0),
            ("errors", self.errors, 1.0),
            ("communication-share", self.communication_share, 64.0),
            ("sigma", self.sigma, 10.0),
        ];
        for (name, value, most) in shares {
            if !(0.0..=most).contains(&value) {
                return Err(format!("{name} is {value}, it must be from 0 to {most}"));
            }
        }
        let wrong = |(rank, factor): &&(u64, f64)| *rank >= self.ranks || !factor.is_finite() || *factor < 1.0;
        if let Some((rank, factor)) = self.slow.iter().find(wrong) {
            return Err(format!("slow: rank {rank} with factor {factor}; ranks count from 0, factors are 1 or more"));
        }
        if self.ranks > 1 && self.pause < 1e-6 {
            return Err(
                "pause is too short, 1us is the least: ranks without work would ask each other for ever".to_owned()
            );
        }
        Ok(())
    }
}
