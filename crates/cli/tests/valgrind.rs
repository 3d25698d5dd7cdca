//! A copy under valgrind, which watches every access to memory of what `haul-sys` does unsafely.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use haul_testbed::{Command, create_painted, guest, skip, temp_dir};

/// Nothing here takes longer unless it hangs.
const LIMIT: &str = "300";

#[test]
fn a_copy_under_valgrind_is_whole_and_has_no_errors() {
    if !guest::has("valgrind") {
        return skip("valgrind is not installed");
    }
    let dir = temp_dir();
    let source = dir.path().join("s");
    fs::create_dir_all(source.join("sub")).expect("a directory");
    fs::write(source.join("sub/small"), "small").expect("a file");
    create_painted(source.join("large"), 5 << 20);
    fs::hard_link(source.join("large"), source.join("sub/other")).expect("a hard link");
    fs::set_permissions(source.join("sub/small"), fs::Permissions::from_mode(0o640)).expect("its mode is set");
    symlink("sub/small", source.join("link")).expect("a link");
    for (dest, options) in [("as-it-is", &["-a", "--jobs=2"][..]), ("read-write", &["-a", "--engine=read-write"])] {
        let output = Command::new("timeout")
            .args(["--kill-after=10", LIMIT, "valgrind", "--quiet", "--error-exitcode=99", "--leak-check=no"])
            .arg(env!("CARGO_BIN_EXE_haul"))
            .args(options)
            .args(["s", dest])
            .current_dir(dir.path())
            .output()
            .expect("timeout can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{options:?}: {}\n{said}", output.status);
        let mut differ = Command::new("diff");
        differ.args(["--recursive", "--no-dereference", "s", dest]).current_dir(dir.path());
        assert_eq!(text_of(&mut differ), "", "{options:?}");
        let mode = fs::metadata(dir.path().join(dest).join("sub/small")).expect("it was copied").permissions().mode();
        assert_eq!(mode & 0o7777, 0o640, "{options:?}");
    }
}

fn text_of(command: &mut Command) -> String {
    let output = command.output().expect("the program can be run");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
