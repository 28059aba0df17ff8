//! Names of files that usually hold secrets, and of directories that belong to other programs. File tools
//! hide them unless the operator shows them.

/// Names of files and directories, in lower case.
const NAMES: [&str; 29] = [
    ".env",
    ".envrc",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".htpasswd",
    ".vault-token",
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".gcloud",
    ".kube",
    ".docker",
    ".password-store",
    ".git",
    ".hg",
    ".svn",
    ".nanoclaw",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_ecdsa_sk",
    "id_ed25519_sk",
    "secring.gpg",
];
/// Ends of the names of key files, in lower case.
const KEY_ENDS: [&str; 9] = [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".ppk", ".kdbx", ".pkcs12"];
/// Ends of `.env` files that show others how to write one.
const TEMPLATE_ENDS: [&str; 6] = [".example", ".sample", ".template", ".dist", ".defaults", ".md"];

/// Whether file tools hide a file or directory of this name.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_env = name.starts_with(".env.") && !TEMPLATE_ENDS.iter().any(|end| name.ends_with(end));
    // A file called only `.key` is a dot file like others.
    let is_key = KEY_ENDS.iter().any(|end| name.len() > end.len() && name.ends_with(end));
    is_env || is_key || NAMES.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_other_dot_files_are_not() {
        for name in [
            ".env",
            ".ENV",
            ".env.local",
            ".env.production",
            ".ssh",
            "id_ed25519",
            "server.key",
            "a.pem",
            ".git",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            ".gitignore",
            ".gitattributes",
            ".github",
            ".env.example",
            ".editorconfig",
            ".eslintrc.json",
            ".bashrc",
            "id_ed25519.pub",
            "key",
            "keys.rs",
            "environment",
            ".environment",
            ".prettierrc",
            "a.pem.txt",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
