//! How a caller proves who it is (A2A §4.5): each scheme an object of one member.

use super::json::{Fields, FromProtoJson, InvalidField};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A way to prove who calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityScheme {
    /// A key in a header, a query parameter or a cookie.
    #[serde(rename = "apiKeySecurityScheme")]
    ApiKey(ApiKey),
    #[serde(rename = "httpAuthSecurityScheme")]
    HttpAuth(HttpAuth),
    #[serde(rename = "oauth2SecurityScheme")]
    OAuth2(OAuth2),
    #[serde(rename = "openIdConnectSecurityScheme")]
    OpenIdConnect(OpenIdConnect),
    #[serde(rename = "mtlsSecurityScheme")]
    MutualTls(MutualTls),
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `header`, `query` or `cookie`.
    pub location: String,
    /// Of the header, parameter or cookie.
    pub name: String,
}

/// A scheme of `Authorization`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpAuth {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its name in the IANA registry.
    pub scheme: String,
    /// What a bearer token looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_format: Option<String>,
}

/// OAuth 2: one flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2 {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How a token is got.
    pub flows: OAuthFlow,
    /// Where the server describes itself (RFC 8414).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth2_metadata_url: Option<String>,
}

/// How a token is got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OAuthFlow {
    /// By way of a browser.
    AuthorizationCode(Flow),
    /// From one machine to another.
    ClientCredentials(Flow),
    Implicit(Flow),
    Password(Flow),
    /// With a code typed elsewhere.
    DeviceCode(Flow),
}

/// The addresses of a flow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Flow {
    /// Where the user agrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_url: Option<String>,
    /// Where a device begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_authorization_url: Option<String>,
    /// Where a token is fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    /// The URL that refreshes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_url: Option<String>,
    /// What may be asked for.
    pub scopes: BTreeMap<String, String>,
    /// Whether PKCE is needed (RFC 7636).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pkce_required: bool,
}

/// OpenID Connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenIdConnect {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where the provider describes itself.
    pub open_id_connect_url: String,
}

/// A client certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutualTls {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Schemes that are needed together, each with its scopes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityRequirement {
    /// By the scheme's name.
    #[serde(default)]
    pub schemes: BTreeMap<String, Scopes>,
}

/// What a scheme must allow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scopes {
    #[serde(default)]
    pub list: Vec<String>,
}

impl FromProtoJson for SecurityScheme {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        let schemes = [
            fields.message("apiKeySecurityScheme")?.map(Self::ApiKey),
            fields.message("httpAuthSecurityScheme")?.map(Self::HttpAuth),
            fields.message("oauth2SecurityScheme")?.map(Self::OAuth2),
            fields.message("openIdConnectSecurityScheme")?.map(Self::OpenIdConnect),
            fields.message("mtlsSecurityScheme")?.map(Self::MutualTls),
        ];
        let mut schemes = schemes.into_iter().flatten();
        match (schemes.next(), schemes.next()) {
            (Some(scheme), None) => Ok(scheme),
            _ => Err(InvalidField::new("", "needs exactly one kind of security scheme")),
        }
    }
}

impl FromProtoJson for ApiKey {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        let location = fields.required_text("location")?;
        if !["header", "query", "cookie"].contains(&location.as_str()) {
            return Err(InvalidField::new("location", "must be one of header, query, cookie"));
        }
        Ok(Self { description: fields.text("description")?, location, name: fields.required_text("name")? })
    }
}

impl FromProtoJson for HttpAuth {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            description: fields.text("description")?,
            scheme: fields.required_text("scheme")?,
            bearer_format: fields.text("bearerFormat")?,
        })
    }
}

impl FromProtoJson for OAuth2 {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            description: fields.text("description")?,
            flows: fields.required("flows")?,
            oauth2_metadata_url: fields.text("oauth2MetadataUrl")?,
        })
    }
}

impl FromProtoJson for OAuthFlow {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        let flows = [
            fields.message("authorizationCode")?.map(Self::AuthorizationCode),
            fields.message("clientCredentials")?.map(Self::ClientCredentials),
            fields.message("implicit")?.map(Self::Implicit),
            fields.message("password")?.map(Self::Password),
            fields.message("deviceCode")?.map(Self::DeviceCode),
        ];
        let mut flows = flows.into_iter().flatten();
        match (flows.next(), flows.next()) {
            (Some(flow), None) => Ok(flow),
            _ => Err(InvalidField::new("", "needs exactly one flow")),
        }
    }
}

impl FromProtoJson for Flow {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            authorization_url: fields.text("authorizationUrl")?,
            device_authorization_url: fields.text("deviceAuthorizationUrl")?,
            token_url: fields.text("tokenUrl")?,
            refresh_url: fields.text("refreshUrl")?,
            scopes: fields.map("scopes")?,
            pkce_required: fields.flag("pkceRequired")?.unwrap_or_default(),
        })
    }
}

impl FromProtoJson for OpenIdConnect {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            description: fields.text("description")?,
            open_id_connect_url: fields.required_text("openIdConnectUrl")?,
        })
    }
}

impl FromProtoJson for MutualTls {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        Ok(Self { description: Fields::of(value)?.text("description")? })
    }
}

impl FromProtoJson for SecurityRequirement {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        Ok(Self { schemes: Fields::of(value)?.map("schemes")? })
    }
}

impl FromProtoJson for Scopes {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        Ok(Self { list: Fields::of(value)?.texts("list")? })
    }
}
