//! `haul --smart --punch`: gives back the free space of images in place.

use std::path::Path;
use std::sync::Arc;

use haul_frontend::environment::saved_machines;
use haul_frontend::exit;
use haul_frontend::options::Punch;
use haul_frontend::report::Report;
use haul_frontend::size::human_size;
use haul_frontend::words;
use haul_image::{Punched, System};
use haul_sys::kernel::{Kernel, Linux};

/// Does it for each image in turn.
pub(crate) fn punch(report: &Report, request: &Punch) -> u8 {
    let kernel: Arc<dyn Kernel> = Arc::new(Linux);
    let system = System::default().with_saved(saved_machines());
    let mut failed = false;
    for image in &request.images {
        let path = Path::new(image);
        // A signal has its default effect: what is free already stays free, and everything else is as it was.
        match haul_image::punch(&kernel, path, &system, request.required, &|| false) {
            Ok(done) => report.screen().print(&text(path, &done, request, report)),
            Err(error) => {
                failed = true;
                report.complain(&words::message(&error, report.quoter()));
            }
        }
    }
    failed |= !report.finish();
    if failed { exit::FAILURE } else { exit::SUCCESS }
}

fn text(path: &Path, done: &Punched, request: &Punch, report: &Report) -> Vec<u8> {
    let name = report.quoter().path(path);
    let free = human_size(done.map.free.bytes());
    let line = format!(": {} bytes freed ({free} of {} are free)\n", done.freed, human_size(done.map.size));
    let mut text = [&name[..], line.as_bytes()].concat();
    if request.explain {
        text.extend(done.map.to_string().into_bytes());
    }
    text
}
