//! `/api/projects/{id}/files`: one file, or what lies in a directory. Owns the shapes of its objects; what a path may be is for
//! [`crate::ports::Workspaces`] to say, of the path as a whole: however a slash was written, it is one there.

use super::{allowance::allowance, blocking, with_project};
use crate::domain::id::ProjectId;
use crate::domain::limits::Limits;
use crate::domain::project::Project;
use crate::http::api::envelope;
use crate::http::api::object::object;
use crate::http::arriving::Arriving;
use crate::http::body::{self, Whole};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::json;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1::field::Fields;
use crate::ports::{DirectoryListing, FileEntry};
use serde::Serialize;
use serde_json::{Map, Value};

/// What JSON may make of a byte of text: `\u00e4` of two, `\u4e2d` of three.
const ESCAPED: u64 = 3;
/// JSON values of a file's body.
const MOST_VALUES: usize = 64;
/// What an object needs around the text, bytes.
const AROUND: u64 = 4 * 1024;
/// What is said of a file that is written, and of one that moves.
pub(crate) const TEXT: &[&str] = &["content"];
pub(crate) const TARGET: &[&str] = &["new_path"];

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectFile"))]
#[derive(Serialize)]
pub(crate) struct FileView {
    name: String,
    path: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    extension: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectPlace"))]
#[derive(Serialize)]
pub(crate) struct Place {
    name: String,
    path: String,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectDirectory"))]
#[derive(Serialize)]
pub(crate) struct View {
    project_id: ProjectId,
    current_path: String,
    files: Vec<FileView>,
    directories: Vec<Place>,
    total_files: usize,
    total_dirs: usize,
    /// There was more than a list holds.
    is_cut: bool,
}

/// What lies in a directory.
pub(crate) async fn list(door: &Door, call: &Call) -> Result<Reply, Error> {
    let query = Query::parse(call.query.as_deref(), &["path"])?;
    let path = query.text("path").unwrap_or_default().to_owned();
    let listed = with_project(door, call, move |room, project| {
        let listing = room.workspaces.list(&project, &path)?;
        Ok(view(&project, &path, listing))
    });
    Ok(envelope::data(listed.await?))
}

/// A text file's text.
pub(crate) async fn read(door: &Door, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let path = call.segment("path").to_owned();
    let told = with_project(door, call, move |room, project| {
        let content = room.workspaces.read(&project, &path)?;
        let (name, path) = shown(&path);
        let (size, extension) = (content.len() as u64, Some(extension(&name)));
        Ok(FileView { name, path, size, extension, content: Some(content) })
    });
    Ok(envelope::data(told.await?))
}

/// Writes a text file.
pub(crate) async fn write(door: &Door, call: &Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let project = with_project(door, call, |_, project| Ok(project)).await?;
    let path = call.segment("path").to_owned();
    let whole = body::read_up_to(door, &call.headers, body, most_bytes(&door.room.limits)).await?;
    let written = blocking(door, move |room| {
        let text = content(whole)?;
        let size = room.workspaces.write(&project, &path, &text, allowance(room, &project)?)?;
        let (name, path) = shown(&path);
        Ok(FileView { name, path, size, extension: None, content: None })
    });
    Ok(envelope::data(written.await?))
}

/// Moves a file or a directory.
pub(crate) async fn rename(door: &Door, call: &Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let project = with_project(door, call, |_, project| Ok(project)).await?;
    let from = call.segment("path").to_owned();
    let to = target(object(door, call, body).await?)?;
    refuse_root("path", &from)?;
    refuse_root("new_path", &to)?;
    let moved = blocking(door, move |room| {
        room.workspaces.rename(&project, &from, &to)?;
        let (name, path) = shown(&to);
        Ok(Place { name, path })
    });
    Ok(envelope::data(moved.await?))
}

/// Removes a file, or a directory with all that is in it.
pub(crate) async fn delete(door: &Door, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let path = call.segment("path").to_owned();
    with_project(door, call, move |room, project| {
        refuse_root("path", &path)?;
        Ok(room.workspaces.delete(&project, &path)?)
    })
    .await?;
    Ok(envelope::done("deleted"))
}

/// The project's own directory goes with the project and no other way.
fn refuse_root(param: &str, path: &str) -> Result<(), Error> {
    if path.split('/').all(|part| matches!(part, "" | ".")) {
        let rule = format!("'{param}' is the project itself: name a file or a directory in it");
        return Err(Error::value(param, rule));
    }
    Ok(())
}

/// The largest body: the largest text, escaped.
fn most_bytes(limits: &Limits) -> usize {
    let most = limits.file_bytes.saturating_mul(ESCAPED).saturating_add(AROUND);
    usize::try_from(most).unwrap_or(usize::MAX).max(limits.body_bytes)
}

fn content(whole: Whole) -> Result<String, Error> {
    let Whole { bytes, place } = whole;
    let map = json::object(&bytes, MOST_VALUES)?;
    drop((bytes, place));
    text(map)
}

/// The text of the file.
pub(crate) fn text(map: Map<String, Value>) -> Result<String, Error> {
    let text = Fields::new(map, TEXT)?.text("content")?;
    text.ok_or_else(|| Error::value("content", "'content' is missing: the text of the file"))
}

/// Where the file or the directory is to be.
pub(crate) fn target(map: Map<String, Value>) -> Result<String, Error> {
    let path = Fields::new(map, TARGET)?.text("new_path")?;
    path.ok_or_else(|| Error::value("new_path", "'new_path' is missing: where it is to be"))
}

fn view(project: &Project, path: &str, listing: DirectoryListing) -> View {
    let file = |FileEntry { name, path, size }: FileEntry| {
        let extension = Some(extension(&name));
        FileView { name, path, size, extension, content: None }
    };
    let current = shown(path).1;
    View {
        project_id: project.id,
        current_path: if current.is_empty() { "/".to_owned() } else { current },
        total_files: listing.files.len(),
        total_dirs: listing.directories.len(),
        files: listing.files.into_iter().map(file).collect(),
        directories: listing.directories.into_iter().map(|(name, path)| Place { name, path }).collect(),
        is_cut: listing.is_cut,
    }
}

/// The last segment of a path, and the path without what says nothing.
pub(super) fn shown(path: &str) -> (String, String) {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    (parts.last().copied().unwrap_or_default().to_owned(), parts.join("/"))
}

/// From the last dot on, as in `.rs`; none for a name that only begins with one.
fn extension(name: &str) -> String {
    let dot = name.rfind('.').filter(|at| *at > 0 && at.saturating_add(1) < name.len());
    dot.and_then(|at| name.get(at..)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_begin_with_the_last_dot() {
        for (name, wanted) in
            [("a.rs", ".rs"), ("a.tar.gz", ".gz"), (".env", ""), ("Makefile", ""), ("a.", "")]
        {
            assert_eq!(extension(name), wanted, "{name}");
        }
    }

    #[test]
    fn the_project_itself_has_many_spellings() {
        for path in ["", ".", "./", "/", "././/."] {
            assert!(refuse_root("path", path).is_err(), "{path}");
        }
        for path in ["a", "./a", "..", ".git"] {
            assert!(refuse_root("path", path).is_ok(), "{path}");
        }
    }

    #[test]
    fn a_path_is_shown_without_what_says_nothing() {
        assert_eq!(shown("./a//b.c/"), ("b.c".to_owned(), "a/b.c".to_owned()));
        assert_eq!(shown("."), (String::new(), String::new()));
    }

    #[test]
    fn the_largest_file_fits_into_a_body_however_it_is_escaped() {
        let limits = Limits::default();
        let cyrillic = serde_json::to_string(&"\u{44f}".repeat(10)).expect("JSON").len();
        assert!(
            cyrillic < 30 && most_bytes(&limits) as u64 > 3 * limits.file_bytes,
            "\\u044f is 6 bytes for 2"
        );
    }
}
