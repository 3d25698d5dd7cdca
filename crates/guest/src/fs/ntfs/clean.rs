//! The proof that nobody has anything in mind that the tables do not show: the volume's flags, the log, hibernation.

use super::record::{Body, Record, VOLUME_INFORMATION, apply_fixups};
use super::runs::Stream;
use super::volume::Volume;
use crate::bytes::{array, is_power_in, le16, le32, le64, slice, u8_at};
use crate::refusal::{Refusal, corrupt_if, dirty_if, refuse_if, unsupported_if};

const VOLUME: u64 = 3;
const LOG: u64 = 2;

/// Set on many volumes of newer systems while all is well; its meaning is not published. All the others mean that
/// something is to be done, or was done by chkdsk.
const HARMLESS: u16 = 0x0080;

/// No client of the log, in a field for its number.
const NO_CLIENT: u16 = 0xffff;

/// The volume was unmounted in order, though the log still has its client.
const IS_CLEAN: u16 = 2;

/// So much of an empty log is looked at.
const HEAD_OF_EMPTY_LOG: u64 = 1 << 20;

const PAGE: u64 = 4096;

/// Refuses a volume that says itself that it wants to be checked.
pub(super) fn check_flags(volume: &Volume<'_, '_>) -> Result<(), Refusal> {
    let bytes = volume.record(VOLUME)?;
    let attributes = Record::parse(&bytes, VOLUME)?.attributes()?;
    let mut found = attributes.iter().filter(|attribute| attribute.kind == VOLUME_INFORMATION);
    let (Some(Body::Resident(value)), None) = (found.next().map(|attribute| attribute.body), found.next()) else {
        return Err(Refusal::corrupt("$Volume has no state"));
    };
    let version = (u8_at(value, 8)?, u8_at(value, 9)?);
    unsupported_if(version != (3, 0) && version != (3, 1), format_args!("NTFS version {}.{}", version.0, version.1))?;
    match le16(value, 10)? & !HARMLESS {
        0 => Ok(()),
        flags if flags & 1 != 0 => Err(Refusal::dirty("the volume is marked as dirty")),
        flags => Err(Refusal::dirty(format!("the volume has the flags {flags:#06x}"))),
    }
}

/// Refuses a volume whose log has something to replay. Says what state the log is in.
///
/// The log begins with two restart pages, of which the newer counts. In order is an empty log (all ones), one that has
/// no client, and one that has, but says that the volume was unmounted. `only_unmounted` refuses an empty one: ntfs-3g
/// empties the log when it mounts a volume, and leaves it so.
pub(super) fn check_log(volume: &Volume<'_, '_>, only_unmounted: bool) -> Result<&'static str, Refusal> {
    let log = volume.contents(LOG, "$LogFile")?;
    log.require_plain(&volume.geometry, "$LogFile")?;
    corrupt_if(log.sizes.data < 2 * PAGE, "$LogFile is too short")?;
    let signature: [u8; 4] = array(&volume.read(&log, 0, 4)?, 0)?;
    if signature == [0xff; 4] {
        dirty_if(only_unmounted, "$LogFile is empty, which does not tell whether it was unmounted")?;
        return check_empty(volume, &log);
    }
    let first = Restart::read(volume, &log, 0)?;
    let second = Restart::read(volume, &log, first.page_size)?;
    corrupt_if(second.page_size != first.page_size, "the restart pages of $LogFile contradict each other")?;
    let decides_first = first.lsn >= second.lsn;
    let decides_second = second.lsn >= first.lsn;
    dirty_if((decides_first && !first.clean) || (decides_second && !second.clean), "$LogFile is in use")?;
    Ok("log closed")
}

fn check_empty(volume: &Volume<'_, '_>, log: &Stream) -> Result<&'static str, Refusal> {
    let head = log.sizes.data.min(HEAD_OF_EMPTY_LOG);
    let bytes = volume.read(log, 0, head as usize)?;
    dirty_if(!bytes.iter().all(|byte| *byte == 0xff), "$LogFile is neither empty nor in order")?;
    Ok("log empty")
}

/// What a restart page says.
struct Restart {
    lsn: u64,
    clean: bool,
    page_size: u64,
}

impl Restart {
    fn read(volume: &Volume<'_, '_>, log: &Stream, at: u64) -> Result<Restart, Refusal> {
        let wrong = |what: &str| Refusal::dirty(format!("a restart page of $LogFile {what}"));
        let mut bytes = volume.read(log, at, PAGE as usize)?;
        // Also "CHKD", which chkdsk leaves behind: the next mount would tell.
        refuse_if(slice(&bytes, 0, 4)? != b"RSTR", || wrong("is none"))?;
        let (page_size, log_page) = (u64::from(le32(&bytes, 16)?), le32(&bytes, 20)?);
        let possible = is_power_in(page_size, PAGE..=64 << 10) && log_page.is_power_of_two();
        refuse_if(!possible, || wrong("has a wrong size"))?;
        if page_size > PAGE {
            bytes = volume.read(log, at, page_size as usize)?;
        }
        apply_fixups(&mut bytes).map_err(|_| wrong("is torn"))?;
        // Version 2 is what Windows leaves when it only pretends to shut down (Fast Startup).
        let version = (le16(&bytes, 28)?, le16(&bytes, 26)?);
        refuse_if(version.0 != 1 || version.1 > 1, || wrong(&format!("has version {}.{}", version.0, version.1)))?;
        let area = usize::from(le16(&bytes, 24)?);
        let end_of_fixups = usize::from(le16(&bytes, 4)?) + 2 * usize::from(le16(&bytes, 6)?);
        // The area has 48 bytes, and no sector may end in it, or its fields would be part of the check.
        refuse_if(!area.is_multiple_of(8) || area < end_of_fixups || area + 48 > 510, || wrong("has no restart area"))?;
        let (clients, in_use, flags) = (le16(&bytes, area + 8)?, le16(&bytes, area + 12)?, le16(&bytes, area + 14)?);
        if clients != 1 || (in_use != NO_CLIENT && in_use >= clients) || le64(&bytes, area + 24)? > log.sizes.data {
            return Err(wrong("contradicts itself"));
        }
        let clean = in_use == NO_CLIENT || flags & IS_CLEAN != 0;
        Ok(Restart { lsn: le64(&bytes, area)?, clean, page_size })
    }
}

/// Refuses a volume with the memory of a system that sleeps, in the file of record `number`.
///
/// A short file is the mark of a volume that such a system uses besides its own. What begins with zeros was never
/// used, or was discarded, and "WAKE" stands where the system has come back.
pub(super) fn check_hibernation(volume: &Volume<'_, '_>, number: u64) -> Result<(), Refusal> {
    let contents = volume.contents(number, "hiberfil.sys")?;
    dirty_if(!contents.is_readable(), "hiberfil.sys is compressed or encrypted")?;
    dirty_if(contents.sizes.data < PAGE, "hiberfil.sys is short, as where another volume's system sleeps")?;
    let head = volume.read(&contents, 0, PAGE as usize)?;
    let signature = slice(&head, 0, 4)?;
    if head.iter().all(|byte| *byte == 0) || signature.eq_ignore_ascii_case(b"WAKE") {
        return Ok(());
    }
    match signature.eq_ignore_ascii_case(b"HIBR") {
        true => Err(Refusal::dirty("the system is hibernated")),
        false => Err(Refusal::dirty("hiberfil.sys begins with something unknown")),
    }
}
