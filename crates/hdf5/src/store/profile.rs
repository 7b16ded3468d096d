//! Credentials and endpoints in the files and variables of the clouds' own tools that
//! `object_store` does not read.

use std::path::PathBuf;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use url::Url;

/// Settings of `~/.aws/config` and `~/.aws/credentials`, each with the setting of `object_store`
/// that it becomes.
const AWS: [(&str, AmazonS3ConfigKey); 5] = [
    ("aws_access_key_id", AmazonS3ConfigKey::AccessKeyId),
    ("aws_secret_access_key", AmazonS3ConfigKey::SecretAccessKey),
    ("aws_session_token", AmazonS3ConfigKey::Token),
    ("region", AmazonS3ConfigKey::Region),
    ("endpoint_url", AmazonS3ConfigKey::Endpoint),
];

/// Adds what the profile of the AWS command line says (`AWS_PROFILE`, else `default`). The
/// environment goes first.
pub(super) fn aws(builder: AmazonS3Builder, bucket: &str) -> AmazonS3Builder {
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let credentials = file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    let config = file("AWS_CONFIG_FILE", ".aws/config");
    let in_config = if profile == "default" {
        profile.clone()
    } else {
        format!("profile {profile}")
    };
    let builder = profiled(builder, credentials.as_deref(), &profile);
    hosting(profiled(builder, config.as_deref(), &in_config), bucket)
}

/// Adds what a section of a file says, where nothing is set.
fn profiled(mut builder: AmazonS3Builder, file: Option<&str>, section: &str) -> AmazonS3Builder {
    let Some(file) = file else {
        return builder;
    };
    // A key and its secret belong together: neither is completed from elsewhere.
    let is_set = builder
        .get_config_value(&AmazonS3ConfigKey::AccessKeyId)
        .is_some();
    let gives_key = !is_set && setting(file, section, "aws_access_key_id").is_some();
    for (name, key) in &AWS {
        let is_free = if name.starts_with("aws_") {
            gives_key
        } else {
            builder.get_config_value(key).is_none()
        };
        if is_free && let Some(value) = setting(file, section, name) {
            builder = builder.with_config(*key, value);
        }
    }
    builder
}

/// Puts the bucket into the endpoint's host name if it is to be there: `object_store` then expects
/// the bucket's own endpoint, while other programs expect one endpoint for all buckets. An IP
/// address cannot have a name before it: there the bucket is in the path.
fn hosting(builder: AmazonS3Builder, bucket: &str) -> AmazonS3Builder {
    let is_hosted = builder.get_config_value(&AmazonS3ConfigKey::VirtualHostedStyleRequest);
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    let endpoint = endpoint.filter(|_| is_hosted.is_some_and(|it| it.eq_ignore_ascii_case("true")));
    let Some(mut endpoint) = endpoint.and_then(|endpoint| Url::parse(&endpoint).ok()) else {
        return builder;
    };
    let Some(host) = endpoint.domain() else {
        return builder.with_virtual_hosted_style_request(false);
    };
    let prefix = format!("{bucket}.");
    let host = if host.starts_with(&prefix) {
        host.to_owned()
    } else {
        prefix + host
    };
    // An error means that the endpoint cannot have a host.
    let _ = endpoint.set_host(Some(&host));
    builder.with_endpoint(endpoint.as_str().trim_end_matches('/'))
}

/// The text of the file with Google's credentials, if there is one.
pub(super) fn google() -> Option<String> {
    file(
        "GOOGLE_APPLICATION_CREDENTIALS",
        ".config/gcloud/application_default_credentials.json",
    )
}

/// Adds what the connection string of the Azure command line says. The other variables go first.
pub(super) fn azure(mut builder: MicrosoftAzureBuilder) -> MicrosoftAzureBuilder {
    const KEYS: [(&str, AzureConfigKey); 3] = [
        ("AccountName", AzureConfigKey::AccountName),
        ("AccountKey", AzureConfigKey::AccessKey),
        ("BlobEndpoint", AzureConfigKey::Endpoint),
    ];
    for (name, key) in &KEYS {
        if let Some(value) =
            in_connection_string(name).filter(|_| builder.get_config_value(key).is_none())
        {
            builder = builder.with_config(*key, value);
        }
    }
    builder
}

/// The endpoint for blobs, if one is set.
pub(super) fn azure_endpoint() -> Option<String> {
    variable("AZURE_STORAGE_ENDPOINT").or_else(|| in_connection_string("BlobEndpoint"))
}

fn in_connection_string(name: &str) -> Option<String> {
    let string = variable("AZURE_STORAGE_CONNECTION_STRING")?;
    string
        .split(';')
        .find_map(|part| part.split_once('=').filter(|(key, _)| *key == name))
        .map(|(_, value)| value.to_owned())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A setting in a section of a file of the AWS command line. Indented lines are nested settings,
/// which have other meanings.
fn setting<'a>(file: &'a str, section: &str, name: &str) -> Option<&'a str> {
    let mut is_within = false;
    file.lines().find_map(|line| {
        if let Some(heading) = line.strip_prefix('[') {
            let heading = heading.split(']').next().unwrap_or_default();
            is_within = heading.split_whitespace().eq(section.split_whitespace());
        }
        let (key, value) = line.split_once('=')?;
        (is_within && key.trim_end() == name).then_some(value.trim())
    })
}

/// The text of the file that a variable names, or of the one in the home folder; `None` if it
/// cannot be read.
fn file(name: &str, in_home: &str) -> Option<String> {
    let path = variable(name)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(in_home)))?;
    if !path.is_file() {
        return None;
    }
    let text = std::fs::read_to_string(&path);
    text.inspect_err(|error| tracing::warn!("{} cannot be read: {error}", path.display()))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_that_of_its_section_and_not_a_nested_one() {
        let file = "# region = no\n[default]\nregion=a\n[ profile  lab ]\ns3 =\n  endpoint_url = nested\n\
                    region = b = c \r\n;region = d\n[profile other]\nendpoint_url = other\n";
        assert_eq!(setting(file, "default", "region"), Some("a"));
        assert_eq!(setting(file, "profile lab", "region"), Some("b = c"));
        assert_eq!(setting(file, "profile lab", "endpoint_url"), None);
        assert_eq!(
            setting(file, "profile other", "endpoint_url"),
            Some("other")
        );
        assert_eq!(setting(file, "lab", "region"), None);
    }

    #[test]
    fn a_key_is_never_completed_by_the_secret_of_another_key() {
        let whole = "[default]\naws_access_key_id = A\naws_secret_access_key = a\nregion = r\n";
        let (only_key, only_secret) = (
            "[default]\naws_access_key_id = B\n",
            "[default]\naws_secret_access_key = b\naws_session_token = t\n",
        );
        let environment = AmazonS3Builder::new().with_access_key_id("E");
        for (builder, first, expected) in [
            (AmazonS3Builder::new(), only_key, (Some("B"), None)),
            (AmazonS3Builder::new(), only_secret, (Some("A"), Some("a"))),
            (AmazonS3Builder::new(), "", (Some("A"), Some("a"))),
            (environment, only_secret, (Some("E"), None)),
        ] {
            let builder = profiled(
                profiled(builder, Some(first), "default"),
                Some(whole),
                "default",
            );
            let value = |key| builder.get_config_value(&key);
            let found = (
                value(AmazonS3ConfigKey::AccessKeyId),
                value(AmazonS3ConfigKey::SecretAccessKey),
            );
            assert_eq!(
                (found.0.as_deref(), found.1.as_deref()),
                expected,
                "{first}"
            );
            assert_eq!(
                (
                    value(AmazonS3ConfigKey::Token),
                    value(AmazonS3ConfigKey::Region)
                ),
                (None, Some("r".to_owned()))
            );
        }
    }

    #[test]
    fn a_bucket_is_put_into_the_host_name_of_an_endpoint_once() {
        let hosted = |endpoint: &str| {
            let builder = AmazonS3Builder::new().with_virtual_hosted_style_request(true);
            let builder = hosting(builder.with_endpoint(endpoint), "lab");
            let value = |key| builder.get_config_value(&key).unwrap();
            (
                value(AmazonS3ConfigKey::Endpoint),
                value(AmazonS3ConfigKey::VirtualHostedStyleRequest) == "true",
            )
        };
        let of_bucket = ("https://lab.s3.example.org:9000".to_owned(), true);
        assert_eq!(hosted("https://s3.example.org:9000"), of_bucket);
        assert_eq!(hosted("https://lab.s3.example.org:9000/"), of_bucket);
        assert_eq!(
            hosted("http://10.0.0.1:9000"),
            ("http://10.0.0.1:9000".to_owned(), false)
        );
    }
}
