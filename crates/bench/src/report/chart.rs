//! Charts as SVG: groups of bars, and stacks.
//!
//! Bars lie on their side, each group under its label, and horizontal places are percentages of the width that the page
//! gives: so a chart is as readable on a phone as on a wide screen, without scripts and without shrinking its letters.
//! Colours come from the page's style sheet by class, in a light and a dark version.
//!
//! A figure that is missing is drawn as an empty dashed box that says why. It has no length that could be taken for a
//! value.

use std::collections::BTreeMap;

use super::markup::{Element, el, text};
use super::scale::Scale;
use crate::format;

/// Width of the plot, in per cent of the chart: the rest is room for the values at the ends of long bars.
const PLOT: &str = "80%";
/// Height of the axis above the plot, in pixels.
const AXIS: u32 = 40;
const LABEL: u32 = 20;
/// From this height on, the ticks are written below the plot as well, in pixels.
const TALL: u32 = 600;
const GAP: u32 = 8;

/// One bar.
#[derive(Clone, PartialEq, Debug)]
pub enum Bar {
    /// A value.
    Value {
        /// Where the bar ends.
        value: f64,
        /// What is written at its end.
        label: String,
        /// The limits within which the value is known, drawn as a line.
        range: Option<(f64, f64)>,
    },
    /// No value, for this reason.
    Missing(String),
}

/// Bars of different series that belong together.
#[derive(Clone, PartialEq, Debug)]
pub struct BarGroup {
    /// What they are bars of.
    pub label: String,
    /// A bar for each series, in their order.
    pub bars: Vec<Bar>,
}

/// A series of bars.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// The class of its colour.
    pub class: String,
}

/// A chart of groups of bars.
#[derive(Clone, PartialEq, Debug)]
pub struct Bars {
    /// What the chart shows, for those who cannot see it.
    pub title: String,
    /// The axis's title, with its unit.
    pub axis: String,
    /// The axis.
    pub scale: Scale,
    /// Where bars begin: 1 for ratios on a logarithmic axis, else 0.
    pub base: f64,
    /// A value to mark with a line across the plot, such as native speed.
    pub mark: Option<f64>,
    /// The series.
    pub series: Vec<Series>,
    /// The groups.
    pub groups: Vec<BarGroup>,
}

/// A part of a stack.
#[derive(Clone, PartialEq, Debug)]
pub struct Slice {
    /// The class of its colour.
    pub class: String,
    /// Its name.
    pub label: String,
    /// Its size, in the unit of the stack. Not negative.
    pub value: f64,
}

/// A stack: a whole and its parts, drawn as shares of 100 %.
#[derive(Clone, PartialEq, Debug)]
pub struct Stack {
    /// What it is a stack of, and how much the whole is.
    pub label: String,
    /// The parts, or why there are none.
    pub slices: Result<Vec<Slice>, String>,
}

/// The least share that is drawn: less than that is no pixel wide, and there are hundreds of them.
const VISIBLE: f64 = 0.0002;

/// A chart of stacks.
#[derive(Clone, PartialEq, Debug)]
pub struct Stacks {
    /// What the chart shows, for those who cannot see it.
    pub title: String,
    /// The axis's title.
    pub axis: String,
    /// The stacks.
    pub stacks: Vec<Stack>,
}

/// A legend, as HTML.
pub fn legend<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Element {
    let entry = |(class, label): (&str, &str)| {
        el("li").child(el("span").class(format!("swatch {class}")).text("")).child(text("span", label))
    };
    el("ul").class("legend").children(entries.into_iter().map(entry))
}

impl Bars {
    /// The chart, with its legend if it has more than one series.
    pub fn draw(&self) -> Element {
        let thick = if self.series.len() > 3 { 11 } else { 15 };
        let mut plot = Vec::new();
        let mut y = 0;
        for group in &self.groups {
            plot.push(label(&group.label, y));
            y += LABEL;
            for (bar, series) in group.bars.iter().zip(&self.series) {
                self.bar(&mut plot, bar, series, &group.label, y, thick);
                y += thick + 2;
            }
            y += GAP;
        }
        let marks = self.scale.ticks().into_iter().map(|tick| (self.scale.at(tick), Scale::label(tick)));
        let axis = if self.scale.is_log() { format!("{}, log scale", self.axis) } else { self.axis.clone() };
        // At the left end it is the axis itself.
        let mark = self.mark.map(|value| self.scale.at(value)).filter(|x| *x > 0.0);
        let svg = frame(&self.title, &axis, marks.collect(), mark, plot, y, PLOT);
        let mut whole = el("div");
        if self.series.len() > 1 {
            whole.push(legend(self.series.iter().map(|s| (s.class.as_str(), s.label.as_str()))));
        }
        whole.child(svg)
    }

    fn bar(&self, plot: &mut Vec<Element>, bar: &Bar, series: &Series, group: &str, y: u32, thick: u32) {
        let name = if self.series.len() > 1 { format!("{group}, {}", series.label) } else { group.to_string() };
        let (value, label, range) = match bar {
            Bar::Missing(why) => return missing(plot, &name, why, y, thick),
            Bar::Value { value, label, range } => (*value, label, *range),
        };
        let (base, end) = (self.scale.at(self.base), self.scale.at(value));
        let rect = el("rect")
            .class(format!("bar {}", series.class))
            .attr("x", percent(base.min(end)))
            .attr("y", y.to_string())
            .attr("width", percent((end - base).abs()))
            .attr("height", thick.to_string())
            .child(text("title", format!("{name}: {label}")));
        plot.push(rect);
        let mut right = base.max(end);
        if let Some((low, high)) = range {
            let (low, high) = (self.scale.at(low), self.scale.at(high));
            let middle = (y + thick / 2).to_string();
            plot.push(line("whisker", &percent(low), &middle, &percent(high), &middle));
            for x in [low, high] {
                plot.push(line(
                    "whisker",
                    &percent(x),
                    &(y + 2).to_string(),
                    &percent(x),
                    &(y + thick - 2).to_string(),
                ));
            }
            right = right.max(high);
        }
        let value = text("text", label).class("value").attr("x", percent(right)).attr("dx", "5");
        plot.push(value.attr("y", (y + thick - thick / 4).to_string()));
    }
}

impl Stacks {
    /// The chart, with the legend of the slices that occur.
    pub fn draw(&self) -> Element {
        const THICK: u32 = 18;
        let mut plot = Vec::new();
        // By place in the stack, which is the same for all.
        let mut seen: BTreeMap<usize, (&str, &str)> = BTreeMap::new();
        let mut y = 0;
        for stack in &self.stacks {
            plot.push(label(&stack.label, y));
            y += LABEL;
            match &stack.slices {
                Err(why) => missing(&mut plot, &stack.label, why, y, THICK),
                Ok(slices) => {
                    let whole: f64 = slices.iter().map(|s| s.value).sum();
                    if whole == 0.0 {
                        plot.push(text("text", "none").class("value").attr("x", "0").attr("y", (y + 13).to_string()));
                    }
                    let mut left = 0.0;
                    for (place, slice) in slices.iter().enumerate().filter(|(_, s)| s.value > 0.0) {
                        let share = slice.value / whole;
                        if share >= VISIBLE {
                            slice.draw(&mut plot, left, share, y, THICK);
                            seen.insert(place, (&slice.class, &slice.label));
                        }
                        left += share;
                    }
                }
            }
            y += THICK + GAP;
        }
        let marks = (0..=4).map(|n| (f64::from(n) / 4.0, format!("{} %", 25 * n))).collect();
        let svg = frame(&self.title, &self.axis, marks, None, plot, y, "100%");
        el("div").child(legend(seen.into_values())).child(svg)
    }
}

impl Slice {
    fn draw(&self, plot: &mut Vec<Element>, left: f64, share: f64, y: u32, thick: u32) {
        let rect = el("rect")
            .class(format!("bar {}", self.class))
            .attr("x", percent(left))
            .attr("y", y.to_string())
            .attr("width", percent(share.min(1.0 - left)))
            .attr("height", thick.to_string())
            .child(text("title", format!("{} {} %", self.label, format::percent(share))));
        plot.push(rect);
        if share >= 0.08 {
            let inside = text("text", format::percent(share)).class("inside").attr("x", percent(left + share / 2.0));
            plot.push(inside.attr("y", (y + thick - 5).to_string()));
        }
    }
}

/// The axis and what is in the plot.
fn frame(
    title: &str,
    axis: &str,
    marks: Vec<(f64, String)>,
    mark: Option<f64>,
    plot: Vec<Element>,
    height: u32,
    width: &str,
) -> Element {
    let mut inner = el("svg").class("plot").attr("x", "0").attr("y", AXIS.to_string()).attr("width", width);
    inner = inner.attr("height", height.to_string()).attr("overflow", "visible");
    let bottom = height.to_string();
    let last = marks.len().saturating_sub(1);
    for (at, (place, tick)) in marks.into_iter().enumerate() {
        let x = percent(place);
        inner.push(line("grid", &x, "-4", &x, &bottom));
        let anchor = if at == 0 {
            "start"
        } else if at == last && width == "100%" {
            "end"
        } else {
            "middle"
        };
        let tick = text("text", tick).class("tick").attr("x", x).attr("text-anchor", anchor);
        if height >= TALL {
            inner.push(tick.clone().attr("y", (height + 12).to_string()));
        }
        inner.push(tick.attr("y", "-8"));
    }
    if let Some(mark) = mark {
        let x = percent(mark);
        inner.push(line("mark", &x, "-4", &x, &bottom));
    }
    let title_text = text("text", axis).class("axis").attr("x", "0").attr("y", "14");
    el("svg")
        .class("chart")
        .attr("xmlns", "http://www.w3.org/2000/svg")
        .attr("role", "img")
        .attr("aria-label", title)
        .attr("width", "100%")
        .attr("height", (height + AXIS + if height >= TALL { 16 } else { 0 }).to_string())
        .child(title_text)
        .child(inner.children(plot))
}

fn label(what: &str, y: u32) -> Element {
    text("text", what).class("label").attr("x", "0").attr("y", (y + 14).to_string())
}

/// An empty box that says why nothing is in it.
fn missing(plot: &mut Vec<Element>, name: &str, why: &str, y: u32, thick: u32) {
    const MOST: usize = 44;
    let mut short: String = why.chars().take(MOST).collect();
    if short.len() < why.len() {
        short.push('…');
    }
    let rect = el("rect").class("missing").attr("x", "0").attr("y", y.to_string()).attr("width", "24");
    plot.push(rect.attr("height", thick.to_string()).child(text("title", format!("{name}: {why}"))));
    let note = text("text", short).class("note").attr("x", "0").attr("dx", "30");
    plot.push(note.attr("y", (y + thick - thick / 4).to_string()));
}

fn line(class: &str, x1: &str, y1: &str, x2: &str, y2: &str) -> Element {
    el("line").class(class).attr("x1", x1).attr("y1", y1).attr("x2", x2).attr("y2", y2)
}

/// A fraction as a percentage with three decimals: finer than any screen.
fn percent(fraction: f64) -> String {
    format!("{:.3}%", 100.0 * fraction)
}
