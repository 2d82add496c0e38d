//! A store of objects: a bucket that speaks the protocol of Amazon S3, or a directory.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use tokio_stream::StreamExt;
use tracing::info;

use super::error::FleetError;
use super::names::{MANIFESTS, OBJECTS, PROBE};
use crate::outbound;

/// What the probe has: no secret.
const PROBE_TEXT: &[u8] =
    b"An object without secrets: btcgraph checks with it that the store does not answer unsigned requests.\n";
/// How long connecting to a store may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a store may send or take nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request may take: a part has some MiB.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(10);
/// How often a request is sent again, and for how long.
const RETRIES: usize = 8;
const RETRY_TIMEOUT: Duration = Duration::from_mins(1);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A store. Cheap to clone.
#[derive(Clone)]
pub struct FleetStore {
    url: String,
    prefix: Path,
    objects: Arc<dyn ObjectStore>,
    kind: StoreKind,
}

#[derive(Clone)]
enum StoreKind {
    /// A bucket, with the requests of a multipart upload, and without signatures.
    Bucket { bucket: Arc<AmazonS3>, unsigned: Arc<AmazonS3> },
    /// This directory.
    Directory(PathBuf),
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedObject {
    /// Its name below the prefix and the folder.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// When it was written, by the clock of the store, in seconds since 1970.
    pub(super) written: i64,
}

impl FleetStore {
    /// The store at `s3://bucket/prefix` or `file:///directory`. Region, endpoint and credentials of a bucket come from the
    /// variables `AWS_…` in `environment`; an endpoint may be `http://`. A directory is made if `create` says so.
    ///
    /// Errors: [`FleetError::Url`], `Settings`; the directory does not exist or cannot be made.
    pub fn open(
        url: &str,
        environment: impl IntoIterator<Item = (String, String)>,
        create: bool,
    ) -> Result<Self, FleetError> {
        let invalid = |reason: &str| FleetError::Url { url: url.to_owned(), reason: reason.to_owned() };
        if let Some(path) = url.strip_prefix("file://") {
            let path = PathBuf::from(path);
            if !path.is_absolute() {
                return Err(invalid("the path of the directory must begin with a slash"));
            }
            if create {
                std::fs::create_dir_all(&path).map_err(FleetError::of_file("make the directory", &path))?;
            }
            let store = LocalFileSystem::new_with_prefix(&path);
            let store = store.map_err(|source| FleetError::Store {
                doing: "open",
                object: url.to_owned(),
                source: Box::new(source),
            })?;
            let objects = Arc::new(store.with_fsync(true));
            return Ok(Self {
                url: url.to_owned(),
                prefix: Path::default(),
                objects,
                kind: StoreKind::Directory(path),
            });
        }
        let Some(rest) = url.strip_prefix("s3://") else {
            return Err(invalid("it begins with neither s3:// nor file://"));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || bucket.contains(['?', '#', '@', ':']) {
            return Err(invalid("the name of the bucket is missing or not valid"));
        }
        let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|error| invalid(&error.to_string()))?;
        outbound::use_ring();
        let failed = |source| FleetError::Settings { url: url.to_owned(), source: Box::new(source) };
        let builder = bucket_builder(bucket, environment);
        let signed = Arc::new(builder.clone().build().map_err(failed)?);
        let unsigned = Arc::new(builder.with_skip_signature(true).build().map_err(failed)?);
        let objects = Arc::clone(&signed) as Arc<dyn ObjectStore>;
        Ok(Self { url: url.to_owned(), prefix, objects, kind: StoreKind::Bucket { bucket: signed, unsigned } })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bucket, if it is one: for uploads in parts.
    pub(super) fn bucket(&self) -> Option<&AmazonS3> {
        match &self.kind {
            StoreKind::Bucket { bucket, .. } => Some(bucket),
            StoreKind::Directory(_) => None,
        }
    }

    pub(super) fn objects(&self) -> &dyn ObjectStore {
        self.objects.as_ref()
    }

    /// Where an object is in the store.
    pub(super) fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), Path::join)
    }

    /// The bytes of an object, `None` if it is not there.
    pub(super) async fn size(&self, name: &str) -> Result<Option<u64>, FleetError> {
        match self.objects.head(&self.path(name)).await {
            Ok(ObjectMeta { size, .. }) => Ok(Some(size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(FleetError::of_store("look for", name, error)),
        }
    }

    /// A whole object, which must have at most so many bytes.
    ///
    /// Errors: [`FleetError::Gone`]; it is larger; the store fails.
    pub(super) async fn read(&self, name: &str, most: u64) -> Result<Vec<u8>, FleetError> {
        let failed = |error| FleetError::of_store("read", name, error);
        let found = self.objects.get(&self.path(name)).await.map_err(failed)?;
        if found.meta.size > most {
            return Err(FleetError::Truncated { object: name.to_owned(), found: found.meta.size, expected: most });
        }
        Ok(found.bytes().await.map_err(failed)?.to_vec())
    }

    /// Bytes of an object.
    pub(super) async fn read_range(&self, name: &str, range: std::ops::Range<u64>) -> Result<Vec<u8>, FleetError> {
        let read = self.objects.get_range(&self.path(name), range).await;
        Ok(read.map_err(|error| FleetError::of_store("read", name, error))?.to_vec())
    }

    /// Writes an object that is not there yet.
    pub(super) async fn write(&self, name: &str, content: Vec<u8>) -> Result<(), FleetError> {
        // a bucket may ignore a condition, so it is only looked for; another publisher would write the same bytes
        let mode = if self.bucket().is_some() { PutMode::Overwrite } else { PutMode::Create };
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.objects.put_opts(&self.path(name), PutPayload::from(content), options).await {
            Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(FleetError::of_store("write", name, error)),
        }
    }

    /// Removes an object. One that is not there is no error.
    pub(super) async fn remove(&self, name: &str) -> Result<(), FleetError> {
        match self.objects.delete(&self.path(name)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(FleetError::of_store("remove", name, error)),
        }
    }

    /// The objects in a folder.
    pub(super) async fn list(&self, folder: &str) -> Result<Vec<ListedObject>, FleetError> {
        let (path, mut found) = (self.path(folder), Vec::new());
        let mut listing = self.objects.list(Some(&path));
        while let Some(object) = listing.next().await {
            let object = object.map_err(|error| FleetError::of_store("list", folder, error))?;
            let Some(parts) = object.location.prefix_match(&path) else { continue };
            let name = parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
            found.push(ListedObject { name, bytes: object.size, written: object.last_modified.timestamp() });
        }
        Ok(found)
    }

    /// Removes what copies to a directory left that were interrupted before this time, in seconds since 1970. A bucket does
    /// that by its own rules. What cannot be removed stays until the next time.
    pub(super) fn remove_unfinished(&self, folder: &str, before: i64) {
        let StoreKind::Directory(root) = &self.kind else { return };
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            // `name#number` is not an object, and not listed
            let is_unfinished = entry.file_name().to_string_lossy().contains('#');
            let changed = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            let changed = changed.and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
            let is_old = changed.is_some_and(|changed| i64::try_from(changed.as_secs()).is_ok_and(|at| at < before));
            if is_unfinished && is_old && std::fs::remove_file(entry.path()).is_ok() {
                info!(file = %entry.path().display(), "removed an unfinished copy");
            }
        }
    }

    /// Checks that a bucket does not answer requests without a signature. Writes two small objects for that.
    ///
    /// Errors: [`FleetError::Public`]; the store fails.
    pub(super) async fn refuse_public(&self) -> Result<(), FleetError> {
        let StoreKind::Bucket { unsigned, .. } = &self.kind else { return Ok(()) };
        for folder in [MANIFESTS, OBJECTS] {
            let name = format!("{folder}/{PROBE}");
            if self.size(&name).await?.is_none() {
                self.write(&name, PROBE_TEXT.to_vec()).await?;
            }
            match unsigned.get(&self.path(&name)).await {
                Ok(_) => return Err(FleetError::Public { url: self.url.clone() }),
                Err(Error::NotFound { .. } | Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => {}
                // as Cloudflare R2 answers; the signed request right before shows that the store works
                Err(error) if is_bad_request(&error) => {}
                Err(error) => return Err(FleetError::of_store("read without a signature", &name, error)),
            }
        }
        Ok(())
    }
}

/// Whether the store answered with status 400, which has no error of its own: the type behind it is private, and its text is all
/// that says so.
fn is_bad_request(error: &Error) -> bool {
    std::iter::successors(error.source(), |&error| error.source())
        .any(|error| error.to_string().starts_with("Server returned non-2xx status code: 400 "))
}

/// A bucket as the environment describes it.
fn bucket_builder(bucket: &str, environment: impl IntoIterator<Item = (String, String)>) -> AmazonS3Builder {
    let mut builder = AmazonS3Builder::new();
    let mut allows_http = false;
    for (name, value) in environment {
        let Some(key) = name.strip_prefix("AWS_").and_then(|_| name.to_ascii_lowercase().parse().ok()) else {
            continue;
        };
        if value.is_empty() {
            continue;
        }
        if matches!(key, AmazonS3ConfigKey::Endpoint | AmazonS3ConfigKey::S3Endpoint) {
            allows_http |= value.starts_with("http://");
        }
        // every request but that of the probe is signed
        if !matches!(key, AmazonS3ConfigKey::SkipSignature | AmazonS3ConfigKey::Bucket) {
            builder = builder.with_config(key, value);
        }
    }
    let client = ClientOptions::new()
        .with_allow_http(allows_http)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(READ_TIMEOUT)
        .with_timeout(REQUEST_TIMEOUT);
    let backoff = BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 };
    builder.with_bucket_name(bucket).with_client_options(client).with_retry(RetryConfig {
        backoff,
        max_retries: RETRIES,
        retry_timeout: RETRY_TIMEOUT,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// The endpoint of a store that has every object, and answers requests without a signature like this.
    fn store_answering(unsigned: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && client.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
                let status = if head.contains("\r\nauthorization:") { "200 OK" } else { unsigned };
                let _ = write!(client, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            }
        });
        endpoint
    }

    #[tokio::test]
    async fn a_bucket_must_refuse_requests_without_a_signature() {
        let check = async |unsigned| {
            let endpoint = store_answering(unsigned);
            let variables = [
                ("AWS_ENDPOINT_URL", endpoint.as_str()),
                ("AWS_ACCESS_KEY_ID", "key"),
                ("AWS_SECRET_ACCESS_KEY", "secret"),
                ("AWS_REGION", "auto"),
            ];
            let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
            FleetStore::open("s3://bucket/chain", variables, false).unwrap().refuse_public().await
        };
        for status in ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found"] {
            assert!(matches!(check(status).await, Ok(())), "{status}");
        }
        assert!(matches!(check("200 OK").await, Err(FleetError::Public { .. })));
        // it may answer the next time
        assert!(matches!(check("405 Method Not Allowed").await, Err(FleetError::Store { .. })));
    }

    fn refusal(url: &str) -> String {
        match FleetStore::open(url, [], false) {
            Ok(_) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn addresses_that_are_none_of_a_store_are_refused() {
        for url in
            ["", "bucket", "https://host/bucket", "s3://", "s3:///prefix", "s3://a:b@host/x", "s3://b?x", "file://a"]
        {
            let error = refusal(url);
            assert!(error.starts_with(&format!("{url:?} is not the address of a store: ")), "{error}");
            assert!(error.ends_with("use s3://BUCKET/PREFIX or file:///DIRECTORY"), "{error}");
        }
        assert!(refusal("file:///nowhere/at/all").starts_with("cannot open file:///nowhere/at/all: "));
        assert_eq!(refusal("s3://bucket/a/prefix/"), "none");
    }

    #[test]
    fn names_are_below_the_prefix() {
        let path = |url: &str| FleetStore::open(url, [], false).unwrap().path("objects/ab").to_string();
        assert_eq!(path("s3://bucket"), "objects/ab");
        assert_eq!(path("s3://bucket/one/two/"), "one/two/objects/ab");
    }
}
