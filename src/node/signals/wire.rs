//! The bytes of a ZMTP connection: greeting, commands, frames. The protocol that uses them is in `zmtp`.

use std::io::{self, ErrorKind};

/// The longest accepted frame, in bytes: longer than any frame that a publisher of hashes sends.
const MAX_FRAME: u64 = 4_096;

pub(super) const GREETING_BYTES: usize = 64;
pub(super) const MORE: u8 = 1;
pub(super) const LONG: u8 = 2;
pub(super) const COMMAND: u8 = 4;

/// A frame at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame<'b> {
    pub(super) more: bool,
    pub(super) command: bool,
    pub(super) body: &'b [u8],
    /// The total bytes of the frame.
    pub(super) length: usize,
}

/// The error for bytes that no publisher of a node sends.
pub(super) fn violation(problem: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{problem}: this is not the ZMQ publisher of a node"))
}

/// The greeting: signature, version 3.0, mechanism NULL, client role, filler.
pub(super) fn greeting() -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

pub(super) fn check_greeting(greeting: &[u8]) -> io::Result<()> {
    // the filler of the signature is arbitrary
    let signed = greeting.first() == Some(&0xff) && greeting.get(9).is_some_and(|byte| byte & 1 == 1);
    let is_current = greeting.get(10).is_some_and(|version| *version >= 3);
    let mechanism = greeting.get(12..32).unwrap_or_default();
    if !signed {
        return Err(violation("it does not greet as ZeroMQ does"));
    }
    if !is_current {
        return Err(violation("it uses a version of ZMTP before 3.0"));
    }
    if mechanism.strip_prefix(b"NULL").is_none_or(|rest| rest.iter().any(|byte| *byte != 0)) {
        return Err(violation("it requires a login"));
    }
    Ok(())
}

pub(super) fn check_ready(bytes: &[u8]) -> io::Result<()> {
    let body = frame(bytes)?.filter(|frame| frame.command).map(|frame| frame.body);
    let Some(properties) = body.and_then(|body| body.strip_prefix(b"\x05READY")) else {
        return Err(violation("it is not ready"));
    };
    let wanted: [Vec<u8>; 2] = [property(b"Socket-Type", b"PUB"), property(b"Socket-Type", b"XPUB")];
    if wanted.iter().any(|wanted| properties.windows(wanted.len()).any(|window| window == wanted.as_slice())) {
        Ok(())
    } else {
        Err(violation("its socket does not publish"))
    }
}

/// A PING without a time to live of the connection and without a context to repeat.
pub(super) fn ping() -> Vec<u8> {
    command(b"PING", &[0, 0])
}

/// The answer to a command: only PING has one, a PONG that repeats its context.
pub(super) fn answer(command_body: &[u8]) -> Option<Vec<u8>> {
    let context = command_body.strip_prefix(b"\x04PING")?.get(2..)?;
    Some(command(b"PONG", context))
}

pub(super) fn property(name: &[u8], value: &[u8]) -> Vec<u8> {
    // all names and values here are constants of a few bytes
    let name_length = u8::try_from(name.len()).unwrap_or(u8::MAX);
    let value_length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    [&[name_length], name, &value_length.to_be_bytes(), value].concat()
}

pub(super) fn command(name: &[u8], data: &[u8]) -> Vec<u8> {
    let name_length = u8::try_from(name.len()).unwrap_or(u8::MAX);
    encode(COMMAND, &[&[name_length], name, data].concat())
}

pub(super) fn encode(flags: u8, body: &[u8]) -> Vec<u8> {
    if let Ok(length) = u8::try_from(body.len()) {
        return [&[flags, length], body].concat();
    }
    // a length in memory fits 64 bits on every platform
    let length = u64::try_from(body.len()).unwrap_or(u64::MAX);
    [&[flags | LONG][..], &length.to_be_bytes(), body].concat()
}

/// The frame at the beginning of these bytes; `None` until it is complete.
pub(super) fn frame(bytes: &[u8]) -> io::Result<Option<Frame<'_>>> {
    let Some((&flags, rest)) = bytes.split_first() else { return Ok(None) };
    if flags & !(MORE | LONG | COMMAND) != 0 || flags & (COMMAND | MORE) == COMMAND | MORE {
        return Err(violation("a frame has unknown flags"));
    }
    let (length, rest) = if flags & LONG == 0 {
        let Some((&length, rest)) = rest.split_first() else { return Ok(None) };
        (u64::from(length), rest)
    } else {
        let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
        (u64::from_be_bytes(*length), rest)
    };
    if length > MAX_FRAME {
        return Err(violation("a frame is too long"));
    }
    let body = usize::try_from(length).ok().and_then(|length| rest.get(..length));
    Ok(body.map(|body| Frame {
        more: flags & MORE != 0,
        command: flags & COMMAND != 0,
        body,
        length: bytes.len() - rest.len() + body.len(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_decoded_only_when_it_is_complete() {
        for body in [&b""[..], b"a", &[7; 255], &[7; 256]] {
            let bytes = encode(MORE, body);
            for length in 0..bytes.len() {
                assert_eq!(frame(&bytes[..length]).unwrap(), None);
            }
            let whole = Frame { more: true, command: false, body, length: bytes.len() };
            assert_eq!(frame(&[&bytes[..], b"next"].concat()).unwrap(), Some(whole));
        }
    }
}
