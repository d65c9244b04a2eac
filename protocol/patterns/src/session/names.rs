//! Names that sessions use in artifacts, messages and questions.

/// The key of an artifact's metadata that is about a session.
pub const SESSION: &str = "urn:agent-mesh:ext:session:v1";

/// All seats of a stage, as addressee.
pub const TEAM: &str = "team";

/// What a turn says that has nothing to say.
pub const PASSES: &str = "passes";

/// Who has said what a person says at a gate.
pub const PERSON: &str = "person";

/// Who tells the seats what neither a seat nor a person says.
pub const HOST: &str = "session";

/// The member of what is told about an artifact of a turn that is not its words: its name there.
pub const RESULT: &str = "result";
