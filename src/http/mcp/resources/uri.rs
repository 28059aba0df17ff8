//! URIs of resources: `nanoclaw://jobs/{id}` and `nanoclaw://projects/{id}/files/{path}`.

use crate::domain::id::{JobId, ProjectId};
use crate::http::request::percent;
use std::fmt;
use std::str::FromStr;

const SCHEME: &str = "nanoclaw://";

/// A resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResourceUri {
    Job(JobId),
    /// A file at a path below its project.
    File(ProjectId, String),
}

/// A text that is no URI of a resource.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownUri;

impl FromStr for ResourceUri {
    type Err = UnknownUri;

    fn from_str(text: &str) -> Result<Self, UnknownUri> {
        let rest = text.strip_prefix(SCHEME).ok_or(UnknownUri)?;
        if let Some(id) = rest.strip_prefix("jobs/") {
            return id.parse().map(Self::Job).map_err(|_| UnknownUri);
        }
        let (id, path) =
            rest.strip_prefix("projects/").and_then(|rest| rest.split_once("/files/")).ok_or(UnknownUri)?;
        let segments = path.split('/').map(|segment| percent::decode(segment, false));
        let segments: Vec<String> = segments.collect::<Option<_>>().ok_or(UnknownUri)?;
        // An escaped slash would be a separator of its own.
        if segments.iter().any(|segment| segment.is_empty() || segment.contains('/')) {
            return Err(UnknownUri);
        }
        Ok(Self::File(id.parse().map_err(|_| UnknownUri)?, segments.join("/")))
    }
}

impl fmt::Display for ResourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(id) => write!(f, "{SCHEME}jobs/{id}"),
            Self::File(id, path) => {
                let path: Vec<String> = path.split('/').map(percent::encode).collect();
                write!(f, "{SCHEME}projects/{id}/files/{}", path.join("/"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_read_as_it_was_written() {
        let job = ResourceUri::Job(JobId::from_bits(7));
        let file = ResourceUri::File(ProjectId::from_bits(8), "a b/ü%2F?.txt".to_owned());
        for uri in [job, file] {
            assert_eq!(uri.to_string().parse(), Ok(uri.clone()), "{uri}");
            assert!(uri.to_string().is_ascii());
        }
    }

    #[test]
    fn other_uris_are_unknown() {
        let project = ProjectId::from_bits(8);
        for text in ["", "file:///etc/passwd", "nanoclaw://jobs/", "nanoclaw://jobs/x", "nanoclaw://users/1"]
        {
            assert_eq!(text.parse::<ResourceUri>(), Err(UnknownUri), "{text}");
        }
        for path in ["", "a//b", "/a", "a%2Fb", "%zz"] {
            let text = format!("nanoclaw://projects/{project}/files/{path}");
            assert_eq!(text.parse::<ResourceUri>(), Err(UnknownUri), "{text}");
        }
    }
}
