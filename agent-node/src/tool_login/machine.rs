//! Tokens that a client gets by its own secret (client credentials), without a person.

use rmcp::transport::{
    AuthorizationManager,
    auth::{AuthError, AuthorizationMetadata, ClientCredentialsConfig},
};

/// A client that gets tokens by its secret.
pub(super) struct MachineLogin {
    /// Writes the tokens that it gets.
    pub(super) manager: AuthorizationManager,
    pub(super) client: ClientCredentialsConfig,
}

impl MachineLogin {
    /// Gets a token and writes it. Who calls holds the lock of the file.
    pub(super) async fn exchange(&self) -> Result<(), AuthError> {
        self.manager.exchange_client_credentials(&self.client).await.map(drop)
    }
}

/// Whether the authorization server says that it gives tokens to clients by their secrets. By RFC 8414 it does not if it names no
/// grant types.
pub(super) fn is_offered(metadata: &AuthorizationMetadata) -> bool {
    let grants = metadata.additional_fields.get("grant_types_supported").and_then(|grants| grants.as_array());
    grants.is_some_and(|grants| grants.iter().any(|grant| grant == "client_credentials"))
}
