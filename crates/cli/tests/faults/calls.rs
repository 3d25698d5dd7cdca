//! Which calls of a watched run are worth a fault.

use std::collections::{BTreeMap, BTreeSet};

use crate::scene::{DEST, SOURCE};

/// Calls that are no part of a copy: the process itself, its memory, its threads, clocks and signals. The standard library
/// and the allocator may end a process that loses one of these.
const NOT_OF_FILES: &[&str] = &[
    "arch_prctl",
    "brk",
    "clock_gettime",
    "clock_nanosleep",
    "execve",
    "exit",
    "exit_group",
    "futex",
    "getrandom",
    "madvise",
    "mprotect",
    "mremap",
    "munmap",
    "poll",
    "ppoll",
    "prctl",
    "prlimit64",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "sigaltstack",
    "wait4",
    // They cannot fail, and nobody looks whether they did.
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "gettid",
    "getuid",
];

/// The calls of each name that concern the copy: their numbers, as the tracer counts them for each thread from its start.
///
/// What comes before the first mention of an operand, or of the directory that they are in, is the start of the program, which the loader and the standard
/// library make. Since numbers count in every thread, those of the start are skipped in the others, too.
pub fn calls(log: &str) -> BTreeMap<String, Vec<u32>> {
    let mut counted: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut of_start: BTreeMap<&str, u32> = BTreeMap::new();
    let mut found: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    let (mut main, mut begun) = (None, false);
    let operands = [".", SOURCE, DEST].map(|name| format!("\"{name}\""));
    for line in log.lines() {
        let Some((thread, name, rest)) = call(line) else { continue };
        let main = *main.get_or_insert(thread);
        begun |= name != "execve" && operands.iter().any(|operand| rest.contains(operand));
        let number = counted.entry((thread, name)).or_default();
        *number += 1;
        if !begun && thread == main {
            of_start.insert(name, *number);
        }
        if begun && *number > of_start.get(name).copied().unwrap_or(0) && is_worth_it(name, rest) {
            found.entry(name).or_default().insert(*number);
        }
    }
    found.into_iter().map(|(name, numbers)| (name.to_owned(), numbers.into_iter().collect())).collect()
}

/// Thread, name and arguments of a line that reports the beginning of a call.
fn call(line: &str) -> Option<(&str, &str, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    let (name, rest) = rest.trim_start().split_once('(')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some((thread, name, rest))
}

fn is_worth_it(name: &str, rest: &str) -> bool {
    // Calls that the tracer knows by number only cannot be made to fail.
    if NOT_OF_FILES.contains(&name) || name.starts_with("syscall_") {
        return false;
    }
    // Memory for the heap is as above; memory for the stack of a thread may be lacking.
    name != "mmap" || !rest.contains("MAP_ANONYMOUS") || rest.contains("MAP_STACK")
}

#[test]
fn calls_are_counted_for_each_thread_and_from_the_first_mention_of_an_operand_on() {
    let log = "7 execve(\"haul\", [\"haul\", \"tree\", \"copy\"], 0x1) = 0\n\
               7 openat(AT_FDCWD, \"/etc/ld.so.cache\", O_RDONLY) = 3\n\
               7 openat(AT_FDCWD, \"tree\", O_PATH) = 3\n\
               7 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x1\n\
               8 openat(4, \"a\", O_RDONLY <unfinished ...>\n\
               8 <... openat resumed>) = 5\n\
               7 openat(3, \"b\", O_RDONLY) = 5\n\
               8 fchown(5, 1, 1) = 0\n\
               8 +++ exited with 0 +++\n";
    let found: Vec<_> = calls(log).into_iter().collect();
    assert_eq!(found, [("fchown".to_owned(), vec![1]), ("openat".to_owned(), vec![2, 3])]);
}
