//! Reports in a real browser, on screens of a telephone, a laptop and a desk, and on paper.
//!
//! `HAUL_PAGES=DIR` keeps the pages there, and the results that they show, for people to look at.

mod sample;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use haul_lab::results::Results;
use haul_testbed::guest::has;
use haul_testbed::{Command, temp_dir};
use serde_json::Value;

/// Widths in pixels of screens and of a printed A4 page, and whether the page is printed.
const SCREENS: [(u32, bool); 5] = [(360, false), (390, false), (1100, false), (1600, false), (718, true)];

/// Notes everything that the page asks for and may not have; stands before anything else.
const WATCH: &str = "<script>var refused=[];\
addEventListener('securitypolicyviolation',e=>refused.push(e.violatedDirective+' '+e.blockedURI));\
addEventListener('error',e=>refused.push('error '+e.message),true);</script>";

/// Measures the page that it is in, and tells the page around it.
const PROBE: &str = r"<script>addEventListener('load',()=>{
const faults=[],figures=[...document.querySelectorAll('figure')];
const apart=(a,b)=>a.right<=b.left+1.5||b.right<=a.left+1.5||a.bottom<=b.top+3||b.bottom<=a.top+3;
for(const figure of figures){
  const name=figure.querySelector('figcaption')?.textContent||'',box=figure.getBoundingClientRect();
  if(!name)faults.push('no name: '+figure.outerHTML.slice(0,80));
  for(const part of figure.querySelectorAll('.bars,.plot,.strip,table')){
    const rect=part.getBoundingClientRect();
    if(rect.width<50||rect.height<10)faults.push('no size: '+name);
  }
  for(const drawn of figure.querySelectorAll('.bars,.plot,.strip'))
    if(drawn.getAttribute('role')!='img'||!/\d/.test(drawn.getAttribute('aria-label')))faults.push('says nothing: '+name);
  for(const drawn of figure.querySelectorAll('.bars,.plot,.strip'))
    if(!drawn.querySelector('.axis em')?.textContent||drawn.querySelectorAll('.axis i').length<2)faults.push('no axis: '+name);
  const scrolls=figure.querySelector('.box');
  const texts=[...figure.querySelectorAll('li,span,td,th,.head,.under,.track i,.axis i,.axis em')].filter(t=>t.childNodes.length==1&&t.firstChild.nodeType==3||t.tagName=='LI').map(t=>{
    const range=document.createRange();range.selectNodeContents(t);
    return [t.textContent.trim(),range.getBoundingClientRect(),t];}).filter(([words,b])=>words&&b.width);
  for(const [words,b,t] of texts){
    if(!scrolls&&(b.left<box.left-1||b.right>box.right+1))faults.push('cut: '+words+' in '+name);
    if(t.scrollWidth>t.clientWidth+1&&getComputedStyle(t).overflowX=='hidden')faults.push('hidden: '+words+' in '+name);
    if(parseFloat(getComputedStyle(t).fontSize)<10)faults.push('small letters: '+words+' in '+name);
  }
  texts.forEach(([words,b],i)=>texts.slice(i+1).forEach(([others,c])=>{
    if(!apart(b,c))faults.push('overlap: '+words+' and '+others+' in '+name);}));
}
if(!/hostile/.test(location.search))for(const box of document.querySelectorAll('.box'))
  if(box.scrollWidth>box.clientWidth+1)faults.push('beyond the page: '+box.getAttribute('aria-label')+' '+box.scrollWidth+' of '+box.clientWidth);
const root=document.documentElement;
parent.postMessage({width:innerWidth,scroll:root.scrollWidth,faults,refused,drawn:figures.length,
  sections:document.querySelectorAll('section').length,requests:performance.getEntriesByType('resource').length},'*');
});</script>";

/// Shows the page in frames as wide as the screens and the paper, and writes down what they tell.
fn frames(name: &str) -> String {
    let frame = |(width, printed): &(u32, bool)| {
        let page = if *printed { "printed" } else { "probed" };
        format!("<iframe src=\"{page}.html?{name}\" style=\"width:{width}px;height:800px\"></iframe>")
    };
    let frames: Vec<String> = SCREENS.iter().map(frame).collect();
    format!(
        "<!DOCTYPE html><meta charset=utf-8><script>var heard=[];addEventListener('message',e=>{{heard.push(e.data);\
         document.getElementById('heard').textContent=JSON.stringify(heard)}})</script><pre id=heard></pre>{}",
        frames.concat()
    )
}

/// What chromium says of a page on each screen and on paper.
fn measured(dir: &Path, name: &str, html: &str) -> Vec<Value> {
    let policy = "content=\"default-src 'none'; style-src 'unsafe-inline'\">";
    let allowed =
        format!("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">{WATCH}");
    assert!(html.contains(policy));
    let probed = html.replacen(policy, &allowed, 1).replacen("</body>", &format!("{PROBE}</body>"), 1);
    let printed = probed.replace("@media screen", "@media not all").replace("@media print", "@media all");
    fs::write(dir.join("probed.html"), probed).unwrap();
    fs::write(dir.join("printed.html"), printed).unwrap();
    fs::write(dir.join("frames.html"), frames(name)).unwrap();
    // A browser that hangs is to fail the test, not to hold it up.
    let mut chromium = Command::new("timeout");
    chromium.args(["120", "chromium"]);
    chromium.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    chromium.args(["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]);
    chromium.args(["--window-size=1400,1000", "--virtual-time-budget=10000", "--enable-logging=stderr", "--dump-dom"]);
    chromium.arg(format!("--user-data-dir={}", dir.join("profile").display()));
    chromium.arg(format!("file://{}", dir.join("frames.html").display()));
    let output = chromium.env("HOME", dir).stdin(Stdio::null()).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let console: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:?}");
    let dom = String::from_utf8(output.stdout).unwrap();
    let heard = dom.split_once("<pre id=\"heard\">").and_then(|(_, rest)| rest.split_once("</pre>")).unwrap().0;
    let heard = heard.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let heard: Vec<Value> = serde_json::from_str(&heard).unwrap_or_else(|error| panic!("{error}: {heard:?}\n{log}"));
    assert_eq!(heard.len(), SCREENS.len(), "{heard:?}");
    heard
}

fn assert_fine(name: &str, results: &Results) {
    let dir = temp_dir();
    results.save(&dir.path().join("results.json")).unwrap();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_haul-lab"));
    let output = lab.args(["report", "results.json", "--html=page.html"]).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let html = fs::read_to_string(dir.path().join("page.html")).unwrap();
    if let Some(kept) = std::env::var_os("HAUL_PAGES") {
        fs::write(Path::new(&kept).join(format!("{name}.html")), &html).unwrap();
        results.save(&Path::new(&kept).join(format!("{name}.json"))).unwrap();
    }
    for screen in measured(dir.path(), name, &html) {
        let width = &screen["width"];
        assert_eq!(screen["faults"], Value::Array(Vec::new()), "{name} at {width}");
        assert_eq!(screen["refused"], Value::Array(Vec::new()), "{name} at {width}");
        assert_eq!((&screen["scroll"], &screen["requests"]), (width, &Value::from(0)), "{name} at {width}");
        assert!(screen["drawn"].as_u64().is_some_and(|drawn| drawn > 0), "{name} at {width}");
        assert_eq!(screen["sections"], Value::from(results.sections.len() + 1), "{name} at {width}");
    }
}

#[test]
fn a_report_fits_every_screen_and_nothing_in_it_is_cut_or_overlaps() {
    if !has("chromium") {
        return;
    }
    assert_fine("full", &sample::results());
}

#[test]
fn a_report_of_hostile_names_fits_every_screen() {
    if !has("chromium") {
        return;
    }
    let mut results = sample::results();
    results.sections.truncate(2);
    for section in &mut results.sections {
        section.place = "n".repeat(3000);
        for (number, case) in section.cases.iter_mut().enumerate() {
            case.competitor = match number % 4 {
                0 => "W".repeat(3000),
                1 => format!("</svg></table><img src=x onerror=alert({number})>"),
                2 => sample::LONG.to_owned(),
                _ => "漢".repeat(70),
            };
            case.group = format!("{} {}", case.group, "x".repeat(400));
        }
    }
    results.environment.kernel = "k".repeat(3000);
    assert_fine("hostile", &results);
}
