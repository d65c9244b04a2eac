//! A tool server that wants a token, and its authorization server, played by the test at one address. Refresh tokens are good for one
//! use: a second use is counted, and takes the token away.

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, dev::ServerHandle, web};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::{Arc, Mutex},
};

/// The parts of the answers that a test changes.
#[derive(Debug, Clone)]
pub struct OAuthTraits {
    /// The path of the issuer.
    pub issuer: &'static str,
    /// The well-known name of the metadata of the authorization server.
    pub metadata: &'static str,
    /// Whether the 401 names the metadata of the server.
    pub is_challenging: bool,
    /// The path of the resource in the metadata of the server.
    pub resource: &'static str,
    /// Members that take the place of those of the authorization server's metadata.
    pub more: Value,
    /// How long a token lives, seconds; it does not say so if `None`.
    pub expires_in: Option<u64>,
    /// Whether clients may register themselves.
    pub is_open: bool,
}

impl Default for OAuthTraits {
    fn default() -> Self {
        Self {
            issuer: "as",
            metadata: "oauth-authorization-server",
            is_challenging: true,
            resource: "/mcp",
            more: json!({}),
            expires_in: Some(3600),
            is_open: true,
        }
    }
}

/// What was given out.
#[derive(Debug, Clone, Default)]
struct Grant {
    user: String,
    client: String,
    challenge: String,
    redirect: String,
}

#[derive(Default)]
struct OAuthState {
    base: String,
    traits: Mutex<OAuthTraits>,
    codes: Mutex<BTreeMap<String, Grant>>,
    access: Mutex<BTreeMap<String, String>>,
    refresh: Mutex<BTreeMap<String, Grant>>,
    /// Every token that was made.
    made: Mutex<Vec<String>>,
    seen: Mutex<Vec<String>>,
}

/// A tool server with an authorization server; stops when dropped.
pub struct OAuthStub {
    pub url: String,
    state: Arc<OAuthState>,
    server: ServerHandle,
}

impl Drop for OAuthStub {
    fn drop(&mut self) {
        drop(self.server.stop(false));
    }
}

impl OAuthStub {
    pub fn start(traits: OAuthTraits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let url = format!("{base}/mcp");
        let state = Arc::new(OAuthState { base, traits: Mutex::new(traits), ..OAuthState::default() });
        let shared = state.clone();
        let server = HttpServer::new(move || {
            App::new().app_data(web::Data::from(shared.clone())).default_service(web::to(serve))
        });
        let server = server.workers(1).disable_signals().listen(listener).unwrap().run();
        let handle = server.handle();
        tokio::spawn(server);
        Self { url, state, server: handle }
    }

    /// Changes what it answers from now on.
    pub fn change(&self, change: impl FnOnce(&mut OAuthTraits)) {
        change(&mut self.state.traits.lock().unwrap());
    }

    /// What it was asked, such as `token refresh_token` or `tools/call alice`.
    pub fn seen(&self, what: &str) -> usize {
        self.state.seen.lock().unwrap().iter().filter(|seen| seen.starts_with(what)).count()
    }

    /// All tokens that were made, also those that are over.
    pub fn made(&self) -> Vec<String> {
        self.state.made.lock().unwrap().clone()
    }

    /// No access token is taken any more.
    pub fn revoke(&self) {
        self.state.access.lock().unwrap().clear();
    }

    /// What the browser of `user` does with the page of a login: returns the address to which it is sent back.
    pub async fn browse(&self, page: &str, user: &str) -> String {
        let client = transport::http_client::tls::client().no_proxy();
        let client = client.redirect(reqwest::redirect::Policy::none());
        let answer = client.build().unwrap().get(format!("{page}&user={user}")).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 302, "{page}");
        answer.headers()["location"].to_str().unwrap().to_owned()
    }
}

impl OAuthState {
    fn token(&self, kind: &str) -> String {
        let token = format!("{kind}-{}", uuid::Uuid::new_v4().simple());
        self.made.lock().unwrap().push(token.clone());
        token
    }

    fn issued(&self, grant: Grant) -> HttpResponse {
        let (access, refresh) = (self.token("access"), self.token("refresh"));
        self.access.lock().unwrap().insert(access.clone(), grant.user.clone());
        self.refresh.lock().unwrap().insert(refresh.clone(), grant);
        let expires_in = self.traits.lock().unwrap().expires_in;
        let mut token = json!({
            "access_token": access, "token_type": "Bearer", "refresh_token": refresh, "scope": "tools",
            "id_token": self.token("id"),
        });
        if let Some(expires_in) = expires_in {
            token["expires_in"] = expires_in.into();
        }
        HttpResponse::Ok().json(token)
    }
}

fn form(body: &[u8]) -> BTreeMap<String, String> {
    let url = Url::parse(&format!("http://x/?{}", String::from_utf8_lossy(body))).unwrap();
    url.query_pairs().into_owned().collect()
}

async fn serve(state: web::Data<OAuthState>, request: HttpRequest, body: web::Bytes) -> HttpResponse {
    let OAuthTraits { issuer, metadata, is_challenging, resource, more, is_open, .. } =
        state.traits.lock().unwrap().clone();
    let (base, path) = (&state.base, request.path());
    let issuer_url = format!("{base}/{issuer}").trim_end_matches('/').to_owned();
    let note = |what: String| state.seen.lock().unwrap().push(what);
    let authorization_server = match metadata {
        "openid-configuration" => format!("/{issuer}/.well-known/{metadata}"),
        _ => format!("/.well-known/{metadata}/{issuer}").trim_end_matches('/').to_owned(),
    };
    if path == "/mcp" {
        return tool_server(&state, &request, &body, is_challenging);
    }
    if path == "/.well-known/oauth-protected-resource/mcp" {
        let (resource, issuer) = (format!("{base}{resource}"), format!("{base}/{issuer}"));
        return HttpResponse::Ok().json(
            json!({ "resource": resource, "authorization_servers": [issuer], "scopes_supported": ["tools"] }),
        );
    }
    if path == authorization_server {
        let mut document = json!({
            "issuer": issuer_url, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
        });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        return HttpResponse::Ok().json(document);
    }
    match path {
        "/register" if is_open => {
            note("register".to_owned());
            let asked: Value = serde_json::from_slice(&body).unwrap();
            HttpResponse::Created()
                .json(json!({ "client_id": "client-1", "redirect_uris": asked["redirect_uris"] }))
        }
        "/register" => HttpResponse::Forbidden().json(json!({ "error": "access_denied" })),
        "/authorize" => {
            let asked = form(request.query_string().as_bytes());
            let resource = format!("{base}{resource}");
            assert_eq!(
                (asked["code_challenge_method"].as_str(), asked["resource"].as_str()),
                ("S256", resource.as_str())
            );
            let code = uuid::Uuid::new_v4().simple().to_string();
            let grant = Grant {
                user: asked["user"].clone(),
                client: asked["client_id"].clone(),
                challenge: asked["code_challenge"].clone(),
                redirect: asked["redirect_uri"].clone(),
            };
            state.codes.lock().unwrap().insert(code.clone(), grant);
            let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
            back.query_pairs_mut().extend_pairs([
                ("code", code.as_str()),
                ("state", asked["state"].as_str()),
                ("iss", issuer_url.as_str()),
            ]);
            HttpResponse::Found().insert_header(("location", back.as_str())).finish()
        }
        "/token" => token(&state, &form(&body)),
        _ => HttpResponse::NotFound().finish(),
    }
}

fn token(state: &OAuthState, asked: &BTreeMap<String, String>) -> HttpResponse {
    let refuse = |error: &str| HttpResponse::BadRequest().json(json!({ "error": error }));
    state.seen.lock().unwrap().push(format!("token {}", asked["grant_type"]));
    if !asked.contains_key("resource") {
        return refuse("invalid_target");
    }
    match asked["grant_type"].as_str() {
        "authorization_code" => {
            let Some(grant) = state.codes.lock().unwrap().remove(&asked["code"]) else {
                return refuse("invalid_grant");
            };
            let verified = URL_SAFE_NO_PAD.encode(Sha256::digest(asked["code_verifier"].as_bytes()));
            match verified == grant.challenge && asked["redirect_uri"] == grant.redirect {
                true => state.issued(grant),
                false => refuse("invalid_grant"),
            }
        }
        "refresh_token" => {
            let known = state.refresh.lock().unwrap().remove(&asked["refresh_token"]);
            match known.filter(|grant| asked.get("client_id") == Some(&grant.client)) {
                Some(grant) => state.issued(grant),
                None => {
                    state.seen.lock().unwrap().push("reused".to_owned());
                    refuse("invalid_grant")
                }
            }
        }
        "client_credentials"
            if asked.get("client_secret").is_some_and(|secret| secret == "the-secret-of-the-client") =>
        {
            state.issued(Grant { user: "machine".to_owned(), ..Grant::default() })
        }
        _ => refuse("unauthorized_client"),
    }
}

fn tool_server(state: &OAuthState, request: &HttpRequest, body: &[u8], is_challenging: bool) -> HttpResponse {
    let shown = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let token = shown.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if !token.is_empty() {
        state.seen.lock().unwrap().push("bearer".to_owned());
    }
    let Some(user) = state.access.lock().unwrap().get(token).cloned() else {
        let place = format!("{}/.well-known/oauth-protected-resource/mcp", state.base);
        let challenge = match is_challenging {
            true => format!("Bearer resource_metadata=\"{place}\""),
            false => "Bearer".to_owned(),
        };
        return HttpResponse::Unauthorized().insert_header(("www-authenticate", challenge)).finish();
    };
    let Ok(message) = serde_json::from_slice::<Value>(body) else {
        return HttpResponse::MethodNotAllowed().finish();
    };
    let method = message["method"].as_str().unwrap_or_default();
    state.seen.lock().unwrap().push(format!("{method} {user}"));
    let result = match method {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "stub", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "whoami", "inputSchema": { "type": "object" } }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": format!("you are {user}") }] }),
        _ if message["id"].is_null() => return HttpResponse::Accepted().finish(),
        _ => {
            let error = json!({ "code": -32601, "message": "there is no such method" });
            return HttpResponse::Ok().json(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
        }
    };
    HttpResponse::Ok().json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}
