//! Packages for Debian, by dpkg-deb(1): programs of this system, and what they need by dpkg-shlibdeps(1).

use std::path::{Path, PathBuf};

use super::build::Recipe;
use super::layout::Part;
use crate::shell::{self, Result};

/// Makes the package of a part; returns where it is.
///
/// # Errors
/// When a tool of Debian fails.
pub fn package(part: &Part, recipe: &Recipe, programs: &Path) -> Result<PathBuf> {
    let room = recipe.target.join("layout/debian").join(part.name);
    shell::remove(&room)?;
    let root = room.join("debian").join(part.name);
    // dpkg-shlibdeps tells by it that what is there is a package.
    let dir = root.join("DEBIAN");
    shell::make_dir(&dir)?;
    let usr = root.join("usr");
    part.lay_out(&recipe.source, programs, &usr)?;
    as_debian_has_it(part, recipe, &usr)?;
    let arch = shell::output(shell::command("dpkg").arg("--print-architecture"))?.trim().to_owned();
    let description: String = part.description.iter().map(|line| format!(" {line}\n")).collect();
    let mut depends = needed(part, &room, &usr)?;
    for package in part.depends {
        depends += &format!(", {package}");
    }
    let recommends = match part.recommends {
        [] => String::new(),
        packages => format!("Recommends: {}\n", packages.join(", ")),
    };
    let control = format!(
        "Package: {}\nVersion: {}\nArchitecture: {arch}\nMaintainer: {MAINTAINER}\nInstalled-Size: {}\nDepends: {depends}\n\
         {recommends}Section: utils\nPriority: optional\nHomepage: {HOMEPAGE}\nDescription: {}\n{description}",
        part.name,
        recipe.stamp.version,
        installed_size(&root)?,
        part.summary,
    );
    let sums = shell::output(
        shell::command("sh")
            .args(["-c", "find usr -type f | LC_ALL=C sort | xargs -d '\\n' md5sum"])
            .current_dir(&root),
    )?;
    for (name, text) in [("control", &control), ("md5sums", &sums)] {
        shell::write(&dir.join(name), text)?;
        shell::set_mode(&dir.join(name), 0o644)?;
    }
    shell::run(shell::command("chmod").args(["-R", "u=rwX,go=rX"]).arg(&root))?;
    let package = recipe.into.join(format!("{}_{}_{arch}.deb", part.name, recipe.stamp.version));
    let mut build = shell::command("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&package);
    shell::run(build.env("SOURCE_DATE_EPOCH", &recipe.stamp.seconds))?;
    Ok(package)
}

/// The placeholders of Cargo.toml: haul has no public home yet.
const MAINTAINER: &str = "The haul authors <haul@example.org>";
const HOMEPAGE: &str = "https://example.org/haul";

/// Compressed manual pages, zsh's directory for packages, licences and changes as Debian's policy (12.5, 12.7) wants them.
fn as_debian_has_it(part: &Part, recipe: &Recipe, usr: &Path) -> Result {
    let (pages, doc) = (usr.join("share/man/man1"), usr.join("share/doc").join(part.name));
    for page in shell::entries(&pages)? {
        gzip(&page)?;
    }
    let functions = usr.join("share/zsh/site-functions");
    if functions.exists() {
        let to = usr.join("share/zsh/vendor-completions");
        std::fs::rename(&functions, &to).map_err(shell::at(&functions))?;
    }
    shell::make_dir(&doc)?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        shell::remove(&doc.join(licence))?;
    }
    let mit = std::fs::read_to_string(recipe.source.join("LICENSE-MIT")).map_err(shell::at(&doc))?;
    let indented = mit.lines().map(|line| if line.is_empty() { " .\n".into() } else { format!(" {line}\n") });
    let copyright = format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: haul\nSource: {HOMEPAGE}\n\n\
         Files: *\nCopyright: The haul authors\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n{}\n\
         License: Apache-2.0\n On Debian systems, the licence is in /usr/share/common-licenses/Apache-2.0.\n",
        indented.collect::<String>()
    );
    shell::write(&doc.join("copyright"), &copyright)?;
    let when = shell::output(shell::command("date").args([
        "--utc",
        "--rfc-email",
        "--date",
        &format!("@{}", recipe.stamp.seconds),
    ]))?;
    let changes = format!(
        "{} ({}) unstable; urgency=medium\n\n  * Built from commit {}; see CHANGELOG.md of haul.\n\n -- {MAINTAINER}  {}\n",
        part.name,
        recipe.stamp.version,
        recipe.stamp.commit,
        when.trim()
    );
    shell::write(&doc.join("changelog"), &changes)?;
    gzip(&doc.join("changelog"))
}

fn gzip(file: &Path) -> Result {
    shell::run(shell::command("gzip").args(["-9", "--no-name", "--force"]).arg(file))
}

/// In KiB, of which dpkg counts one for each thing that is not a file (deb-substvars(5)).
fn installed_size(root: &Path) -> Result<u64> {
    let sizes = shell::output(shell::command("find").arg(root).args(["-printf", "%y %s\n"]))?;
    let size = |line: &str| match line.split_once(' ') {
        Some(("f", bytes)) => bytes.parse::<u64>().unwrap_or_default().div_ceil(1024),
        _ => 1,
    };
    Ok(sizes.lines().map(size).sum())
}

/// The packages with the libraries that the programs are linked with.
fn needed(part: &Part, room: &Path, usr: &Path) -> Result<String> {
    // dpkg-shlibdeps works in the folder of a source package only.
    shell::make_dir(&room.join("debian"))?;
    shell::write(
        &room.join("debian/control"),
        &format!("Source: {0}\n\nPackage: {0}\nArchitecture: any\n", part.name),
    )?;
    let mut ask = shell::command("dpkg-shlibdeps");
    ask.current_dir(room).args(["-O", "--ignore-missing-info"]);
    for (_, program) in part.programs {
        ask.arg(usr.join("bin").join(program));
    }
    let said = shell::output(&mut ask)?;
    let needed = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(needed.ok_or_else(|| format!("dpkg-shlibdeps names no library of {}", part.name))?.to_owned())
}
