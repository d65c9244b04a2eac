//! Parses the command line; reports an invalid one in one line that names the flag or the variable.

use super::{
    SERVERS,
    exit::{CliError, Exit},
};
use crate::telemetry::{self, LogFormat};
use clap::{
    Arg, ArgMatches, Command, CommandFactory, FromArgMatches,
    builder::Resettable,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};
use std::{error::Error as _, ffi::OsString, process::ExitCode};
use transport::http_client::redact_url;

/// Starts of clap's closing lines, which are left out.
const CLOSING_LINES: [&str; 2] = ["Usage:", "For more information"];

pub(super) fn parse<C: CommandFactory + FromArgMatches>() -> Result<C, ExitCode> {
    parse_from(std::env::args_os().collect())
}

/// Parses `words` and the environment. An error is printed already; it is the exit code.
pub(super) fn parse_from<C: CommandFactory + FromArgMatches>(words: Vec<OsString>) -> Result<C, ExitCode> {
    let command = without_empty_variables(C::command());
    let parsed = command.clone().try_get_matches_from(&words);
    if let Some(message) = parsed.as_ref().ok().and_then(misplaced_url) {
        telemetry::set_format(log_format(&words));
        return Err(CliError::new(Exit::Usage, message).report());
    }
    parsed.and_then(|mut matches| C::from_arg_matches_mut(&mut matches)).map_err(|error| {
        if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            error.exit();
        }
        telemetry::set_format(log_format(&words));
        to_cli_error(&error, &command, &words).report()
    })
}

/// The error for `--url` with a verb that runs a process, which would ignore it.
fn misplaced_url(matches: &ArgMatches) -> Option<String> {
    let ignores_url = |verb: &str| SERVERS.contains(&verb) && !["node", "join"].contains(&verb);
    let (verb, words) = matches.subcommand().filter(|(verb, _)| ignores_url(verb))?;
    let is_given =
        words.try_contains_id("url").is_ok() && words.value_source("url") == Some(ValueSource::CommandLine);
    is_given.then(|| {
        format!("`mesh {verb}` takes no --url: --listen and --port say where it listens (`--help` says what there is)")
    })
}

/// Ignores empty environment variables, as the OpenTelemetry specification does.
fn without_empty_variables(command: Command) -> Command {
    let is_empty = |arg: &Arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        value.is_some_and(|value| value.is_empty())
    };
    let command = command.mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg });
    command.mut_subcommands(without_empty_variables)
}

/// The log format of a command line that could not be parsed.
fn log_format(words: &[OsString]) -> LogFormat {
    let is_json = words.windows(2).any(|two| two[0] == "--log-format" && two[1] == "json")
        || words.iter().any(|word| word == "--log-format=json")
        || std::env::var("MESH_LOG").is_ok_and(|format| format == "json");
    if is_json { LogFormat::Json } else { LogFormat::Text }
}

fn to_cli_error(error: &clap::Error, command: &Command, words: &[OsString]) -> CliError {
    match variable_error(error, command, words) {
        Some(message) => CliError::new(Exit::Config, message),
        None => {
            let message = without_secrets(error.render().to_string(), error, command, words);
            CliError::new(Exit::Usage, in_one_line(&message))
        }
    }
}

/// `message` without the user names and passwords of URLs among `words`.
fn without_secrets(message: String, error: &clap::Error, command: &Command, words: &[OsString]) -> String {
    let is_address = argument_of(error, command).is_some_and(Arg::is_hide_env_values_set);
    let mut words: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let values: Vec<_> = words.iter().filter_map(|word| Some(word.split_once('=')?.1.to_owned())).collect();
    words.extend(values);
    let has_credentials =
        |word: &&String| word.rsplit_once('@').is_some_and(|(before, _)| is_address || before.contains(':'));
    words
        .iter()
        .filter(has_credentials)
        .fold(message, |message, word| message.replace(word.as_str(), &redact_url(word)))
}

/// The argument of `error`, if it also has a variable.
fn argument_of<'a>(error: &clap::Error, command: &'a Command) -> Option<&'a Arg> {
    let Some(ContextValue::String(named)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = named.split([' ', '=']).next()?.strip_prefix("--")?;
    all_args(command).into_iter().find(|arg| arg.get_long() == Some(flag) && arg.get_env().is_some())
}

/// The message for an error in an environment variable: name, value, valid values; `None` if a flag is wrong.
fn variable_error(error: &clap::Error, command: &Command, words: &[OsString]) -> Option<String> {
    if error.kind() == ErrorKind::InvalidUtf8 {
        let mut args = all_args(command).into_iter();
        let name = args.find_map(|arg| {
            let name = arg.get_env()?;
            std::env::var_os(name)?.to_str().is_none().then_some(name)
        })?;
        return Some(format!("{} is no text in UTF-8", name.to_string_lossy()));
    }
    let arg = argument_of(error, command)?;
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
    let wanted = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) => format!("one of {} is wanted", valid.join(", ")),
        _ => error.source()?.to_string(),
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

/// clap's message on one line.
pub(super) fn in_one_line(message: &str) -> String {
    let message = message.trim().trim_start_matches("error: ");
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<_> =
        lines.take_while(|line| !CLOSING_LINES.iter().any(|end| line.starts_with(end))).collect();
    format!("{} (`--help` says what there is)", lines.join(" ").replace(" tip:", "; tip:"))
}
