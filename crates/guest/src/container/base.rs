//! Disks that go on from another one: overlays of snapshots, differencing disks, linked clones.
//!
//! Such a disk has what changed since it was made, and everything else is in its base. A guest that was running then had
//! written blocks that no map on the base shows yet, and only the overlay has the map that does.

use std::sync::Arc;

use super::tables::{Reader, Tables};
use super::{qcow2, vdi, vhd, vhdx, vmdk};
use crate::bytes::{array, be32, be64, le32, le64};
use crate::guard::guarded;
use crate::image::ReadAt;
use crate::refusal::Refusal;

/// QED, which QEMU had between qcow and qcow2 version 3.
const QED: &[u8] = b"QED\0";
/// The bit of its features that says that there is a base.
const QED_HAS_BASE: u64 = 1;
/// The longest name of a base in qcow2 and QED, in bytes.
const LONGEST: usize = 1023;

/// The disk from which another one goes on, as its file says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// By names, each of them a path or a description with the path in it.
    Named(Vec<Vec<u8>>),
    /// By the identity in a VDI.
    Id([u8; 16]),
    /// In a way that is not understood.
    Unknown,
}

impl Base {
    /// Whether it may be this image of this name. No if it cannot be.
    pub fn may_be(&self, name: &[u8], image: &dyn ReadAt) -> bool {
        match self {
            Base::Named(names) => names.iter().any(|text| names_file(text, name)),
            Base::Id(id) => id_of(image).is_none_or(|own| own == *id),
            Base::Unknown => true,
        }
    }
}

/// The base of the disk in a file. `None` for one that goes on from no other.
///
/// # Errors
/// If it cannot be read, or is not what it looks like.
pub fn base(file: Arc<dyn ReadAt>) -> Result<Option<Base>, Refusal> {
    guarded(|| find(&Reader::new(vec![file])))
}

fn find(reader: &Reader) -> Result<Option<Base>, Refusal> {
    let start = reader.read(0, 0, usize::try_from(reader.size(0)).unwrap_or(usize::MAX).min(512))?;
    if start.starts_with(&qcow2::MAGIC) {
        let (at, len) = (be64(&start, 8)?, be32(&start, 16)?);
        return Ok((at != 0).then(|| named_at(reader, at, len)));
    }
    if start.starts_with(QED) {
        let has_base = le64(&start, 16)? & QED_HAS_BASE != 0;
        let (at, len) = (le32(&start, 56)?, le32(&start, 60)?);
        return Ok(has_base.then(|| named_at(reader, at.into(), len)));
    }
    if start.starts_with(vhdx::MAGIC) {
        return Ok(vhdx::parent(reader)?.map(named_or_unknown));
    }
    if vdi::detect(&start) {
        return Ok(vdi::parent(&start)?.map(Base::Id));
    }
    if start.starts_with(vhd::COOKIE) {
        return Ok(vhd::parent(reader, &start)?.map(|name| named_or_unknown(vec![name])));
    }
    if let Some(text) = vmdk::description(reader, &start)? {
        return Ok(vmdk::parent(&text).map(named_or_unknown));
    }
    Ok(None)
}

fn named_or_unknown(names: Vec<Vec<u8>>) -> Base {
    if names.iter().all(Vec::is_empty) { Base::Unknown } else { Base::Named(names) }
}

/// What is named in `len` bytes.
fn named_at(reader: &Reader, at: u64, len: u32) -> Base {
    let name = usize::try_from(len).ok().filter(|len| (1..=LONGEST).contains(len));
    let name = name.and_then(|len| reader.read(0, at, len).ok());
    match name {
        // JSON with characters that are written in another way.
        Some(name) if name.starts_with(b"json:") && name.contains(&b'\\') => Base::Unknown,
        Some(name) => Base::Named(vec![name]),
        None => Base::Unknown,
    }
}

/// Whether a path, a URL or a description in JSON names a file of this name; for a descriptor of a VMDK also one of the files
/// that may belong to it. Systems that do not tell upper and lower case apart write names, too.
fn names_file(text: &[u8], name: &[u8]) -> bool {
    text.split(|byte| b"/\\\"\0".contains(byte)).any(|part| {
        let behind_protocol = part.rsplit(|byte| *byte == b':').next().unwrap_or(part);
        [part, behind_protocol].iter().any(|part| part.eq_ignore_ascii_case(name) || is_extent_of(part, name))
    })
}

/// `disk-flat.vmdk` and `disk-s001.vmdk` belong to `disk.vmdk`.
fn is_extent_of(descriptor: &[u8], name: &[u8]) -> bool {
    let stem = |name: &[u8]| name.len().checked_sub(5).filter(|len| name[*len..].eq_ignore_ascii_case(b".vmdk"));
    let (Some(len), Some(_)) = (stem(descriptor), stem(name)) else { return false };
    name.get(..len).is_some_and(|start| start.eq_ignore_ascii_case(&descriptor[..len])) && name.get(len) == Some(&b'-')
}

/// The identity of a VDI; of anything else `None`.
fn id_of(image: &dyn ReadAt) -> Option<[u8; 16]> {
    let mut start = vec![0; 512];
    image.read_exact_at(0, &mut start).ok()?;
    if vdi::detect(&start) { array(&start, vdi::ID).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base_of(bytes: Vec<u8>) -> Option<Base> {
        base(Arc::new(bytes)).expect("it can be read")
    }

    fn with(len: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (at, field) in fields {
            bytes[*at..*at + field.len()].copy_from_slice(field);
        }
        bytes
    }

    fn is_base(overlay: Vec<u8>, name: &str) -> bool {
        base_of(overlay).is_some_and(|base| base.may_be(name.as_bytes(), &vec![0; 512]))
    }

    #[test]
    fn qcow_and_qed_name_their_base() {
        let at = |at: u64, len: u32| [&at.to_be_bytes()[..], &len.to_be_bytes()].concat();
        let qcow =
            |name: &str| with(1024, &[(0, b"QFI\xfb"), (8, &at(600, name.len() as u32)), (600, name.as_bytes())]);
        for text in ["base.qcow2", "/vm/base.qcow2", "./a/../base.qcow2", "file:base.qcow2", "nbd://h/base.qcow2"] {
            assert!(is_base(qcow(text), "base.qcow2"), "{text}");
            assert!(!is_base(qcow(text), "ase.qcow2") && !is_base(qcow(text), "other"), "{text}");
        }
        let json = r#"json:{"driver":"raw","file":{"driver":"file","filename":"/vm/base.img"}}"#;
        assert!(is_base(qcow(json), "base.img") && !is_base(qcow(json), "other.img"));
        assert!(is_base(qcow(r#"json:{"filename":"\u0061"}"#), "any"), "what is not understood may be any");
        assert_eq!(base_of(with(1024, &[(0, b"QFI\xfb")])), None, "a disk of its own");
        assert_eq!(base_of(with(1024, &[(0, b"QFI\xfb"), (8, &at(4000, 9))])), Some(Base::Unknown));
        let qed = with(512, &[(0, QED), (16, &[1]), (56, &[128, 0, 0, 0, 4, 0, 0, 0]), (128, b"disk")]);
        assert!(is_base(qed, "disk"));
        assert_eq!(base_of(b"some text that is shorter".to_vec()), None);
    }

    #[test]
    fn a_vmdk_names_the_descriptor_of_its_base() {
        let overlay = |lines: &str| format!("# Disk DescriptorFile\nversion=1\n{lines}\n").into_bytes();
        let named = "parentCID=1234abcd\nparentFileNameHint=\"C:\\vm\\Disk.vmdk\"";
        for name in ["disk.vmdk", "disk-flat.vmdk", "disk-s001.vmdk"] {
            assert!(is_base(overlay(named), name), "{name}");
        }
        assert!(!is_base(overlay(named), "disk2.vmdk") && !is_base(overlay(named), "disk-flat.img"));
        assert_eq!(base_of(overlay("parentCID=1234abcd")), Some(Base::Unknown));
        let other_letters = "parentCID=1234abcd\nparentFileNameHint=\"Gr\u{f6}\u{df}e.vmdk\"";
        assert_eq!(base_of(overlay(other_letters)), Some(Base::Unknown));
        let of_virtualbox = |id: &str| overlay(&format!("parentCID=ffffffff\nddb.uuid.parent=\"{id}\""));
        let id = "8a1c0f6e-1111-2222-3333-444455556666";
        assert_eq!(base_of(of_virtualbox(id)), Some(Base::Unknown));
        assert_eq!(base_of(of_virtualbox("00000000-0000-0000-0000-000000000000")), None);
        assert_eq!(base_of(overlay("parentCID=ffffffff")), None);
        let inside = with(2048, &[(0, b"KDMV"), (28, &[1]), (36, &[2]), (512, &overlay(named))]);
        assert!(is_base(inside, "disk.vmdk"));
    }

    #[test]
    fn a_vdi_has_the_identity_of_its_base() {
        let vdi = |id: u8, kind: u8, parent: u8| {
            let signature = 0xbeda_107f_u32.to_le_bytes();
            with(512, &[(64, &signature), (76, &[kind]), (vdi::ID, &[id; 16]), (424, &[parent; 16])])
        };
        let base = base_of(vdi(2, 4, 1)).expect("it has one");
        assert!(base.may_be(b"any", &vdi(1, 1, 0)) && !base.may_be(b"any", &vdi(3, 1, 0)));
        assert!(base.may_be(b"any", &vec![0; 512]), "disks in other formats have theirs elsewhere");
        assert_eq!(base_of(vdi(1, 1, 0)), None);
    }

    #[test]
    fn a_vhdx_names_its_base() {
        let text = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        let (key, value) = (text("relative_path"), text(".\\base.vhdx"));
        let pair = [&[32, 0, 0, 0, 64, 0, 0, 0][..], &[key.len() as u8, 0, value.len() as u8, 0]].concat();
        let locator = with(128, &[(18, &[1]), (20, &pair), (32, &key), (64, &value)]);
        let entry = |id: [u8; 16], at: u32, len: u32| {
            with(32, &[(0, &id), (16, &at.to_le_bytes()), (20, &len.to_le_bytes()), (24, &[4])])
        };
        let metadata = |flags: u8| {
            let items =
                [entry(vhdx::FILE_PARAMETERS, 64 << 10, 8), entry(vhdx::PARENT_LOCATOR, 65 << 10, 128)].concat();
            let fields: [(usize, &[u8]); 5] =
                [(0, b"metadata"), (10, &[2]), (32, &items), ((64 << 10) + 4, &[flags]), (65 << 10, &locator)];
            with(1 << 20, &fields)
        };
        let region = |id: [u8; 16], at: u64| {
            with(32, &[(0, &id), (16, &at.to_le_bytes()), (24, &(1_u32 << 20).to_le_bytes()), (28, &[1])])
        };
        let named = [region(vhdx::REGION_BAT, 1 << 20), region(vhdx::REGION_METADATA, 2 << 20)].concat();
        let mut regions = with(64 << 10, &[(0, b"regi"), (8, &[2]), (16, &named)]);
        let sum = crc32c::crc32c(&regions);
        regions[4..8].copy_from_slice(&sum.to_le_bytes());
        let vhdx = |flags| with(3 << 20, &[(0, b"vhdxfile"), (192 << 10, &regions), (2 << 20, &metadata(flags))]);
        assert!(is_base(vhdx(2), "base.vhdx") && !is_base(vhdx(2), "other.vhdx"));
        assert_eq!(base_of(vhdx(0)), None);
    }

    #[test]
    fn a_vhd_names_its_base() {
        let name: Vec<u8> = "D:\\vm\\base.vhd".encode_utf16().flat_map(u16::to_be_bytes).collect();
        let vhd = |kind: u8| {
            let fields: [(usize, &[u8]); 5] =
                [(0, b"conectix"), (22, &[2, 0]), (63, &[kind]), (512, b"cxsparse"), (576, &name)];
            with(2048, &fields)
        };
        assert!(is_base(vhd(4), "base.vhd") && !is_base(vhd(4), "other.vhd"));
        assert_eq!(base_of(vhd(3)), None);
    }
}
