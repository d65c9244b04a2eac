//! An answer out of the fields of a form.

use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use bytes::Bytes;
use console::question_form::{self, ARGUMENTS, SHOWN, VALUE};
use protocol::{
    problem::{Problem, Reason},
    question::{Answer, Decision, Question, QuestionKind},
};
use serde_json::{Map, Value, json};
use std::convert::Infallible;

/// The fields of a form, and its files.
#[derive(Debug, Default)]
pub(super) struct FormFields {
    fields: Vec<(String, String)>,
    files: Vec<FormFile>,
}

/// A file of a form.
#[derive(Debug)]
struct FormFile {
    name: String,
    content: Bytes,
}

impl FormFields {
    /// The fields in the body of a request.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Problem> {
        let text = String::from_utf8_lossy(body);
        let fields: Result<Vec<(String, String)>, _> = serde_html_form::from_str(&text);
        let fields = fields.map_err(|error| Problem::new(Reason::InvalidField, error.to_string()))?;
        let mut form = Self::default();
        fields.into_iter().for_each(|(name, text)| form.push(name, &text));
        Ok(form)
    }

    /// Adds a field. Browsers send the ends of its lines as CR LF, whatever was typed.
    fn push(&mut self, name: String, text: &str) {
        self.fields.push((name, text.replace("\r\n", "\n")));
    }

    /// The same for a form of this content type, which may have files: the field `file`.
    pub(super) async fn with_files(content_type: &str, body: &Bytes) -> Result<Self, Problem> {
        let Ok(boundary) = multer::parse_boundary(content_type) else { return Self::parse(body) };
        let invalid = |error: multer::Error| Problem::new(Reason::InvalidField, error.to_string());
        let whole = futures_util::stream::iter([Ok::<_, Infallible>(body.clone())]);
        let (mut form, mut all) = (Self::default(), multer::Multipart::new(whole, boundary));
        while let Some(field) = all.next_field().await.map_err(invalid)? {
            let name = field.name().unwrap_or_default().to_owned();
            let file = field.file_name().map(str::to_owned);
            match file {
                None => form.push(name, &field.text().await.map_err(invalid)?),
                Some(name) => {
                    let content = field.bytes().await.map_err(invalid)?;
                    // A field without a file is sent with neither name nor content.
                    if !name.is_empty() || !content.is_empty() {
                        form.files.push(FormFile { name, content });
                    }
                }
            }
        }
        Ok(form)
    }

    /// The files, as parts of a message of A2A.
    pub(super) fn file_parts(&self) -> impl Iterator<Item = Value> {
        self.files.iter().map(|FormFile { name, content }| {
            // Browsers guess types that agents don't take. What is no text is known by its first bytes.
            let media_type = std::str::from_utf8(content).is_ok().then_some("text/plain");
            json!({ "raw": BASE64.encode(content), "mediaType": media_type, "filename": name })
        })
    }

    /// The first field of this name; empty if there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// All fields of this name.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The answer to `question`.
    pub(super) fn answer(&self, question: &Question) -> Result<Answer, Problem> {
        if self.get(SHOWN) != question_form::digest(question) {
            let why = format!("question {} is another one than was shown: look at it again", question.id);
            return Err(Problem::new(Reason::NotAwaitingAnswer, why));
        }
        self.value(question)
    }

    fn value(&self, question: &Question) -> Result<Answer, Problem> {
        let invalid = |why: String| Problem::new(Reason::InvalidField, why);
        Ok(match question.kind {
            QuestionKind::Text | QuestionKind::Credential => Answer::Text(self.get("text").to_owned()),
            QuestionKind::Choice => {
                let option = self.get("choice").parse().ok().and_then(|at: usize| question.options.get(at));
                Answer::Text(option.ok_or_else(|| invalid(question.wanted_option()))?.clone())
            }
            QuestionKind::Approval => {
                let decision = match self.get("decision") {
                    "approve" => Decision::Approve,
                    "deny" => Decision::Deny,
                    other => return Err(invalid(format!("{other:?} is no decision: approve or deny"))),
                };
                let reason = Some(self.get("reason").trim().to_owned()).filter(|reason| !reason.is_empty());
                let edited = question.editable && decision == Decision::Approve;
                let values = edited.then(|| self.edited(question)).transpose().map_err(invalid)?.flatten();
                Answer::Decision { decision, reason, values, proof: None }
            }
            QuestionKind::Form => Answer::Values(self.values(question.schema.as_ref()).map_err(invalid)?),
        })
    }

    /// The arguments of the call, if the person has changed them.
    fn edited(&self, question: &Question) -> Result<Option<Map<String, Value>>, String> {
        let text = self.get(ARGUMENTS);
        if text.trim().is_empty() {
            return Ok(None);
        }
        let edited: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| format!("the arguments must be a JSON object: {error}"))?;
        let own = question.call.as_ref().and_then(|call| call["args"].as_object());
        Ok(Some(edited).filter(|edited| Some(edited) != own))
    }

    /// The members of a form, each with the type that its schema says. A field that is left empty is absent.
    fn values(&self, schema: Option<&Value>) -> Result<Map<String, Value>, String> {
        let mut values = Map::new();
        for (name, member) in question_form::members(schema) {
            let text = self.get(&format!("{VALUE}{name}"));
            if let Some(options) = member["enum"].as_array() {
                let chosen = options.iter().find(|option| question_form::option_text(option) == text);
                match chosen {
                    Some(chosen) => drop(values.insert(name.clone(), chosen.clone())),
                    None if text.is_empty() => {}
                    None => return Err(format!("{name} must be one of its options")),
                }
                continue;
            }
            let value = match question_form::type_of(member) {
                // A box that is not ticked is not sent.
                "boolean" => Value::from(text == "true"),
                _ if text.is_empty() => continue,
                "integer" => text
                    .parse::<i64>()
                    .map(Value::from)
                    .map_err(|_| format!("{name} must be a whole number"))?,
                "number" => {
                    text.parse::<f64>().map(Value::from).map_err(|_| format!("{name} must be a number"))?
                }
                "array" | "object" => {
                    serde_json::from_str(text).map_err(|error| format!("{name} must be JSON: {error}"))?
                }
                _ => Value::from(text),
            };
            values.insert(name.clone(), value);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_values_of_the_types_of_the_schema() {
        let schema = json!({ "properties": {
            "size": { "enum": ["s", "m"] }, "count": { "type": "integer" }, "share": { "type": "number" },
            "gift": { "type": "boolean" }, "note": { "type": "string" }, "level": { "enum": [10, 20] },
            "limit": { "$ref": "#/$defs/limit" },
        }, "$defs": { "limit": { "type": ["integer", "null"] } } });
        let question = Question::form("q", "which?", schema);
        let answer = |body: &str| FormFields::parse(body.as_bytes()).unwrap().value(&question);
        let values = answer(
            "value.size=m&value.count=3&value.share=0.5&value.gift=true&value.note=a%26b&value.other=x&value.level=20&value.limit=7",
        );
        let expected = json!({ "size": "m", "count": 3, "share": 0.5, "gift": true, "note": "a&b", "level": 20, "limit": 7 });
        assert_eq!(values, Ok(Answer::Values(expected.as_object().unwrap().clone())));
        let values = answer("value.note=");
        assert_eq!(values, Ok(Answer::Values(json!({ "gift": false }).as_object().unwrap().clone())));
        assert!(answer("value.level=30").is_err());
        assert!(answer("value.count=many").unwrap_err().message.contains("count"));
    }

    #[actix_web::test]
    async fn a_form_with_files_has_fields_and_parts() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nlook:\r\n\u{e9}\r\n\
            --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: application/x-yaml\r\n\r\nhi\r\n\
            --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"\"\r\nContent-Type: application/octet-stream\r\n\r\n\r\n--x--\r\n";
        let body = Bytes::from(body.to_owned());
        let form = FormFields::with_files("multipart/form-data; boundary=x", &body).await.unwrap();
        assert_eq!(form.get("text"), "look:\n\u{e9}");
        let parts: Vec<_> = form.file_parts().collect();
        assert_eq!(parts, [json!({ "raw": "aGk=", "mediaType": "text/plain", "filename": "a.txt" })]);
        assert!(FormFields::with_files("multipart/form-data; boundary=y", &body).await.is_err());
        let plain = Bytes::from_static(b"text=a");
        let form = FormFields::with_files("application/x-www-form-urlencoded", &plain).await.unwrap();
        assert_eq!(form.get("text"), "a");
    }

    #[test]
    fn a_choice_is_one_of_the_options_and_a_decision_is_said() {
        let choice = Question::choice("q", "which?", ["one", "two"]);
        let answer = |body: &str, of: &Question| FormFields::parse(body.as_bytes()).unwrap().value(of);
        assert_eq!(answer("choice=1", &choice), Ok(Answer::Text("two".to_owned())));
        assert!(answer("choice=2", &choice).is_err() && answer("", &choice).is_err());
        let approval = Question::approval("q", "really?", json!({ "name": "rm" }));
        let denied = Answer::decide(Decision::Deny, Some("no".to_owned()));
        assert_eq!(answer("decision=deny&reason=+no+", &approval), Ok(denied));
        assert!(answer("reason=x", &approval).is_err(), "nothing is approved by chance");
        let unseen = FormFields::parse(b"decision=approve").unwrap().answer(&approval);
        assert_eq!(unseen.unwrap_err().reason, Reason::NotAwaitingAnswer);
        let seen = format!("decision=deny&shown={}", question_form::digest(&approval));
        assert!(FormFields::parse(seen.as_bytes()).unwrap().answer(&approval).is_ok());
    }
}
