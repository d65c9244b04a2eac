//! A folder of skills (agentskills.io): each subfolder has a `SKILL.md` with a name, a description and instructions. The prompt
//! lists names and descriptions; the model reads the rest with the tool `read_skill`.

use super::{loop_tool::CallOutcome, prompts, transcript::ToolResult};
use crate::{json_schema, text_file};
use rmcp::model::{Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

/// The file with a skill's name, description and instructions.
const SKILL_FILE: &str = "SKILL.md";
/// The most skills of a folder: each is a line of the prompt.
const MAX_SKILLS: usize = 64;
/// The longest name, in characters.
const MAX_NAME: usize = 64;
/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 1024;
/// The largest file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The skills of a folder.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillFolder {
    pub dir: PathBuf,
    /// The descriptions, by the names of the skills.
    descriptions: BTreeMap<String, String>,
}

/// What this program reads of the front matter of a `SKILL.md`.
#[derive(Deserialize)]
struct SkillFrontMatter {
    name: String,
    description: String,
}

/// The arguments of `read_skill`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WantedSkill {
    /// The name of the skill.
    skill: String,
    /// Another file of it, relative to its folder, such as references/format.md; its instructions if not given.
    file: Option<String>,
}

impl SkillFolder {
    /// Reads the names and descriptions of all skills. Fails at the first that is not as the format wants it.
    pub fn read(dir: &Path) -> Result<Self, String> {
        let unreadable = |error| format!("{} can't be read: {error}", dir.display());
        let mut descriptions = BTreeMap::new();
        for entry in dir.read_dir().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if !path.is_dir() || name.starts_with('.') {
                continue;
            }
            let file = path.join(SKILL_FILE);
            let description = described(&file, &name).map_err(|what| format!("{} {what}", file.display()))?;
            descriptions.insert(name, description);
        }
        if descriptions.is_empty() {
            return Err(format!("{} has no folder with a {SKILL_FILE}", dir.display()));
        }
        if descriptions.len() > MAX_SKILLS {
            return Err(format!(
                "{} has {} skills; at most {MAX_SKILLS} are allowed",
                dir.display(),
                descriptions.len()
            ));
        }
        let folder = Self { dir: dir.to_owned(), descriptions };
        for name in folder.descriptions.keys() {
            folder.path(name, SKILL_FILE)?;
        }
        Ok(folder)
    }

    /// What the prompt says of the skills.
    pub fn listing(&self) -> String {
        let lines = self.descriptions.iter().map(|(name, description)| format!("- {name}: {description}"));
        prompts::skills(&lines.collect::<Vec<_>>().join("\n"))
    }

    /// The tool that reads them.
    pub(super) fn tool(&self) -> Tool {
        let mut schema = json_schema::of_arguments::<WantedSkill>();
        schema["properties"]["skill"]["enum"] = self.descriptions.keys().cloned().collect();
        let schema = schema.as_object().cloned().unwrap_or_default();
        let description = "Reads the instructions of a skill, or another file of its folder.";
        let mut tool = Tool::new("read_skill", description, Arc::new(schema));
        tool.annotations = Some(ToolAnnotations::new().read_only(true));
        tool
    }

    /// Calls the tool.
    pub(super) async fn call(&self, arguments: Map<String, Value>) -> CallOutcome {
        let this = self.clone();
        let read = tokio::task::spawn_blocking(move || this.text(arguments)).await;
        let read = read.unwrap_or_else(|error| Err(error.to_string()));
        let result = read.map_or_else(ToolResult::error, ToolResult::text);
        CallOutcome::Answered(result, Vec::new())
    }

    fn text(&self, arguments: Map<String, Value>) -> Result<String, String> {
        let wanted: WantedSkill =
            serde_json::from_value(Value::Object(arguments)).map_err(|error| error.to_string())?;
        let path = self.path(&wanted.skill, wanted.file.as_deref().unwrap_or(SKILL_FILE))?;
        let text = read_text(&path)?;
        Ok(match wanted.file {
            None => split(&text).map_or(text.as_str(), |(_, body)| body).trim().to_owned(),
            Some(_) => text,
        })
    }

    /// The path of a file inside the folder of a skill.
    fn path(&self, skill: &str, file: &str) -> Result<PathBuf, String> {
        if !self.descriptions.contains_key(skill) {
            let known: Vec<_> = self.descriptions.keys().map(String::as_str).collect();
            return Err(format!("there is no skill {skill:?}; there are {}", known.join(", ")));
        }
        let is_inside =
            Path::new(file).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_inside {
            return Err(format!("{file:?} leads out of the folder of the skill"));
        }
        let missing = |_| format!("the skill {skill} has no file {file:?}");
        let folder = self.dir.canonicalize().map_err(missing)?.join(skill);
        let path = folder.join(file).canonicalize().map_err(missing)?;
        // Also by a link.
        match path.starts_with(&folder) {
            true => Ok(path),
            false => Err(format!("{file:?} of the skill {skill} leads out of its folder")),
        }
    }
}

/// The text of a file. Fails for one that is none, is too large, or is no text.
fn read_text(path: &Path) -> Result<String, String> {
    if !path.is_file() {
        return Err("is no file".to_owned());
    }
    text_file::read_up_to(path, MAX_FILE).map_err(|error| format!("can't be read: {error}"))
}

/// The front matter of a `SKILL.md` and what follows it.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---")?.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n')?;
    let mut from = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..from], &rest[from + line.len()..]));
        }
        from += line.len();
    }
    None
}

/// The description of the skill in `file`, on one line. `folder` is the name that it must have.
fn described(file: &Path, folder: &str) -> Result<String, String> {
    if !file.exists() {
        return Err("is missing: each folder of skills has one".to_owned());
    }
    let text = read_text(file)?;
    let (front, _) = split(&text).ok_or("must begin with front matter: YAML between two lines `---`")?;
    let options = serde_saphyr::options! { with_snippet: false };
    let front: SkillFrontMatter = serde_saphyr::from_str_with_options(front, options)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
        .map_err(|error| format!("has front matter that can't be read: {error}"))?;
    let SkillFrontMatter { name, description } = front;
    let is_name = name.len() <= MAX_NAME
        && name.split('-').all(|word| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        });
    if !is_name {
        return Err(format!(
            "has the name {name:?}; a name has 1 to {MAX_NAME} lower-case letters and digits, with single `-` between them"
        ));
    }
    if name != folder {
        return Err(format!("has the name {name:?}, and must have that of its folder, {folder:?}"));
    }
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    match description.chars().count() {
        0 => Err("has an empty description".to_owned()),
        1..=MAX_DESCRIPTION => Ok(description),
        count => Err(format!("has a description of {count} characters; {MAX_DESCRIPTION} are allowed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::{fs, os::unix::fs::symlink};

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    const PDF: &str = "---\nname: pdf\ndescription: >\n  Fills forms.\n  Use it for PDFs.\nlicense: MIT\nmetadata: { version: '1' }\n---\n# PDF\nRun it.\n---\nEnd.\n";

    async fn read(skills: &SkillFolder, arguments: Value) -> ToolResult {
        let CallOutcome::Answered(result, _) = skills.call(arguments.as_object().unwrap().clone()).await
        else {
            panic!("an answer")
        };
        result
    }

    #[tokio::test]
    async fn names_are_listed_and_bodies_and_files_are_read_when_wanted() {
        let dir = folder(&[
            ("pdf/SKILL.md", PDF),
            ("pdf/references/a.md", "more"),
            ("README.md", "x"),
            (".git/x", "y"),
        ]);
        let skills = SkillFolder::read(dir.path()).unwrap();
        assert!(skills.listing().contains("- pdf: Fills forms. Use it for PDFs."), "{}", skills.listing());
        assert!(!skills.listing().contains("Run it"));
        let schema = skills.tool().input_schema;
        assert_eq!(schema["properties"]["skill"]["enum"], json!(["pdf"]));
        let body = read(&skills, json!({ "skill": "pdf" })).await;
        assert_eq!(body, ToolResult::text("# PDF\nRun it.\n---\nEnd."));
        let file = read(&skills, json!({ "skill": "pdf", "file": "references/a.md" })).await;
        assert_eq!(file, ToolResult::text("more"));
    }

    #[tokio::test]
    async fn nothing_outside_of_a_skill_is_read() {
        let dir =
            folder(&[("pdf/SKILL.md", PDF), ("secret.txt", "secret"), ("pdf/big", &"x".repeat(1 << 21))]);
        symlink(dir.path().join("secret.txt"), dir.path().join("pdf/link")).unwrap();
        symlink(dir.path(), dir.path().join("pdf/up")).unwrap();
        let skills = SkillFolder::read(dir.path()).unwrap();
        let absolute = dir.path().join("secret.txt").display().to_string();
        for (file, why) in [
            ("../secret.txt", "leads out"),
            ("x/../../secret.txt", "leads out"),
            (absolute.as_str(), "leads out"),
            ("link", "leads out"),
            ("up/secret.txt", "leads out"),
            ("none.md", "has no file"),
            (".", "is no file"),
            ("big", "more than 1 MiB"),
        ] {
            let result = read(&skills, json!({ "skill": "pdf", "file": file })).await;
            assert!(result.is_error && format!("{result:?}").contains(why), "{file}: {result:?}");
        }
        for arguments in
            [json!({ "skill": "..", "file": "secret.txt" }), json!({ "skill": "other" }), json!({})]
        {
            assert!(read(&skills, arguments).await.is_error);
        }
    }

    #[test]
    fn a_malformed_skill_is_named() {
        let long = format!("---\nname: a\ndescription: {}\n---\n", "d".repeat(1_025));
        for (text, why) in [
            ("# no front matter\n", "a/SKILL.md must begin with front matter"),
            ("---\nname: a\n", "a/SKILL.md must begin with front matter"),
            ("---\nname: a\n---\n", "a/SKILL.md has front matter that can't be read: "),
            ("---\nname: [\n---\n", "a/SKILL.md has front matter that can't be read: "),
            ("---\nname: B-x\ndescription: d\n---\n", "has the name \"B-x\"; a name has 1 to 64"),
            ("---\nname: a--b\ndescription: d\n---\n", "has the name \"a--b\"; a name has"),
            (
                "---\nname: b\ndescription: d\n---\n",
                "has the name \"b\", and must have that of its folder, \"a\"",
            ),
            ("---\nname: a\ndescription: ' '\n---\n", "has an empty description"),
            (long.as_str(), "has a description of 1025 characters; 1024 are allowed"),
        ] {
            let dir = folder(&[("a/SKILL.md", text)]);
            let fault = SkillFolder::read(dir.path()).unwrap_err();
            assert!(fault.contains(why) && fault.lines().count() == 1, "{fault}");
        }
        let fault = SkillFolder::read(folder(&[("a/x.md", "")]).path()).unwrap_err();
        assert!(fault.contains("a/SKILL.md is missing"), "{fault}");
        assert!(
            SkillFolder::read(folder(&[("x.md", "")]).path()).unwrap_err().contains("has no folder with a")
        );
        assert!(
            SkillFolder::read(Path::new("/no/such")).unwrap_err().contains("can't be read: No such file")
        );
        let many: Vec<_> = (0..65)
            .map(|at| (format!("s{at}/SKILL.md"), format!("---\nname: s{at}\ndescription: d\n---\n")))
            .collect();
        let many: Vec<_> = many.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert!(SkillFolder::read(folder(&many).path()).unwrap_err().contains("has 65 skills; at most 64"));
        let outside = folder(&[("pdf/SKILL.md", PDF)]);
        let dir = tempfile::tempdir().unwrap();
        symlink(outside.path().join("pdf"), dir.path().join("pdf")).unwrap();
        assert!(SkillFolder::read(dir.path()).unwrap_err().contains("leads out of its folder"));
    }
}
