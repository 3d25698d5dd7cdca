//! What makes two commands the same one, for what is stored of a command: the name of a journal, and of the state of shards.
//!
//! A line for each property, in words of its own: neither names in this program nor their order change it. Another meaning of
//! a line, or another line, takes another [`VERSION`]: what was stored by an older one is not found then, which costs time only.

use std::ffi::OsStr;
use std::fmt::{Display, Write};
use std::os::unix::ffi::OsStrExt;

use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::CWD;

use crate::filter::Choice;
use crate::journal::Fingerprint;
use crate::list::{FileList, Names, Shard};
use crate::plan::{
    Backup, Checksum, ContextRule, DataOptions, Delete, Dereference, Durable, EngineChoice, EngineName, LinkMode,
    ModeRule, Overwrite, Plan, Preserve, Reflink, SmartCopy, Sparse, SpecialFiles, Update, Verify, Wish,
};

/// The first line.
const VERSION: &str = "haul command 6";

/// The same for two commands whose copies are the same: how fast they go does not matter. `last` is the name of the copy in
/// the directory `holder`, or empty for copies into that.
///
/// # Errors
/// The working directory, which sources are relative to, cannot be looked at: then it may be another command.
pub(crate) fn command(plan: &Plan, last: &OsStr, holder: &Inode) -> Result<Fingerprint, Errno> {
    let relative = plan.sources.iter().any(|source| source.as_bytes().first() != Some(&b'/'));
    let here = match relative {
        true => Fingerprint::of_file(&Inode::at(CWD, OsStr::new("."))?).to_bytes(),
        false => [0; 16],
    };
    Ok(Fingerprint::of_command(&[serialised(plan, last).as_bytes(), &here], holder))
}

/// Everything that a copy depends on but for where it is: see [`command`].
fn serialised(plan: &Plan, last: &OsStr) -> String {
    // A line for each field: all are named, so that nobody adds one without a decision.
    let Plan {
        sources,
        destination: _, // `last` and its directory.
        recursive,
        dereference,
        special_files,
        open_noatime: _, // The copy is the same.
        skip_offline,
        link,
        attributes_only,
        overwrite,
        update,
        force,
        remove_destination,
        moves: _, // It is not resumed.
        backup,
        backup_suffix,
        preserve,
        parents,
        strip_trailing_slashes,
        keep_directory_symlink,
        one_file_system,
        fail_fast: _, // What is copied until then is the same.
        dry_run: _,   // Nothing is stored of it.
        write_through_dangling_link,
        data,
        clone_tree: _, // --resume makes no snapshot.
        smart,
        snapshot,
        saved_machines: _, // Of the user, and not of the command.
        context,
        jobs: _,
        delete,
        remove_partial,
        durable,
        atomic,
        if_changed: _, // What is finished was looked at.
        verify,
        checksum,
        resume,
        filter,
        names,
        list,
        shard,
        job: _, // What is stored of it knows its job.
    } = plan;
    let mut lines = Lines(format!("{VERSION}\n"));
    sources.iter().for_each(|source| lines.path("source", source));
    lines.path("name", last);
    lines.line("recursive", recursive);
    lines.line("follow links", dereference.word());
    lines.line("special files", special_files.word());
    lines.line("make", link.word());
    lines.line("attributes only", attributes_only);
    lines.existing((overwrite, update), [force, remove_destination], (backup, backup_suffix));
    lines.preserve(preserve);
    lines.line("parents", parents);
    lines.line("strip slashes", strip_trailing_slashes);
    lines.line("keep directory links", keep_directory_symlink);
    lines.line("one filesystem", one_file_system);
    lines.line("skip offline", skip_offline);
    lines.line("through dangling links", write_through_dangling_link);
    lines.data(data, (*smart, *snapshot), context);
    lines.line("delete", delete.map_or("nothing", deletion));
    lines.line("remove partial", remove_partial);
    // To go on is possible only from what is durable.
    let durable = if *resume { &Durable::File } else { durable };
    lines.line("durable", durable.word());
    lines.line("atomic", atomic);
    lines.line("verify", verify.word());
    lines.line("checksum", checksum.as_ref().map_or("none", Word::word));
    lines.line("resume", resume);
    lines.filter(filter.as_ref().map(|filter| filter.choice()));
    lines.lists(names.as_deref(), list.as_deref());
    lines.line("shard", shard.map_or_else(|| "none".to_owned(), shard_text));
    lines.0
}

/// How many entries are removed at most is no part of it: who goes on may want more of them to be.
fn deletion(Delete { force, excluded, most: _ }: Delete) -> &'static str {
    match (force, excluded) {
        (false, false) => "what is gone",
        (true, false) => "what is gone, for empty sources too",
        (false, true) => "what is gone or excluded",
        (true, true) => "what is gone or excluded, for empty sources too",
    }
}

fn shard_text(shard: Shard) -> String {
    format!("{}/{}", shard.index(), shard.count())
}

struct Lines(String);

impl Lines {
    /// What becomes of files that exist.
    fn existing(
        &mut self,
        (overwrite, update): (&Overwrite, &Update),
        [force, remove]: [&bool; 2],
        (backup, suffix): (&Backup, &OsStr),
    ) {
        self.line("existing file", overwrite.word());
        self.line("update", update.word());
        self.line("force", force);
        self.line("remove destination", remove);
        self.line("backup", backup.word());
        self.path("backup suffix", suffix);
    }

    fn line(&mut self, name: &str, value: impl Display) {
        // Writing to a String cannot fail.
        writeln!(self.0, "{name}: {value}").ok();
    }

    /// Any bytes, and one line all the same.
    fn path(&mut self, name: &str, value: &OsStr) {
        self.line(name, value.as_bytes().escape_ascii());
    }

    fn lists(&mut self, names: Option<&Names>, list: Option<&FileList>) {
        self.line("names", names.map_or_else(|| "none".to_owned(), Names::digest_text));
        // What is found under names changes with the source.
        let list = list.filter(|_| names.is_none());
        self.line("list", list.map_or_else(|| "none".to_owned(), crate::list::digest_text));
    }

    fn data(&mut self, data: &DataOptions, (smart, snapshot): (SmartCopy, bool), context: &ContextRule) {
        // The others are only about how bytes are moved.
        let DataOptions {
            sparse,
            reflink,
            engine,
            buffer_size: _,
            readahead: _,
            cache: _,
            writeback: _,
            preallocate: _,
            profile: _,
        } = data;
        self.line("sparse", sparse.word());
        self.line("reflink", reflink.word());
        self.line("disk images", smart.word());
        self.line("snapshot", snapshot);
        match context {
            ContextRule::Default => self.line("context", "of the kernel"),
            ContextRule::OfDestination => self.line("context", "of the destination"),
            ContextRule::Fixed(context) => self.path("fixed context", context),
        }
        // All others write the same.
        self.line("data", *engine != EngineChoice::Only(EngineName::Null));
    }

    fn filter(&mut self, choice: Option<&Choice>) {
        let Some(Choice { rules, exclude_caches, max_size, min_size, newer_than }) = choice else {
            return self.line("filter", "none");
        };
        for rule in rules {
            self.path(if rule.include { "include" } else { "exclude" }, &rule.pattern);
        }
        let size = |size: &Option<u64>| size.map_or_else(|| "any".to_owned(), |size| size.to_string());
        let time = newer_than.map(|time| format!("{}.{:09}", time.seconds, time.nanoseconds));
        self.line("exclude caches", exclude_caches);
        self.line("largest", size(max_size));
        self.line("smallest", size(min_size));
        self.line("newer than", time.as_deref().unwrap_or("any"));
    }

    fn preserve(&mut self, preserve: &Preserve) {
        let Preserve { mode, ownership, timestamps, links, context, xattr, required, quiet, flags, project } = preserve;
        self.line("mode", mode.word());
        self.line("keep owner", ownership);
        self.line("keep times", timestamps);
        self.line("keep hard links", links);
        self.line("keep context", context.word());
        self.line("keep extended attributes", xattr.word());
        self.line("attributes are required", required);
        self.line("quiet", quiet);
        self.line("keep flags", flags);
        self.line("keep project", project);
    }
}

/// What stands for the values of a type.
trait Word {
    fn word(&self) -> &'static str;
}

macro_rules! words {
    ($($type:ident { $($value:ident => $word:literal),+ })+) => {
        $(impl Word for $type {
            fn word(&self) -> &'static str {
                match self {
                    $($type::$value => $word,)+
                }
            }
        })+
    };
}

words! {
    Wish { No => "no", Try => "try", Require => "require" }
    Dereference { Never => "never", Operands => "operands", Always => "always" }
    SpecialFiles { Nodes => "nodes", Contents => "contents", Refused => "refused" }
    LinkMode { Copy => "copies", Hard => "hard links", Symbolic => "symbolic links" }
    Overwrite { Replace => "replace", Ask => "ask", Skip => "skip", Refuse => "refuse" }
    Update { All => "all", Older => "older", Changed => "changed", Content => "content" }
    Backup { None => "none", Simple => "simple", Existing => "existing", Numbered => "numbered" }
    Sparse { Auto => "auto", Always => "always", Never => "never" }
    Reflink { Auto => "auto", Always => "always", Never => "never" }
    SmartCopy { Off => "whole", Auto => "auto", Require => "require" }
    Durable { None => "none", Flush => "flush", File => "file" }
    Verify { Off => "off", Read => "read", Device => "device" }
    Checksum { Blake3 => "blake3", Xxh3 => "xxh3", Sha256 => "sha256", Md5 => "md5" }
    ModeRule { Default => "less the umask", Keep => "kept", Discard => "as new" }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use haul_sys::inode::Time;

    use super::*;
    use crate::filter::{Filter, Rule};
    use crate::plan::{CacheUse, Destination, IfChanged, Preallocate, Writeback};

    /// Of a plan with the defaults and two sources, one of which has bytes that a line cannot have.
    const GOLDEN: &str = r"haul command 6
source: a b
source: /c\n\\\xff
name: dest
recursive: false
follow links: always
special files: nodes
make: copies
attributes only: false
existing file: replace
update: all
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
skip offline: false
through dangling links: false
sparse: auto
reflink: auto
disk images: whole
snapshot: false
context: of the kernel
data: true
delete: nothing
remove partial: true
durable: none
atomic: false
verify: off
checksum: none
resume: false
filter: none
names: none
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

    /// The plan with a filter.
    fn chosen(change: impl FnOnce(&mut Choice)) -> Plan {
        let mut choice = Choice::default();
        change(&mut choice);
        with(|plan| plan.filter = Filter::new(choice).unwrap())
    }

    #[test]
    fn a_command_is_serialised_in_a_form_that_stays() {
        assert_eq!(text(&plan()), GOLDEN);
    }

    #[test]
    fn a_filter_is_serialised_in_a_form_that_stays() {
        let rules = vec![Rule::include("a\nb"), Rule::exclude("*")];
        let newer_than = Some(Time { seconds: 5, nanoseconds: 7 });
        let choice = Choice { rules, exclude_caches: true, max_size: Some(9), min_size: None, newer_than };
        let lines =
            "include: a\\nb\nexclude: *\nexclude caches: true\nlargest: 9\nsmallest: any\nnewer than: 5.000000007\n";
        assert_eq!(text(&chosen(|all| *all = choice)), GOLDEN.replace("filter: none\n", lines));
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
            with(|plan| plan.special_files = SpecialFiles::Contents),
            with(|plan| plan.special_files = SpecialFiles::Refused),
            with(|plan| plan.link = LinkMode::Hard),
            with(|plan| plan.link = LinkMode::Symbolic),
            with(|plan| plan.attributes_only = true),
            with(|plan| plan.overwrite = Overwrite::Ask),
            with(|plan| plan.overwrite = Overwrite::Skip),
            with(|plan| plan.overwrite = Overwrite::Refuse),
            with(|plan| plan.update = Update::Older),
            with(|plan| plan.update = Update::Changed),
            with(|plan| plan.update = Update::Content),
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
            with(|plan| plan.skip_offline = true),
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
            with(|plan| plan.delete = Some(Delete::default())),
            with(|plan| plan.delete = Some(Delete { force: true, ..Delete::default() })),
            with(|plan| plan.delete = Some(Delete { excluded: true, ..Delete::default() })),
            with(|plan| plan.delete = Some(Delete { force: true, excluded: true, most: None })),
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
            chosen(|choice| choice.rules = vec![Rule::exclude("a"), Rule::exclude("b")]),
            chosen(|choice| choice.rules = vec![Rule::exclude("b"), Rule::exclude("a")]),
            chosen(|choice| choice.rules = vec![Rule::exclude("a"), Rule::include("b")]),
            chosen(|choice| choice.exclude_caches = true),
            chosen(|choice| choice.max_size = Some(1)),
            chosen(|choice| choice.min_size = Some(1)),
            chosen(|choice| choice.newer_than = Some(Time { seconds: 1, nanoseconds: 0 })),
            with(|plan| plan.names = Names::parse(b"a", 0, false).ok().map(Arc::new)),
            with(|plan| plan.names = Names::parse(b"a", 0, true).ok().map(Arc::new)),
            with(|plan| plan.names = Names::parse(b"b", 0, false).ok().map(Arc::new)),
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
            with(|plan| plan.data.writeback = Writeback::Auto),
            with(|plan| plan.data.preallocate = Preallocate::Never),
            with(|plan| plan.jobs = Some(7)),
            with(|plan| plan.if_changed = IfChanged::Fail),
        ] {
            assert_eq!(text(&plan), GOLDEN);
        }
        let deleting = |most| text(&with(|plan| plan.delete = Some(Delete { most, ..Delete::default() })));
        assert_eq!(deleting(None), deleting(Some(5)));
        let resumed = |durable| text(&with(|plan| (plan.resume, plan.durable) = (true, durable)));
        assert_eq!(resumed(Durable::None), resumed(Durable::File), "to go on takes what is durable");
    }
}
