//! The pages of the console: pure functions from what the node knows to HTML. The node reads the data, checks who asks, and sends
//! what is made here; nothing here reads, waits or decides.
//!
//! Invariants: text of agents and people is escaped by `maud`, and characters that hide or turn text are shown
//! ([`visible_text`]); no page has inline code or style; a view links only to views that exist.
//!
//! Modules in reading order: where a page is and what it is told, the frame, the parts of views, the views.

pub mod assets;
pub mod location;
pub mod viewer;

pub mod shell;

pub mod action_form;
pub mod chart;
pub mod content;
pub mod filter_form;
pub mod json_view;
pub mod plan_graph;
pub mod question_form;
pub mod state_mark;
pub mod timeline;
pub mod times;
pub mod visible_text;

pub mod views;
