//! What is said of a command line or a variable that makes no sense: one line, and whose fault it is.

use super::{
    exit::{Exit, Failure},
    settings::SERVERS,
};
use crate::telemetry::{self, LogFormat};
use blackboard::http_client::redact_url;
use clap::{
    Arg, ArgMatches, Command, CommandFactory, FromArgMatches,
    builder::Resettable,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};
use std::{error::Error as _, ffi::OsString, process::ExitCode};

/// What clap says at the end of many lines, and one line has no room for.
const CLOSING: [&str; 2] = ["Usage:", "For more information"];

/// The words of this process as `C`.
pub(super) fn parse<C: CommandFactory + FromArgMatches>() -> Result<C, ExitCode> {
    parse_from(std::env::args_os().collect())
}

/// `words`, and the variables, as `C`; or how the process ends, which has said why.
pub(super) fn parse_from<C: CommandFactory + FromArgMatches>(words: Vec<OsString>) -> Result<C, ExitCode> {
    let command = without_empty(C::command());
    let parsed = command.clone().try_get_matches_from(&words);
    if let Some(said) = parsed.as_ref().ok().and_then(misplaced) {
        telemetry::set_format(format(&words));
        return Err(Failure::new(Exit::Usage, said).report());
    }
    parsed.and_then(|mut found| C::from_arg_matches_mut(&mut found)).map_err(|wrong| {
        if !wrong.use_stderr() || wrong.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            wrong.exit();
        }
        telemetry::set_format(format(&words));
        failure(&wrong, &command, &words).report()
    })
}

/// `--url` says whom a verb asks; a process that is told to run would not heed it.
fn misplaced(found: &ArgMatches) -> Option<String> {
    let (verb, words) = found.subcommand().filter(|(verb, _)| SERVERS.contains(verb))?;
    let is_said =
        words.try_contains_id("url").is_ok() && words.value_source("url") == Some(ValueSource::CommandLine);
    let instead = match verb {
        "node" | "join" => "--registry says where its registry is",
        _ => "--listen and --port say where it listens",
    };
    is_said.then(|| format!("`mesh {verb}` takes no --url: {instead} (`--help` says what there is)"))
}

/// An empty variable is none, as in the standards.
fn without_empty(command: Command) -> Command {
    let is_empty = |arg: &Arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        value.is_some_and(|value| value.is_empty())
    };
    let command = command.mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg });
    command.mut_subcommands(without_empty)
}

/// How logs are asked for, as far as words that make no sense say it.
fn format(words: &[OsString]) -> LogFormat {
    let is_json = words.windows(2).any(|two| two[0] == "--log-format" && two[1] == "json")
        || words.iter().any(|word| word == "--log-format=json")
        || std::env::var("MESH_LOG").is_ok_and(|format| format == "json");
    if is_json { LogFormat::Json } else { LogFormat::Text }
}

fn failure(wrong: &clap::Error, command: &Command, words: &[OsString]) -> Failure {
    match variable(wrong, command, words) {
        Some(said) => Failure::new(Exit::Config, said),
        None => {
            let said = without_secrets(wrong.render().to_string(), wrong, command, words);
            Failure::new(Exit::Usage, in_one_line(&said))
        }
    }
}

/// `said` without the names and passwords of URLs among `words`.
fn without_secrets(said: String, wrong: &clap::Error, command: &Command, words: &[OsString]) -> String {
    let is_address = meant(wrong, command).is_some_and(Arg::is_hide_env_values_set);
    let mut words: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let values: Vec<_> = words.iter().filter_map(|word| Some(word.split_once('=')?.1.to_owned())).collect();
    words.extend(values);
    let may_hold =
        |word: &&String| word.rsplit_once('@').is_some_and(|(before, _)| is_address || before.contains(':'));
    words.iter().filter(may_hold).fold(said, |said, word| said.replace(word.as_str(), &redact_url(word)))
}

/// The argument with a variable that `wrong` is about.
fn meant<'a>(wrong: &clap::Error, command: &'a Command) -> Option<&'a Arg> {
    let Some(ContextValue::String(named)) = wrong.get(ContextKind::InvalidArg) else { return None };
    let flag = named.split([' ', '=']).next()?.strip_prefix("--")?;
    all_args(command).into_iter().find(|arg| arg.get_long() == Some(flag) && arg.get_env().is_some())
}

/// The variable that `wrong` is about, what it says, and what would do; if it is about one.
fn variable(wrong: &clap::Error, command: &Command, words: &[OsString]) -> Option<String> {
    if wrong.kind() == ErrorKind::InvalidUtf8 {
        let mut args = all_args(command).into_iter();
        let name = args.find_map(|arg| {
            let name = arg.get_env()?;
            std::env::var_os(name)?.to_str().is_none().then_some(name)
        })?;
        return Some(format!("{} is no text in UTF-8", name.to_string_lossy()));
    }
    let arg = meant(wrong, command)?;
    let (flag, name) = (arg.get_long()?, arg.get_env()?);
    let value = std::env::var_os(name)?;
    let is_flag = |word: &OsString| {
        let word = word.to_string_lossy();
        let rest = word.strip_prefix("--").and_then(|word| word.strip_prefix(flag));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    if words.iter().any(is_flag) {
        return None;
    }
    let wanted = match wrong.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) => format!("one of {} is wanted", valid.join(", ")),
        _ => wrong.source()?.to_string(),
    };
    let value = value.to_string_lossy();
    let value = if arg.is_hide_env_values_set() { redact_url(&value) } else { value };
    Some(format!("{} is {value:?}: {wanted}", name.to_string_lossy()))
}

/// The arguments of `command` and of everything below it.
pub(super) fn all_args(command: &Command) -> Vec<&Arg> {
    let below = command.get_subcommands().flat_map(all_args);
    command.get_arguments().chain(below).collect()
}

/// What clap says in paragraphs.
fn in_one_line(said: &str) -> String {
    let said = said.trim().trim_start_matches("error: ");
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.take_while(|line| !CLOSING.iter().any(|end| line.starts_with(end))).collect();
    format!("{} (`--help` says what there is)", lines.join(" ").replace(" tip:", "; tip:"))
}
