//! Options that cannot be combined with OAuth.

use std::sync::Arc;

use callgate::forward::{
    CallerHeaders, CredentialLocation, CredentialOptions, Forward, ForwardOptions,
    MissingCredential, OAuthClient, UserGrant, header_name,
};
use callgate::model::ParamStyle;

use super::secret;
use crate::forward::credentials::FixedCredentials;

fn positional_options(url: &str) -> ForwardOptions {
    ForwardOptions::new(url.parse().unwrap()).params(ParamStyle::Positional)
}

fn client(url: &str) -> OAuthClient {
    OAuthClient::new(url).unwrap().client("callgate", Some(secret("s3cret")))
}

fn credential(oauth: Option<UserGrant>) -> CredentialOptions {
    CredentialOptions {
        location: CredentialLocation::Header(header_name("Authorization").unwrap()),
        prefix: "Bearer ".to_owned(),
        missing: MissingCredential::Refuse,
        oauth,
    }
}

#[tokio::test]
async fn conflicting_options_are_rejected() {
    let tls = "https://auth.example/token";
    let caller_headers = CallerHeaders {
        token: Some(header_name("Authorization").unwrap()),
        ..CallerHeaders::default()
    };
    let credentials = || FixedCredentials::new() as Arc<dyn callgate::upstream::Credentials>;
    let service = || positional_options("https://shop.example/rpc");
    let conflicting = [
        service().oauth(client("http://auth.example/token")),
        positional_options("ws://shop.example/rpc").oauth(client(tls)),
        service().header("Authorization", "s3cret").unwrap().oauth(client(tls)),
        service().oauth(client(tls)).basic("ada", "s3cret").unwrap(),
        service().oauth(client(tls)).caller_headers(caller_headers).unwrap(),
        service().oauth(client(tls)).credential(credential(None), credentials()).unwrap(),
        service().credential(credential(Some(UserGrant::RefreshToken)), credentials()).unwrap(),
        service().oauth(OAuthClient::new(tls).unwrap()),
    ];
    let errors: Vec<String> = conflicting
        .into_iter()
        .map(|options| Forward::new("shop", options).unwrap_err().to_string())
        .collect();
    insta::assert_debug_snapshot!(errors);
    let users = credential(Some(UserGrant::ClientCredentials));
    let only_users = service().oauth(OAuthClient::new(tls).unwrap());
    Forward::new("shop", only_users.credential(users, credentials()).unwrap()).unwrap();
}
