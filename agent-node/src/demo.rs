//! The demo team: brains that do real work on the text they are sent, without a network and without chance.

mod spec;
mod words;
