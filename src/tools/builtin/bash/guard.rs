//! The judge of command lines. Owns the walk through a line, segment by segment and into everything that it runs; refuses
//! to be the boundary.
//!
//! It is a courtesy: a quick, clear answer to what can only go wrong. A text can be written in so many ways that no judge
//! of texts ever knew them all; what a command can really do, the kernel decides (P5).

use super::danger;
use super::parser::parse;
use super::place::Place;
use super::refusal::{Reason, Refusal};
use super::rules::BashRules;
use super::script::{Document, Item, Joint, Node, Redirect, Script, Segment};
use super::word::Word;
use super::wrapper::{Inner, joined, look_inside, name};

/// Scripts within scripts; nobody writes more.
const NESTING: usize = 16;
/// Commands that do nothing but run another one, in a row.
const WRAPPERS: usize = 16;

/// Says whether the line may be run from this place, and if not, which part of it is why.
pub(super) fn judge(command: &str, place: &Place, rules: &BashRules) -> Result<(), Refusal> {
    Guard { rules, depth: 0 }.script(command, place)
}

/// The judge, so many scripts deep.
#[derive(Clone, Copy)]
struct Guard<'a> {
    rules: &'a BashRules,
    depth: usize,
}

/// Where a command stands: what it reads and what has been declared before it.
struct Surroundings<'a> {
    documents: &'a [Document],
    place: Place,
    /// What the command before it in the pipe prints, if that is known.
    input: Option<String>,
}

impl Guard<'_> {
    fn script(self, source: &str, place: &Place) -> Result<(), Refusal> {
        let script: Script = parse(source);
        if script.is_too_deep || self.depth >= NESTING {
            return Err(Refusal { segment: source.trim().to_owned(), reason: Reason::TooDeep });
        }
        let mut around = Surroundings { documents: &script.documents, place: place.clone(), input: None };
        self.items(&script.items, &mut around)
    }

    fn inner(self, source: &str, place: &Place) -> Result<(), Refusal> {
        Self { depth: self.depth.saturating_add(1), ..self }.script(source, place)
    }

    fn items(self, items: &[Item], around: &mut Surroundings<'_>) -> Result<(), Refusal> {
        for item in items {
            self.item(item, around)?;
            around.input = match &item.node {
                Node::Segment(segment) if item.joint == Joint::Pipe => printed(segment, around.documents),
                _ => None,
            };
        }
        Ok(())
    }

    fn item(self, item: &Item, around: &mut Surroundings<'_>) -> Result<(), Refusal> {
        match &item.node {
            Node::Segment(segment) => {
                self.segment(segment, around)?;
                around.place = moved(segment, &around.place);
                Ok(())
            }
            Node::Group(items) => self.items(items, around),
            Node::Subshell(items) => {
                let place = around.place.clone();
                self.items(items, around)?;
                around.place = place;
                Ok(())
            }
            Node::Function(called, body) => {
                if let Some(reason) = danger::of_function(called, body) {
                    return Err(Refusal { segment: format!("{called}() {{ … }}"), reason });
                }
                // It may be called from anywhere.
                let place = std::mem::replace(&mut around.place, Place::unknown());
                self.items(body, around)?;
                around.place = place;
                Ok(())
            }
        }
    }

    fn segment(self, segment: &Segment, around: &Surroundings<'_>) -> Result<(), Refusal> {
        for source in
            segment.sources.iter().chain(documents(segment, around.documents).flat_map(|d| &d.sources))
        {
            self.inner(source, &around.place)?;
        }
        if segment.words.is_empty() && segment.redirects.is_empty() {
            return Ok(());
        }
        let refused = |reason| Refusal { segment: segment.text.clone(), reason };
        if !self.rules.exempts(&segment.text).map_err(refused)? {
            let plain = joined(&segment.words);
            let reason = self.rules.denies(&[&segment.text, &plain]);
            let redirected =
                || segment.redirects.iter().find_map(|to| danger::of_redirect(to, &around.place));
            if let Some(reason) = reason.or_else(redirected) {
                return Err(refused(reason));
            }
            self.command(segment.command(), segment, around)?;
        }
        let is_shell = matches!(innermost(segment.command()), Inner::Input);
        let inputs = if is_shell { inputs(segment, around) } else { Vec::new() };
        inputs.iter().try_for_each(|input| self.inner(input, &around.place))
    }

    /// A command, and the one that it runs, and so on.
    fn command(self, words: &[Word], segment: &Segment, around: &Surroundings<'_>) -> Result<(), Refusal> {
        let mut words = words;
        for _ in 0..WRAPPERS {
            if let Some(reason) = danger::of_command(words, &around.place) {
                return Err(Refusal { segment: segment.text.clone(), reason });
            }
            match look_inside(words) {
                Inner::Words(inner) => words = inner,
                Inner::Source(source) => return self.inner(&source, &around.place),
                Inner::Input | Inner::None => return Ok(()),
            }
        }
        Err(Refusal { segment: segment.text.clone(), reason: Reason::TooDeep })
    }
}

/// What is left when all wrappers are taken off.
fn innermost(words: &[Word]) -> Inner<'_> {
    let mut words = words;
    for _ in 0..WRAPPERS {
        match look_inside(words) {
            Inner::Words(inner) => words = inner,
            other => return other,
        }
    }
    Inner::None
}

/// Everything that the segment could read from standard input, as far as it is written here.
fn inputs(segment: &Segment, around: &Surroundings<'_>) -> Vec<String> {
    let bodies = documents(segment, around.documents).map(|document| document.body.clone());
    let texts = segment.redirects.iter().filter_map(|redirect| match redirect {
        Redirect::Text(word) => Some(word.text()),
        _ => None,
    });
    bodies.chain(texts).chain(around.input.clone()).collect()
}

fn documents<'a>(segment: &'a Segment, all: &'a [Document]) -> impl Iterator<Item = &'a Document> {
    segment.redirects.iter().filter_map(|redirect| match redirect {
        Redirect::Document(number) => all.get(*number),
        _ => None,
    })
}

/// What the segment prints, if it is one of those that print what they are given.
fn printed(segment: &Segment, all: &[Document]) -> Option<String> {
    let (first, arguments) = segment.command().split_first()?;
    match name(first).as_str() {
        "echo" => {
            let at = arguments.iter().position(|word| !word.text().starts_with('-')).unwrap_or_default();
            Some(joined(arguments.get(at..).unwrap_or_default()).replace("\\n", "\n"))
        }
        // The format and each argument stand for themselves: what the whole comes to matters less.
        "printf" => Some(arguments.iter().map(|word| word.text().replace("\\n", "\n") + "\n").collect()),
        "cat" | "tee" => Some(documents(segment, all).map(|document| document.body.as_str()).collect()),
        _ => None,
    }
}

/// Where the shell is after the segment.
fn moved(segment: &Segment, place: &Place) -> Place {
    let Some((first, arguments)) = segment.command().split_first() else { return place.clone() };
    match first.text().as_str() {
        "cd" | "pushd" => place.after_cd(arguments),
        "popd" => Place::unknown(),
        _ => place.clone(),
    }
}
