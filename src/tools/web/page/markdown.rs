//! Writes a part of a page as text or Markdown, up to a limit of bytes.

use super::article::Article;
use super::links::absolute;
use super::tree::{HtmlNodeId, HtmlTree};
use crate::domain::characters::beginning;
use crate::tools::text::collapse_whitespace;
use url::Url;

/// The longest text of a page, bytes.
pub(super) const TEXT_BYTES: usize = 4 << 20;

/// The format of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) enum TextFormat {
    /// Paragraphs, lists and tables without marks.
    Text,
    /// With headings, links and emphasis.
    Markdown,
}

/// Writes the article as text.
pub(super) fn write(tree: &HtmlTree, article: &Article, format: TextFormat, base: &Url) -> String {
    let mut writer = PageWriter {
        tree,
        article,
        format,
        base,
        out: String::new(),
        prefix: String::new(),
        breaks: 0,
        has_space: false,
        is_fresh: true,
        inline: 0,
    };
    writer.node(article.top);
    writer.out
}

struct PageWriter<'a> {
    tree: &'a HtmlTree,
    article: &'a Article,
    format: TextFormat,
    base: &'a Url,
    out: String,
    /// The start of each line.
    prefix: String,
    /// Line ends before the next word.
    breaks: usize,
    /// A space before the next word.
    has_space: bool,
    /// Nothing was written since the start of the line or the mark of the list item.
    is_fresh: bool,
    /// Open elements whose text stays on one line.
    inline: usize,
}

impl PageWriter<'_> {
    fn node(&mut self, id: HtmlNodeId) {
        if self.article.omits(id) || self.out.len() >= TEXT_BYTES {
            return;
        }
        match self.tree.tag(id) {
            "" => {
                let tree = self.tree;
                self.write_words(tree.text(id));
                self.children(id);
            }
            "br" => self.end_line(1),
            "hr" => self.rule(),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.heading(id),
            "p" | "dl" | "figure" | "section" | "article" | "header" | "details" | "fieldset" => {
                self.block(id, 2);
            }
            "div" | "dt" | "dd" | "figcaption" | "summary" | "address" | "form" | "main" | "body"
            | "center" | "caption" | "tr" | "option" | "td" | "th" => self.block(id, 1),
            "ul" | "ol" | "menu" => self.list(id),
            "li" => self.item(id, "- "),
            "blockquote" => self.quote(id),
            "pre" => self.verbatim(id),
            "table" => self.table(id),
            "strong" | "b" => self.marked(id, "**"),
            "em" | "i" => self.marked(id, "*"),
            "code" | "kbd" | "samp" => self.marked(id, "`"),
            "a" => self.link(id),
            "img" => self.picture(id),
            _ => self.children(id),
        }
    }

    fn children(&mut self, id: HtmlNodeId) {
        let tree = self.tree;
        tree.children(id).for_each(|child| self.node(child));
    }

    fn is_markdown(&self) -> bool {
        self.format == TextFormat::Markdown
    }

    /// Requires at least so many line ends before the next text.
    fn end_line(&mut self, breaks: usize) {
        if self.inline > 0 {
            self.has_space = true;
        } else if !self.is_fresh {
            self.breaks = self.breaks.max(breaks);
            self.has_space = false;
        }
    }

    /// Writes the pending line ends, prefix and space before a word.
    fn write_pending(&mut self) {
        for _ in 0..self.breaks {
            self.out.truncate(self.out.trim_end_matches(' ').len());
            self.out.push('\n');
            self.out.push_str(&self.prefix);
        }
        if self.has_space && self.breaks == 0 && !self.is_fresh && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
        (self.breaks, self.has_space, self.is_fresh) = (0, false, false);
    }

    /// Appends what has room: a word or a line may be as long as the page.
    fn push_cut(&mut self, text: &str) {
        let free = TEXT_BYTES.saturating_sub(self.out.len());
        self.out.push_str(beginning(text, free));
    }

    fn write_words(&mut self, text: &str) {
        self.has_space |= text.starts_with(char::is_whitespace);
        for word in text.split_whitespace() {
            if self.out.len() >= TEXT_BYTES {
                return;
            }
            self.write_pending();
            self.push_cut(word);
            self.has_space = true;
        }
        if !text.trim().is_empty() {
            self.has_space = text.ends_with(char::is_whitespace);
        }
    }

    fn block(&mut self, id: HtmlNodeId, breaks: usize) {
        self.end_line(breaks);
        self.children(id);
        self.end_line(breaks);
    }

    fn rule(&mut self) {
        if self.is_markdown() && self.inline == 0 && !self.out.is_empty() {
            self.end_line(2);
            self.write_words("---");
        }
        self.end_line(2);
    }

    fn heading(&mut self, id: HtmlNodeId) {
        self.end_line(2);
        if self.is_markdown() && self.inline == 0 && self.has_text(id) {
            let level = self.tree.tag(id).trim_start_matches('h').parse().unwrap_or(1);
            self.write_words(&"#".repeat(level));
            self.has_space = true;
        }
        self.inline += 1;
        self.children(id);
        self.inline -= 1;
        self.end_line(2);
    }

    fn has_text(&self, id: HtmlNodeId) -> bool {
        let mut all = self.tree.within(id);
        all.any(|inner| !self.article.omits(inner) && !self.tree.text(inner).trim().is_empty())
    }

    fn begins_with_space(&self, id: HtmlNodeId) -> bool {
        let mut texts = self.tree.within(id).map(|inner| self.tree.text(inner));
        texts.find(|text| !text.is_empty()).is_some_and(|text| text.starts_with(char::is_whitespace))
    }

    fn list(&mut self, id: HtmlNodeId) {
        let is_inner = self.tree.parent(id).is_some_and(|parent| self.tree.tag(parent) == "li");
        let breaks = if is_inner { 1 } else { 2 };
        self.end_line(breaks);
        let is_numbered = self.tree.tag(id) == "ol";
        let start = self.tree.attribute(id, "start").and_then(|start| start.trim().parse::<u32>().ok());
        let mut number = start.unwrap_or(1);
        let tree = self.tree;
        for child in tree.children(id) {
            if tree.tag(child) == "li" && is_numbered {
                self.item(child, &format!("{number}. "));
                number = number.saturating_add(1);
            } else {
                self.node(child);
            }
        }
        self.end_line(breaks);
    }

    fn item(&mut self, id: HtmlNodeId, mark: &str) {
        if self.article.omits(id) || (self.inline == 0 && !self.has_text(id)) {
            return;
        }
        self.end_line(1);
        if self.inline > 0 {
            self.children(id);
            return;
        }
        self.write_pending();
        self.out.push_str(mark);
        self.is_fresh = true;
        let outer = self.prefix.len();
        self.prefix.push_str(&" ".repeat(mark.len()));
        self.children(id);
        self.prefix.truncate(outer);
        self.is_fresh = false;
        self.end_line(1);
    }

    fn quote(&mut self, id: HtmlNodeId) {
        self.end_line(2);
        if !self.is_markdown() || self.inline > 0 || !self.has_text(id) {
            self.children(id);
            self.end_line(2);
            return;
        }
        self.write_pending();
        self.out.push_str("> ");
        self.is_fresh = true;
        let outer = self.prefix.len();
        self.prefix.push_str("> ");
        self.children(id);
        self.prefix.truncate(outer);
        self.is_fresh = false;
        self.end_line(2);
    }

    fn verbatim(&mut self, id: HtmlNodeId) {
        let text = self.tree.text_within(id);
        let text = text.trim_matches('\n').trim_end();
        if text.is_empty() {
            return;
        }
        self.end_line(2);
        if self.inline > 0 {
            self.write_words(text);
            return;
        }
        // A fence is longer than any inside it.
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.saturating_add(1).max(3));
        let fence = self.is_markdown().then_some(fence.as_str());
        for line in fence.into_iter().chain(text.lines()).chain(fence) {
            if self.out.len() >= TEXT_BYTES {
                break;
            }
            self.write_pending();
            self.push_cut(line);
            self.breaks = 1;
        }
        self.end_line(2);
    }

    /// Writes emphasis, but no marks around nothing.
    fn marked(&mut self, id: HtmlNodeId, mark: &str) {
        if !self.is_markdown() || !self.has_text(id) || self.has_blocks(id) {
            self.children(id);
            return;
        }
        self.has_space |= self.begins_with_space(id);
        self.write_pending();
        self.out.push_str(mark);
        self.is_fresh = true;
        self.inline += 1;
        self.children(id);
        self.inline -= 1;
        self.is_fresh = false;
        self.out.push_str(mark);
    }

    fn has_blocks(&self, id: HtmlNodeId) -> bool {
        let is_block =
            |id| matches!(self.tree.tag(id), "p" | "div" | "ul" | "ol" | "table" | "pre" | "blockquote");
        self.tree.within(id).any(is_block)
    }

    fn link(&mut self, id: HtmlNodeId) {
        let href = self.tree.attribute(id, "href").and_then(|href| absolute(href, self.base));
        let Some(href) = href.filter(|_| self.is_markdown() && self.has_text(id)) else {
            self.children(id);
            return;
        };
        self.has_space |= self.begins_with_space(id);
        self.write_pending();
        self.out.push('[');
        self.is_fresh = true;
        self.inline += 1;
        self.children(id);
        self.inline -= 1;
        self.is_fresh = false;
        self.out.push_str("](");
        self.out.push_str(&href.replace('(', "%28").replace(')', "%29"));
        self.out.push(')');
    }

    fn picture(&mut self, id: HtmlNodeId) {
        let alt = collapse_whitespace(self.tree.attribute(id, "alt").unwrap_or_default());
        let source = self.tree.attribute(id, "src").and_then(|source| absolute(source, self.base));
        if let Some(source) = source.filter(|_| self.is_markdown() && !alt.is_empty() && self.inline == 0) {
            self.write_words(&format!("![{alt}]({source})"));
        }
    }

    /// Writes a data table row by row, and a layout table cell by cell.
    fn table(&mut self, id: HtmlNodeId) {
        let descendants = || self.tree.within(id).filter(|inner| *inner != id);
        let is_layout =
            descendants().any(|inner| self.tree.tag(inner) == "table") || self.has_blocks_in_cells(id);
        let rows: Vec<HtmlNodeId> = descendants().filter(|inner| self.tree.tag(*inner) == "tr").collect();
        if is_layout || self.inline > 0 || rows.is_empty() {
            self.block(id, 2);
            return;
        }
        self.end_line(2);
        let tree = self.tree;
        for caption in tree.children(id).filter(|child| tree.tag(*child) == "caption") {
            self.block(caption, 2);
        }
        let mut is_first = true;
        for row in rows.into_iter().filter(|row| !self.article.omits(*row)) {
            let cells: Vec<HtmlNodeId> =
                tree.children(row).filter(|cell| matches!(tree.tag(*cell), "td" | "th")).collect();
            self.row(&cells);
            if is_first && self.is_markdown() && !cells.is_empty() {
                self.write_words(&format!("|{}", " --- |".repeat(cells.len())));
                self.end_line(1);
            }
            is_first = false;
        }
        self.end_line(2);
    }

    fn has_blocks_in_cells(&self, id: HtmlNodeId) -> bool {
        let is_block =
            |id| matches!(self.tree.tag(id), "ul" | "ol" | "pre" | "blockquote" | "h1" | "h2" | "h3" | "h4");
        self.tree.within(id).any(is_block)
    }

    fn row(&mut self, cells: &[HtmlNodeId]) {
        if cells.is_empty() {
            return;
        }
        self.end_line(1);
        self.inline += 1;
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 || self.is_markdown() {
                self.write_words(" | ");
            }
            self.children(*cell);
            self.has_space = true;
        }
        if self.is_markdown() {
            self.write_words("|");
        }
        self.inline -= 1;
        self.end_line(1);
    }
}
