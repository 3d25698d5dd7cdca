//! The machine that is measured on.

use std::fs;

use crate::memory;

/// What it says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Model of the processor.
    pub processor: Option<String>,
    /// Processors that this process may use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// The hypervisor's vendor if there is one, or `yes`: a virtual machine's memory and device are shared.
    pub hypervisor: Option<String>,
}

impl Machine {
    /// The one that this process runs on. What cannot be found out is missing.
    pub fn here() -> Machine {
        let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
        let cpu = read("/proc/cpuinfo").unwrap_or_default();
        // ARM has no model name.
        let field = |name: &str| {
            let line = cpu.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches([' ', '\t', ':']).to_owned())
        };
        Machine {
            kernel: read("/proc/sys/kernel/osrelease"),
            processor: field("model name").or_else(|| field("Model")).or_else(|| field("CPU implementer")),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory::figure("MemTotal:").unwrap_or(0),
            hypervisor: hypervisor(&cpu),
        }
    }
}

/// Whose machine this is, if it is no real one.
fn hypervisor(cpu: &str) -> Option<String> {
    let flags = cpu.lines().find(|line| line.starts_with("flags"))?;
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return None;
    }
    let vendor = fs::read_to_string("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let vendor = vendor.trim();
    Some(if vendor.is_empty() { "yes" } else { vendor }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_a_kernel_processors_and_memory() {
        let machine = Machine::here();
        assert!(machine.kernel.is_some() && machine.cores > 0 && machine.memory > 0, "{machine:?}");
    }
}
