//! From a command line to its segments. Owns bash's grammar as far as it says where commands begin and end; refuses to
//! complain: what bash will not read, bash says itself, and the parser reads what it can.

use super::cursor::Cursor;
use super::documents::Pending;
use super::script::{Document, Item, Joint, Node, Redirect, Script, Segment};
use super::word::Word;

/// Groups, subshells and substitutions within each other; nobody writes more.
const NESTING: usize = 16;
/// Words that stand before a command and change nothing about what it is.
const BEFORE: [&str; 12] =
    ["if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "coproc", "}"];

/// What ends a list of commands, beside the end of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Nothing.
    End,
    /// `)`.
    Parenthesis,
    /// `}`.
    Brace,
    /// `;;` or `esac`.
    Branch,
}

/// What a look at what stands between two commands came to.
enum Between {
    Joint(Joint),
    /// The end of the list.
    End,
    /// A command is next.
    Command,
}

/// What a look at the next command came to.
enum Step {
    Node(Node),
    Nothing,
    End,
}

/// A command line while it is read.
pub(super) struct Parser {
    pub(super) cursor: Cursor,
    pub(super) documents: Vec<Document>,
    pub(super) pending: Vec<Pending>,
    /// Substitutions of the segment that is being read.
    pub(super) sources: Vec<String>,
    pub(super) is_too_deep: bool,
    depth: usize,
}

/// Takes a command line apart.
pub(super) fn parse(text: &str) -> Script {
    let mut parser = Parser::new(text, 0);
    let items = parser.items(Until::End);
    Script { items, documents: parser.documents, is_too_deep: parser.is_too_deep }
}

impl Parser {
    fn new(text: &str, depth: usize) -> Self {
        Self {
            cursor: Cursor::new(text),
            documents: Vec::new(),
            pending: Vec::new(),
            sources: Vec::new(),
            is_too_deep: false,
            depth,
        }
    }

    /// A parser of a text within this one.
    pub(super) fn within(&self, text: &str) -> Self {
        Self::new(text, self.depth)
    }

    /// Goes one level deeper, or gives up: then the rest is not read, and the script says so.
    pub(super) fn enter(&mut self) -> bool {
        if self.depth >= NESTING {
            self.is_too_deep = true;
            self.cursor.finish();
            return false;
        }
        self.depth = self.depth.saturating_add(1);
        true
    }

    /// Comes back from [`Self::enter`].
    pub(super) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Reads commands to the end of the list, and that end with them.
    pub(super) fn items(&mut self, until: Until) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        if !self.enter() {
            return items;
        }
        loop {
            self.cursor.skip_blanks();
            let Some(c) = self.cursor.peek() else { break };
            match self.between(until, c) {
                Between::End => break,
                Between::Command => {}
                Between::Joint(joint) => {
                    // A line's end after `|` continues it, and after `&` adds nothing.
                    if let Some(last) = items.last_mut().filter(|last| last.joint == Joint::Next) {
                        last.joint = joint;
                    }
                    continue;
                }
            }
            match self.command(until) {
                Step::Node(node) => items.push(Item { node, joint: Joint::Next }),
                Step::Nothing => {}
                Step::End => break,
            }
        }
        self.leave();
        items
    }

    /// Reads an operator between commands, or the end of the list, if one is next.
    fn between(&mut self, until: Until, c: char) -> Between {
        match c {
            '\n' => {
                self.cursor.bump();
                self.bodies();
                Between::Joint(Joint::Next)
            }
            ';' => {
                let ends_branch = matches!(self.cursor.ahead(1), Some(';' | '&'));
                self.cursor.bump();
                while ends_branch && matches!(self.cursor.peek(), Some(';' | '&')) {
                    self.cursor.bump();
                }
                if ends_branch && until == Until::Branch { Between::End } else { Between::Joint(Joint::Next) }
            }
            ')' => {
                self.cursor.bump();
                if until == Until::Parenthesis { Between::End } else { Between::Joint(Joint::Next) }
            }
            '&' if self.cursor.ahead(1) == Some('>') => Between::Command,
            '&' | '|' => Between::Joint(self.joint()),
            _ => Between::Command,
        }
    }

    /// Reads `&&`, `||`, `|&`, `|` or `&`.
    fn joint(&mut self) -> Joint {
        let known = [
            ("&&", Joint::Next),
            ("||", Joint::Next),
            ("|&", Joint::Pipe),
            ("|", Joint::Pipe),
            ("&", Joint::Background),
        ];
        let read = known.into_iter().find(|(operator, _)| self.cursor.eat(operator));
        read.map_or(Joint::Next, |(_, joint)| joint)
    }

    /// Reads the next command, of which the first character is ahead and is no operator.
    fn command(&mut self, until: Until) -> Step {
        let start = self.cursor.at();
        match self.cursor.peek() {
            Some('#') => {
                self.cursor.skip_line();
                return Step::Nothing;
            }
            Some('(') if self.arithmetic() => return self.data(start),
            Some('(') => {
                self.cursor.bump();
                return Step::Node(Node::Subshell(self.items(Until::Parenthesis)));
            }
            _ => {}
        }
        let first = self.word();
        match first.bare() {
            Some("}") if until == Until::Brace => Step::End,
            Some("esac") if until == Until::Branch => {
                self.cursor.go(start);
                Step::End
            }
            Some("{") => Step::Node(Node::Group(self.items(Until::Brace))),
            Some("for" | "select") => self.head(start),
            Some("case") => self.case(start),
            Some("[[") => self.condition(start),
            Some("function") => self.function(),
            Some("esac") => Step::Nothing,
            Some(keyword) if BEFORE.contains(&keyword) => Step::Nothing,
            _ => self.simple(start, first),
        }
    }

    /// The head of a loop: its words are data, up to the end of the command.
    fn head(&mut self, start: usize) -> Step {
        let mut has_list = false;
        loop {
            self.cursor.skip_blanks();
            let before = self.cursor.at();
            match self.cursor.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')' | '#') => break,
                Some('(') if self.arithmetic() => {}
                Some('(' | '<' | '>') if self.cursor.ahead(1) != Some('(') => drop(self.cursor.bump()),
                _ => match self.word() {
                    word if word.pieces.is_empty() => drop(self.cursor.bump()),
                    word if matches!(word.bare(), Some("do" | "{")) && !has_list => {
                        self.cursor.go(before);
                        break;
                    }
                    word => has_list |= word.bare() == Some("in"),
                },
            }
        }
        self.data(start)
    }

    /// `[[ … ]]`, in which operators are data.
    fn condition(&mut self, start: usize) -> Step {
        while self.cursor.peek().is_some() {
            self.cursor.skip_blanks();
            let word = self.word();
            match word.bare() {
                Some("]]") => break,
                _ if word.pieces.is_empty() => drop(self.cursor.bump()),
                _ => {}
            }
        }
        self.data(start)
    }

    /// What was read since runs nothing but its substitutions.
    fn data(&mut self, start: usize) -> Step {
        let sources = std::mem::take(&mut self.sources);
        let text = self.cursor.since(start).trim().to_owned();
        Step::Node(Node::Segment(Segment { text, sources, ..Segment::default() }))
    }

    /// `case WORD in PATTERN) … ;; esac`, of which `case` is read.
    fn case(&mut self, start: usize) -> Step {
        loop {
            self.cursor.skip_blanks();
            let word = self.word();
            match word.bare() {
                Some("in") => break,
                _ if word.pieces.is_empty() && self.cursor.peek() != Some('\n') => return self.data(start),
                _ if word.pieces.is_empty() => drop(self.cursor.bump()),
                _ => {}
            }
        }
        let mut branches = match self.data(start) {
            Step::Node(node) => vec![Item { node, joint: Joint::Next }],
            _ => Vec::new(),
        };
        while self.pattern() {
            let body = Node::Group(self.items(Until::Branch));
            branches.push(Item { node: body, joint: Joint::Next });
        }
        Step::Node(Node::Group(branches))
    }

    /// Reads a pattern of a `case` with its `)`; false after `esac` and at the end.
    fn pattern(&mut self) -> bool {
        let mut is_first = true;
        loop {
            self.cursor.skip_blanks();
            match self.cursor.peek() {
                None => return false,
                Some('#') if is_first => self.cursor.skip_line(),
                Some(')') => {
                    self.cursor.bump();
                    return true;
                }
                _ => {
                    let word = self.word();
                    if is_first && word.bare() == Some("esac") {
                        return false;
                    }
                    if word.pieces.is_empty() {
                        self.cursor.bump();
                    } else {
                        is_first = false;
                    }
                }
            }
        }
    }

    /// `function NAME …`, of which `function` is read.
    fn function(&mut self) -> Step {
        self.cursor.skip_blanks();
        let name = self.word().text();
        self.cursor.skip_blanks();
        if self.cursor.eat("(") {
            self.cursor.skip_blanks();
            self.cursor.eat(")");
        }
        self.body(name)
    }

    /// The body of a function, after its name.
    fn body(&mut self, name: String) -> Step {
        self.cursor.skip_space();
        // Bash wants a blank after `{`, but who writes a bomb may not care, nor may other shells.
        let body = if self.cursor.eat("{") {
            self.items(Until::Brace)
        } else if self.cursor.eat("(") {
            self.items(Until::Parenthesis)
        } else {
            Vec::new()
        };
        Step::Node(Node::Function(name, body))
    }

    /// A simple command, of which the first word is read.
    fn simple(&mut self, start: usize, first: Word) -> Step {
        let mut segment = Segment::default();
        self.take(first, &mut segment);
        loop {
            self.cursor.skip_blanks();
            match self.cursor.peek() {
                Some('&') if self.cursor.ahead(1) != Some('>') => break,
                Some('(') if segment.words.len() == 1 && self.eat_parentheses() => {
                    let name = segment.words.first().map(Word::text).unwrap_or_default();
                    return self.body(name);
                }
                None | Some('\n' | ';' | '|' | '(' | ')' | '#') => break,
                Some('&') => self.redirect(&mut segment),
                Some('<' | '>') if self.cursor.ahead(1) != Some('(') => self.redirect(&mut segment),
                _ => {
                    let word = self.word();
                    self.take(word, &mut segment);
                }
            }
        }
        let text = self.cursor.since(start).trim().to_owned();
        Step::Node(Node::Segment(Segment { text, sources: std::mem::take(&mut self.sources), ..segment }))
    }

    /// Puts a word where it belongs: a number before `<` or `>` is a descriptor, `NAME=(…)` an array.
    fn take(&mut self, word: Word, segment: &mut Segment) {
        let is_number = word.bare().is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit()));
        if word.pieces.is_empty() || (is_number && matches!(self.cursor.peek(), Some('<' | '>'))) {
            return;
        }
        let opens_array = self.cursor.peek() == Some('(') && word.is_assignment();
        segment.words.push(word);
        if opens_array {
            self.cursor.bump();
            self.elements();
        }
    }

    /// The rest of an array: data.
    fn elements(&mut self) {
        loop {
            self.cursor.skip_space();
            match self.cursor.peek() {
                None => return,
                Some(')') => {
                    self.cursor.bump();
                    return;
                }
                Some('#') => self.cursor.skip_line(),
                // An operator breaks it off: bash drops the line and goes on with the next one.
                _ if self.word().pieces.is_empty() => return self.cursor.skip_line(),
                _ => {}
            }
        }
    }

    fn eat_parentheses(&mut self) -> bool {
        let start = self.cursor.at();
        self.cursor.bump();
        self.cursor.skip_blanks();
        if self.cursor.eat(")") {
            return true;
        }
        self.cursor.go(start);
        false
    }

    fn redirect(&mut self, segment: &mut Segment) {
        // The longer ones first.
        let operators = ["&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">|", ">&", ">"];
        let operator = operators.into_iter().find(|operator| self.cursor.eat(operator)).unwrap_or_default();
        self.cursor.skip_blanks();
        let target = self.word();
        segment.redirects.push(match operator {
            "<<" | "<<-" => Redirect::Document(self.announce(&target, operator == "<<-")),
            "<<<" => Redirect::Text(target),
            "<" | "<&" => Redirect::Read,
            _ => Redirect::Write(target),
        });
    }
}
