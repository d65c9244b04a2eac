//! The paths of the console.

/// The page; for a program, what this is.
pub(crate) const PAGE: &str = "/";
/// Below it is what the page loads and sends.
pub(crate) const BASE: &str = "/console";
/// The first name of all paths but the page's. A path of a proxy that begins with it would be ambiguous.
pub(crate) const FIRST_SEGMENT: &str = "console";
/// The files: `{name}`.
pub(crate) const ASSETS: &str = "/console/assets";
/// Sends a task, and says something in a chat: forms that may have files.
pub(crate) const SEND: &str = "/console/send";
pub(crate) const SAY: &str = "/console/say";
/// Signs a browser in.
pub(crate) const SESSION: &str = "/console/session";
/// Makes a link that signs a browser in, once.
pub(crate) const LINKS: &str = "/console/links";
/// All sessions of the caller.
pub(crate) const SESSIONS: &str = "/console/sessions";
