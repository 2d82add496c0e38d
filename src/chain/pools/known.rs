//! The pools that are known without a file: the largest ones of mainnet, today's and those of earlier years.
//!
//! Only facts that blocks show: the text that a pool writes into its coinbases, and a few scripts that its rewards went to.

use bitcoin::Network;

use super::pool::{Pool, slug};
use crate::chain::address::parse_address;

/// A pool as it stands in the built-in table, with addresses of mainnet.
pub(super) struct KnownPool {
    pub(super) name: &'static str,
    /// Empty if it has no web page any more.
    pub(super) link: &'static str,
    pub(super) tags: &'static [&'static str],
    pub(super) addresses: &'static [&'static str],
}

/// The pools that are known without a file, with the payout scripts of this network.
pub(super) fn known_pools(network: Network) -> Vec<Pool> {
    let pool = |known: &KnownPool| Pool {
        name: known.name.to_owned(),
        slug: slug(known.name),
        link: Some(known.link).filter(|link| !link.is_empty()).map(str::to_owned),
        tags: known.tags.iter().map(|tag| (*tag).to_owned()).collect(),
        payout_scripts: known.addresses.iter().filter_map(|address| parse_address(address, network).ok()).collect(),
    };
    KNOWN.iter().map(pool).collect()
}

/// The pools.
#[rustfmt::skip]
pub(super) const KNOWN: &[KnownPool] = &[
    KnownPool {
        name: "Foundry USA",
        link: "https://foundrydigital.com",
        tags: &["Foundry USA Pool", "/2cDw/"],
        addresses: &["12KKDt4Mj7N5UAkQMN7LtPZMayenXHa8KL", "1FFxkVijzvUPUeHgkFjBk2Qw8j3wQY2cDw", "bc1qxhmdufsvnuaaaer4ynz88fspdsxq2h9e9cetdj"],
    },
    KnownPool {
        name: "AntPool",
        link: "https://www.antpool.com",
        tags: &["Mined by AntPool", "Mined By AntPool", "/AntPool/"],
        addresses: &["12dRugNcdxK39288NjcDV4GX7rMsKCGn6B", "15kiNKfDWsq7UsPg87UwxA8rVvWAjzRkYS"],
    },
    KnownPool {
        name: "F2Pool",
        link: "https://www.f2pool.com",
        tags: &["F2Pool", "七彩神仙鱼", "🐟"],
        addresses: &["1KFHE7w8BhaENAswwryaoccDb6qcT6DbYY", "bc1qf274x7penhcd8hsv3jcmwa5xxzjl2a6pa9pxwm"],
    },
    KnownPool { name: "ViaBTC", link: "https://viabtc.com", tags: &["/ViaBTC/"], addresses: &[] },
    KnownPool {
        name: "Binance Pool",
        link: "https://pool.binance.com",
        tags: &["/Binance/", "binance"],
        addresses: &["1JvXhnHCi6XqcanvrZJ5s2Qiv4tsmm2UMy", "3L8Ck6bm3sve1vJGKo6Ht2k167YKSKi8TZ"],
    },
    KnownPool {
        name: "MARA Pool",
        link: "https://marapool.com",
        tags: &["MARA Pool", "MARA Made in USA"],
        addresses: &["15MdAHnkxt9TMC2Rj595hsg8Hnv693pPBB"],
    },
    KnownPool { name: "SpiderPool", link: "https://www.spiderpool.com", tags: &["SpiderPool"], addresses: &["125m2H43pwKpSZjLhMQHneuTwTJN5qRyYu"] },
    KnownPool { name: "SECPOOL", link: "https://www.secpool.com", tags: &["SecPool"], addresses: &[] },
    KnownPool {
        name: "Luxor",
        link: "https://mining.luxor.tech",
        tags: &["Luxor Tech", "/LUXOR/"],
        addresses: &["1MkCDCzHpBsYQivp8MxjY5AkTGG1f2baoe", "39bitUyBcUu3y3hRTtYprKbTp712t4ZWqK"],
    },
    KnownPool { name: "OCEAN", link: "https://ocean.xyz", tags: &["OCEAN.XYZ"], addresses: &["37dvwZZoT3D7RXpTCpN2yKzMmNs2i2Fd1n"] },
    KnownPool { name: "SBI Crypto", link: "https://sbicrypto.com", tags: &["SBICrypto.com Pool", "SBI Crypto", "SBICrypto"], addresses: &[] },
    // it began as Slush's pool, whose tag it still writes
    KnownPool { name: "Braiins Pool", link: "https://braiins.com/pool", tags: &["/slush/"], addresses: &["1CK6KHY6MHgYvmRQ4PAafKYDrg1ejbH1cE"] },
    KnownPool {
        name: "Poolin",
        link: "https://www.poolin.com",
        tags: &["/poolin.com", "/poolin/"],
        addresses: &["36n452uGq1x4mK7bfyZR8wgE47AnBb2pzi"],
    },
    KnownPool {
        name: "BTC.com",
        link: "https://pool.btc.com",
        tags: &["/BTC.COM/", "/BTC.com/", "btccom"],
        addresses: &["1Bf9sZvBHPFGVPX71WX2njhd1NXKv5y7v5", "34qkc2iac6RsyxZVfyE2S5U5WcRsbg2dpK"],
    },
    KnownPool { name: "ULTIMUSPOOL", link: "https://www.ultimuspool.com", tags: &["/ultimus/"], addresses: &[] },
    KnownPool { name: "WhitePool", link: "https://whitebit.com/mining-pool", tags: &["WhitePool"], addresses: &[] },
    KnownPool { name: "Mining Squared", link: "https://pool.bsquared.network", tags: &["MiningSquared", "BSquared Network", "/bsquared/"], addresses: &[] },
    KnownPool { name: "NiceHash", link: "https://www.nicehash.com", tags: &["/NiceHashSolo", "/NiceHashMining/", "/NiceHash/"], addresses: &[] },
    KnownPool { name: "Solo CK", link: "https://solo.ckpool.org", tags: &["/solo.ckpool.org/"], addresses: &[] },
    KnownPool { name: "CKPool", link: "https://ckpool.org", tags: &["/ckpool.org/"], addresses: &[] },
    KnownPool { name: "Public Pool", link: "https://web.public-pool.io", tags: &["Public-Pool"], addresses: &[] },
    KnownPool { name: "KanoPool", link: "https://kano.is", tags: &["KanoPool"], addresses: &[] },
    KnownPool { name: "BTC.TOP", link: "https://btc.top", tags: &["/BTC.TOP/"], addresses: &["1Hz96kJKF2HLPGY15JWLB5m9qGNxvt8tHJ"] },
    KnownPool { name: "BTCC", link: "", tags: &["BTCChina Pool", "BTCChina.com", "/BTCC/"], addresses: &["152f1muMCNa7goXYhYAQC61hxEgGacmncB"] },
    KnownPool { name: "BWPool", link: "", tags: &["BW Pool", "BWPool"], addresses: &[] },
    KnownPool { name: "BitFury", link: "https://bitfury.com", tags: &["/BitFury/", "/Bitfury/"], addresses: &[] },
    KnownPool { name: "GHash.IO", link: "", tags: &["ghash.io"], addresses: &["1CjPR7Z5ZSyWk6WtXvSFgkptmpoi4UM9BC"] },
    KnownPool { name: "BTC Guild", link: "", tags: &["BTC Guild"], addresses: &[] },
    KnownPool { name: "Eligius", link: "", tags: &["Eligius"], addresses: &[] },
];
