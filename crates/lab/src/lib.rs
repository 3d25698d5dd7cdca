//! The command `haul-lab`: measures copies and what they are made of, looks at what haul would do, and explains it.
//!
//! * **Knows** haul-copy by its public interface, and other copiers as programs. What it measures is always a process,
//!   also haul: its memory and CPU time are its own, and whatever it does ends with it.
//! * **Must not know** the command line of haul, or how results were measured when it shows them: views are made from
//!   saved results alone.
//!
//! From the user's words down to the kernel:
//!
//! | module | what it does |
//! |---|---|
//! | `tasks` | one file for each kind of command: reads its words, runs it, shows what it found. `help/` has the texts. Parts of the program that are processes of their own (`one-copy`, `read-mapped`, `touch-memory`, `tidy-up`) are tasks that no help names |
//! | [`experiments`] | what is varied and what is asked, one module each; their conventions about names and parameters stand there |
//! | `session` | one run of a command (`state`): in a `contest` the competitors of a `group` take turns; each copy is judged, and the results are saved after each run; `forecast` says which time decides; `progress` draws, `sampled` looks at copies by perf. A folder with results of the same command is resumed: what is there is not run again |
//! | `measure` | what a run needs besides `haul-measure`: `sources`, `verify`, `one_copy` (a copy by haul's library) |
//! | [`results`] | what was seen, as saved: plain data with a version. No medians, no words |
//! | `doubts` | what a reader should know of a case, from its runs |
//! | `view`, `report` | what people see of a section. `sections` makes views, `chart` says where the boxes and lines of their drawings are, `html` and `markdown` (by `template`), `csv` and `terminal` show a page; `baseline` compares two results, `join` makes one of several |
//! | `map` | a disk image by region, and its drawing |
//!
//! Of the experiments, `mapped_write` measures in processes of its own, since a store without a free page raises
//! SIGBUS. Its `watch` reads off the kernel's stack what a long store waits for; its `verdict` is a pure function of
//! the figures. `tune` searches by rounds of pairs (`search`, pure) and confirms on fresh files. What wins goes into a
//! profile (docs/profiles.md), which the library parses (`plan::profile`) and obeys (`strategy`).
#![forbid(unsafe_code)]

pub mod app;
mod doubts;
pub mod experiments;
mod map;
mod measure;
mod names;
mod report;
pub mod results;
mod session;
mod signals;
mod tasks;
mod view;

/// The manual page of the command, in man(7): what its help says.
pub fn manual() -> String {
    tasks::manual_page()
}
