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

/// Adds the settings in the profile of the AWS command line (`AWS_PROFILE`, else `default`) that
/// the environment does not set. Puts the bucket into the host name if that is requested.
pub(super) fn aws(builder: AmazonS3Builder, bucket: &str) -> AmazonS3Builder {
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let credentials = file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    let config = file("AWS_CONFIG_FILE", ".aws/config");
    // A section is headed `[lab]` in the credentials file, but `[profile lab]` in the config file.
    let config_section = if profile == "default" {
        profile.clone()
    } else {
        format!("profile {profile}")
    };
    let builder = with_section(builder, credentials.as_deref(), &profile);
    let builder = with_section(builder, config.as_deref(), &config_section);
    with_bucket_in_host(builder, bucket)
}

/// Adds the settings in a section of a file, except those that the builder already has.
fn with_section(
    mut builder: AmazonS3Builder,
    file: Option<&str>,
    section: &str,
) -> AmazonS3Builder {
    let Some(file) = file else {
        return builder;
    };
    // A key, its secret and its token belong together: they are taken from one section, or not at
    // all.
    let has_key = builder
        .get_config_value(&AmazonS3ConfigKey::AccessKeyId)
        .is_some();
    let takes_credentials = !has_key && setting(file, section, "aws_access_key_id").is_some();
    for (name, key) in &AWS {
        let is_wanted = if name.starts_with("aws_") {
            takes_credentials
        } else {
            builder.get_config_value(key).is_none()
        };
        if is_wanted && let Some(value) = setting(file, section, name) {
            builder = builder.with_config(*key, value);
        }
    }
    builder
}

/// If virtual-hosted requests are switched on, turns the endpoint `https://s3.example.org` into
/// `https://BUCKET.s3.example.org`, which `object_store` then expects. (People set the endpoint of
/// all buckets, because other programs expect that.) If the host is an IP address, switches
/// virtual-hosted requests off: the bucket is put into the path.
fn with_bucket_in_host(builder: AmazonS3Builder, bucket: &str) -> AmazonS3Builder {
    let is_virtual_hosted = builder
        .get_config_value(&AmazonS3ConfigKey::VirtualHostedStyleRequest)
        .is_some_and(|value| !is_off(&value));
    if !is_virtual_hosted {
        return builder;
    }
    // The first that is set is the one that `object_store` uses.
    let keys = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let used = keys
        .into_iter()
        .find(|key| builder.get_config_value(key).is_some());
    let Some(key) = used else {
        return builder;
    };
    let value = builder.get_config_value(&key).unwrap_or_default();
    let Ok(mut endpoint) = Url::parse(&value) else {
        return builder;
    };
    let Some(host) = endpoint.domain() else {
        return builder.with_virtual_hosted_style_request(false);
    };
    let prefix = format!("{bucket}.");
    let host_of_bucket = if host.starts_with(&prefix) {
        host.to_owned()
    } else {
        prefix + host
    };
    // An error means that a host name cannot contain the bucket's name: the endpoint is left alone.
    let _ = endpoint.set_host(Some(&host_of_bucket));
    builder.with_config(key, endpoint.as_str().trim_end_matches('/'))
}

/// Whether a value switches a setting off, as `object_store` reads it; values that it does not know
/// are errors when it makes a client.
pub(super) fn is_off(value: &str) -> bool {
    let words = ["0", "false", "off", "no", "n"];
    words.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The text of the file with Google's credentials, if there is one.
pub(super) fn google() -> Option<String> {
    file(
        "GOOGLE_APPLICATION_CREDENTIALS",
        ".config/gcloud/application_default_credentials.json",
    )
}

/// Adds the settings in the connection string of the Azure command line
/// (`AccountName=lab;AccountKey=…;BlobEndpoint=https://…`) that no other variable sets.
pub(super) fn azure(mut builder: MicrosoftAzureBuilder) -> MicrosoftAzureBuilder {
    const KEYS: [(&str, AzureConfigKey); 3] = [
        ("AccountName", AzureConfigKey::AccountName),
        ("AccountKey", AzureConfigKey::AccessKey),
        ("BlobEndpoint", AzureConfigKey::Endpoint),
    ];
    let settings = variable("AZURE_STORAGE_CONNECTION_STRING").unwrap_or_default();
    for (name, value) in settings.split(';').filter_map(|part| part.split_once('=')) {
        if let Some((_, key)) = KEYS.iter().find(|(known, _)| *known == name)
            && builder.get_config_value(key).is_none()
        {
            builder = builder.with_config(*key, value);
        }
    }
    builder
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The value of a setting, such as `region = eu-west-1`, in a section, such as `[profile lab]`, of
/// a file of the AWS command line. Skips indented lines: they belong to nested settings, whose
/// names may be the same.
fn setting<'a>(file: &'a str, section: &str, name: &str) -> Option<&'a str> {
    let mut is_within = false;
    for line in file.lines() {
        if let Some(heading) = line.strip_prefix('[') {
            let heading = heading.split(']').next().unwrap_or_default();
            is_within = heading.split_whitespace().eq(section.split_whitespace());
        }
        // The key keeps its indentation, so that the key of a nested setting differs from the name.
        if let Some((key, value)) = line.split_once('=')
            && is_within
            && key.trim_end() == name
        {
            return Some(value.trim());
        }
    }
    None
}

/// The text of the file that a variable names, else of the file at `default_path` in the home
/// folder; `None` if it cannot be read.
fn file(variable_name: &str, default_path: &str) -> Option<String> {
    let path = match variable(variable_name) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(variable("HOME")?).join(default_path),
    };
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
    use crate::store::install_cryptography;

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
        let only_key = "[default]\naws_access_key_id = B\n";
        let only_secret = "[default]\naws_secret_access_key = b\naws_session_token = t\n";
        let environment = AmazonS3Builder::new().with_access_key_id("E");
        for (builder, first, expected) in [
            (AmazonS3Builder::new(), only_key, (Some("B"), None)),
            (AmazonS3Builder::new(), only_secret, (Some("A"), Some("a"))),
            (AmazonS3Builder::new(), "", (Some("A"), Some("a"))),
            (environment, only_secret, (Some("E"), None)),
        ] {
            let builder = with_section(builder, Some(first), "default");
            let builder = with_section(builder, Some(whole), "default");
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
    fn a_setting_is_off_for_the_words_for_which_object_store_takes_it_as_off() {
        for word in [
            "0", "false", "Off", "NO", "n", "1", "True", "on", "yes", "y", "", "2",
        ] {
            install_cryptography();
            let builder = AmazonS3Builder::new().with_bucket_name("lab");
            let key = AmazonS3ConfigKey::SkipSignature;
            let client = builder.with_config(key, word).build();
            let known = client.is_ok_and(|it| format!("{it:?}").contains("skip_signature: false"));
            assert_eq!(is_off(word), known, "{word}");
        }
    }

    #[test]
    fn a_bucket_is_put_into_the_host_name_of_the_endpoint_that_is_used() {
        install_cryptography();
        let builder = AmazonS3Builder::new().with_endpoint("https://other.example.org");
        let builder = builder
            .with_config(AmazonS3ConfigKey::VirtualHostedStyleRequest, "1")
            .with_config(AmazonS3ConfigKey::S3Endpoint, "https://s3.example.org");
        let client = with_bucket_in_host(builder, "lab").with_bucket_name("lab");
        let client = format!("{:?}", client.build().unwrap());
        assert!(
            client.contains("\"https://lab.s3.example.org\""),
            "{client}"
        );
    }

    #[test]
    fn a_bucket_is_put_into_the_host_name_of_an_endpoint_once() {
        let hosted = |endpoint: &str| {
            let builder = AmazonS3Builder::new().with_virtual_hosted_style_request(true);
            let builder = with_bucket_in_host(builder.with_endpoint(endpoint), "lab");
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
