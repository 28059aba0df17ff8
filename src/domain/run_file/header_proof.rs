//! The signature of the server that has exported a run, at the end of the first line. That line names the
//! head of a chained log and the digests of the files, so that it proves them, too.

use crate::domain::log_chain::{LogPublicKey, LogSignature};

/// What stands before the key, the signature, and the end of the line.
const PARTS: [&str; 3] = [",\"signed_by\":\"", "\",\"signature\":\"", "\"}"];

/// Digits of the key and of the signature.
const DIGITS: [usize; 2] = [64, 128];

/// Who has signed the first line of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderProof {
    /// Nobody: an earlier version has written it, or the signature was removed.
    #[default]
    Unsigned,
    /// The server with this key. Whose key that is, the file does not prove.
    SignedBy(LogPublicKey),
    /// The signature is not that of this line.
    Changed,
}

impl HeaderProof {
    /// Reads it from the first line of a run.
    pub fn of(header: &str) -> Self {
        let header = header.trim_end_matches(['\r', '\n']);
        let [before_key, before_signature, end] = PARTS;
        let tail_bytes = PARTS.map(str::len).into_iter().chain(DIGITS).fold(0, usize::saturating_add);
        let split = header.len().checked_sub(tail_bytes).and_then(|at| header.split_at_checked(at));
        let Some((unsigned, tail)) =
            split.and_then(|(head, tail)| Some((head, tail.strip_prefix(before_key)?)))
        else {
            return Self::Unsigned;
        };
        let read = || {
            let (key, signature) = tail.strip_suffix(end)?.split_once(before_signature)?;
            let signature = LogSignature::try_from(signature.to_owned()).ok()?;
            let key = LogPublicKey::from_text(key)?;
            key.has_signed(&message(unsigned), &signature).then_some(key)
        };
        read().map_or(Self::Changed, Self::SignedBy)
    }

    /// What is wrong with it, if one of these keys must have signed it; without any, a whole signature is
    /// enough.
    pub fn fault(self, keys: &[LogPublicKey]) -> Option<String> {
        match self {
            Self::Changed => Some("its first line is not the one that its server has signed".to_owned()),
            Self::Unsigned if !keys.is_empty() => Some("nobody has signed its first line".to_owned()),
            Self::SignedBy(key) if !keys.is_empty() && !keys.contains(&key) => {
                Some(format!("its first line was signed by another key, {key}"))
            }
            Self::Unsigned | Self::SignedBy(_) => None,
        }
    }
}

/// The first line of a run with a signature, which `sign` makes of a message; `None` leaves it as it is.
pub fn signed_header(
    header: &str,
    sign: impl FnOnce(&[u8]) -> Option<(LogPublicKey, LogSignature)>,
) -> String {
    let Some(unsigned) = header.trim_end().strip_suffix('}') else { return header.to_owned() };
    let Some((key, signature)) = sign(&message(unsigned)) else { return header.to_owned() };
    let ([before_key, before_signature, end], signature) = (PARTS, String::from(signature));
    format!("{unsigned}{before_key}{key}{before_signature}{signature}{end}\n")
}

/// What is signed: all bytes of the line before the signature.
fn message(unsigned: &str) -> Vec<u8> {
    [b"nanoclaw run 1\0", unsigned.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::log_chain::LogSigningKey;

    const HEADER: &str = "{\"kind\":\"nanoclaw.run\",\"output\":\"42\"}\n";

    fn signed(seed: u8) -> (String, LogPublicKey) {
        let key = LogSigningKey::from_seed([seed; 32]).expect("a key");
        let line = signed_header(HEADER, |message| Some((key.public_key(), key.sign(message))));
        (line, key.public_key())
    }

    #[test]
    fn a_signature_proves_each_byte_of_the_first_line() {
        let (line, key) = signed(1);
        assert!(line.starts_with(HEADER.trim_end_matches("}\n")) && line.ends_with("\"}\n"), "{line}");
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
        assert_eq!(HeaderProof::of(&line), HeaderProof::SignedBy(key));
        assert_eq!(HeaderProof::of(&line.replace('\n', "\r\n")), HeaderProof::SignedBy(key));
        for at in 0..line.trim_end().len() - 2 {
            let mut bytes = line.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).expect("ASCII");
            assert_ne!(HeaderProof::of(&changed), HeaderProof::SignedBy(key), "{changed}");
        }
        assert_eq!(HeaderProof::of(&line.replace("42", "43")), HeaderProof::Changed);
        assert_eq!(HeaderProof::of(HEADER), HeaderProof::Unsigned);
        assert_eq!(HeaderProof::of("ä"), HeaderProof::Unsigned);
        assert_eq!(signed_header(HEADER, |_| None), HEADER);
    }

    #[test]
    fn a_known_key_must_have_signed_it() {
        let ((line, key), (_, other)) = (signed(1), signed(2));
        let proof = HeaderProof::of(&line);
        assert_eq!((proof.fault(&[]), proof.fault(&[other, key])), (None, None));
        assert!(proof.fault(&[other]).is_some_and(|fault| fault.contains(&key.to_string())));
        assert!(HeaderProof::Unsigned.fault(&[key]).is_some_and(|fault| fault.contains("nobody")));
        assert_eq!(HeaderProof::Unsigned.fault(&[]), None);
        assert!(HeaderProof::Changed.fault(&[]).is_some());
    }
}
