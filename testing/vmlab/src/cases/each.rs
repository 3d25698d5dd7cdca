//! `haul-mpi --each`: two clients of an NFS 4.2 server bring a tree of it to directories of their own. What each client has
//! read from the server its kernel says.

use std::fs;
use std::time::Instant;

use serde_json::Value;

use crate::lab::{Found, Lab, Outcome, Trouble};
use crate::network::on;
use crate::served::{SERVED, SHARED};
use crate::tool;

/// Bytes of the large file.
const LARGE: u64 = 32 << 20;

const SOURCE: &str = "ext4/each";

/// In the memory of each client.
const COPY: &str = "/tmp/each";

/// The same copy by a haul on each client, and by haul-mpi on both.
pub fn run(lab: &mut Lab) -> Result<(), String> {
    let source = format!("{SERVED}/{SOURCE}");
    let file = |name: &str, bytes: u64| {
        on("server", &format!("mkdir -p {source}; head -c {bytes} /dev/urandom > {source}/{name}"))
    };
    file("large", LARGE)?;
    for small in 0..8 {
        file(&small.to_string(), 2000)?;
    }
    let arguments = format!("-aT --stats=json {SHARED}/{SOURCE} {COPY}");
    let alone = format!("haul {arguments} & ssh -n client haul {arguments} & wait -n && wait -n");
    lab.check("a haul on each of two clients", || copied(&alone, 2.0..2.1));
    let networks = "--mca btl_tcp_if_include eth1 --mca oob_tcp_if_include eth1";
    let quiet = "--mca mca_base_component_show_load_errors 0 --mca pml ob1 --mca btl tcp,self,vader";
    let how = format!("--allow-run-as-root --bind-to none --host head:1,client:1 {networks} {quiet}");
    let together = format!("mpirun.openmpi {how} haul-mpi --each {arguments}");
    lab.check("haul-mpi --each on both", || {
        if !fs::exists("/lab/haul-mpi").unwrap_or_default() {
            return Err(Trouble::Skipped("haul-mpi was not built".into()));
        }
        copied(&together, 1.0..1.1)
    });
    Ok(())
}

/// Copies by this line, and wants so many times the bytes of the large file to be read from the server.
fn copied(line: &str, wanted: std::ops::Range<f64>) -> Outcome {
    // Cold, and read from nowhere but the server.
    let forget = "sync; echo 3 > /proc/sys/vm/drop_caches";
    tool::finish("drop caches", tool::command("bash").args(["-c", forget]))?;
    on("client", forget)?;
    let before = (read_from_server()?, Instant::now());
    let said = tool::finish(line, tool::command("bash").args(["-c", &format!("({line}) 2>&1")]))?;
    let seconds = before.1.elapsed().as_secs_f64();
    let after = read_from_server()?;
    let same = format!("diff -r --no-dereference {SHARED}/{SOURCE} {COPY}");
    tool::run(&same)?;
    on("client", &same)?;
    let remove = format!("rm -rf {COPY}");
    tool::run(&remove)?;
    on("client", &remove)?;
    let [head, client] = [0, 1].map(|at| after[at].saturating_sub(before.0[at]) as f64 / LARGE as f64);
    let found = format!(
        "equal; read from the server: head {head:.2}, client {client:.2}, both {:.2} times the large file; {seconds:.1} s, \
         of these the copies {:.1} s",
        head + client,
        longest(&said)
    );
    if wanted.contains(&(head + client)) { Ok(Found { chose: String::new(), found }) } else { Err(found.into()) }
}

/// Seconds of the copy that took longest, by the statistics of each process.
fn longest(said: &str) -> f64 {
    let records = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records.filter_map(|record| record["wall_seconds"].as_f64()).fold(0.0, f64::max)
}

/// Bytes that head and client have read from servers since they have mounted them.
fn read_from_server() -> Result<[u64; 2], String> {
    let path = "/proc/self/mountstats";
    let own = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok([server_bytes(&own), server_bytes(&on("client", &format!("cat {path}"))?)])
}

/// The fifth number of each mount's bytes: what READ has brought.
fn server_bytes(stats: &str) -> u64 {
    let numbers = stats.lines().filter_map(|line| line.trim().strip_prefix("bytes:"));
    numbers.filter_map(|numbers| numbers.split_whitespace().nth(4)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_read_has_brought_is_summed_over_all_mounts() {
        let mount = "device server:/ mounted on /shared with fstype nfs4 statvers=1.1\n\tbytes:\t1 2 3 4 500 6 7 8\n";
        assert_eq!(server_bytes(&format!("device proc mounted on /proc with fstype proc\n{mount}{mount}")), 1000);
    }
}
