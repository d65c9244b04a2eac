//! `mesh`.
fn main() {
    println!("{}", serde_json::to_string_pretty(&agent_node::config::schema()).unwrap_or_default());
}
