//! When bytes that one view has written are seen by others: one test, alone in its process. A test beside it that starts a
//! program would hand a copy of each descriptor to it until exec, and closing such a copy writes what is pending.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::Write;

use haul_testbed::Bed;
use haul_testbed::late::{self, FOR_EVER, LateView, Lateness};

#[test]
fn bytes_are_elsewhere_after_a_sync_or_a_close_and_not_before() {
    let Some(bed) = Bed::new() else { return };
    let backing = bed.path().join("backing");
    fs::create_dir(&backing).expect("a directory");
    let view = |name| {
        let at = bed.path().join(name);
        fs::create_dir(&at).expect("a mount point");
        LateView::mount(&late::program(), &[], &backing, &at, Lateness::of(FOR_EVER))
    };
    let (Some(a), Some(b)) = (view("a"), view("b")) else { return };
    let mut file = File::create(a.path().join("file")).expect("it can be made");
    let seen = || fs::read(b.path().join("file")).expect("it can be read");
    file.write_all(b"one").expect("it can be written");
    assert_eq!((seen(), fs::read(backing.join("file")).unwrap()), (vec![], vec![]));
    assert_eq!(fs::read(a.path().join("file")).unwrap(), b"one");
    file.sync_data().expect("it can be synced");
    assert_eq!(seen(), b"one");
    file.write_all(b"two").expect("it can be written");
    assert_eq!(seen(), b"one");
    drop(file);
    assert_eq!(seen(), b"onetwo");
}
