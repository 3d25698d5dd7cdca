//! Ways to copy a tree, and what each promises for a power cut.

use std::path::Path;
use std::process::Stdio;

use haul_testbed::Command;

/// Copies what has contents to temporary names beside the final ones. Directories come first, and get their attributes last.
macro_rules! copy {
    () => {
        r#"
        cd "$1"
        find . -mindepth 1 -type d -printf '%P\0' | (cd "$2"; xargs -0 mkdir -p)
        find . ! -type d -printf '%h/\0%f\0' | while read -rd '' dir && read -rd '' name; do
            cp -a "$dir$name" "$2/$dir.haul-$name"
        done
        "#
    };
}

/// Gives everything its final name: hard links first become one file again.
macro_rules! rename {
    () => {
        r#"
        ln -fT "$2/a/.haul-large-new" "$2/new/.haul-second-name"
        find "$2" -name '.haul-*' -printf '%h/\0%f\0' | while read -rd '' dir && read -rd '' name; do
            mv -fT "$dir$name" "$dir${name#.haul-}"
        done
        find . -mindepth 1 -type d -printf '%P\0' | while read -rd '' dir; do
            chmod --reference="$dir" "$2/$dir"
            touch --reference="$dir" "$2/$dir"
        done
        "#
    };
}

/// What holds after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Nothing.
    Nothing,
    /// A name that was there is there.
    Names,
    /// Everything is there, if the copier had ended well; nothing otherwise.
    AtEnd,
    /// Each name holds the old contents or the whole new ones, with their attributes, at any moment; and everything is there
    /// at the end.
    Always,
}

/// One way.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// For figures and messages.
    pub name: &'static str,
    program: Program,
    /// What it promises.
    pub promise: Promise,
    /// What the same command makes of what a cut has left.
    pub again: Again,
}

/// What becomes of a copy that is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Nobody asks.
    Never,
    /// It is complete; temporary names of the first run may be there.
    Complete,
    /// It is complete, and nothing else is there.
    Clean,
}

impl Again {
    /// Whether it is made again after this cut: always if that is what it is for, otherwise if it is one in so many.
    pub fn wanted(self, one_in_many: bool) -> bool {
        match self {
            Again::Never => false,
            Again::Complete => one_in_many,
            Again::Clean => true,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Program {
    Haul(&'static [&'static str]),
    Script(&'static str),
}

/// Like cp.
pub const PLAIN: Way =
    Way { name: "no durability", program: Program::Haul(&[]), promise: Promise::Nothing, again: Again::Complete };
pub const ATOMIC: Way =
    Way { name: "--atomic", program: Program::Haul(&["--atomic"]), promise: Promise::Names, again: Again::Complete };
pub const FLUSH: Way = Way {
    name: "--durable=flush",
    program: Program::Haul(&["--durable=flush"]),
    promise: Promise::AtEnd,
    again: Again::Complete,
};
pub const FILE: Way = Way {
    name: "--durable=file",
    program: Program::Haul(&["--durable=file"]),
    promise: Promise::Always,
    again: Again::Complete,
};

/// With a journal of what is done.
pub const RESUME: Way =
    Way { name: "--resume", program: Program::Haul(&["--resume"]), promise: Promise::Always, again: Again::Clean };

/// The same without it, with so few descriptors that files get their names seven at a time, each time after a sync.
pub const FILE_BY_FILE: Way = Way {
    name: "--durable=file with 128 descriptors",
    program: Program::Script(concat!(
        "ulimit -n 128; exec '",
        env!("CARGO_BIN_EXE_haul"),
        "' --durable=file -aT \"$@\""
    )),
    promise: Promise::Always,
    again: Again::Complete,
};

/// A copier that is right, slow and short: it writes everything under temporary names, then syncs, then renames, then syncs.
pub const RIGHT_ORDER: Way = Way {
    name: "a script that syncs and renames",
    program: Program::Script(concat!(copy!(), "sync -f \"$2\";", rename!(), "sync -f \"$2\"")),
    promise: Promise::Always,
    again: Again::Never,
};

/// A copier with the usual mistake: it renames what is not on the device yet.
pub const WRONG_ORDER: Way = Way {
    name: "a script that renames and syncs",
    program: Program::Script(concat!(copy!(), rename!(), "sync -f \"$2\"")),
    promise: Promise::Always,
    again: Again::Never,
};

/// A copier that is content when the names are on the device, and does not wait for the data.
pub const NO_SYNC: Way = Way {
    name: "a script that does not sync",
    program: Program::Script(concat!(copy!(), rename!())),
    promise: Promise::AtEnd,
    again: Again::Never,
};

impl Way {
    /// The command that copies a tree over another.
    pub fn command(&self, source: &Path, dest: &Path) -> Command {
        let mut command = match self.program {
            Program::Haul(options) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
                command.args(options).arg("-aT");
                command
            }
            Program::Script(script) => {
                let mut command = Command::new("bash");
                command.args(["-ec", script, "bash"]);
                command
            }
        };
        command.args([source, dest]).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null());
        // After a cut every name has something to say.
        command.stderr(Stdio::null());
        command
    }
}
