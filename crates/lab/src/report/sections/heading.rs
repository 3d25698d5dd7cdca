//! What every section begins with.

use crate::results::Section;
use crate::view::View;

pub fn title(name: &str) -> &str {
    match name {
        "probe" => "What haul knows of this place",
        "mapped-copy" => "Mapped copies and big buffers",
        "in-kernel" => "Copies inside the kernel",
        "mapped-write" => "Writing through mapped files",
        "async-tree" => "Trees, copied asynchronously",
        "sparse-image" => "Disk images",
        "compare" => "Copiers compared",
        "tune" => "Settings for this machine",
        other => other,
    }
}

pub fn begun(section: &Section, question: &str) -> View {
    View::of(section, title(&section.name), question)
}
