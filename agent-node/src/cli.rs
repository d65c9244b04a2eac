//! The `mesh` command line: parsing, and dispatch to the verbs.

pub mod exit;

mod artifacts;
mod ask;
mod award;
mod board;
mod brief;
mod chat;
mod client;
mod console;
mod contexts;
mod convene;
mod cost;
mod data_dir_args;
mod dlq;
mod doctor;
mod endpoints;
mod follow;
mod health;
mod init;
mod interrupt;
mod join;
mod join_secret;
mod keys;
mod listen_args;
mod live_view;
mod local_tokens;
mod located_task;
mod login;
mod ls;
mod mcp;
mod model_talk;
mod output;
mod parsing;
mod past_time;
mod people;
mod processes;
mod prompt;
mod questions;
mod reset;
mod say;
mod schedule;
mod sent_task;
mod settings_reference;
mod shell_files;
mod space;
mod steer;
mod store_check;
mod task_filter_args;
mod task_tree;
mod tasks;
mod token;
mod tools;
mod top;
mod trace;
mod unknown_variables;
mod validate;
mod vault;
mod watch;

use crate::shell_quote;
use crate::telemetry::{self, LogFormat};
use clap::{Args, CommandFactory, Parser, Subcommand};
use exit::{CliError, Exit};
use std::{path::PathBuf, process::ExitCode};

/// A mesh of agents: any agent takes a task, the contract net awards it, the blackboard tells.
#[derive(Debug, Parser)]
#[command(name = "mesh", version, after_help = exit::TABLE, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// The default address of the registry and the board.
const DEFAULT_URL: &str = "http://127.0.0.1:8000";

/// The recipient named in requests; servers check it for signed requests only.
const RECIPIENT: &str = "mesh";

/// The verbs that run a process.
const SERVERS: [&str; 5] = ["up", "node", "join", "registry", "blackboard"];

/// What every verb takes.
#[derive(Debug, Clone, Args)]
struct CommonArgs {
    /// Where the registry and the board are.
    #[arg(
        long,
        global = true,
        env = "MESH_URL",
        hide_env_values = true,
        default_value = DEFAULT_URL,
        value_parser = client::base_url,
        value_name = "URL"
    )]
    url: String,
    /// The file of the person's token; if not given, of the meshes in ~/.mesh that one whose process is at the URL, on this machine.
    #[arg(long, global = true, env = "MESH_TOKEN_FILE", value_name = "FILE")]
    token: Option<PathBuf>,
    /// Print JSON instead of tables; streams print one object a line.
    #[arg(long, global = true)]
    json: bool,
    /// Which logs to show, such as `info` or `agent_node=debug`; RUST_LOG does the same.
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
    /// How logs are written.
    #[arg(long, global = true, value_enum, default_value_t, env = "MESH_LOG")]
    log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run everything in one process: registry, blackboard and agents (the demo team if no file is given).
    Up(processes::UpArgs),
    /// Run agents that join a mesh.
    Node(processes::NodeArgs),
    /// Let a foreign A2A agent join a mesh, by the URL of its card.
    Join(join::JoinArgs),
    /// Run a registry.
    Registry(processes::RegistryArgs),
    /// Run a blackboard.
    Blackboard(processes::BlackboardArgs),
    #[command(flatten)]
    Mesh(ClientVerb),
    /// Write a directory with a running agent in Python, JavaScript, Rust or shell, or with a language model, and a test of it.
    Init(init::InitArgs),
    /// Check agent and team files, or print their JSON Schema.
    Validate(validate::ValidateArgs),
    /// Delete a mesh's tasks, signals and join secret, after asking; the keys of agents and other files stay.
    Reset(reset::ResetArgs),
    /// Check what a mesh that does not run has on disk.
    #[command(subcommand)]
    Store(store_check::StoreVerb),
    /// Make the secret that every process of a mesh shares.
    JoinSecret(join_secret::JoinSecretArgs),
    /// Print the person's token, which every process of the mesh accepts in `Authorization: Bearer`; make that of an agent's own process.
    Token(token::TokenArgs),
    /// Print the completions of this command for a shell.
    Completions(shell_files::CompletionsArgs),
    /// Write the man pages of this command.
    Man(shell_files::ManArgs),
    /// Run one of the demo's brains: one JSON line in, JSON lines out.
    Brain(BrainArgs),
}

/// The verbs that talk to a running mesh.
#[derive(Debug, Subcommand)]
enum ClientVerb {
    /// Send a task, follow it, print its artifacts.
    Ask(ask::AskArgs),
    /// Have a team work on a goal in turns: a round table of agents, or the stages of a file.
    Convene(convene::ConveneArgs),
    /// Say something to one agent, in a chat that it remembers, and print its answer.
    Say(say::SayArgs),
    /// Open the console of an agent in a browser, signed in by a link that works once.
    Console(console::ConsoleArgs),
    /// Chat with an agent: it remembers what was said, also after a restart.
    Chat(chat::ChatArgs),
    /// Your chats with agents, which A2A calls contexts: list, show, export or forget them.
    Context(contexts::ContextArgs),
    /// Follow what a team does, in one log: who found, said, asked, decided, learnt.
    Follow(follow::FollowArgs),
    /// Steer a session while it runs.
    Steer(steer::SteerArgs),
    /// List the agents.
    #[command(visible_alias = "list")]
    Ls(ls::LsArgs),
    /// Forget an agent that is not there: what is addressed to it ends. Its name stays reserved for its key.
    Forget(ls::ForgetArgs),
    /// Show the card an agent is registered with.
    Card(ls::CardArgs),
    /// List, show, watch, cancel, repeat or answer tasks.
    Tasks(tasks::TasksArgs),
    /// What agents have used: tokens and cost, by agent, capability, requester, task or day; and how near quotas are.
    Cost(cost::CostArgs),
    /// When tasks of agents begin: list, add, pause, run or remove schedules.
    Schedule(schedule::ScheduleArgs),
    /// Show what the mesh is doing now: load and health of agents, open tasks and what they wait for, tokens and cost.
    Top(top::TopArgs),
    /// List the questions that wait for you.
    Inbox(people::InboxArgs),
    /// Answer a question of a task: by a text, a decision, or the values of a form.
    Answer(people::AnswerArgs),
    /// Log in at a tool server of an agent (OAuth), or list the servers that take a login.
    Login(login::LoginArgs),
    /// Forget the login at a tool server.
    Logout(login::LogoutArgs),
    /// Show the tool servers of agents and whether they can be called, and the tools of an agent.
    Tools(tools::ToolsArgs),
    /// Follow the blackboard.
    #[command(subcommand)]
    Board(board::BoardVerb),
    /// What a team knows: list, post, propose and decide entries of spaces.
    Space(space::SpaceArgs),
    /// Show what a space knows for an agent, as its next turn is given it.
    Brief(brief::BriefArgs),
    /// Show and mend what an agent remembers for itself.
    Vault(vault::VaultArgs),
    /// Explain who got a task, and why.
    #[command(subcommand)]
    Award(award::AwardVerb),
    /// Show what happened to a task, agent by agent, with times.
    Trace(trace::TraceArgs),
    /// Messages that were given up: list, show, or send them again.
    Dlq(dlq::DlqArgs),
    /// The keys of agents: list them, replace one, or give one up after its loss.
    Keys(keys::KeysArgs),
    /// Say what works and what is broken.
    Health(health::HealthArgs),
    /// Serve the mesh to an MCP client (Claude Code, Codex, Cursor) on standard input and output.
    Mcp(mcp::McpArgs),
    /// Say what does not match in a mesh, and the remedy: keys, join secret, clocks, endpoints, versions.
    Doctor(doctor::DoctorArgs),
}

#[derive(Debug, Args)]
struct BrainArgs {
    /// planner, rest-builder, reviewer or orchestrator.
    name: String,
}

/// Runs the command line of this process and returns its exit code.
pub fn main() -> ExitCode {
    let Cli { common, verb } = match parsing::parse() {
        Ok(line) => line,
        Err(code) => return code,
    };
    let verb = match verb.map_or_else(|| processes::UpArgs::from_environment().map(Verb::Up), Ok) {
        Ok(verb) => verb,
        Err(code) => return code,
    };
    let is_server =
        matches!(verb, Verb::Up(_) | Verb::Node(_) | Verb::Join(_) | Verb::Registry(_) | Verb::Blackboard(_));
    let default_log = if is_server { "warn,brain=info" } else { "error" };
    if let Err(problem) = telemetry::start(common.log.as_deref(), default_log, common.log_format) {
        let exit = if common.log.is_some() { Exit::Usage } else { Exit::Config };
        return CliError::new(exit, problem).report();
    }
    if is_server {
        unknown_variables::warn_unknown();
    }
    let outcome = match verb {
        Verb::Up(up) => return processes::up(up),
        Verb::Node(node) => return processes::node(node, &common.url),
        Verb::Join(card) => return join::join(card, &common.url),
        Verb::Registry(registry) => return processes::registry(registry),
        Verb::Blackboard(blackboard) => return processes::blackboard(blackboard),
        Verb::Brain(BrainArgs { name }) => return crate::demo::run(&name),
        Verb::Init(args) => init::init(&common, &args),
        Verb::Validate(validate) => validate::validate(&common, &validate),
        Verb::JoinSecret(args) => join_secret::join_secret(&args),
        Verb::Reset(reset) => reset::reset(&reset),
        Verb::Store(store_check::StoreVerb::Check(args)) => store_check::check(&common, &args),
        Verb::Token(args) => actix::System::new().block_on(token::token(&common, &args)),
        Verb::Completions(args) => shell_files::completions(&args, Cli::command()),
        Verb::Man(args) => shell_files::man(&args, Cli::command()),
        Verb::Mesh(verb) => actix::System::new().block_on(run(&common, verb)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

async fn run(common: &CommonArgs, verb: ClientVerb) -> Result<(), CliError> {
    match verb {
        ClientVerb::Ask(ask) => ask::ask(common, ask).await,
        ClientVerb::Convene(args) => convene::convene(common, args).await,
        ClientVerb::Say(args) => say::say(common, args).await,
        ClientVerb::Console(args) => console::console(common, args).await,
        ClientVerb::Chat(args) => chat::chat(common, args).await,
        ClientVerb::Context(args) => contexts::context(common, args).await,
        ClientVerb::Cost(args) => cost::cost(common, args).await,
        ClientVerb::Schedule(args) => schedule::schedule(common, args).await,
        ClientVerb::Follow(args) => follow::follow(common, args).await,
        ClientVerb::Steer(args) => steer::steer(common, args).await,
        ClientVerb::Ls(list) => ls::ls(common, list).await,
        ClientVerb::Forget(args) => ls::forget(common, args).await,
        ClientVerb::Card(card) => ls::card(common, card).await,
        ClientVerb::Tasks(tasks) => tasks::tasks(common, tasks).await,
        ClientVerb::Top(args) => top::top(common, args).await,
        ClientVerb::Inbox(inbox) => people::inbox(common, inbox).await,
        ClientVerb::Answer(answer) => people::answer(common, answer).await,
        ClientVerb::Login(args) => login::login(common, args).await,
        ClientVerb::Logout(args) => login::logout(common, args).await,
        ClientVerb::Tools(args) => tools::tools(common, args).await,
        ClientVerb::Board(board::BoardVerb::Tail(tail)) => board::tail(common, tail).await,
        ClientVerb::Brief(args) => brief::brief(common, args).await,
        ClientVerb::Vault(args) => vault::vault(common, args).await,
        ClientVerb::Space(args) => space::space(common, args).await,
        ClientVerb::Award(award::AwardVerb::Explain(explain)) => award::explain(common, explain).await,
        ClientVerb::Trace(trace) => trace::trace(common, trace).await,
        ClientVerb::Dlq(dlq) => dlq::dlq(common, dlq).await,
        ClientVerb::Keys(args) => keys::keys(common, args).await,
        ClientVerb::Health(health) => health::health(common, health).await,
        ClientVerb::Mcp(args) => mcp::mcp(common, args).await,
        ClientVerb::Doctor(args) => doctor::doctor(common, args).await,
    }
}
