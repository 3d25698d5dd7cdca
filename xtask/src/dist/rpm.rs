//! Packages for distributions that have RPM, by rpmbuild(8): the static programs, which need nothing.

use std::path::{Path, PathBuf};

use super::build::Recipe;
use super::layout::Part;
use crate::shell::{self, Result};

/// Makes the package of a part; returns where it is.
///
/// # Errors
/// When rpmbuild fails.
pub fn package(part: &Part, recipe: &Recipe, programs: &Path, arch: &str) -> Result<PathBuf> {
    let room = recipe.target.join("layout/rpm").join(part.name);
    shell::remove(&room)?;
    let files = room.join("files");
    part.lay_out(&recipe.source, programs, &files.join("usr"))?;
    let listed = shell::output(shell::command("find").arg(&files).args(["!", "-type", "d", "-printf", "/%P\n"]))?;
    let mut listed: Vec<&str> = listed.lines().collect();
    listed.sort_unstable();
    let spec = room.join("package.spec");
    shell::write(
        &spec,
        &format!(
            "Name: {}\nVersion: {}\nRelease: 1\nSummary: {}\nLicense: MIT OR Apache-2.0\nURL: https://example.org/haul\n\
             AutoReqProv: no\n%description\n{}\n%install\ncp -a {}/. %{{buildroot}}\n%files\n{}\n",
            part.name,
            recipe.stamp.version,
            part.summary,
            part.description.join("\n"),
            files.display(),
            // brp-compress is not run: the pages stay as they are.
            listed.join("\n"),
        ),
    )?;
    let mut build = shell::command("rpmbuild");
    build.args(["-bb", "--quiet", "--target", arch]).env("SOURCE_DATE_EPOCH", &recipe.stamp.seconds);
    for definition in [
        &format!("_topdir {}", room.join("top").display()),
        &format!("_rpmdir {}", recipe.into.display()),
        "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm",
        "_buildhost reproducible",
        "use_source_date_epoch_as_buildtime 1",
        "clamp_mtime_to_source_date_epoch 1",
        "_build_id_links none",
        "__os_install_post %{nil}",
        "debug_package %{nil}",
    ] {
        build.args(["--define", definition]);
    }
    shell::run(build.arg(&spec))?;
    Ok(recipe.into.join(format!("{}-{}-1.{arch}.rpm", part.name, recipe.stamp.version)))
}
