//! The names of the parameters, the same on the command line and in a file.

use toml::de::{DeTable, DeValue};

use crate::config::Config;
use crate::value;

/// A parameter.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it says, for people.
    pub help: &'static str,
    field: Field,
}

#[derive(Debug)]
enum Field {
    Count(fn(&mut Config) -> &mut u64),
    Seconds(fn(&mut Config) -> &mut f64),
    Rate(fn(&mut Config) -> &mut f64),
    Slow,
    Sizes,
}

macro_rules! keys {
    ($($name:literal $kind:ident $field:ident $help:literal)*) => {
        &[$(Key { name: $name, help: $help, field: Field::$kind(|config| &mut config.$field) }),*,
            Key { name: "slow", help: "slower ranks, RANK:FACTOR,...", field: Field::Slow },
            Key { name: "sizes", help: "sizes of files instead of a distribution, SIZE,...", field: Field::Sizes }]
    };
}

/// All of them.
pub(crate) const KEYS: &[Key] = keys! {
    "ranks" Count ranks "processes of the job"
    "ranks-per-node" Count ranks_per_node "ranks on one node"
    "cores-per-node" Count cores_per_node "processors of a node"
    "threads" Count threads "threads of a rank; 0: processors of the node by its ranks"
    "cpu-per-file" Seconds cpu_per_file "processor time for a file without its bytes"
    "cpu-per-directory" Seconds cpu_per_directory "processor time for a directory"
    "cpu-per-byte" Seconds cpu_per_byte "processor time for a byte"
    "communication-share" Rate communication_share "part of a processor that each communication thread takes"
    "start" Seconds start "time until the job has started"
    "start-per-rank" Seconds start_per_rank "and once more for each rank"
    "network-latency" Seconds network_latency "time of a message between nodes"
    "local-latency" Seconds local_latency "time of a message within a node"
    "network-bandwidth" Rate network_bandwidth "bytes/s of messages between nodes"
    "message-cost" Seconds message_cost "time to send or receive a message"
    "poll" Seconds poll "longest rest of a communication thread between two looks for messages"
    "hold" Seconds hold "how long a request for work waits before the answer is no"
    "idle-hold" Seconds idle_hold "the same where no thread has work; 0: as hold"
    "pause" Seconds pause "how long a rank waits that has asked all others in vain, the first time"
    "longest-pause" Seconds longest_pause "and at most"
    "metadata-servers" Count metadata_servers "metadata servers"
    "metadata-rate" Rate metadata_rate "operations/s of each; 0: no limit"
    "metadata-latency" Seconds metadata_latency "way to the server and back"
    "operations-per-file" Rate operations_per_file "metadata operations for a file, source and destination together"
    "operations-per-directory" Rate operations_per_directory "metadata operations to make and enter a directory"
    "operations-per-finish" Rate operations_per_finish "metadata operations to finish a directory"
    "names-per-request" Count names_per_request "names that one request of a directory brings"
    "read-bandwidth" Rate read_bandwidth "bytes/s that all clients can read; 0: no limit"
    "write-bandwidth" Rate write_bandwidth "bytes/s that all clients can write; 0: no limit"
    "client-bandwidth" Rate client_bandwidth "bytes/s that one node can read, and write; 0: no limit"
    "data-latency" Seconds data_latency "what a request for data takes beside the transfer"
    "visibility" Seconds visibility "time until another node sees a new directory"
    "files" Count files "files without the large ones"
    "files-per-directory" Count files_per_directory "files in a directory"
    "depth" Count depth "levels of directories; 0: one directory"
    "skew" Rate skew "how unequal neighbouring subtrees are, 0 to 0.999"
    "mean-size" Rate mean_size "mean size of the files"
    "sigma" Rate sigma "sigma of the lognormal distribution of sizes; 0: all equal"
    "large-files" Count large_files "large files"
    "large-size" Count large_size "size of each large file"
    "links" Rate links "part of the files that have several names"
    "errors" Rate errors "part of the files that cannot be copied"
    "name-bytes" Count name_bytes "bytes of a name"
    "chunk" Count chunk "bytes of a chunk of a large file"
    "progress-interval" Seconds progress_interval "how often each rank tells rank 0 how far it is; 0: never"
    "batch" Count batch "files simulated as one step; 0: found"
    "seed" Count seed "what chance begins with"
    "most-events" Count most_events "give up after so many events"
};

/// Sets the parameter `name` to what `text` says.
///
/// # Errors
/// There is no such parameter, or the text is no value for it.
pub(crate) fn set(config: &mut Config, name: &str, text: &str) -> Result<(), String> {
    let key = KEYS.iter().find(|key| key.name == name);
    let key = key.ok_or_else(|| format!("there is no parameter {name}; --help lists all"))?;
    let mistake = |why: String| format!("{name}: {why}");
    match key.field {
        Field::Count(field) => *field(config) = value::count(text).map_err(mistake)?,
        Field::Seconds(field) => *field(config) = value::seconds(text).map_err(mistake)?,
        Field::Rate(field) => *field(config) = value::rate(text).map_err(mistake)?,
        Field::Slow => config.slow = value::factors(text).map_err(mistake)?,
        Field::Sizes => config.sizes = value::counts(text).map_err(mistake)?,
    }
    Ok(())
}

/// Sets what a TOML file says: the same names, with numbers, strings, or lists of them.
///
/// # Errors
/// The text is no TOML, or as `set`.
pub fn read_toml(config: &mut Config, text: &str) -> Result<(), String> {
    let table = DeTable::parse(text).map_err(|error| error.to_string().trim().to_owned())?;
    for (name, value) in table.get_ref() {
        let words =
            words(value.get_ref()).ok_or_else(|| format!("{}: not a number, a string or a list", name.get_ref()))?;
        set(config, name.get_ref(), &words)?;
    }
    Ok(())
}

fn words(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string().replace('_', "")),
        DeValue::Float(number) => Some(number.to_string().replace('_', "")),
        DeValue::Array(list) => {
            let items: Option<Vec<String>> = list.iter().map(|item| words(item.get_ref())).collect();
            items.map(|items| items.join(","))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_the_command_line_say_the_same() {
        let mut by_file = Config::default();
        let text = "ranks = 1_000\nhold = \"20ms\"\nmetadata-rate = 1.5e5\nsizes = [4096, \"1M\"]\nslow = [\"3:4\"]\n";
        read_toml(&mut by_file, text).unwrap();
        let mut by_line = Config::default();
        for (name, text) in
            [("ranks", "1000"), ("hold", "0.02"), ("metadata-rate", "150000"), ("sizes", "4K,1M"), ("slow", "3:4")]
        {
            set(&mut by_line, name, text).unwrap();
        }
        assert_eq!(by_file, by_line);
    }

    #[test]
    fn mistakes_name_the_parameter() {
        let mut config = Config::default();
        assert!(set(&mut config, "rank", "1").unwrap_err().contains("rank"));
        assert!(set(&mut config, "ranks", "x").unwrap_err().contains("ranks"));
        assert!(read_toml(&mut config, "ranks = true").unwrap_err().contains("ranks"));
        assert!(read_toml(&mut config, "ranks = ").is_err());
    }
}
