//! Reads `api_key_file`. The content never appears in an error.

use super::expand::Variables;
use super::validate::ConfigProblems;
use crate::domain::secret::Secret;
use crate::llm::options::ModelOptions;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where systemd stores the files of `LoadCredential=`.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";
/// Largest key file, bytes.
const KEY_BYTES: u64 = 64 * 1024;

impl ConfigProblems {
    /// Reads the key files of all models.
    pub(crate) fn key_files(&mut self, models: &mut [ModelOptions], env: &Variables) {
        for (at, model) in models.iter_mut().enumerate() {
            let Some(file) = &model.api_key_file else { continue };
            let key = format!("models[{at}].api_key_file");
            if model.api_key.is_some() {
                self.add(key, file.display(), "must not stand beside api_key: one of the two is the key");
                continue;
            }
            match locate(file, env).and_then(|path| read(&path)) {
                Ok(secret) => model.key_from_file = Some(secret),
                Err(allowed) => self.add(key, file.display(), allowed),
            }
        }
    }
}

fn locate(file: &Path, env: &Variables) -> Result<PathBuf, String> {
    if file.as_os_str().is_empty() {
        return Err("must be a file; leave the key out when there is none".to_owned());
    }
    if file.is_absolute() {
        return Ok(file.to_owned());
    }
    match env.get(CREDENTIALS).filter(|dir| !dir.is_empty()) {
        Some(dir) => Ok(Path::new(dir).join(file)),
        None => Err(format!(
            "must be an absolute path; a relative one lies in ${CREDENTIALS}, which is not set: systemd sets it for a \
             service with LoadCredential="
        )),
    }
}

fn read(path: &Path) -> Result<Secret, String> {
    let display = path.display();
    let unreadable = |error: std::io::Error| {
        format!("must be a file that can be read; '{display}' cannot: {}", error.kind())
    };
    // Checked before opening: opening a pipe waits for its writer.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(format!("must be a file; '{display}' is none"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(KEY_BYTES.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > KEY_BYTES) {
        return Err(format!("must be a file of at most {KEY_BYTES} bytes; '{display}' is larger"));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("must be a file with a key in it; '{display}' is no text"))?;
    let key = text.trim_end_matches(['\r', '\n']);
    if key.trim().is_empty() {
        return Err(format!("must be a file with a key in it; '{display}' is empty"));
    }
    Ok(Secret::from(key.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key that a model with this file gets, and the complaints.
    fn read_key(file: &Path, api_key: Option<&str>, env: &[(&str, &str)]) -> (Option<String>, String) {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut models = [ModelOptions {
            api_key: api_key.map(|key| Secret::from(key.to_owned())),
            api_key_file: Some(file.to_owned()),
            ..ModelOptions::default()
        }];
        let mut problems = ConfigProblems(Vec::new());
        problems.key_files(&mut models, &env);
        let complaints: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
        (models[0].key_from_file.as_ref().map(|key| key.reveal().to_owned()), complaints.join("\n"))
    }

    #[test]
    fn a_key_file_is_read_without_its_last_line_break() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("k");
        for text in ["sk-1", "sk-1\n", "sk-1\r\n"] {
            fs::write(&file, text).expect("writes");
            assert_eq!(read_key(&file, None, &[]), (Some("sk-1".into()), String::new()), "{text:?}");
        }
        let dir = dir.path().to_str().expect("UTF-8");
        let result = read_key(Path::new("k"), None, &[(CREDENTIALS, dir)]);
        assert_eq!(result, (Some("sk-1".into()), String::new()), "a relative path is systemd's");
    }

    #[test]
    fn p9_an_invalid_key_file_is_named_without_its_content() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).expect("writes");
            path
        };
        let large = [b"sk-hidden".repeat(8_000)].concat();
        for (path, api_key, words) in [
            (file("good", b"sk-hidden"), Some("sk-other"), "must not stand beside api_key"),
            (file("empty", b""), None, "is empty"),
            (file("blank", b" \n\n"), None, "is empty"),
            (file("large", &large), None, "at most 65536 bytes"),
            (file("bytes", b"sk-hidden\xff"), None, "is no text"),
            (dir.path().join("none"), None, "entity not found"),
            (dir.path().to_owned(), None, "is none"),
            (PathBuf::from("relative"), None, "$CREDENTIALS_DIRECTORY, which is not set"),
            (PathBuf::new(), None, "must be a file"),
        ] {
            let (key, complaint) = read_key(&path, api_key, &[(CREDENTIALS, "")]);
            assert_eq!(key, None, "{complaint}");
            assert!(complaint.starts_with("models[0].api_key_file: '"), "{complaint}");
            assert!(complaint.contains(words) && complaint.contains(&*path.to_string_lossy()), "{complaint}");
            assert!(!complaint.contains("hidden") && !complaint.contains("sk-other"), "{complaint}");
        }
    }
}
