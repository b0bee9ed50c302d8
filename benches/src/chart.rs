//! A bar chart as SVG, readable on light and dark pages.

use std::fmt::{self, Write as _};

/// Width of the picture, of the labels and of the longest bar, in pixels.
const WIDTH: u32 = 760;
const LABELS: u32 = 230;
const LONGEST: f64 = 420.0;
/// Height of a bar with the space below it.
const ROW: u32 = 28;

const STYLE: &str = "\
text { font: 14px system-ui, sans-serif; fill: #1f2937 }
.t { font-weight: 600; font-size: 16px }
.g { font-weight: 600 }
.l { text-anchor: end }
.page { fill: #fff }
.bar { fill: #94a3b8 }
.own { fill: #0369a1 }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb }
  .page { fill: #0d1117 }
  .bar { fill: #64748b }
  .own { fill: #38bdf8 }
}";

/// A chart with groups of bars on one scale.
#[derive(Debug)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Groups.
    pub groups: Vec<Group>,
}

/// A group of bars.
#[derive(Debug)]
pub struct Group {
    /// Heading, which may be empty.
    pub heading: String,
    /// Bars.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Debug)]
pub struct Bar {
    /// Text before the bar.
    pub label: String,
    /// Length.
    pub value: f64,
    /// Text after the bar.
    pub text: String,
    /// `true` for bars of Callgate.
    pub is_callgate: bool,
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let largest = bars().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
        let mut body = String::new();
        let mut y = 60;
        for group in &self.groups {
            if !group.heading.is_empty() {
                writeln!(
                    body,
                    r#"<text x="16" y="{y}" class="g">{}</text>"#,
                    escaped(&group.heading)
                )?;
                y += ROW;
            }
            for bar in &group.bars {
                let (label, text) = (escaped(&bar.label), escaped(&bar.text));
                let class = if bar.is_callgate { "own" } else { "bar" };
                let length = (bar.value / largest * LONGEST).max(1.0);
                let (end, top) = (f64::from(LABELS) + length + 8.0, y - 14);
                writeln!(body, r#"<text x="{}" y="{y}" class="l">{label}</text>"#, LABELS - 10)?;
                writeln!(
                    body,
                    r#"<rect x="{LABELS}" y="{top}" width="{length:.1}" height="18" rx="2" class="{class}"/>"#
                )?;
                writeln!(body, r#"<text x="{end:.1}" y="{y}">{text}</text>"#)?;
                y += ROW;
            }
            y += 8;
        }
        let (title, height) = (escaped(&self.title), y - 10);
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
             <style>\n{STYLE}\n</style>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" class=\"page\"/>\n\
             <text x=\"16\" y=\"26\" class=\"t\">{title}</text>\n{body}</svg>"
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_lengths_are_proportional_to_values_and_texts_are_escaped() {
        let bar = |label: &str, value| Bar {
            label: label.to_owned(),
            value,
            text: format!("{value}"),
            is_callgate: value > 1.0,
        };
        let bars = vec![bar("a & b", 1.0), bar("own", 4.0)];
        let groups = vec![Group { heading: "group".to_owned(), bars }];
        let svg = Chart { title: "calls <per> second".to_owned(), groups }.to_string();
        assert!(svg.contains(r#"width="105.0" height="18" rx="2" class="bar""#), "{svg}");
        assert!(svg.contains(r#"width="420.0" height="18" rx="2" class="own""#), "{svg}");
        assert!(svg.contains("a &amp; b") && svg.contains("calls &lt;per>"), "{svg}");
    }
}
