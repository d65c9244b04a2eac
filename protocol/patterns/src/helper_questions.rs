//! What an agent that helps asks a person: its questions go to the agent that asked it, whose owner answers them.

use super::{Effect, Label, OutgoingMessage};
use protocol::{
    envelope::Envelope,
    ids::{Address, AgentId, ConversationId, QuestionId, TaskId},
    message::{Payload, TaskAnswer},
    principal::Principal,
    question::Question,
};
use serde::{Deserialize, Serialize};

/// The open questions of one agent that helps, and where their answers go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HelperQuestions {
    pub(crate) agent: AgentId,
    /// Its conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conversation: Option<ConversationId>,
    /// Its name for its work.
    work: TaskId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) open: Vec<Question>,
    /// Those whose answers are on their way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    answered: Vec<Question>,
}

impl HelperQuestions {
    /// What a report of its work says; `None` if it is none, or says nothing of questions.
    pub(crate) fn read(by: &Principal, envelope: &Envelope) -> Option<Self> {
        let Payload::TaskUpdate(update) = &envelope.payload else { return None };
        Some(Self {
            agent: by.agent()?.clone(),
            conversation: envelope.reply_conversation_id.clone(),
            work: update.task_id.clone(),
            open: update.status.as_ref()?.questions.clone(),
            answered: Vec::new(),
        })
    }

    pub(crate) fn asks(&self, question: &QuestionId) -> bool {
        self.open.iter().any(|open| open.id == question.as_str())
    }

    /// Passes on the answer to one of its questions.
    pub(crate) fn answer(&mut self, question: &QuestionId, answer: TaskAnswer) -> Option<Effect> {
        let place = self.open.iter().position(|open| open.id == question.as_str())?;
        self.answered.push(self.open.remove(place));
        let answer = TaskAnswer { task_id: self.work.clone(), epoch: None, ..answer };
        let to = Address::Agent(self.agent.clone());
        let message = OutgoingMessage::new(Label::Answer, to, Payload::TaskAnswer(answer));
        Some(Effect::Send(OutgoingMessage { conversation: self.conversation.clone(), ..message }))
    }

    /// Its agent has not taken an answer: what it asked is open again. Returns whether there is something.
    pub(crate) fn reopen(&mut self) -> bool {
        let any = !self.answered.is_empty();
        self.open.append(&mut self.answered);
        any
    }
}
