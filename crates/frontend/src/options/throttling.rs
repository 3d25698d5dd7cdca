//! The options for throttling.

use super::draft::Flag;
use crate::flags::Argument::Required;
use crate::flags::Category::Data;
use crate::flags::Effect::{Switch, Value};
use crate::throttle::{Priority, parse_limit};
use crate::values::Values;

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[LIMIT, YIELD, CONTROL, PRIORITY];

const LIMIT: Flag = Flag {
    long: "limit",
    argument: Required("RATE[,IOPS]"),
    help: "move at most RATE bytes, in at most IOPS operations, a second",
    details: "RATE is a size as for --buffer-size, or a fraction like 1.5G; 0 or none is no limit. All threads share \
              both limits. An operation is a request for data to the kernel (a read, a write, a copy inside it), or a \
              file, directory or link that is made. Shared extents count as one operation and no bytes, holes as no \
              bytes.",
    effect: Value(|draft, given| {
        draft.run.throttling.limit = given.parsed(parse_limit)?;
        Ok(())
    }),
    ..Flag::own(Data)
};

const YIELD: Flag = Flag {
    long: "yield",
    help: "go slower while other programs have to wait",
    details: "Twice a second the copy pauses for a twentieth of a second. haul halves the rate, down to 1 MiB and 10 \
              operations a second, if other programs wait for input or output during the pause, or waited for a \
              processor before it, in more than 10% of the time. Below 5% it raises the rate by a tenth each time. \
              haul reads the kernel's pressure-stall figures; where there are none, the copy runs at idle priority \
              instead, unless --priority is given.",
    effect: Switch(|draft| draft.run.throttling.yields = true),
    ..Flag::own(Data)
};

const CONTROL: Flag = Flag {
    long: "control",
    argument: Required("FILE"),
    values: Values::File,
    help: "change --limit and --yield while copying by writing to FILE",
    details: "The words limit=RATE[,IOPS], yield=on and yield=off in FILE take effect when the copy begins, within a \
              second after FILE has changed, and at once on SIGUSR2. What FILE does not name stays as it was. Comments \
              go from # to the end of a line. If FILE has any other word in it, haul warns and changes nothing. FILE \
              need not exist. Without this option haul ignores SIGUSR2, unless it was called as cp.",
    effect: Value(|draft, given| {
        draft.run.throttling.control = given.path();
        Ok(())
    }),
    ..Flag::own(Data)
};

const PRIORITY: Flag = Flag {
    long: "priority",
    argument: Required("N"),
    help: "nice value of the copy, from -20 (first) to 19, or idle",
    details: "The I/O priority goes with it: level (N + 20) / 5 of the best-effort class. With idle the copy gets what \
              no other program wants, of processors (nice value 19) and of devices (idle class). I/O priorities need a \
              scheduler that heeds them, bfq or mq-deadline. If N takes privileges that are missing, haul copies \
              nothing.",
    effect: Value(|draft, given| {
        let priority = given.parsed(|text| std::str::from_utf8(text).ok().and_then(Priority::parse))?;
        draft.run.throttling.priority = Some(priority);
        Ok(())
    }),
    ..Flag::own(Data)
};
