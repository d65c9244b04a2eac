//! A person at the terminal: puts the questions of a task to the person there, and sends the answers.

use super::{
    client::{MeshClient, encoded},
    exit::{CliError, Exit},
    output,
    questions::{open_questions, prove},
    watch::status_of,
};
use protocol::{
    question::{Answer, Decision, Question, QuestionKind},
    routes,
    task::TaskState,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    termios::{QueueSelector, tcflush},
};
use serde_json::{Map, Value};
use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

/// How often a task is looked at while the person thinks: another person may answer, or the question expires.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a thread waits for a line: so much later this program may end.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Why there are no more questions to answer here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptEnd {
    /// The task goes on.
    Answered,
    /// The person gave no answer, or the task waits for something else.
    Unanswered,
}

/// Whether a person is at this terminal.
pub(super) fn has_person() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks the person the open questions of `task`, one after the other, until it goes on. The end of the input leaves them open.
/// `task` is kept as it is after each answer.
pub(super) async fn answer_questions(
    client: &MeshClient,
    endpoint: &str,
    id: &str,
    task: &mut Value,
) -> Result<PromptEnd, CliError> {
    let path = format!("{}/{}", routes::TASKS, encoded(id));
    loop {
        if !status_of(&task["status"]).0.is_some_and(TaskState::is_interrupted) {
            return Ok(PromptEnd::Answered);
        }
        let Some(question) = open_questions(task).into_iter().next() else {
            return Ok(PromptEnd::Unanswered);
        };
        let answer = tokio::select! {
            answer = ask_person(&question) => answer?,
            changed = no_longer_open(client, endpoint, &path, &question.id) => {
                output::note("\nthis question is no longer open");
                *task = changed;
                continue;
            }
        };
        let Some(answer) = answer else {
            output::note("");
            return Ok(PromptEnd::Unanswered);
        };
        let mut body = answer.body(&question.id);
        prove(client, endpoint, task, &mut body).await;
        *task = match client.post(endpoint, &format!("{path}/answer"), &body).await {
            Ok(after) => after,
            Err(failure) if failure.exit == Exit::Refused => {
                output::note(&failure.message);
                client.get(endpoint, &path).await?
            }
            Err(failure) => return Err(failure),
        };
    }
}

/// Returns the task when the question `id` is no longer open.
async fn no_longer_open(client: &MeshClient, endpoint: &str, path: &str, id: &str) -> Value {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        // A failure shows when the answer is sent.
        let Ok(task) = client.get::<Value>(endpoint, path).await else { continue };
        if open_questions(&task).iter().all(|question| question.id != id) {
            return task;
        }
    }
}

/// Whether the person says yes.
pub(super) async fn confirm(prompt: &str) -> Result<bool, CliError> {
    let read = read_line(prompt).await;
    let line =
        read.map_err(|error| CliError::new(Exit::Failed, format!("the terminal cannot be read: {error}")))?;
    Ok(line.is_some_and(|line| ["y", "yes"].contains(&line.to_ascii_lowercase().as_str())))
}

/// Asks until the answer fits; `None` at the end of the input.
async fn ask_person(question: &Question) -> Result<Option<Answer>, CliError> {
    let unreadable = |error| CliError::new(Exit::Failed, format!("the terminal cannot be read: {error}"));
    output::note(&describe(question));
    // What was typed before the question was shown does not answer it.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    loop {
        let read = match question.kind {
            QuestionKind::Form => ask_form(question).await,
            QuestionKind::Approval => ask_decision(question).await,
            QuestionKind::Text | QuestionKind::Choice | QuestionKind::Credential => {
                read_line(prompt(question.kind)).await.map(|line| line.map(|line| parse(question, &line)))
            }
        };
        match read.map_err(unreadable)? {
            None => return Ok(None),
            Some(Ok(answer)) => return Ok(Some(answer)),
            Some(Err(why)) => output::note(&why),
        }
    }
}

/// Asks for a decision, and for the reason of a denial: without one a gate ends its session.
async fn ask_decision(question: &Question) -> io::Result<Option<Result<Answer, String>>> {
    let shown = if question.editable { EDITABLE } else { prompt(question.kind) };
    let Some(line) = read_line(shown).await? else { return Ok(None) };
    if question.editable && ["e", "edit"].contains(&line.to_ascii_lowercase().as_str()) {
        let Some(line) = read_line("the arguments, as a JSON object: ").await? else { return Ok(None) };
        return Ok(Some(edited(question, &line)));
    }
    let mut answer = parse(question, &line);
    if let Ok(Answer::Decision { decision: Decision::Deny, reason: reason @ None, .. }) = &mut answer {
        let Some(line) = read_line("why? (Enter gives no reason) ").await? else { return Ok(None) };
        *reason = Some(line).filter(|line| !line.is_empty());
    }
    Ok(Some(answer))
}

/// The approval with the arguments in `line`.
fn edited(question: &Question, line: &str) -> Result<Answer, String> {
    let values = serde_json::from_str(line).map_err(|error| format!("must be a JSON object: {error}"))?;
    let answer =
        Answer::Decision { decision: Decision::Approve, reason: None, values: Some(values), proof: None };
    answer.check(question).map(|()| answer)
}

/// Asks for the values of a form, one after the other.
async fn ask_form(question: &Question) -> io::Result<Option<Result<Answer, String>>> {
    let mut values = Map::new();
    for field in fields(question) {
        loop {
            let Some(line) = read_line(&field.prompt()).await? else { return Ok(None) };
            match field.value(&line) {
                Ok(value) => {
                    values.extend(value.map(|value| (field.name.clone(), value)));
                    break;
                }
                Err(why) => output::note(&why),
            }
        }
    }
    let answer = Answer::Values(values);
    Ok(Some(answer.check(question).map(|()| answer)))
}

/// Reads a line from the terminal; `None` at its end. Dropping the future leaves what was typed to the next reader.
pub(super) async fn read_line(prompt: &str) -> io::Result<Option<String>> {
    {
        let mut err = io::stderr().lock();
        write!(err, "{}", crate::terminal::escaped(prompt))?;
        err.flush()?;
    }
    // A terminal is readable when it has a whole line. A thread that reads could not be stopped.
    while !tokio::task::spawn_blocking(has_line).await?? {}
    let mut line = String::new();
    match io::stdin().read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(line.trim().to_owned())),
    }
}

/// Whether there is a line or the end of the input, within [`WAIT`].
fn has_line() -> io::Result<bool> {
    match poll(&mut [PollFd::new(&io::stdin(), PollFlags::IN)], Some(&WAIT)) {
        Err(Errno::INTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}

/// What the person reads before the prompt.
pub(super) fn describe(question: &Question) -> String {
    let mut text = format!("? {}", question.shown_text());
    if let Some(call) = question.shown_call() {
        let name = call["name"].as_str().unwrap_or("?");
        let shown = serde_json::to_string_pretty(&call["args"]).unwrap_or_default();
        text.push_str(&format!("\n  call: {name} {}", shown.replace('\n', "\n  ")));
    }
    for (at, option) in question.options.iter().enumerate() {
        text.push_str(&format!("\n  {}) {option}", at + 1));
    }
    if question.kind == QuestionKind::Credential {
        text.push_str("\n  Provide it where it is asked for, never here; then press Enter.");
    }
    if let Some(at) = question.expires_at {
        text.push_str(&format!("\n  open until {at}"));
    }
    text
}

/// The same, with the fields of a form.
pub(super) fn describe_whole(question: &Question) -> String {
    let fields = fields(question).into_iter().map(|field| format!("\n  {} ({})", field.name, field.notes()));
    fields.fold(describe(question), |text, field| text + &field)
}

/// The prompt of an approval whose arguments may be changed.
const EDITABLE: &str = "approve? (y, n, n and why, or e to change the arguments) ";

fn prompt(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Approval => "approve? (y, n, or n and why) ",
        QuestionKind::Choice => "number or option: ",
        QuestionKind::Text | QuestionKind::Form | QuestionKind::Credential => "> ",
    }
}

/// The answer that `line` gives to a question that is no form.
fn parse(question: &Question, line: &str) -> Result<Answer, String> {
    let answer = match question.kind {
        QuestionKind::Approval => decision(line)?,
        QuestionKind::Choice => Answer::text(option(&question.options, line)),
        QuestionKind::Credential if line.is_empty() => Answer::text("provided"),
        _ if line.is_empty() => return Err("an answer is needed; Ctrl-D leaves the question open".to_owned()),
        QuestionKind::Text | QuestionKind::Form | QuestionKind::Credential => Answer::text(line),
    };
    answer.check(question).map(|()| answer)
}

/// The decision that `line` is. Only `y` and `yes` approve.
fn decision(line: &str) -> Result<Answer, String> {
    let (word, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
    let decision = match word.to_ascii_lowercase().as_str() {
        "y" | "yes" if reason.is_none() => Decision::Approve,
        "n" | "no" => Decision::Deny,
        _ => return Err("y approves, n denies, `n REASON` says why".to_owned()),
    };
    Ok(Answer::decide(decision, reason))
}

/// The option that `line` names, itself or by its number.
pub(super) fn option(options: &[String], line: &str) -> String {
    let number = line.parse::<usize>().ok().filter(|_| !options.iter().any(|option| option == line));
    let named = number.and_then(|number| options.get(number.checked_sub(1)?));
    named.map_or_else(|| line.to_owned(), String::clone)
}

struct FormField {
    name: String,
    is_required: bool,
    schema: Value,
}

fn fields(question: &Question) -> Vec<FormField> {
    let schema = question.schema.as_ref().unwrap_or(&Value::Null);
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let field = |(name, schema): (&String, &Value)| FormField {
        name: name.clone(),
        is_required: required.iter().any(|other| other == name),
        schema: schema.clone(),
    };
    properties.map(field).collect()
}

impl FormField {
    fn prompt(&self) -> String {
        let end = if self.is_required { "" } else { ", Enter leaves it out" };
        format!("{} ({}{end}): ", self.name, self.notes())
    }

    /// Its values, and what its schema says of it.
    fn notes(&self) -> String {
        let values = match self.schema["enum"].as_array() {
            Some(values) => values.iter().map(shown).collect::<Vec<_>>().join(" | "),
            None => self.schema["type"].as_str().unwrap_or("any").to_owned(),
        };
        let words = ["title", "description"].into_iter().filter_map(|name| self.schema[name].as_str());
        std::iter::once(values.as_str()).chain(words).collect::<Vec<_>>().join(", ")
    }

    /// The value that `line` gives; `None` leaves it out.
    fn value(&self, line: &str) -> Result<Option<Value>, String> {
        let name = &self.name;
        if line.is_empty() {
            return if self.is_required { Err(format!("{name} is required")) } else { Ok(None) };
        }
        if let Some(values) = self.schema["enum"].as_array() {
            let found = values.iter().find(|value| shown(value) == line);
            return found.cloned().map(Some).ok_or_else(|| format!("{name} must be one of these"));
        }
        match self.schema["type"].as_str() {
            Some("string") | None => Ok(Some(line.into())),
            Some("boolean") => match line.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(Some(true.into())),
                "n" | "no" | "false" => Ok(Some(false.into())),
                _ => Err(format!("{name} must be yes or no")),
            },
            Some(kind) => {
                let value = serde_json::from_str(line).ok().filter(|value: &Value| match kind {
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    _ => true,
                });
                value.map(Some).ok_or_else(|| format!("{name} must be of type {kind}"))
            }
        }
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(json: Value) -> Question {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_line_is_the_answer_that_its_question_takes() {
        let text = question(json!({ "id": "q", "text": "?" }));
        assert_eq!(parse(&text, "blue").unwrap(), Answer::text("blue"));
        assert!(parse(&text, "").unwrap_err().contains("Ctrl-D"));
        let credential = question(json!({ "id": "q", "kind": "credential", "text": "?" }));
        assert_eq!(parse(&credential, "").unwrap(), Answer::text("provided"));
        let choice =
            question(json!({ "id": "q", "kind": "choice", "text": "?", "options": ["s", "2", "l"] }));
        for (line, option) in [("1", "s"), ("2", "2"), ("3", "l"), ("l", "l")] {
            assert_eq!(parse(&choice, line).unwrap(), Answer::text(option));
        }
        for line in ["0", "4", "m", ""] {
            assert!(parse(&choice, line).unwrap_err().contains("one of s, 2, l"), "{line}");
        }
    }

    #[test]
    fn only_yes_approves() {
        let approval =
            question(json!({ "id": "q", "kind": "approval", "text": "?", "call": { "name": "rm" } }));
        let of = |line| parse(&approval, line).map(|answer| answer.to_json());
        for line in ["y", "Yes"] {
            assert_eq!(of(line).unwrap(), json!({ "decision": "approve" }));
        }
        assert_eq!(of("n too late").unwrap(), json!({ "decision": "deny", "reason": "too late" }));
        assert_eq!(of("no").unwrap(), json!({ "decision": "deny" }));
        for line in ["", "approve", "ok", "yes please", "1"] {
            assert!(of(line).unwrap_err().contains("y approves"), "{line}");
        }
        assert_eq!(
            describe(&question(json!({ "id": "q", "kind": "approval", "text": "may it?",
                "call": { "name": "rm", "args": { "path": "/x" } } }))),
            "? may it?\n  call: rm {\n    \"path\": \"/x\"\n  }"
        );
    }

    #[test]
    fn a_form_takes_values_of_its_types() {
        let form = question(json!({ "id": "q", "kind": "form", "text": "?", "schema": {
            "required": ["n"], "properties": { "n": { "type": "integer", "title": "How many" }, "is": { "type": "boolean" },
            "size": { "enum": ["s", 2] }, "note": { "type": "string", "description": "why" } } } }));
        let fields = fields(&form);
        let of = |name: &str, line: &str| fields.iter().find(|field| field.name == name).unwrap().value(line);
        assert_eq!(of("n", "3"), Ok(Some(json!(3))));
        assert!(of("n", "").is_err() && of("n", "3.5").is_err() && of("n", "x").is_err());
        assert_eq!((of("is", "y"), of("is", "no")), (Ok(Some(json!(true))), Ok(Some(json!(false)))));
        assert_eq!((of("size", "2"), of("size", "s")), (Ok(Some(json!(2))), Ok(Some(json!("s")))));
        assert!(of("size", "m").is_err() && of("is", "1").is_err());
        assert_eq!((of("note", ""), of("note", "7")), (Ok(None), Ok(Some(json!("7")))));
        let note = fields.iter().find(|field| field.name == "note").unwrap();
        assert_eq!(note.prompt(), "note (string, why, Enter leaves it out): ");
        assert_eq!(
            describe_whole(&form),
            "? ?\n  is (boolean)\n  n (integer, How many)\n  note (string, why)\n  size (s | 2)"
        );
    }
}
