//! A question to the viewer, and the form that answers it.

use crate::{action_form::ActionForm, json_view, times, viewer::Viewer, visible_text::VisibleText};
use maud::{Markup, html};
use protocol::{
    ids::Digest,
    question::{OnTimeout, Question, QuestionKind},
    time::WallTime,
};
use serde_json::{Value, json};

/// The prefix of the fields of a form that a question asks for.
pub const VALUE: &str = "value.";

/// The field with the [`digest`] of the question.
pub const SHOWN: &str = "shown";

/// What a question says, all of it: nobody answers another one than was shown.
pub fn digest(question: &Question) -> String {
    Digest::of(json!(question).to_string().as_bytes()).to_string()
}

/// The field with the arguments of a call, which the viewer may change.
pub const ARGUMENTS: &str = "arguments";

/// The longest question that is set in bold, bytes.
const MAX_BOLD: usize = 400;

/// Where a question is asked.
#[derive(Debug, Clone, Copy)]
pub struct AskedAt<'a> {
    pub agent: &'a str,
    pub task: &'a str,
}

/// The question, with a form if the viewer is signed in.
pub fn card(viewer: &Viewer, at: AskedAt<'_>, question: &Question) -> Markup {
    html! {
        @let text = question.shown_text();
        div class=(if text.len() > MAX_BOLD { "prose" } else { "asked" }) { (VisibleText(&text)) }
        @if let Some(call) = question.shown_call() { (shown_call(call)) }
        p.muted.small { (fate(viewer.now, question)) }
        @if viewer.is_signed_in {
            @let digest = digest(question);
            @let hidden = [("agent", at.agent), ("task", at.task), ("question", &*question.id), (SHOWN, &*digest)];
            @let form = ActionForm { path: "answer", done: "Your answer is on its way to the agent.", hidden: &hidden };
            @if question.kind == QuestionKind::Approval { (approval(form, question)) } @else { (form.with(fields(question))) }
        } @else {
            p.small { "In a terminal: " code { "mesh answer " (at.task) " \u{2026}" (viewer.flag) } }
        }
    }
}

/// Until when it is open, and what happens then.
fn fate(now: WallTime, question: &Question) -> Markup {
    let then = match &question.on_timeout {
        _ if question.kind == QuestionKind::Approval => "then it counts as denied".to_owned(),
        None | Some(OnTimeout::Continue) => "then the work goes on without an answer".to_owned(),
        Some(OnTimeout::Fail) => "then the task fails".to_owned(),
        Some(OnTimeout::Answer(text)) => format!("then the answer is {text:?}"),
    };
    html! {
        @match question.expires_at {
            Some(at) => { "Open for an answer until " (times::clock(at)) ", " (times::until(now, at)) "; " (VisibleText(&then)) "." }
            None => { "Open until it is answered." }
        }
    }
}

fn shown_call(call: &Value) -> Markup {
    html! {
        p.small { "The call: " code { (VisibleText(call["name"].as_str().unwrap_or("?"))) } }
        @if !call["args"].is_null() { (json_view::block("the arguments of the call", &call["args"])) }
    }
}

fn approval(form: ActionForm<'_>, question: &Question) -> Markup {
    form.with_decisions(
        html! {
            @if question.editable { (editor(question)) }
            label { "Reason" span.hint { "the agent is told it if you deny" } input type="text" name="reason" maxlength="2000"; }
        },
        html! {
            button.primary type="submit" name="decision" value="approve" { "Approve" }
            button.danger type="submit" name="decision" value="deny" { "Deny" }
        },
    )
}

/// What answers a question that is no approval.
fn fields(question: &Question) -> Markup {
    html! {
        @match question.kind {
            QuestionKind::Approval => {}
            QuestionKind::Choice => {
                fieldset {
                    legend { "Choose one" }
                    @for (at, option) in question.options.iter().enumerate() {
                        label.inline { input type="radio" name="choice" value=(at) required; span { (VisibleText(option)) } }
                    }
                }
                (send())
            }
            QuestionKind::Form => {
                @for field in form_fields(question.schema.as_ref()) { (field) }
                (send())
            }
            QuestionKind::Text | QuestionKind::Credential => {
                @if question.kind == QuestionKind::Credential {
                    p.notice.wait { "Do not enter the credential itself: provide it where the agent says, and answer that it is there." }
                }
                label { "Your answer" textarea name="text" required {} }
                (send())
            }
        }
    }
}

/// The arguments of the call, to be changed.
fn editor(question: &Question) -> Markup {
    let arguments = question.shown_call().map(|call| format!("{:#}", call["args"])).unwrap_or_default();
    html! {
        details {
            summary { "Approve with other arguments" }
            label {
                "The arguments, as JSON" span.hint { "what stands here is what is called" }
                textarea.code name=(ARGUMENTS) rows="8" spellcheck="false" { (arguments) }
            }
        }
    }
}

fn send() -> Markup {
    html! { div.actions { button.primary type="submit" { "Answer" } } }
}

/// A field for each member of the schema.
fn form_fields(schema: Option<&Value>) -> Vec<Markup> {
    let required = schema.and_then(|schema| schema["required"].as_array());
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    members(schema).map(|(name, member)| field(name, member, is_required(name))).collect()
}

/// The members of a form with their schemas, references within it followed.
pub fn members(schema: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    let all = schema.and_then(|schema| Some((schema, schema["properties"].as_object()?)));
    all.into_iter().flat_map(|(schema, members)| {
        members.iter().map(move |(name, member)| {
            let to = member["$ref"].as_str().and_then(|to| schema.pointer(to.strip_prefix('#')?));
            (name, to.unwrap_or(member))
        })
    })
}

/// The type of a member: of several the first that is not null.
pub fn type_of(member: &Value) -> &str {
    let several = member["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
    member["type"].as_str().or_else(|| several.into_iter().find(|kind| *kind != "null")).unwrap_or_default()
}

/// What stands for an option of an enumeration.
pub fn option_text(option: &Value) -> String {
    option.as_str().map_or_else(|| option.to_string(), str::to_owned)
}

fn field(name: &str, member: &Value, is_required: bool) -> Markup {
    let title = member["title"].as_str().unwrap_or(name);
    let default = if member["default"].is_null() { String::new() } else { option_text(&member["default"]) };
    let kind = type_of(member);
    let input = format!("{VALUE}{name}");
    html! {
        @if kind == "boolean" && member["enum"].is_null() {
            label.inline {
                input type="checkbox" name=(input) value="true" checked[default == "true"];
                span { (VisibleText(title)) }
            }
        } @else {
            label {
                span { (VisibleText(title)) @if is_required { span.muted { " (required)" } } }
                @if let Some(text) = member["description"].as_str() { span.hint { (VisibleText(text)) } }
                @if let Some(options) = member["enum"].as_array() {
                    select name=(input) required[is_required] {
                        @if !is_required { option value="" { "\u{2013}" } }
                        @for option in options.iter().map(option_text) {
                            option value=(option) selected[default == option] { (VisibleText(&option)) }
                        }
                    }
                } @else if kind == "integer" || kind == "number" {
                    input type="number" step=(if kind == "integer" { "1" } else { "any" }) name=(input) value=(default)
                        min=[member["minimum"].as_f64()] max=[member["maximum"].as_f64()] required[is_required];
                } @else {
                    input type="text" name=(input) value=(default) required[is_required];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: AskedAt<'_> = AskedAt { agent: "a-1", task: "t-1" };

    #[test]
    fn a_form_has_a_field_for_each_member() {
        let schema = json!({
            "type": "object", "required": ["size"], "$defs": { "share": { "type": ["null", "number"] } },
            "properties": {
                "level": { "enum": [10, 20] }, "share": { "$ref": "#/$defs/share" },
                "size": { "enum": ["s", "\"><script>"] }, "count": { "type": "integer", "minimum": 1 },
                "gift": { "type": "boolean" }, "note": { "type": "string", "title": "<b>" },
            },
        });
        let question = Question::form("q", "which?", schema);
        let shown = card(&Viewer::of_test(true), AT, &question).into_string();
        for name in ["value.size", "value.count", "value.gift", "value.note", "value.level", "value.share"] {
            assert!(shown.contains(&format!("name=\"{name}\"")), "{shown}");
        }
        assert!(!shown.contains("<script>") && !shown.contains("<b>"), "{shown}");
        assert!(shown.contains("<option value=\"20\">") && shown.contains("step=\"any\""), "{shown}");
    }

    #[test]
    fn who_is_not_signed_in_has_no_form() {
        let question = Question::approval("q", "really?", json!({ "name": "rm", "args": { "path": "/" } }));
        let shown = card(&Viewer::of_test(false), AT, &question).into_string();
        assert!(
            !shown.contains("<form") && !shown.contains("<button") && shown.contains("mesh answer t-1"),
            "{shown}"
        );
        let shown = card(&Viewer::of_test(true), AT, &question).into_string();
        assert!(
            shown.contains("value=\"approve\"") && shown.contains("&quot;path&quot;: &quot;/&quot;"),
            "{shown}"
        );
    }
}
