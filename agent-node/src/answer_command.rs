//! The command that answers a question.

use crate::{shell_quote::shell_quoted, terminal::plain};
use protocol::question::{Question, QuestionKind};

/// What answers `question` of `task` in a shell, or approves it; capitals stand for what the person fills in. `is_only` says that the
/// task has no other question. `at` goes at the end.
pub(crate) fn answer_command(task: &str, question: &Question, is_only: bool, at: &str) -> String {
    let answer = match question.kind {
        QuestionKind::Approval => "--approve".to_owned(),
        QuestionKind::Form => "--values JSON".to_owned(),
        QuestionKind::Choice => {
            let options = question.options.iter().map(|option| shell_quoted(&plain(option)).into_owned());
            options.collect::<Vec<_>>().join("|")
        }
        QuestionKind::Text | QuestionKind::Credential if is_only => {
            return format!("mesh answer {task} TEXT{at}");
        }
        QuestionKind::Text | QuestionKind::Credential => "TEXT".to_owned(),
    };
    format!("mesh answer {task} --question {} {answer}{at}", shell_quoted(&plain(&question.id)))
}
