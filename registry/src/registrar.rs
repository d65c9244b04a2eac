//! registrar
