//! The board as the viewer of a page sees it: that of this process, or that of another.
//!
//! The registry asks the board of another process in its own name for the user that it has authenticated; the board believes that
//! of the registry alone, and decides with the rights of the user. An agent's own console has no such right, nor has a page
//! that nobody has signed in.

use super::scope::ConsoleScope;
use crate::http::node_state::NodeState;
use blackboard::client::Blackboard;
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
    spaces::{Reader, Space, SpaceVerb, may},
};

/// The board, and who looks at it.
pub(super) struct ViewerBoard {
    board: Blackboard,
    reader: Reader,
    is_here: bool,
}

/// Where the board is that this process does not have: a base URL, or what is known of it.
pub(super) fn place(node: &NodeState) -> String {
    node.services.addresses().board.unwrap_or_else(|| "the registry knows where".to_owned())
}

impl ViewerBoard {
    /// The board; `None` if a page of this viewer can't read it here.
    pub(super) fn find(scope: &ConsoleScope, node: &NodeState) -> Option<Self> {
        let reader = Reader { principal: scope.by.clone(), proof: scope.proof };
        if let Some(board) = &node.local_services.board {
            return Some(Self { board: Blackboard::local(board.clone()), reader, is_here: true });
        }
        let board = node.registry_calls.as_ref()?.board.clone()?;
        (scope.is_signed_in() && !scope.is_of_agent).then_some(Self { board, reader, is_here: false })
    }

    /// The same. Fails with where it is.
    pub(super) fn of(scope: &ConsoleScope, node: &NodeState) -> Result<Self, Problem> {
        Self::find(scope, node).ok_or_else(|| {
            let why =
                format!("the board of this mesh is in another process ({}): open its console", place(node));
            Problem::new(Reason::InvalidField, why)
        })
    }

    /// Whether it is in this process.
    pub(super) fn is_here(&self) -> bool {
        self.is_here
    }

    /// Who looks.
    pub(super) fn by(&self) -> &Principal {
        &self.reader.principal
    }

    /// The same, as spaces know it.
    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Its signals and claims.
    pub(super) fn signals(&self) -> &Blackboard {
        &self.board
    }

    /// Its spaces. Fails for who is not proven to be the one.
    pub(super) fn spaces(&self) -> Result<&Blackboard, Problem> {
        may(&self.reader, SpaceVerb::ReadSpace, None, &Space::initial_default())?;
        Ok(&self.board)
    }
}
