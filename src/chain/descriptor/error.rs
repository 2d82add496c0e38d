//! Why a text is not a descriptor.

use bitcoin::Network;

use crate::chain::address::AddressError;
use crate::chain::network;

/// Why a text is not a descriptor of the network. A position counts characters from 0. No message contains a private key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// There is no text.
    #[error("the descriptor is empty")]
    Empty,
    /// Longer than what is parsed.
    #[error("a descriptor has at most {longest} bytes here, this text has {length}")]
    TooLong {
        /// Bytes in the text.
        length: usize,
        /// The most that are parsed.
        longest: usize,
    },
    /// A private key, whose coins are at the mercy of everyone who has seen it.
    #[error("the text contains a private key: only public keys are accepted, and the key should be considered exposed")]
    PrivateKey,
    /// A character that no descriptor has.
    #[error("the character {character:?} at position {position} (counted from 0) occurs in no descriptor")]
    Character {
        /// The character.
        character: char,
        /// Where it stands.
        position: usize,
    },
    /// A space, a tab or the end of a line.
    #[error("{character:?} at position {position} (counted from 0): a descriptor is written without spaces")]
    Space {
        /// The character.
        character: char,
        /// Where it stands.
        position: usize,
    },
    /// A checksum of another length than 8.
    #[error("a checksum has 8 characters, and this one has {length}; the checksum of this descriptor is {right}")]
    ChecksumLength {
        /// Characters after the `#`.
        length: usize,
        /// The checksum of the text before the `#`.
        right: String,
        /// Where the checksum begins.
        position: usize,
    },
    /// The checksum is not that of the text.
    #[error(
        "the checksum {given:?} does not match: a character is mistyped, unless the descriptor was changed on purpose; \
         the checksum of this text is {right}"
    )]
    Checksum {
        /// The checksum as given.
        given: String,
        /// The checksum of the text before the `#`.
        right: String,
        /// Where the checksum begins.
        position: usize,
    },
    /// A form of descriptor that is not known here.
    #[error(
        "{name:?} is not supported: give pk, pkh, wpkh, sh, wsh, tr, rawtr, multi, sortedmulti, combo, addr or raw, or an \
         extended public key alone"
    )]
    Unsupported {
        /// What stands before the first bracket.
        name: String,
    },
    /// A text without brackets that is no extended public key.
    #[error("{text:?} is neither a descriptor, such as wpkh(xpub…/<0;1>/*), nor an extended public key")]
    NotADescriptor {
        /// The beginning of the text.
        text: String,
    },
    /// An extended public key alone, followed by a path.
    #[error(
        "an extended public key alone stands for its receive and change chains: leave out the path behind it, or write a \
         descriptor, such as wpkh(xpub…/0/*)"
    )]
    PathOfAccountKey,
    /// An extended key of SLIP-132 for multisig, which does not say what the other keys are.
    #[error("{prefix} is one key of a multisig wallet: give the descriptor with all its keys")]
    MultisigKey {
        /// The first four characters of the key.
        prefix: String,
    },
    /// An extended key of SLIP-132 within a descriptor.
    #[error(
        "{prefix} at position {position} (counted from 0) does not belong into a descriptor, which says itself what its \
         scripts are: write the key as xpub or tpub"
    )]
    AccountKeyInside {
        /// The first four characters of the key.
        prefix: String,
        /// Where the key begins.
        position: usize,
    },
    /// A key that cannot be parsed.
    #[error("a key is invalid: {reason}")]
    Key {
        /// What is wrong with it.
        reason: String,
    },
    /// A key that cannot be parsed, where it is known which.
    #[error(
        "{key} at position {position} (counted from 0) is no key: {reason}; give 66 hexadecimal digits (64 in tr), or an extended \
         public key, with [fingerprint/path] in front and its path behind"
    )]
    KeyAt {
        /// Its beginning, in quotes.
        key: String,
        /// Where it stands.
        position: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Extended keys of another network.
    #[error("the extended keys are of {}, and this server's network is {}", other(*asked), network::name(*asked))]
    Network {
        /// The network that is expected.
        asked: Network,
    },
    /// Extended keys of two networks.
    #[error("the extended keys are of different networks: xpub is for mainnet, tpub for all others")]
    MixedNetworks,
    /// A step that needs the private key.
    #[error(
        "a hardened step behind an extended public key needs the private key: derive that step in the wallet, and give the \
         key below it"
    )]
    Hardened,
    /// Multipath steps that do not fit together (BIP389).
    #[error("the multipath steps <…> of a descriptor have the same number of paths: one has {one}, another {another}")]
    BranchMismatch {
        /// The number of paths of one key.
        one: usize,
        /// That of another.
        another: usize,
    },
    /// A multipath step that names a path twice (BIP389).
    #[error("a multipath step <…> has the same path twice")]
    RepeatedBranch,
    /// More paths, or longer ones, than are derived.
    #[error("{what} of a descriptor are {count}, and the limit is {most}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// The most that are accepted.
        most: usize,
    },
    /// `addr()` without an address of the network.
    #[error("the address from position {at} on: {0}", at = ADDRESS_AT)]
    Address(#[from] AddressError),
    /// `raw()` without a script in hexadecimal digits.
    #[error("raw: an even number of hexadecimal digits is expected, and at least two")]
    RawScript,
    /// A script whose coins may be lost or stolen.
    #[error("the script is not safe: {reason}")]
    Unsafe {
        /// What is wrong with it.
        reason: String,
    },
    /// Anything else that is wrong with the text.
    #[error("the descriptor is malformed: {reason}")]
    Malformed {
        /// What is wrong.
        reason: String,
        /// Where, if it is known.
        position: Option<usize>,
    },
    /// The key at an index does not exist (BIP32: chance below 2^-127), or the index is hardened.
    #[error("there is no key at index {index} of branch {branch}")]
    NoKey {
        /// The branch.
        branch: usize,
        /// The index.
        index: u32,
    },
}

impl DescriptorError {
    /// With its position moved, where another text was parsed in the place of the given one.
    pub(super) fn moved_by(self, shift: usize) -> Self {
        match self {
            Self::Malformed { reason, position } => {
                Self::Malformed { reason, position: position.map(|at| at.saturating_add(shift)) }
            }
            Self::KeyAt { key, position, reason } => {
                Self::KeyAt { key, position: position.saturating_add(shift), reason }
            }
            error => error,
        }
    }

    /// The position of the first wrong character, counted from 0, if it is known.
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        match self {
            Self::Character { position, .. }
            | Self::KeyAt { position, .. }
            | Self::Space { position, .. }
            | Self::ChecksumLength { position, .. }
            | Self::Checksum { position, .. }
            | Self::AccountKeyInside { position, .. } => Some(*position),
            Self::Malformed { position, .. } => *position,
            Self::Address(error) => error.position().map(|position| position.saturating_add(ADDRESS_AT)),
            _ => None,
        }
    }
}

/// Where the address in `addr()` begins. The positions in its error count from there.
const ADDRESS_AT: usize = "addr(".len();

fn other(asked: Network) -> &'static str {
    if asked == Network::Bitcoin { "a test network (tpub, upub or vpub)" } else { "mainnet (xpub, ypub or zpub)" }
}
