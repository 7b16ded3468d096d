//! Objects in S3, Google Cloud Storage and Azure Blob Storage, through the crate `object_store`.
//!
//! Endpoint, region and credentials come from the variables and files that the clouds' own tools
//! read.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{ClientOptions, Error, GetOptions, GetRange, GetResult, RetryConfig};

use super::bucket::{Bucket, BucketClient, CredentialedClient};
use super::error::StoreError;
use super::profile;
use super::transport::{
    CONNECTING, MAX_AT_ONCE, RETRY, ROOM, RangeBytes, Transport, WAITING, checked,
};
use super::version::Version;
use crate::store::address::{Address, Scheme};

/// An object in a bucket.
#[derive(Debug)]
pub(super) struct Cloud {
    bucket: Arc<Bucket>,
    key: Path,
}

impl Cloud {
    pub fn to(address: &Address, bucket: Arc<Bucket>) -> Result<Self, StoreError> {
        Ok(Self {
            bucket,
            key: Path::parse(address.key()).map_err(|e| settings(&e))?,
        })
    }

    /// Asks again with other credentials if the current ones are refused and may have changed.
    async fn part(
        &self,
        range: Range<u64>,
        expected: Option<&Version>,
    ) -> Result<RangeBytes, StoreError> {
        let client = self.bucket.client();
        match self.ask(&client, &range, expected).await {
            Err(refusal @ StoreError::Denied { .. }) => match self.bucket.instead_of(&client).await
            {
                Some(other) => self.ask(&other, &range, expected).await,
                None => Err(refusal),
            },
            answer => answer,
        }
    }

    async fn ask(
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
        let answer =
            client
                .get_opts(&self.key, options)
                .await
                .map_err(|error| match failure(error) {
                    StoreError::Changed if expected.is_none() => {
                        StoreError::invalid("the object is empty")
                    }
                    other => other,
                })?;
        let meta = &answer.meta;
        let version = Version::new(
            meta.size,
            meta.e_tag.clone(),
            Some(meta.last_modified.to_rfc2822()),
        );
        if answer.range.start != range.start {
            let problem = format!(
                "bytes from {} instead of {}",
                answer.range.start, range.start
            );
            return Err(StoreError::invalid(problem));
        }
        let wanted = range.end.min(version.length).saturating_sub(range.start);
        checked(range, version, body(answer, wanted).await?)
    }
}

/// The body; reading stops soon after `wanted` bytes.
pub(super) async fn body(answer: GetResult, wanted: u64) -> Result<Bytes, StoreError> {
    let mut bytes = BytesMut::with_capacity(wanted.min(ROOM) as usize);
    let mut stream = answer.into_stream();
    while let Some(more) = stream.next().await {
        bytes.extend_from_slice(&more.map_err(failure)?);
        if bytes.len() as u64 > wanted {
            break;
        }
    }
    Ok(bytes.freeze())
}

impl Transport for Cloud {
    fn get<'a>(
        &'a self,
        range: Range<u64>,
        expected: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<RangeBytes, StoreError>> {
        Box::pin(self.part(range, expected))
    }
}

/// A client for the bucket of an address, with the credentials as they are now.
pub(super) fn client(address: &Address) -> Result<CredentialedClient, StoreError> {
    let bucket = match address.scheme() {
        Scheme::S3 => s3(address.bucket()),
        Scheme::Gs => google(address.bucket()),
        Scheme::Az | Scheme::Web => azure(address.bucket()),
    };
    bucket.map_err(|e| settings(&e))
}

/// A digest of credentials and of whether requests are signed at all; `None` if nothing is given:
/// then a service gives them.
fn digest(given: &[Option<String>]) -> Option<blake3::Hash> {
    let is_given = given.iter().flatten().any(|value| value != "false");
    is_given.then(|| blake3::hash(format!("{given:?}").as_bytes()))
}

fn s3(bucket: &str) -> object_store::Result<CredentialedClient> {
    // `from_env` reads the client's options too, but none of the options that are set here.
    let builder = profile::aws(AmazonS3Builder::from_env(), bucket)
        .with_bucket_name(bucket)
        .with_retry(once());
    let allowed =
        std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    let keys = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::SecretAccessKey,
        AmazonS3ConfigKey::Token,
        AmazonS3ConfigKey::SkipSignature,
    ];
    let credentials = digest(&keys.map(|key| builder.get_config_value(&key)));
    let client = Arc::new(
        builder
            .with_client_options(options().with_allow_http(allowed))
            .build()?,
    );
    Ok(CredentialedClient {
        client,
        credentials,
    })
}

fn google(bucket: &str) -> object_store::Result<CredentialedClient> {
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_retry(once());
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
    let path = builder.get_config_value(&GoogleConfigKey::ServiceAccount);
    let file = path
        .and_then(|path| std::fs::read_to_string(path).ok())
        .or_else(profile::google);
    let keys = [
        GoogleConfigKey::ServiceAccountKey,
        GoogleConfigKey::BearerToken,
        GoogleConfigKey::SkipSignature,
    ];
    let [key, token, unsigned] = keys.map(|key| builder.get_config_value(&key));
    let credentials = digest(&[file, key, token, unsigned]);
    let client = Arc::new(
        builder
            .with_client_options(options().with_allow_http(emulator.is_some()))
            .build()?,
    );
    Ok(CredentialedClient {
        client,
        credentials,
    })
}

fn azure(container: &str) -> object_store::Result<CredentialedClient> {
    let builder = profile::azure(MicrosoftAzureBuilder::from_env());
    let builder = builder.with_container_name(container).with_retry(once());
    // The emulator, and endpoints of private clouds, may lack encryption; credentials are signed,
    // not sent.
    let allowed = std::env::var("AZURE_ALLOW_HTTP")
        .is_ok_and(|value| value.eq_ignore_ascii_case("true"))
        || profile::azure_endpoint().is_some_and(|endpoint| endpoint.starts_with("http://"));
    let keys = [
        AzureConfigKey::AccessKey,
        AzureConfigKey::SasKey,
        AzureConfigKey::Token,
        AzureConfigKey::SkipSignature,
    ];
    let credentials = digest(&keys.map(|key| builder.get_config_value(&key)));
    let client = Arc::new(
        builder
            .with_client_options(options().with_allow_http(allowed))
            .build()?,
    );
    Ok(CredentialedClient {
        client,
        credentials,
    })
}

fn options() -> ClientOptions {
    ClientOptions::new()
        .with_connect_timeout(CONNECTING)
        .with_read_timeout(WAITING)
        .with_timeout_disabled()
        .with_pool_max_idle_per_host(MAX_AT_ONCE)
}

/// Requests are repeated by [`super::host`] alone.
fn once() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

pub(super) fn settings(error: &dyn std::error::Error) -> StoreError {
    StoreError::Settings {
        problem: format!(
            "the settings for the store are wrong: {}",
            without_query(&error.to_string())
        ),
    }
}

/// Who is asked for credentials when nothing else has any: the machines of the clouds.
const METADATA_SERVICES: [&str; 3] = [
    "169.254.169.254",
    "169.254.170.2",
    "metadata.google.internal",
];

fn denied(problem: &str) -> StoreError {
    StoreError::Denied {
        problem: format!(
            "{problem}; check the credentials in the environment, or set AWS_SKIP_SIGNATURE=true, GOOGLE_SKIP_SIGNATURE=true \
             or AZURE_SKIP_SIGNATURE=true if the object is public"
        ),
    }
}

/// The text of an error without the query of any address in it, which may contain credentials.
fn text(error: &dyn std::error::Error) -> String {
    without_query(&error.to_string())
}

pub(super) fn failure(error: Error) -> StoreError {
    match error {
        Error::NotFound { .. } => StoreError::Missing,
        Error::Precondition { .. } | Error::NotModified { .. } => StoreError::Changed,
        Error::PermissionDenied { source, .. } | Error::Unauthenticated { source, .. } => {
            denied(&text(&*source))
        }
        Error::NotSupported { .. } => StoreError::NoRanges,
        error @ (Error::InvalidPath { .. } | Error::UnknownConfigurationKey { .. }) => {
            settings(&error)
        }
        other => {
            let causes =
                std::iter::successors(std::error::Error::source(&other), |error| (*error).source());
            let problem = match causes.last() {
                Some(cause) => text(cause),
                None => text(&other),
            };
            if METADATA_SERVICES
                .iter()
                .any(|service| other.to_string().contains(service))
            {
                return denied(
                    "there are no credentials in the environment or the clouds' own files",
                );
            }
            // To a request for bytes that were there. The text has times and addresses in it, with
            // digits of their own.
            if other.to_string().contains("416 Range Not Satisfiable") {
                return StoreError::Changed;
            }
            StoreError::Unavailable {
                problem,
                retry_after: RETRY,
            }
        }
    }
}

/// An error message without the queries of addresses in it, which may be signatures.
fn without_query(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut is_query = false;
    for letter in text.chars() {
        is_query = match letter {
            '?' => true,
            ' ' | ')' | '"' | '\n' => false,
            _ => is_query,
        };
        if !is_query || letter == '?' {
            clean.push(letter);
        }
    }
    clean
}
