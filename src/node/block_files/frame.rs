//! What lies around the bytes of a block in a file: the frame before it, and the obfuscation of all.

/// Magic and length before a block.
pub(super) const FRAME: usize = 8;

/// Removes the obfuscation of bytes that begin at an offset of a file.
pub(super) fn unmask(bytes: &mut [u8], offset: u64, key: Option<[u8; 8]>) {
    let Some(mut key) = key else { return };
    key.rotate_left(usize::try_from(offset % 8).unwrap_or(0));
    let (words, rest) = bytes.as_chunks_mut::<8>();
    // a word at a time, as this is on the way of every block
    let mask = u64::from_ne_bytes(key);
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ mask).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(key) {
        *byte ^= mask;
    }
}
