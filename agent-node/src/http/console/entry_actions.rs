//! What a person does with the entries of a space, at the board of this process or of another.

use super::{
    actions::{SentForm, done},
    space_view,
    viewer_board::ViewerBoard,
};
use crate::http::node_state::NodeState;
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::spaces::EntryChange;
use bytes::Bytes;
use protocol::{
    ids::{EntryId, SpaceId},
    principal::Principal,
    problem::{Problem, Reason},
    spaces::{EntryAction, EntryDraft, EntryKind, EntryType, SpaceVerb, may},
};
use transport::refusal::Refusal;

fn invalid(field: &'static str, why: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::InvalidField, format!("{field}: {why}")).with("field", field)
}

/// A field that may be empty.
fn optional(form: &SentForm, name: &str) -> Option<String> {
    Some(form.fields.get(name).trim().to_owned()).filter(|text| !text.is_empty())
}

/// The version that the person has read.
fn version(form: &SentForm) -> Result<u64, Problem> {
    form.required("version")?.parse().map_err(|_| invalid("version", "must be a number"))
}

/// What the form has of a new entry of `kind`, with the type that `named` names.
fn draft(form: &SentForm, kind: EntryKind, named: &str) -> Result<EntryDraft, Problem> {
    let entry_type = EntryType::ALL.into_iter().find(|of| of.to_string() == named);
    if entry_type.is_none() && !named.is_empty() {
        return Err(invalid("type", format!("{named:?} is none")));
    }
    let title = form.fields.get("title").trim().to_owned();
    Ok(EntryDraft { title, entry_type, ..EntryDraft::new(kind, form.required("content")?) })
}

/// Tells pages that what waits for the viewer elsewhere may have changed.
fn forget(node: &NodeState, board: &ViewerBoard) {
    node.registry_calls.iter().for_each(|calls| calls.forget(board.by()));
}

/// Posts an entry.
pub(super) async fn post(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let form = SentForm::of(&request, &node, &by, &body)?;
    let space = space_view::space_id(form.fields.get("space"))?;
    let (kind, named) = form.required("what")?.split_once('/').unwrap_or((form.required("what")?, ""));
    let known = EntryKind::ALL.into_iter().find(|known| known.to_string() == kind);
    let kind = known.ok_or_else(|| invalid("what", format!("{kind:?} is no kind of entry")))?;
    let board = ViewerBoard::of(&form.scope, &node)?;
    board.spaces()?.post_entry(board.by(), &space, &draft(&form, kind, named)?).await?;
    forget(&node, &board);
    Ok(done(None))
}

/// Changes the state of an entry.
pub(super) async fn change(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let form = SentForm::of(&request, &node, &by, &body)?;
    let space = space_view::space_id(form.fields.get("space"))?;
    let id = EntryId::parse(form.required("entry")?).map_err(|bad| invalid("entry", bad))?;
    let reason = optional(&form, "reason");
    let board = ViewerBoard::of(&form.scope, &node)?;
    let change = match form.required("change")? {
        // What the person has read is what is merged.
        "merge" => EntryChange::Merge { version: Some(version(&form)?), reason },
        "reject" => EntryChange::Reject { reason: form.required("reason")?.to_owned() },
        "archive" => EntryChange::Archive { reason },
        "withdraw" => EntryChange::Withdraw { reason },
        "accept" => EntryChange::Accept { reason },
        "supersede" => {
            supersede(&board, &form, (&space, &id), reason).await?;
            return Ok(done(None));
        }
        other => {
            let why = format!("{other:?} is none: merge, reject, archive, withdraw, accept or supersede");
            return Err(invalid("change", why).into());
        }
    };
    board.spaces()?.change_entry(board.by(), &space, &id, change).await?;
    forget(&node, &board);
    Ok(done(None))
}

/// Posts the decision of the form, and puts it in the place of `id`, of which the person has read the version of the form. If that is
/// not possible after all, the new decision is archived.
async fn supersede(
    board: &ViewerBoard,
    form: &SentForm,
    (space, id): (&SpaceId, &EntryId),
    reason: Option<String>,
) -> Result<(), Problem> {
    let (spaces, by) = (board.spaces()?, board.by());
    let (read, known) = (version(form)?, spaces.space(by, space).await?);
    let old = spaces.entry(by, space, id).await?;
    old.state.after(old.kind, EntryAction::Supersede)?;
    may(board.reader(), SpaceVerb::Change(EntryAction::Supersede), Some(&old), &known)?;
    if old.version != read {
        let why = format!("the decision {id} has version {}, not {read}: look at it again", old.version);
        return Err(Problem::new(Reason::SpaceChanged, why));
    }
    let new =
        spaces.post_entry(by, space, &draft(form, EntryKind::Decision, form.fields.get("type"))?).await?;
    let change = EntryChange::Supersede { by: new.id.clone(), reason };
    let Err(problem) = spaces.change_entry(by, space, id, change).await else { return Ok(()) };
    let undone = EntryChange::Archive { reason: Some(format!("it could not replace {id}")) };
    if spaces.change_entry(by, space, &new.id, undone).await.is_err() {
        let why = format!("{}; the new decision {} is in force beside it", problem.message, new.id);
        return Err(Problem { message: why, ..problem });
    }
    Err(problem)
}
