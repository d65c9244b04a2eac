//! An agent's card as protobuf. What is optional there keeps its presence, which the card's signature depends on.

use super::{all, structure, wire};
use protocol::a2a::{
    card::{
        AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentProvider, AgentSkill,
        CardSignature,
    },
    security::{Flow, OAuthFlow, SecurityRequirement, SecurityScheme},
};

impl From<AgentCard> for wire::AgentCard {
    fn from(card: AgentCard) -> Self {
        Self {
            name: card.name,
            description: card.description,
            supported_interfaces: all(card.supported_interfaces),
            provider: card.provider.map(Into::into),
            version: card.version,
            documentation_url: card.documentation_url,
            capabilities: Some(card.capabilities.into()),
            security_schemes: card.security_schemes.into_iter().map(|(name, of)| (name, of.into())).collect(),
            security_requirements: all(card.security_requirements),
            default_input_modes: card.default_input_modes,
            default_output_modes: card.default_output_modes,
            skills: all(card.skills),
            signatures: all(card.signatures),
            icon_url: card.icon_url,
        }
    }
}

impl From<AgentInterface> for wire::AgentInterface {
    fn from(interface: AgentInterface) -> Self {
        Self {
            url: interface.url,
            protocol_binding: interface.protocol_binding,
            tenant: interface.tenant.unwrap_or_default(),
            protocol_version: interface.protocol_version,
        }
    }
}

impl From<AgentProvider> for wire::AgentProvider {
    fn from(provider: AgentProvider) -> Self {
        Self { url: provider.url, organization: provider.organization }
    }
}

impl From<AgentCapabilities> for wire::AgentCapabilities {
    fn from(can: AgentCapabilities) -> Self {
        Self {
            streaming: can.streaming,
            push_notifications: can.push_notifications,
            extensions: all(can.extensions),
            extended_agent_card: can.extended_agent_card,
        }
    }
}

impl From<AgentExtension> for wire::AgentExtension {
    fn from(extension: AgentExtension) -> Self {
        Self {
            uri: extension.uri,
            description: extension.description,
            required: extension.required,
            params: structure(extension.params),
        }
    }
}

impl From<AgentSkill> for wire::AgentSkill {
    fn from(skill: AgentSkill) -> Self {
        Self {
            id: skill.id,
            name: skill.name,
            description: skill.description,
            tags: skill.tags,
            examples: skill.examples,
            input_modes: skill.input_modes,
            output_modes: skill.output_modes,
            security_requirements: all(skill.security_requirements),
        }
    }
}

impl From<CardSignature> for wire::AgentCardSignature {
    fn from(signature: CardSignature) -> Self {
        Self {
            protected: signature.protected,
            signature: signature.signature,
            header: structure(signature.header),
        }
    }
}

impl From<SecurityRequirement> for wire::SecurityRequirement {
    fn from(requirement: SecurityRequirement) -> Self {
        let scopes = requirement.schemes.into_iter();
        Self { schemes: scopes.map(|(name, of)| (name, wire::StringList { list: of.list })).collect() }
    }
}

impl From<SecurityScheme> for wire::SecurityScheme {
    fn from(scheme: SecurityScheme) -> Self {
        use wire::security_scheme::Scheme;
        let scheme = match scheme {
            SecurityScheme::ApiKey(of) => Scheme::ApiKeySecurityScheme(wire::ApiKeySecurityScheme {
                description: of.description.unwrap_or_default(),
                location: of.location,
                name: of.name,
            }),
            SecurityScheme::HttpAuth(of) => Scheme::HttpAuthSecurityScheme(wire::HttpAuthSecurityScheme {
                description: of.description.unwrap_or_default(),
                scheme: of.scheme,
                bearer_format: of.bearer_format.unwrap_or_default(),
            }),
            SecurityScheme::OAuth2(of) => Scheme::Oauth2SecurityScheme(wire::OAuth2SecurityScheme {
                description: of.description.unwrap_or_default(),
                flows: Some(of.flows.into()),
                oauth2_metadata_url: of.oauth2_metadata_url.unwrap_or_default(),
            }),
            SecurityScheme::OpenIdConnect(of) => {
                Scheme::OpenIdConnectSecurityScheme(wire::OpenIdConnectSecurityScheme {
                    description: of.description.unwrap_or_default(),
                    open_id_connect_url: of.open_id_connect_url,
                })
            }
            SecurityScheme::MutualTls(of) => Scheme::MtlsSecurityScheme(wire::MutualTlsSecurityScheme {
                description: of.description.unwrap_or_default(),
            }),
        };
        Self { scheme: Some(scheme) }
    }
}

impl From<OAuthFlow> for wire::OAuthFlows {
    fn from(flow: OAuthFlow) -> Self {
        use wire::o_auth_flows::Flow as Wire;
        let flow = match flow {
            OAuthFlow::AuthorizationCode(flow) => {
                let Parts { authorization_url, token_url, refresh_url, scopes, pkce_required, .. } =
                    flow.into();
                Wire::AuthorizationCode(wire::AuthorizationCodeOAuthFlow {
                    authorization_url,
                    token_url,
                    refresh_url,
                    scopes,
                    pkce_required,
                })
            }
            OAuthFlow::ClientCredentials(flow) => {
                let Parts { token_url, refresh_url, scopes, .. } = flow.into();
                Wire::ClientCredentials(wire::ClientCredentialsOAuthFlow { token_url, refresh_url, scopes })
            }
            OAuthFlow::Implicit(flow) => {
                let Parts { authorization_url, refresh_url, scopes, .. } = flow.into();
                Wire::Implicit(wire::ImplicitOAuthFlow { authorization_url, refresh_url, scopes })
            }
            OAuthFlow::Password(flow) => {
                let Parts { token_url, refresh_url, scopes, .. } = flow.into();
                Wire::Password(wire::PasswordOAuthFlow { token_url, refresh_url, scopes })
            }
            OAuthFlow::DeviceCode(flow) => {
                let Parts { device_authorization_url, token_url, refresh_url, scopes, .. } = flow.into();
                Wire::DeviceCode(wire::DeviceCodeOAuthFlow {
                    device_authorization_url,
                    token_url,
                    refresh_url,
                    scopes,
                })
            }
        };
        Self { flow: Some(flow) }
    }
}

/// A flow's addresses, as protobuf has them.
struct Parts {
    authorization_url: String,
    device_authorization_url: String,
    token_url: String,
    refresh_url: String,
    scopes: std::collections::HashMap<String, String>,
    pkce_required: bool,
}

impl From<Flow> for Parts {
    fn from(flow: Flow) -> Self {
        Self {
            authorization_url: flow.authorization_url.unwrap_or_default(),
            device_authorization_url: flow.device_authorization_url.unwrap_or_default(),
            token_url: flow.token_url.unwrap_or_default(),
            refresh_url: flow.refresh_url.unwrap_or_default(),
            scopes: flow.scopes.into_iter().collect(),
            pkce_required: flow.pkce_required,
        }
    }
}
