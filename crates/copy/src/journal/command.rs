//! What makes two commands the same one, for what is stored of a command: the name of a journal, and of the state of shards.
//!
//! A line for each property, in words of its own: neither names in this program nor their order change it. Another meaning of
//! a line, or another line, takes another [`VERSION`]: what was stored by an older one is not found then, which costs time only.

use std::ffi::OsStr;
use std::fmt::{Display, Write};
use std::os::unix::ffi::OsStrExt;

use haul_sys::inode::Inode;
use haul_sys::rustix::fs::CWD;

use crate::journal::Fingerprint;
use crate::plan::{
    Backup, Checksum, ContextRule, DataOptions, Dereference, Durable, EngineChoice, EngineName, LinkMode, ModeRule,
    Overwrite, Plan, Preserve, Reflink, SmartCopy, Sparse, Verify, Wish,
};

/// The first line.
const VERSION: &str = "haul command 2";

/// The same for two commands whose copies are the same: how fast they go does not matter. `last` is the name of the copy in
/// the directory `holder`, or empty for copies into that.
pub(crate) fn command(plan: &Plan, last: &OsStr, holder: &Inode) -> Fingerprint {
    let relative = plan.sources.iter().any(|source| source.as_bytes().first() != Some(&b'/'));
    let here = if relative { Inode::at(CWD, OsStr::new(".")).ok() } else { None };
    let here = here.map_or([0; 16], |here| Fingerprint::of_file(&here).to_bytes());
    Fingerprint::of_command(&[serialised(plan, last).as_bytes(), &here], holder)
}

/// Everything that a copy depends on but for where it is: see [`command`].
fn serialised(plan: &Plan, last: &OsStr) -> String {
    // Longer than other functions: a line for each field.
    // All are named, so that nobody adds one without a decision.
    let Plan {
        sources,
        destination: _, // `last` and its directory.
        recursive,
        dereference,
        copy_contents,
        link,
        attributes_only,
        overwrite,
        only_newer,
        force,
        remove_destination,
        backup,
        backup_suffix,
        preserve,
        parents,
        strip_trailing_slashes,
        keep_directory_symlink,
        one_file_system,
        fail_fast: _, // What is copied until then is the same.
        write_through_dangling_link,
        data,
        smart,
        snapshot,
        context,
        jobs: _,
        remove_partial,
        durable,
        atomic,
        if_changed: _, // What is finished was looked at.
        verify,
        checksum,
        resume,
        list,
        shard,
        job: _, // What is stored of it knows its job.
    } = plan;
    let mut lines = Lines(format!("{VERSION}\n"));
    sources.iter().for_each(|source| lines.path("source", source));
    lines.path("name", last);
    lines.line("recursive", recursive);
    lines.line("follow links", name_of_dereference(*dereference));
    lines.line("contents of special files", copy_contents);
    lines.line("make", name_of_link(*link));
    lines.line("attributes only", attributes_only);
    lines.line("existing file", name_of_overwrite(*overwrite));
    lines.line("only newer", only_newer);
    lines.line("force", force);
    lines.line("remove destination", remove_destination);
    lines.line("backup", name_of_backup(*backup));
    lines.path("backup suffix", backup_suffix);
    lines.preserve(preserve);
    lines.line("parents", parents);
    lines.line("strip slashes", strip_trailing_slashes);
    lines.line("keep directory links", keep_directory_symlink);
    lines.line("one filesystem", one_file_system);
    lines.line("through dangling links", write_through_dangling_link);
    lines.data(data, (*smart, *snapshot), context);
    lines.line("remove partial", remove_partial);
    // To go on is possible only from what is durable.
    lines.line("durable", name_of_durable(if *resume { Durable::File } else { *durable }));
    lines.line("atomic", atomic);
    lines.line("verify", name_of_verify(*verify));
    lines.line("checksum", checksum.map_or("none", name_of_checksum));
    lines.line("resume", resume);
    lines.line("list", list.as_ref().map_or_else(|| "none".to_owned(), |list| crate::list::digest_text(list)));
    lines
        .line("shard", shard.map_or_else(|| "none".to_owned(), |shard| format!("{}/{}", shard.index(), shard.count())));
    lines.0
}

struct Lines(String);

impl Lines {
    fn line(&mut self, name: &str, value: impl Display) {
        // Writing to a String cannot fail.
        writeln!(self.0, "{name}: {value}").ok();
    }

    /// Any bytes, and one line all the same.
    fn path(&mut self, name: &str, value: &OsStr) {
        self.line(name, value.as_bytes().escape_ascii());
    }

    fn data(&mut self, data: &DataOptions, (smart, snapshot): (SmartCopy, bool), context: &ContextRule) {
        // The others are only about how bytes are moved.
        let DataOptions { sparse, reflink, engine, buffer_size: _, readahead: _, cache: _, preallocate: _, profile: _ } =
            data;
        self.line("sparse", name_of_sparse(*sparse));
        self.line("reflink", name_of_reflink(*reflink));
        self.line("disk images", name_of_smart(smart));
        self.line("snapshot", snapshot);
        match context {
            ContextRule::Default => self.line("context", "of the kernel"),
            ContextRule::OfDestination => self.line("context", "of the destination"),
            ContextRule::Fixed(context) => self.path("fixed context", context),
        }
        // All others write the same.
        self.line("data", *engine != EngineChoice::Only(EngineName::Null));
    }

    fn preserve(&mut self, preserve: &Preserve) {
        let Preserve { mode, ownership, timestamps, links, context, xattr, required, quiet, flags, project } = preserve;
        let mode = match mode {
            ModeRule::Default => "less the umask",
            ModeRule::Keep => "kept",
            ModeRule::Discard => "as new",
        };
        self.line("mode", mode);
        self.line("keep owner", ownership);
        self.line("keep times", timestamps);
        self.line("keep hard links", links);
        self.line("keep context", name_of_wish(*context));
        self.line("keep extended attributes", name_of_wish(*xattr));
        self.line("attributes are required", required);
        self.line("quiet", quiet);
        self.line("keep flags", flags);
        self.line("keep project", project);
    }
}

fn name_of_wish(wish: Wish) -> &'static str {
    match wish {
        Wish::No => "no",
        Wish::Try => "try",
        Wish::Require => "require",
    }
}

fn name_of_dereference(dereference: Dereference) -> &'static str {
    match dereference {
        Dereference::Never => "never",
        Dereference::Operands => "operands",
        Dereference::Always => "always",
    }
}

fn name_of_link(link: LinkMode) -> &'static str {
    match link {
        LinkMode::Copy => "copies",
        LinkMode::Hard => "hard links",
        LinkMode::Symbolic => "symbolic links",
    }
}

fn name_of_overwrite(overwrite: Overwrite) -> &'static str {
    match overwrite {
        Overwrite::Replace => "replace",
        Overwrite::Ask => "ask",
        Overwrite::Skip => "skip",
        Overwrite::Refuse => "refuse",
    }
}

fn name_of_backup(backup: Backup) -> &'static str {
    match backup {
        Backup::None => "none",
        Backup::Simple => "simple",
        Backup::Existing => "existing",
        Backup::Numbered => "numbered",
    }
}

fn name_of_sparse(sparse: Sparse) -> &'static str {
    match sparse {
        Sparse::Auto => "auto",
        Sparse::Always => "always",
        Sparse::Never => "never",
    }
}

fn name_of_reflink(reflink: Reflink) -> &'static str {
    match reflink {
        Reflink::Auto => "auto",
        Reflink::Always => "always",
        Reflink::Never => "never",
    }
}

fn name_of_smart(smart: SmartCopy) -> &'static str {
    match smart {
        SmartCopy::Off => "whole",
        SmartCopy::Auto => "auto",
        SmartCopy::Require => "require",
    }
}

fn name_of_durable(durable: Durable) -> &'static str {
    match durable {
        Durable::None => "none",
        Durable::Flush => "flush",
        Durable::File => "file",
    }
}

fn name_of_verify(verify: Verify) -> &'static str {
    match verify {
        Verify::Off => "off",
        Verify::Read => "read",
        Verify::Device => "device",
    }
}

fn name_of_checksum(checksum: Checksum) -> &'static str {
    match checksum {
        Checksum::Blake3 => "blake3",
        Checksum::Xxh3 => "xxh3",
        Checksum::Sha256 => "sha256",
        Checksum::Md5 => "md5",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;
    use crate::list::{FileList, Shard};
    use crate::plan::{CacheUse, Destination, IfChanged, Preallocate};

    /// Of a plan with the defaults and two sources, one of which has bytes that a line cannot have.
    const GOLDEN: &str = r"haul command 2
source: a b
source: /c\n\\\xff
name: dest
recursive: false
follow links: always
contents of special files: false
make: copies
attributes only: false
existing file: replace
only newer: false
force: false
remove destination: false
backup: none
backup suffix: ~
mode: less the umask
keep owner: false
keep times: false
keep hard links: false
keep context: no
keep extended attributes: no
attributes are required: false
quiet: false
keep flags: false
keep project: false
parents: false
strip slashes: false
keep directory links: false
one filesystem: false
through dangling links: false
sparse: auto
reflink: auto
disk images: whole
snapshot: false
context: of the kernel
data: true
remove partial: true
durable: none
atomic: false
verify: off
checksum: none
resume: false
list: none
shard: none
";

    fn plan() -> Plan {
        Plan { sources: vec!["a b".into(), OsStr::from_bytes(b"/c\n\\\xff").into()], ..Plan::default() }
    }

    fn text(plan: &Plan) -> String {
        serialised(plan, OsStr::new("dest"))
    }

    /// The plan after a change.
    fn with(change: impl FnOnce(&mut Plan)) -> Plan {
        let mut plan = plan();
        change(&mut plan);
        plan
    }

    #[test]
    fn a_command_is_serialised_in_a_form_that_stays() {
        assert_eq!(text(&plan()), GOLDEN);
    }

    #[test]
    fn whatever_changes_the_copy_makes_another_command() {
        let preserve = |change: fn(&mut Preserve)| with(|plan| change(&mut plan.preserve));
        let plans = [
            plan(),
            with(|plan| plan.sources.reverse()),
            with(|plan| plan.sources = vec!["a".into(), "b".into(), OsStr::from_bytes(b"/c\n\\\xff").into()]),
            with(|plan| plan.recursive = true),
            with(|plan| plan.dereference = Dereference::Never),
            with(|plan| plan.dereference = Dereference::Operands),
            with(|plan| plan.copy_contents = true),
            with(|plan| plan.link = LinkMode::Hard),
            with(|plan| plan.link = LinkMode::Symbolic),
            with(|plan| plan.attributes_only = true),
            with(|plan| plan.overwrite = Overwrite::Ask),
            with(|plan| plan.overwrite = Overwrite::Skip),
            with(|plan| plan.overwrite = Overwrite::Refuse),
            with(|plan| plan.only_newer = true),
            with(|plan| plan.force = true),
            with(|plan| plan.remove_destination = true),
            with(|plan| plan.backup = Backup::Simple),
            with(|plan| plan.backup = Backup::Existing),
            with(|plan| plan.backup = Backup::Numbered),
            with(|plan| plan.backup_suffix = ".old".into()),
            preserve(|preserve| preserve.mode = ModeRule::Keep),
            preserve(|preserve| preserve.mode = ModeRule::Discard),
            preserve(|preserve| preserve.ownership = true),
            preserve(|preserve| preserve.timestamps = true),
            preserve(|preserve| preserve.links = true),
            preserve(|preserve| preserve.context = Wish::Try),
            preserve(|preserve| preserve.context = Wish::Require),
            preserve(|preserve| preserve.xattr = Wish::Try),
            preserve(|preserve| preserve.xattr = Wish::Require),
            preserve(|preserve| preserve.required = true),
            preserve(|preserve| preserve.quiet = true),
            preserve(|preserve| preserve.flags = true),
            preserve(|preserve| preserve.project = true),
            with(|plan| plan.parents = true),
            with(|plan| plan.strip_trailing_slashes = true),
            with(|plan| plan.keep_directory_symlink = true),
            with(|plan| plan.one_file_system = true),
            with(|plan| plan.write_through_dangling_link = true),
            with(|plan| plan.data.sparse = Sparse::Always),
            with(|plan| plan.data.sparse = Sparse::Never),
            with(|plan| plan.data.reflink = Reflink::Always),
            with(|plan| plan.data.reflink = Reflink::Never),
            with(|plan| plan.smart = SmartCopy::Auto),
            with(|plan| plan.smart = SmartCopy::Require),
            with(|plan| plan.snapshot = true),
            with(|plan| plan.context = ContextRule::OfDestination),
            with(|plan| plan.context = ContextRule::Fixed("of the destination".into())),
            with(|plan| plan.data.engine = EngineChoice::Only(EngineName::Null)),
            with(|plan| plan.remove_partial = false),
            with(|plan| plan.durable = Durable::Flush),
            with(|plan| plan.durable = Durable::File),
            with(|plan| plan.atomic = true),
            with(|plan| plan.verify = Verify::Read),
            with(|plan| plan.verify = Verify::Device),
            with(|plan| plan.checksum = Some(Checksum::Blake3)),
            with(|plan| plan.checksum = Some(Checksum::Xxh3)),
            with(|plan| plan.checksum = Some(Checksum::Sha256)),
            with(|plan| plan.checksum = Some(Checksum::Md5)),
            with(|plan| plan.resume = true),
            with(|plan| plan.list = Some(Arc::new(FileList::default()))),
            with(|plan| plan.shard = Shard::new(1, 2)),
            with(|plan| plan.shard = Shard::new(2, 2)),
            with(|plan| plan.shard = Shard::new(1, 3)),
        ];
        let mut seen: HashMap<String, &Plan> = HashMap::from([(serialised(&plan(), OsStr::new("")), &plans[0])]);
        for plan in &plans {
            if let Some(same) = seen.insert(text(plan), plan) {
                panic!("one command for\n{same:?} and\n{plan:?}");
            }
        }
    }

    #[test]
    fn what_changes_only_the_way_there_is_the_same_command() {
        for plan in [
            with(|plan| plan.destination = Destination::Directory("elsewhere".into())),
            with(|plan| plan.fail_fast = true),
            with(|plan| plan.data.engine = EngineChoice::Only(EngineName::Direct)),
            with(|plan| plan.data.buffer_size = Some(4096)),
            with(|plan| plan.data.readahead = Some(4096)),
            with(|plan| plan.data.cache = CacheUse::Drop),
            with(|plan| plan.data.preallocate = Preallocate::Never),
            with(|plan| plan.jobs = Some(7)),
            with(|plan| plan.if_changed = IfChanged::Fail),
        ] {
            assert_eq!(text(&plan), GOLDEN);
        }
        let resumed = |durable| text(&with(|plan| (plan.resume, plan.durable) = (true, durable)));
        assert_eq!(resumed(Durable::None), resumed(Durable::File), "to go on takes what is durable");
    }
}
