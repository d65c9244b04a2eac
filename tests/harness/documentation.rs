//! Runs what the documentation shows: fenced `sh` blocks are commands, in their order; blocks that begin with `# NAME` are files;
//! a `text` block behind commands is what they print.

use super::{DEADLINE, Process, file};
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// The demo team's ports in the documentation.
const PORTS: [(&str, &str); 5] = [
    ("localhost:8001", "planner-01"),
    ("localhost:8002", "builder-01"),
    ("localhost:8003", "builder-02"),
    ("localhost:8004", "reviewer-01"),
    ("localhost:8005", "orchestrator-01"),
];

/// Runs a command line of the documentation in `dir`, with `mesh` on the path.
pub fn shell(dir: &Path, line: &str, envs: &[(&str, &str)]) -> Output {
    command(dir, line, envs).output().unwrap()
}

fn command(dir: &Path, line: &str, envs: &[(&str, &str)]) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_mesh")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(dir).env("PATH", path).envs(envs.iter().copied());
    // That of this test run is not for the cargo of a command.
    command.env_remove("CARGO_TARGET_DIR");
    command
}

/// The output of a command line that must succeed.
pub fn success(dir: &Path, line: &str, envs: &[(&str, &str)]) -> String {
    successful(line, shell(dir, line, envs))
}

fn successful(line: &str, output: Output) -> String {
    let status = output.status;
    let printed = printed(output);
    assert!(status.success(), "{line}: {status}\n{printed}");
    printed
}

fn printed(output: Output) -> String {
    let [out, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    out + &errors
}

/// Starts `mesh up` with these files.
pub async fn up(dir: &Path, files: &[&Path]) -> Process {
    let files: Vec<_> = files.iter().map(|file| dir.join(file).to_string_lossy().into_owned()).collect();
    let args = ["up", "--port", "0", "--profile", "fast"];
    let args: Vec<_> = args.into_iter().chain(files.iter().map(String::as_str)).collect();
    Process::start(&dir.join("data"), &args).await
}

/// The part of a page under this heading of the second level.
pub fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    page.split("\n## ").find_map(|section| section.strip_prefix(heading)).unwrap()
}

/// The fenced blocks of a text in their order, each with its language.
fn fenced(text: &str) -> Vec<(&str, &str)> {
    text.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect()
}

/// The fenced blocks of a text, in this language.
pub fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

/// The files that a page shows, by their names: the blocks whose first line is `# NAME`.
pub fn files(page: &str) -> Vec<(&str, &str)> {
    let named = fenced(page).into_iter().filter_map(|(_, block)| {
        let name = block.lines().next()?.strip_prefix("# ")?;
        let is_name =
            name.contains('.') && name.chars().all(|it| it.is_ascii_alphanumeric() || "._-".contains(it));
        is_name.then_some((name, block))
    });
    named.collect()
}

/// The commands of a block; one goes on while a quote is open.
fn commands(block: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    for line in block.lines() {
        let last = commands.last_mut().unwrap();
        if last.matches('\'').count() % 2 == 1 {
            *last += &format!("\n{line}");
        } else {
            commands.push(line.to_owned());
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// What runs while the commands of a page do.
struct PageRun<'a> {
    dir: &'a Path,
    mesh: Option<Process>,
    nodes: Vec<Process>,
    background: Vec<Background>,
}

/// A command that a page runs with `&`.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl PageRun<'_> {
    /// Runs a command. `mesh up`, `mesh node` and a command with `&` go on; the latter has begun when it
    /// has printed a line, or writes to a file.
    async fn command(&mut self, line: &str) -> Option<Output> {
        if let Some(team) = line.strip_prefix("mesh up ") {
            self.mesh = Some(up(self.dir, &[Path::new(team)]).await);
            return None;
        }
        if let Some(file) = line.strip_prefix("mesh node ").and_then(|rest| rest.strip_suffix(" &")) {
            let mesh = self.mesh.as_ref().expect("a mesh that runs");
            let (join, file) = (mesh.data.join("join"), self.dir.join(file));
            let (join, file) = (join.to_string_lossy(), file.to_string_lossy());
            let args =
                ["node", "--registry", &mesh.url, "--join", &join, "--port", "0", "--profile", "fast", &file];
            self.nodes.push(Process::start(&self.dir.join("node-data"), &args).await);
            return None;
        }
        let (person, envs) = (self.mesh.as_ref().map(Process::person), [("ANTHROPIC_API_KEY", "k")]);
        let person =
            person.iter().flatten().filter(|(_, value)| !value.starts_with('/') || Path::new(value).exists());
        let envs: Vec<_> = person.map(|(name, value)| (*name, value.as_str())).chain(envs).collect();
        if let Some(line) = line.strip_suffix(" &") {
            let mut child =
                command(self.dir, &format!("exec {line}"), &envs).stdout(Stdio::piped()).spawn().unwrap();
            let out = child.stdout.take().unwrap();
            self.background.push(Background(child));
            if !line.contains(" > ") {
                BufReader::new(out).read_line(&mut String::new()).unwrap();
            }
            return None;
        }
        let agents = self.mesh.as_ref().map(|mesh| &mesh.agents);
        let real = PORTS.iter().filter_map(|(port, agent)| Some((port, agents?.get(*agent)?)));
        let line = real
            .fold(line.to_owned(), |line, (port, url)| line.replace(port, url.trim_start_matches("http://")));
        Some(shell(self.dir, &line, &envs))
    }
}

/// Runs the `sh` blocks of a text in `dir` and returns what they print. `mesh up` runs in the background; `running` is one
/// that runs before the first command. `edit` changes what `mesh init` wrote.
pub async fn run_commands(
    text: &str,
    dir: &Path,
    running: Option<Process>,
    edit: impl Fn(&Path),
) -> Vec<String> {
    let mut run = PageRun { dir, mesh: running, nodes: Vec::new(), background: Vec::new() };
    let mut outputs = Vec::new();
    for line in blocks(text, "sh").into_iter().flat_map(commands) {
        if line == "mesh inbox" {
            // The task reaches its question after `--no-wait` has returned.
            let started = Instant::now();
            while !run.command(&line).await.is_some_and(|output| successful(&line, output).contains("t-")) {
                assert!(started.elapsed() < DEADLINE, "no question is asked");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        } else {
            outputs.extend(run.command(&line).await.map(|output| successful(&line, output)));
        }
        if line.starts_with("mesh init") {
            edit(dir);
        }
    }
    outputs
}

/// Runs a page as its reader does: writes its files, runs its `sh` blocks, and looks for each line of a `text` block in what the
/// `sh` block before it prints. What a command only reads may take a moment to be there. Returns what each `sh` block prints.
pub async fn run_page(page: &str, dir: &Path) -> Vec<String> {
    for (name, text) in files(page) {
        file(dir, name, text);
    }
    let mut run = PageRun { dir, mesh: None, nodes: Vec::new(), background: Vec::new() };
    let blocks: Vec<_> =
        fenced(page).into_iter().filter(|(language, _)| ["sh", "text"].contains(language)).collect();
    let (mut outputs, mut compared) = (Vec::new(), 0);
    for (at, (_, block)) in blocks.iter().enumerate().filter(|(_, (language, _))| *language == "sh") {
        let shown = blocks.get(at + 1).filter(|(language, _)| *language == "text").map(|(_, text)| *text);
        compared += usize::from(shown.is_some());
        let (mut outputs_now, commands) = (Vec::new(), commands(block));
        let is_awaited = |line: &str| shown.is_some() && only_reads(line);
        for line in &commands {
            let output = run.command(line).await;
            let text = output
                .map(|output| if is_awaited(line) { printed(output) } else { successful(line, output) });
            outputs_now.push(text.unwrap_or_default());
        }
        let started = Instant::now();
        while let Some(line) = missing(shown.unwrap_or_default(), &outputs_now.join("\n")) {
            let all = outputs_now.join("\n");
            assert!(started.elapsed() < DEADLINE, "{block}\ndoes not print {line:?}, but\n{all}");
            tokio::time::sleep(Duration::from_millis(50)).await;
            for (line, output) in commands.iter().zip(&mut outputs_now).filter(|(line, _)| is_awaited(line)) {
                *output = run.command(line).await.map(printed).unwrap_or_default();
            }
        }
        outputs.push(outputs_now.join("\n"));
    }
    let shown = blocks.iter().filter(|(language, _)| *language == "text").count();
    assert!(shown > 0 && compared == shown, "each text stands behind commands: {compared} of {shown}");
    outputs
}

fn only_reads(line: &str) -> bool {
    ["cat ", "mesh brief", "mesh inbox", "mesh space entries", "mesh vault", "mesh board tail"]
        .iter()
        .any(|command| line.starts_with(command))
}

/// The first line of a page that is none of the output. Each line of the output counts once.
fn missing<'a>(shown: &'a str, output: &str) -> Option<&'a str> {
    let mut lines: Vec<_> = output.lines().collect();
    let mut shown = shown.lines().filter(|line| !line.trim().is_empty());
    shown.find(|shown| match lines.iter().position(|line| is_like(shown, line)) {
        Some(at) => {
            lines.remove(at);
            false
        }
        None => true,
    })
}

/// Whether a line is as shown: `…` stands for anything, and the width of a space does not count.
fn is_like(shown: &str, line: &str) -> bool {
    let [shown, line] = [shown, line].map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut parts = shown.split('…').map(str::trim);
    let (first, rest) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
    let Some((last, between)) = rest.split_last() else { return line == first };
    let Some(line) = line.strip_prefix(first) else { return false };
    let end = between.iter().try_fold(line, |line, part| Some(line.split_once(part)?.1));
    end.is_some_and(|line| line.ends_with(last))
}

#[test]
fn a_line_is_as_shown_whatever_stands_for_the_ellipsis() {
    for (shown, line) in
        [("a b", " a   b"), ("… done", "0.3s done"), ("id … by …, x", "id 7 by me, x"), ("{…}", "{}")]
    {
        assert!(is_like(shown, line), "{shown}: {line}");
    }
    for (shown, line) in [("a", "a b"), ("… done", "done it"), ("id … by", "by id"), ("a … a", "a")] {
        assert!(!is_like(shown, line), "{shown}: {line}");
    }
    assert_eq!(missing("a\na\n", "a\nb"), Some("a"));
}
