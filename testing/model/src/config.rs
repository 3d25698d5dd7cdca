//! What is simulated: plain data.

/// A cluster, its storage, a tree, and a run. Times are in seconds, sizes in bytes, rates per second; a rate of 0 has
/// no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Processes of the job.
    pub ranks: u64,
    /// Ranks on one node; the last node may have fewer.
    pub ranks_per_node: u64,
    /// Processors of a node. All ranks on it share them.
    pub cores_per_node: u64,
    /// Threads of a rank that copy. 0: the processors of the node divided by the ranks on it, at least one.
    pub threads: u64,
    /// Ranks that are slower than the others, and how many times.
    pub slow: Vec<(u64, f64)>,

    /// Processor time for a regular file, without its bytes.
    pub cpu_per_file: f64,
    /// Processor time for a directory.
    pub cpu_per_directory: f64,
    /// Processor time for a byte that is copied.
    pub cpu_per_byte: f64,
    /// Part of a processor that the communication thread of each rank takes all the time.
    pub communication_share: f64,
    /// Time until the job has started, and once more for each rank.
    pub start: f64,
    /// See [`Config::start`].
    pub start_per_rank: f64,

    /// Time of a message between two nodes.
    pub network_latency: f64,
    /// Time of a message within a node.
    pub local_latency: f64,
    /// Bytes per second of messages between two nodes.
    pub network_bandwidth: f64,
    /// Time that a communication thread takes to send or to receive a message.
    pub message_cost: f64,
    /// The longest rest of a communication thread between two looks for messages: one that comes waits for a part of it.
    pub poll: f64,
    /// How long a rank that has nothing to share keeps a request for work before it says no.
    pub hold: f64,
    /// The same for a rank of which no thread has work. 0: as [`Config::hold`].
    pub idle_hold: f64,
    /// How long a rank that has asked all others in vain waits before it asks again: the first time, and at most. Each time
    /// is twice as long as the one before.
    pub pause: f64,
    /// See [`Config::pause`].
    pub longest_pause: f64,

    /// Metadata servers. A directory and the files in it belong to one of them.
    pub metadata_servers: u64,
    /// Operations per second of each of them.
    pub metadata_rate: f64,
    /// What an operation takes beside the time on the server: the way there and back.
    pub metadata_latency: f64,
    /// Operations for a regular file, at its source and at its destination together.
    pub operations_per_file: f64,
    /// Operations to make and enter a directory.
    pub operations_per_directory: f64,
    /// Operations to set the attributes of a directory that is full.
    pub operations_per_finish: f64,
    /// Names that one request of a directory brings.
    pub names_per_request: u64,

    /// Bytes per second that all clients together can read.
    pub read_bandwidth: f64,
    /// Bytes per second that all clients together can write.
    pub write_bandwidth: f64,
    /// Bytes per second that one node can read, and as many that it can write.
    pub client_bandwidth: f64,
    /// What a request for data takes beside the transfer. A file that is not empty has two: read and write.
    pub data_latency: f64,
    /// Time until another node sees a new directory or file.
    pub visibility: f64,

    /// Regular files, without the large ones.
    pub files: u64,
    /// Regular files in one directory.
    pub files_per_directory: u64,
    /// Levels of directories below the first; 0 puts all files into one.
    pub depth: u64,
    /// How unequal neighbouring subtrees are: 0 equal, towards 1 one of two has nearly everything.
    pub skew: f64,
    /// Mean size of the regular files.
    pub mean_size: f64,
    /// Sigma of the lognormal distribution of their sizes; 0 gives all files the mean size.
    pub sigma: f64,
    /// Sizes of the regular files, each as frequent as the others. If there are any, they count instead of the distribution.
    pub sizes: Vec<u64>,
    /// Large files, spread over the tree.
    pub large_files: u64,
    /// Size of each of them.
    pub large_size: u64,
    /// Part of the regular files that have several names.
    pub links: f64,
    /// Part of the regular files that cannot be copied; each sends a message to rank 0.
    pub errors: f64,
    /// Bytes of a name.
    pub name_bytes: u64,

    /// Bytes of a chunk. Files of at least two chunks are shared between ranks.
    pub chunk: u64,
    /// How often each rank tells rank 0 how far it is; 0: never.
    pub progress_interval: f64,
    /// Files of one directory that are simulated as one step. 0: as many as keep the simulation quick.
    pub batch: u64,
    /// What chance begins with.
    pub seed: u64,
    /// The simulation fails after so many events.
    pub most_events: u64,
}

impl Default for Config {
    /// One rank with one thread on one processor, storage without limits, 100,000 files of 4 KiB.
    fn default() -> Config {
        Config {
            ranks: 1,
            ranks_per_node: 1,
            cores_per_node: 1,
            threads: 1,
            slow: Vec::new(),
            cpu_per_file: 40e-6,
            cpu_per_directory: 60e-6,
            cpu_per_byte: 0.3e-9,
            communication_share: 0.0,
            start: 0.0,
            start_per_rank: 0.0,
            network_latency: 5e-6,
            local_latency: 1e-6,
            network_bandwidth: 10e9,
            message_cost: 2e-6,
            poll: 500e-6,
            hold: 0.020,
            idle_hold: 0.001,
            pause: 0.001,
            longest_pause: 0.100,
            metadata_servers: 1,
            metadata_rate: 0.0,
            metadata_latency: 0.0,
            operations_per_file: 5.0,
            operations_per_directory: 6.0,
            operations_per_finish: 2.0,
            names_per_request: 1000,
            read_bandwidth: 0.0,
            write_bandwidth: 0.0,
            client_bandwidth: 0.0,
            data_latency: 0.0,
            visibility: 0.0,
            files: 100_000,
            files_per_directory: 100,
            depth: 2,
            skew: 0.5,
            mean_size: 4096.0,
            sigma: 0.0,
            sizes: Vec::new(),
            large_files: 0,
            large_size: 4 << 30,
            links: 0.0,
            errors: 0.0,
            name_bytes: 24,
            chunk: 64 << 20,
            progress_interval: 0.25,
            batch: 0,
            seed: 1,
            most_events: 2_000_000_000,
        }
    }
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
