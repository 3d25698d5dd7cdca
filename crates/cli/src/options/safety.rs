//! Options of one word for what is certain of a copy, and for the memory and the space that it takes.

use std::ffi::OsStr;
use std::path::PathBuf;

use haul_copy::plan::{
    Backup, CacheUse, Checksum, Durable, IfChanged, LinkMode, Overwrite, Preallocate, SmartCopy, Verify,
};

use super::{Complaint, Draft, misuse};
use crate::flags::{Flag, Id};

impl Draft<'_> {
    /// Everything under that heading.
    pub(super) fn safety(&mut self, flag: &Flag, value: Option<&OsStr>) -> Result<(), Complaint> {
        if flag.id == Id::Manifest {
            self.run.digests = value.map(PathBuf::from);
            return Ok(());
        }
        let choice = value.map(|word| self.choice(flag, word)).transpose()?;
        let plan = &mut self.plan;
        match (flag.id, choice) {
            (Id::Atomic, _) => plan.atomic = true,
            (Id::Resume, _) => plan.resume = true,
            (Id::Durable, Some("none")) => plan.durable = Durable::None,
            (Id::Durable, Some("file")) => plan.durable = Durable::File,
            (Id::Durable, _) => plan.durable = Durable::Flush,
            (Id::Verify, Some("off")) => plan.verify = Verify::Off,
            (Id::Verify, Some("device")) => plan.verify = Verify::Device,
            (Id::Verify, _) => plan.verify = Verify::Read,
            (Id::Checksum, Some("xxh3")) => plan.checksum = Some(Checksum::Xxh3),
            (Id::Checksum, Some("sha256")) => plan.checksum = Some(Checksum::Sha256),
            (Id::Checksum, Some("md5")) => plan.checksum = Some(Checksum::Md5),
            (Id::Checksum, _) => plan.checksum = Some(Checksum::Blake3),
            (_, Some("retry")) => plan.if_changed = IfChanged::Retry,
            (_, Some("fail")) => plan.if_changed = IfChanged::Fail,
            (_, Some("ignore")) => plan.if_changed = IfChanged::Ignore,
            _ => plan.if_changed = IfChanged::Warn,
        }
        Ok(())
    }

    /// What they need of each other.
    pub(super) fn settle_safety(&mut self) -> Result<(), Complaint> {
        let plan = &mut self.plan;
        if self.run.digests.is_some() {
            plan.checksum.get_or_insert(Checksum::Blake3);
        }
        if plan.reads_again() && plan.smart != SmartCopy::Off {
            return Err(misuse("--verify and --checksum do not go with --smart, which leaves out bytes"));
        }
        if plan.resume {
            plan.durable = Durable::File;
            let against = [
                (plan.backup != Backup::None, "--backup: the backup of the first run would be lost"),
                (plan.link != LinkMode::Copy, "--link and --symbolic-link, which copy nothing"),
                (plan.overwrite == Overwrite::Refuse, "--update=none-fail: what the first run made is there"),
            ];
            if let Some((_, what)) = against.iter().find(|(given, _)| *given) {
                return Err(misuse(format!("--resume does not go with {what}")));
            }
        }
        Ok(())
    }

    /// `--cache` and `--preallocate`.
    pub(super) fn memory_and_space(&mut self, flag: &Flag, value: Option<&OsStr>) -> Result<(), Complaint> {
        match (flag.id, self.choice(flag, value.unwrap_or(OsStr::new("always")))?) {
            (Id::Cache, "keep") => self.plan.cache = CacheUse::Keep,
            (Id::Cache, "drop") => self.plan.cache = CacheUse::Drop,
            (Id::Cache, _) => self.plan.cache = CacheUse::Auto,
            (_, "always") => self.plan.preallocate = Preallocate::Always,
            (_, "never") => self.plan.preallocate = Preallocate::Never,
            _ => self.plan.preallocate = Preallocate::Auto,
        }
        Ok(())
    }
}
