//! How fast blocks of zeros are found: `cargo run --release -p haul-io --example zero_scan`.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use haul_io::engine::hole::is_zero;

fn main() -> io::Result<()> {
    for (size, place) in [(128 << 10, "in the cache"), (256 << 20, "in memory")] {
        let zeros = vec![black_box(0_u8); size];
        let rounds = (4 << 30) / size;
        let start = Instant::now();
        for _ in 0..rounds {
            assert!(black_box(&zeros).chunks(4096).all(is_zero));
        }
        let speed = (rounds * size) as f64 / start.elapsed().as_secs_f64() / f64::from(1 << 30);
        writeln!(io::stdout(), "zeros {place}, block by block: {speed:.1} GiB/s")?;
    }
    Ok(())
}
