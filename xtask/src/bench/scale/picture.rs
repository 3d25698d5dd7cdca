//! The speed-ups of all workloads by number of threads, as a drawing.

use std::fmt::Write;

use super::curve::Curve;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// Where the axes are; the names of the lines stand to the right.
const LEFT: f64 = 50.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 370.0;
/// Colours that differ also for who sees no red or green, on white and on black (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999"];

/// SVG 1.1: nothing but shapes and text, in the colours of the page that shows it.
pub fn draw(curves: &[Curve]) -> String {
    let most = curves.iter().flat_map(|curve| &curve.points).map(|point| point.threads).max().unwrap_or(2);
    let cores = curves.first().map_or(1, |curve| curve.cores);
    let highest = curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(|point| curve.speed_up(point)))
        .fold(cores as f64, f64::max);
    // Threads by their logarithm: most of what happens is at the left.
    let x = |threads: f64| LEFT + (RIGHT - LEFT) * threads.log2() / (most as f64).log2().max(1.0);
    let y = |speed_up: f64| BOTTOM - (BOTTOM - TOP) * speed_up / highest;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<style>text{{fill:#222}}.axis{{stroke:#888;fill:none}}\
         @media(prefers-color-scheme:dark){{text{{fill:#ddd}}}}</style>\n\
         <text x=\"{LEFT}\" y=\"20\">Speed-up against one thread, {cores} cores; dashed: as many times as there are threads\
         </text>\n"
    );
    let mut add = |line: String| writeln!(svg, "{line}").unwrap_or_default(); // writing to a String cannot fail
    add(format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>"));
    let ticks = |most: f64| (0..).map(|power| f64::from(1_u32 << power)).take_while(move |tick| *tick <= most);
    for tick in ticks(most as f64) {
        add(format!("<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>", x(tick), BOTTOM + 18.0));
    }
    for tick in ticks(highest) {
        add(format!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>", LEFT - 8.0, y(tick) + 4.0));
    }
    add(format!(
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">threads</text>",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 38.0
    ));
    let ideal: Vec<String> =
        (1..=cores).map(|threads| format!("{:.1},{:.1}", x(threads as f64), y(threads as f64))).collect();
    add(format!("<polyline class=\"axis\" stroke-dasharray=\"5 4\" points=\"{}\"/>", ideal.join(" ")));
    for (at, curve) in curves.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        // Those after the colours are all used are dotted.
        let dots = if at < COLOURS.len() { "" } else { " stroke-dasharray=\"2 3\"" };
        let points: Vec<String> = curve
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.threads as f64), y(curve.speed_up(point))))
            .collect();
        add(format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dots} points=\"{}\"/>",
            points.join(" ")
        ));
        let line = TOP + 18.0 * at as f64;
        add(format!(
            "<path stroke=\"{colour}\" stroke-width=\"2\"{dots} d=\"M{} {line}h22\"/><text x=\"{}\" y=\"{}\">{}</text>",
            RIGHT + 24.0,
            RIGHT + 54.0,
            line + 4.0,
            curve.name
        ));
    }
    svg + "</svg>\n"
}
