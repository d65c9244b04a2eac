//! HTTP message signatures (RFC 9421).
