//! The server's end with every kind of guest: whole requests, pieces of them, and invalid bytes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, Timespec};

use super::*;

struct Upper;

impl HostCalls for Upper {
    fn call(&self, name: &str, arguments: &str) -> Result<String, String> {
        match name {
            "upper" => Ok(arguments.to_uppercase()),
            "long" => Ok("x".repeat(MAX_HOST_ANSWER_BYTES + 1)),
            "panic" => panic!("a host's mistake"),
            _ => Err(format!("there is no {name}")),
        }
    }
}

fn pair() -> (HostCallServer, UnixStream) {
    let (calls, guest_end) = HostCallServer::new(Arc::new(Upper)).unwrap();
    let guest = UnixStream::from(guest_end);
    guest.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    (calls, guest)
}

fn request(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
}

/// Continues until the guest has an answer or the run ends.
fn turn(calls: &mut HostCallServer, guest: &mut UnixStream) -> Result<(u8, String), HostCallViolation> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    for _ in 0..100_000 {
        {
            let (descriptor, events) = calls.poll_events().unwrap();
            let timeout = Timespec::try_from(Duration::from_millis(10)).unwrap();
            let mut polled = [PollFd::from_borrowed_fd(descriptor, events)];
            if rustix::event::poll(&mut polled, Some(&timeout)).unwrap() == 0 {
                continue;
            }
        }
        calls.step()?;
        if let Ok(length) = guest.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..length]);
        }
        if let Some((head, text)) = bytes.split_first_chunk::<5>()
            && u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize == text.len()
        {
            return Ok((head[0], String::from_utf8(text.to_vec()).unwrap()));
        }
    }
    panic!("there never was an answer");
}

#[test]
fn host_requests_are_answered_in_order_even_in_pieces() {
    let (mut calls, mut guest) = pair();
    for _ in 0..3 {
        guest.write_all(&request("upper\n{\"a\":1}")).unwrap();
        assert_eq!(turn(&mut calls, &mut guest), Ok((ANSWERED, "{\"A\":1}".to_owned())));
    }
    let bytes = request("upper\nslow");
    for byte in &bytes[..bytes.len() - 1] {
        guest.write_all(&[*byte]).unwrap();
        calls.step().unwrap();
    }
    guest.write_all(&bytes[bytes.len() - 1..]).unwrap();
    assert_eq!(turn(&mut calls, &mut guest), Ok((ANSWERED, "SLOW".to_owned())));
    guest.write_all(&request("none\n")).unwrap();
    assert_eq!(turn(&mut calls, &mut guest), Ok((REFUSED, "there is no none".to_owned())));
}

#[test]
fn an_oversized_answer_or_a_host_panic_is_a_refusal() {
    let (mut calls, mut guest) = pair();
    guest.write_all(&request("long\n")).unwrap();
    let (tag, text) = turn(&mut calls, &mut guest).unwrap();
    assert!(tag == REFUSED && text.contains("the limit is 4194304"), "{text}");
    guest.write_all(&request("panic\n")).unwrap();
    assert_eq!(turn(&mut calls, &mut guest), Ok((REFUSED, "the host broke down".to_owned())));
    guest.write_all(&request("upper\nagain")).unwrap();
    assert_eq!(turn(&mut calls, &mut guest), Ok((ANSWERED, "AGAIN".to_owned())));
}

#[test]
fn an_invalid_host_request_ends_the_run() {
    let limit = u32::try_from(MAX_HOST_REQUEST_BYTES).unwrap();
    let length = |length: u32| length.to_be_bytes().to_vec();
    for (bytes, violation) in [
        (length(u32::MAX), HostCallViolation::TooLong),
        (length(limit + 1), HostCallViolation::TooLong),
        (length(0), HostCallViolation::Malformed),
        (b"GET / HTTP/1.1\r\n".to_vec(), HostCallViolation::TooLong),
        (request("no line feed"), HostCallViolation::Malformed),
        (request("\nno name"), HostCallViolation::Malformed),
        (request("a\0b\n"), HostCallViolation::Malformed),
        ([length(3).as_slice(), b"\xff\n\xff"].concat(), HostCallViolation::Malformed),
    ] {
        let (mut calls, mut guest) = pair();
        guest.write_all(&bytes).unwrap();
        assert_eq!(turn(&mut calls, &mut guest), Err(violation), "{bytes:?}");
    }
}

#[test]
fn a_host_call_over_the_limit_ends_the_run() {
    let (mut calls, mut guest) = pair();
    for number in 0..MAX_HOST_CALLS {
        guest.write_all(&request("upper\nx")).unwrap();
        assert_eq!(turn(&mut calls, &mut guest), Ok((ANSWERED, "X".to_owned())), "{number}");
    }
    guest.write_all(&request("upper\nx")).unwrap();
    assert_eq!(turn(&mut calls, &mut guest), Err(HostCallViolation::TooMany));
}

#[test]
fn a_guest_that_closes_its_end_causes_no_error() {
    let (mut calls, mut guest) = pair();
    guest.write_all(&[0, 0]).unwrap();
    drop(guest);
    for _ in 0..3 {
        calls.step().unwrap();
    }
    assert!(calls.poll_events().is_none());
}
