//! The page: one self-contained HTML file.
//!
//! Data is never markup: it is JSON in a script element that is not executed, with `<` escaped, and
//! the page's own script turns it into text nodes. The content security policy allows the three
//! scripts by their hashes, and no network. Styles may be inline, because the chart library brings
//! a style element with each chart. `tools/vendor.sh` fetches and checks the libraries.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The chart libraries, then the page's own.
const SCRIPTS: [&str; 3] = [
    include_str!("vendor/d3/dist/d3.min.js"),
    include_str!("vendor/plot/dist/plot.umd.min.js"),
    concat!(
        "\"use strict\";\n(() => {\n",
        include_str!("page/basics.js"),
        include_str!("page/marks.js"),
        include_str!("page/figures.js"),
        include_str!("page/bill.js"),
        include_str!("page/lines.js"),
        include_str!("page/runs.js"),
        include_str!("page/sweeps.js"),
        include_str!("page/guests.js"),
        include_str!("page/main.js"),
        "})();\n"
    ),
];
const STYLE: &str = include_str!("page/style.css");
const FRAME: &str = include_str!("page/page.html");

pub(crate) fn page(data: &Value) -> String {
    let hash = |s: &&str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(s.as_bytes())));
    let hashes: Vec<String> = SCRIPTS.iter().map(hash).collect();
    let policy = format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; base-uri 'none'; \
         form-action 'none'",
        hashes.join(" ")
    );
    let scripts: String = SCRIPTS.iter().map(|s| format!("<script>{s}</script>\n")).collect();
    let places = [
        ("{{policy}}", policy),
        ("{{style}}", STYLE.to_owned()),
        ("{{data}}", inert(data)),
        ("{{scripts}}", scripts),
    ];
    // In the order of the frame, so that inserted text is not searched again.
    let (mut page, mut rest) = (String::new(), FRAME);
    for (place, what) in places {
        let Some((before, after)) = rest.split_once(place) else {
            unreachable!("the page's frame has no {place}");
        };
        page += before;
        page += &what;
        rest = after;
    }
    page + rest
}

/// Returns JSON that cannot end a script element or begin a comment.
fn inert(data: &Value) -> String {
    let text = data.to_string().replace('<', "\\u003c");
    text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests;
