//! The report that is made of what was counted.

use super::world::World;
use crate::clock::seconds;
use crate::report::Report;

/// Memory of an entry in the table of hard links.
const LINK_BYTES: f64 = 64.0;

/// The report on a simulation that is over.
pub(super) fn report(world: &World<'_>) -> Report {
    let config = world.config;
    let time = seconds(world.now).max(1e-9);
    let share = |busy: u64, servers: usize| seconds(busy) / time / servers as f64;
    let threads = config.threads_of_a_rank() as usize;
    let idle: Vec<f64> = world.ranks.iter().map(|rank| 1.0 - share(rank.busy, threads)).collect();
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let start = config.start + config.start_per_rank * config.ranks as f64;
    let busiest = world.nodes.iter().map(|node| node.messages).max_by_key(|window| window.total).unwrap_or_default();
    let rounds = if config.progress_interval > 0.0 { (time / config.progress_interval) as u64 } else { 0 };
    Report {
        ranks: config.ranks,
        nodes: config.nodes(),
        threads: threads as u64,
        seconds: start + time,
        files: world.totals.files,
        large_files: world.totals.large,
        directories: world.totals.directories,
        bytes: world.totals.bytes,
        metadata_busy: world.metadata.iter().map(|server| share(server.busy, 1)).sum::<f64>()
            / world.metadata.len() as f64,
        metadata_busiest: most(&mut world.metadata.iter().map(|server| share(server.busy, 1))),
        read_busy: share(world.read.busy, 1),
        write_busy: share(world.write.busy, 1),
        processors_busy: world
            .nodes
            .iter()
            .map(|node| share(node.cores.busy, config.cores_per_node as usize))
            .sum::<f64>()
            / world.nodes.len() as f64,
        communication_busiest: most(&mut world.ranks.iter().map(|rank| share(rank.communication.busy, 1))),
        idle: idle.iter().sum::<f64>() / idle.len() as f64,
        idle_most: most(&mut idle.iter().copied()),
        end_seconds: (time - world.totals.copied_after).max(0.0),
        messages: world.totals.messages,
        progress_messages: rounds * (config.ranks - 1),
        at_rank_0: world.totals.at_rank_0.flow(),
        busiest_node: busiest.flow(),
        longest_queue: world.ranks.iter().map(|rank| rank.longest_queue as u64).max().unwrap_or(0),
        memory: world.ranks.iter().map(|rank| rank.most_memory).max().unwrap_or(0),
        link_table: (world.totals.links * LINK_BYTES / config.ranks as f64) as u64,
        left_over: (world.parts.len() + world.large.len()) as u64,
        events: world.clock.planned(),
    }
}
