//! A tree of elements, and its text, for HTML and the SVG inside it.
//!
//! Everything goes through here, so everything is escaped and every element is closed. What is written is well-formed
//! XML and HTML at once: tests read whole reports with an XML parser.

use std::fmt::Write as _;

/// An element.
#[derive(Clone, PartialEq, Debug)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<Node>,
}

#[derive(Clone, PartialEq, Debug)]
enum Node {
    Element(Element),
    Text(String),
}

/// An element of that name.
pub fn el(name: &'static str) -> Element {
    Element { name, attributes: Vec::new(), children: Vec::new() }
}

/// An element of that name with a text in it.
pub fn text(name: &'static str, text: impl Into<String>) -> Element {
    el(name).text(text)
}

impl Element {
    /// With an attribute.
    pub fn attr(mut self, name: &'static str, value: impl Into<String>) -> Element {
        self.attributes.push((name, value.into()));
        self
    }

    /// With this `class` attribute.
    pub fn class(self, value: impl Into<String>) -> Element {
        self.attr("class", value)
    }

    /// With a child, after those it has.
    pub fn child(mut self, child: Element) -> Element {
        self.push(child);
        self
    }

    /// With children, after those it has.
    pub fn children(mut self, children: impl IntoIterator<Item = Element>) -> Element {
        self.children.extend(children.into_iter().map(Node::Element));
        self
    }

    /// With a text, after the children it has.
    pub fn text(mut self, text: impl Into<String>) -> Element {
        self.children.push(Node::Text(text.into()));
        self
    }

    /// Adds a child, after those it has.
    pub fn push(&mut self, child: Element) {
        self.children.push(Node::Element(child));
    }

    /// Its text, on lines that `git diff` can show: only elements that hold no text are broken into lines, and rows of
    /// tables are not. Nothing is indented, which would be half of a page.
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out.push('\n');
        out
    }

    fn write(&self, out: &mut String) {
        let _ = write!(out, "<{}", self.name);
        for (name, value) in &self.attributes {
            let _ = write!(out, " {name}=\"");
            escape(out, value);
            out.push('"');
        }
        let shape = matches!(self.name, "line" | "rect") && self.children.is_empty();
        if shape || matches!(self.name, "meta" | "br") {
            out.push_str("/>");
            return;
        }
        out.push('>');
        let inline = matches!(self.name, "tr" | "rect") || self.children.iter().any(|c| matches!(c, Node::Text(_)));
        for child in &self.children {
            match child {
                Node::Text(text) if self.name == "style" => out.push_str(text),
                Node::Text(text) => escape(out, text),
                Node::Element(element) => {
                    if !inline {
                        out.push('\n');
                    }
                    element.write(out);
                }
            }
        }
        if !inline && !self.children.is_empty() {
            out.push('\n');
        }
        let _ = write!(out, "</{}>", self.name);
    }
}

/// Writes a text so that it means itself. Control characters, which XML cannot hold, become replacement characters.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if (c < ' ' && !matches!(c, '\t' | '\n')) || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_closes() {
        let tree = el("p").attr("title", "a \"b\" <c>").text("x & y\u{1}").child(el("br")).child(el("b"));
        assert_eq!(tree.render(), "<p title=\"a &quot;b&quot; &lt;c&gt;\">x &amp; y\u{fffd}<br/><b></b></p>\n");
    }

    #[test]
    fn breaks_lines_only_where_no_text_is() {
        let tree = el("ul").child(text("li", "one").child(text("b", "!"))).child(el("li"));
        assert_eq!(tree.render(), "<ul>\n<li>one<b>!</b></li>\n<li></li>\n</ul>\n");
        let row = el("tr").child(text("td", "one")).child(el("rect").child(text("title", "two"))).child(el("line"));
        assert_eq!(row.render(), "<tr><td>one</td><rect><title>two</title></rect><line/></tr>\n");
    }
}
