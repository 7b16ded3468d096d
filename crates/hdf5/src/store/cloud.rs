//! Objects in S3, Google Cloud Storage and Azure Blob Storage, through the crate `object_store`.
//!
//! Endpoint, region and credentials come from the variables and files that the clouds' own tools
//! read.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{
    ClientConfigKey, ClientOptions, Error, GetOptions, GetRange, GetResult, ObjectStore,
    RetryConfig,
};

use super::bucket::{Bucket, BucketClient, CredentialedClient};
use super::error::StoreError;
use super::profile;
use super::transport::{
    CONNECT_TIMEOUT, MAX_REQUESTS, READ_TIMEOUT, RangeAnswer, RangeBytes, Transport, receive,
};
use super::version::Version;
use crate::store::address::{Address, Scheme};

/// An object in a bucket.
#[derive(Debug)]
pub(super) struct BucketObject {
    bucket: Arc<Bucket>,
    key: Path,
}

impl BucketObject {
    /// The object at `address`, which lies in `bucket`.
    pub fn new(address: &Address, bucket: Arc<Bucket>) -> Result<Self, StoreError> {
        Ok(Self {
            bucket,
            key: Path::parse(address.key()).map_err(|e| settings_error(&e))?,
        })
    }

    async fn request(
        &self,
        client: &BucketClient,
        range: &Range<u64>,
        expected: Option<&Version>,
    ) -> Result<RangeBytes, StoreError> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: expected.and_then(|version| version.etag.clone()),
            ..GetOptions::default()
        };
        let answer = client.get_opts(&self.key, options).await;
        let answer = answer.map_err(|error| match store_error(error) {
            // The first request for an object expects no version. It can only fail like this if
            // the object has no first byte.
            StoreError::Changed if expected.is_none() => StoreError::invalid("the object is empty"),
            other => other,
        })?;
        let meta = &answer.meta;
        let modified = meta.last_modified.to_rfc2822();
        let version = Version::new(meta.size, meta.e_tag.clone(), Some(modified));
        let start = answer.range.start;
        if start != range.start {
            let problem = format!("bytes from {start} instead of {}", range.start);
            return Err(StoreError::invalid(problem));
        }
        receive(range, version, body(answer)).await
    }
}

/// The body of an answer.
pub(super) fn body(answer: GetResult) -> impl Stream<Item = Result<Bytes, StoreError>> {
    answer.into_stream().map_err(store_error)
}

impl Transport for BucketObject {
    /// If the store refuses the credentials, they are read again, and the request is repeated once
    /// if they have changed.
    fn get<'a>(&'a self, range: Range<u64>, expected: Option<&'a Version>) -> RangeAnswer<'a> {
        Box::pin(async move {
            let client = self.bucket.client();
            let answer = self.request(&client, &range, expected).await;
            if !matches!(answer, Err(StoreError::Denied(_))) {
                return answer;
            }
            match self.bucket.instead_of(&client).await {
                Some(renewed) => self.request(&renewed, &range, expected).await,
                None => answer,
            }
        })
    }
}

/// Makes a client for the bucket of an address, with the current credentials.
pub(super) fn client(address: &Address) -> Result<CredentialedClient, StoreError> {
    let client = match address.scheme() {
        Scheme::S3 => s3(address.bucket()),
        Scheme::Gs => google(address.bucket()),
        // An address on a web server has no bucket: it never comes here.
        Scheme::Az | Scheme::Web => azure(address.bucket()),
    };
    client.map_err(|e| settings_error(&e))
}

/// The client with a digest of `values`: its credentials, and the setting that leaves requests
/// unsigned. If none of them is set, a service issues the credentials, and there is no digest.
fn with_digest(client: impl ObjectStore, values: &[Option<String>]) -> CredentialedClient {
    // The setting that leaves requests unsigned is "false" by default.
    let is_any_set = values.iter().flatten().any(|value| !profile::is_off(value));
    CredentialedClient {
        client: Arc::new(client),
        credentials: is_any_set.then(|| blake3::hash(format!("{values:?}").as_bytes())),
    }
}

fn s3(bucket: &str) -> object_store::Result<CredentialedClient> {
    let builder = profile::aws(AmazonS3Builder::from_env(), bucket)
        .with_bucket_name(bucket)
        .with_retry(no_retries());
    let allows_http = AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp);
    let options = options(builder.get_config_value(&allows_http));
    let keys = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::SecretAccessKey,
        AmazonS3ConfigKey::Token,
        AmazonS3ConfigKey::SkipSignature,
    ];
    let credentials = keys.map(|key| builder.get_config_value(&key));
    let client = builder.with_client_options(options).build()?;
    Ok(with_digest(client, &credentials))
}

fn google(bucket: &str) -> object_store::Result<CredentialedClient> {
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_retry(no_retries());
    let emulator = std::env::var("STORAGE_EMULATOR_HOST")
        .ok()
        .filter(|host| !host.is_empty());
    if let Some(host) = &emulator {
        let base = if host.contains("://") {
            host.clone()
        } else {
            format!("http://{host}")
        };
        builder = builder.with_config(GoogleConfigKey::BaseUrl, base);
        builder = builder.with_config(GoogleConfigKey::SkipSignature, "true");
    }
    // The text of the credentials' file is part of the digest: it may change, unlike its path.
    let path = builder.get_config_value(&GoogleConfigKey::ServiceAccount);
    let file = path.and_then(|path| std::fs::read_to_string(path).ok());
    let file = file.or_else(profile::google);
    let keys = [
        GoogleConfigKey::ServiceAccountKey,
        GoogleConfigKey::BearerToken,
        GoogleConfigKey::SkipSignature,
    ];
    let [key, token, unsigned] = keys.map(|key| builder.get_config_value(&key));
    let options = options(None).with_allow_http(emulator.is_some());
    let client = builder.with_client_options(options).build()?;
    Ok(with_digest(client, &[file, key, token, unsigned]))
}

fn azure(container: &str) -> object_store::Result<CredentialedClient> {
    let builder = profile::azure(MicrosoftAzureBuilder::from_env());
    let builder = builder
        .with_container_name(container)
        .with_retry(no_retries());
    let allows_http = AzureConfigKey::Client(ClientConfigKey::AllowHttp);
    let mut options = options(builder.get_config_value(&allows_http));
    // The emulator and the endpoints of private clouds may lack encryption. An account key is used
    // to sign requests and is never sent.
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        options = options.with_allow_http(true);
    }
    let keys = [
        AzureConfigKey::AccessKey,
        AzureConfigKey::SasKey,
        AzureConfigKey::Token,
        AzureConfigKey::SkipSignature,
    ];
    let credentials = keys.map(|key| builder.get_config_value(&key));
    let client = builder.with_client_options(options).build()?;
    Ok(with_digest(client, &credentials))
}

/// The options of all clients. They replace the options that `from_env` has read from the
/// environment; only `allows_http` is kept, as it was written there.
fn options(allows_http: Option<String>) -> ClientOptions {
    let options = ClientOptions::new()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(READ_TIMEOUT)
        .with_timeout_disabled()
        .with_pool_max_idle_per_host(MAX_REQUESTS);
    match allows_http {
        Some(value) => options.with_config(ClientConfigKey::AllowHttp, value),
        None => options,
    }
}

/// `object_store` repeats no requests, because [`super::host`] does.
fn no_retries() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

pub(super) fn settings_error(error: &dyn std::error::Error) -> StoreError {
    let problem = safe_message(error);
    StoreError::Settings(format!("the settings for the store are wrong: {problem}"))
}

/// The addresses at which machines in the clouds get credentials. A request to one of them means
/// that no other credentials were found.
const METADATA_SERVICES: [&str; 3] = [
    "169.254.169.254",
    "169.254.170.2",
    "metadata.google.internal",
];

fn denied(problem: &str) -> StoreError {
    StoreError::Denied(format!(
        "{problem}; check the credentials in the environment, or set AWS_SKIP_SIGNATURE=true, GOOGLE_SKIP_SIGNATURE=true \
         or AZURE_SKIP_SIGNATURE=true if the object is public"
    ))
}

/// The error for a failed request, or for the settings with which it was made.
pub(super) fn store_error(error: Error) -> StoreError {
    match error {
        Error::NotFound { .. } => StoreError::Missing,
        Error::Precondition { .. } | Error::NotModified { .. } => StoreError::Changed,
        Error::PermissionDenied { source, .. } | Error::Unauthenticated { source, .. } => {
            denied(&safe_message(&*source))
        }
        Error::NotSupported { .. } => StoreError::NoRanges,
        error @ (Error::InvalidPath { .. } | Error::UnknownConfigurationKey { .. }) => {
            settings_error(&error)
        }
        other => {
            let message = other.to_string();
            if METADATA_SERVICES
                .iter()
                .any(|service| message.contains(service))
            {
                return denied(
                    "there are no credentials in the environment or the clouds' own files",
                );
            }
            // The requested bytes existed when the object was opened, so it has become shorter. The
            // number 416 alone could also be part of a time or an address in the message.
            if message.contains("416 Range Not Satisfiable") {
                return StoreError::Changed;
            }
            let mut root_cause: &dyn std::error::Error = &other;
            while let Some(cause) = root_cause.source() {
                root_cause = cause;
            }
            StoreError::unavailable(safe_message(root_cause))
        }
    }
}

/// The message of an error. The queries of addresses, which may contain signatures, are cut out of
/// it: `no answer (https://h/a?sig=1)` becomes `no answer (https://h/a?)`.
fn safe_message(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut is_query = false;
    text.retain(|letter| {
        is_query = match letter {
            '?' => true,
            ' ' | ')' | '"' | '\n' => false,
            _ => is_query,
        };
        !is_query || letter == '?'
    });
    text
}
