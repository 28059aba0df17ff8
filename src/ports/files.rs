//! Files of a project as tools see them: by user and project of the job, never by what a model says. Owns the trait and what
//! crosses it; refuses to know how a path is kept inside (whoever stands behind it does).

/// Files of projects, for tools.
pub trait ProjectFiles: Send + Sync {}
