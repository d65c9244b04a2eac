//! The screen of `mesh top`: drawn from an overview and from what the person has chosen, by nothing else.

use super::overview::{AgentLoad, MeshOverview, OpenTaskLine, age};
use crate::cli::output;
use ratatui::{
    Frame,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::Line,
    widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap},
};

/// The keys, at the foot of the screen.
const KEYS: &str = "q quits · tab changes the list · ↑ ↓ or j k choose · enter shows details";

/// The widths of the columns of agents.
const AGENT_WIDTHS: [Constraint; 8] = [
    Constraint::Fill(2),
    Constraint::Length(8),
    Constraint::Length(8),
    Constraint::Length(6),
    Constraint::Length(9),
    Constraint::Length(10),
    Constraint::Length(9),
    Constraint::Fill(3),
];

/// The widths of the columns of tasks.
const TASK_WIDTHS: [Constraint; 8] = [
    Constraint::Fill(3),
    Constraint::Length(15),
    Constraint::Length(16),
    Constraint::Length(10),
    Constraint::Length(5),
    Constraint::Length(8),
    Constraint::Length(8),
    Constraint::Fill(5),
];

/// The most problems that are shown.
const MOST_PROBLEMS: usize = 4;

/// The lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TopPane {
    Agents,
    Tasks,
}

/// What the person has chosen.
#[derive(Debug)]
pub(super) struct TopScreen {
    pane: TopPane,
    agents: TableState,
    tasks: TableState,
    /// Whether the chosen line is shown in detail.
    has_details: bool,
    has_colours: bool,
}

impl TopScreen {
    pub(super) fn new(has_colours: bool) -> Self {
        let first = || TableState::new().with_selected(0);
        Self { pane: TopPane::Agents, agents: first(), tasks: first(), has_details: false, has_colours }
    }

    /// Takes a key; whether the screen stays.
    pub(super) fn press(&mut self, key: KeyEvent, overview: &MeshOverview) -> bool {
        let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if is_interrupt => return false,
            KeyCode::Char('q') => return false,
            KeyCode::Esc if !self.has_details => return false,
            KeyCode::Esc => self.has_details = false,
            KeyCode::Enter => self.has_details = !self.has_details,
            KeyCode::Tab | KeyCode::BackTab => {
                self.pane = match self.pane {
                    TopPane::Agents => TopPane::Tasks,
                    TopPane::Tasks => TopPane::Agents,
                }
            }
            KeyCode::Down | KeyCode::Char('j') => self.choose(overview, |at| at.saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.choose(overview, |at| at.saturating_sub(1)),
            KeyCode::Home => self.choose(overview, |_| 0),
            KeyCode::End => self.choose(overview, |_| usize::MAX),
            _ => {}
        }
        true
    }

    /// Chooses another line of the list; the last one at most.
    fn choose(&mut self, overview: &MeshOverview, to: impl FnOnce(usize) -> usize) {
        let (list, count) = match self.pane {
            TopPane::Agents => (&mut self.agents, overview.agents.len()),
            TopPane::Tasks => (&mut self.tasks, overview.tasks.len()),
        };
        let at = list.selected().unwrap_or_default();
        list.select(Some(to(at).min(count.saturating_sub(1))));
    }

    /// Draws the overview.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, overview: &MeshOverview) {
        let problems = overview.problems.len().min(MOST_PROBLEMS);
        let agents = u16::try_from(overview.agents.len()).unwrap_or(u16::MAX).saturating_add(3);
        let agents = agents.min(frame.area().height / 2);
        let parts = Layout::vertical([
            Constraint::Length(1),
            Constraint::Max(agents),
            Constraint::Min(4),
            Constraint::Length(u16::try_from(problems).unwrap_or_default()),
            Constraint::Length(1),
        ]);
        let [head, agents, tasks, broken, foot] = parts.areas(frame.area());
        frame.render_widget(Line::styled(overview.summary(), self.style(Color::Reset, Modifier::BOLD)), head);
        self.draw_agents(frame, agents, overview);
        self.draw_tasks(frame, tasks, overview);
        let lines = overview
            .problems
            .iter()
            .take(MOST_PROBLEMS)
            .map(|why| Line::styled(output::plain(why), self.style(Color::Red, Modifier::empty())));
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), broken);
        frame.render_widget(Line::styled(KEYS, self.style(Color::DarkGray, Modifier::empty())), foot);
        if self.has_details {
            self.draw_details(frame, overview);
        }
    }

    /// A style; without a colour if the terminal shall have none.
    fn style(&self, colour: Color, modifier: Modifier) -> Style {
        let style = Style::new().add_modifier(modifier);
        if self.has_colours { style.fg(colour) } else { style }
    }

    fn draw_agents(&mut self, frame: &mut Frame<'_>, area: Rect, overview: &MeshOverview) {
        let rows = overview.agents.iter().map(|agent| {
            let colour = if agent.is_well() { Color::Reset } else { Color::Yellow };
            Row::new(agent.row()).style(self.style(colour, Modifier::empty()))
        });
        let table = self.table(TopPane::Agents, &AgentLoad::HEAD, rows.collect(), AGENT_WIDTHS);
        frame.render_stateful_widget(table, area, &mut self.agents);
    }

    fn draw_tasks(&mut self, frame: &mut Frame<'_>, area: Rect, overview: &MeshOverview) {
        let rows = overview.tasks.iter().map(|task| {
            let colour = match task.waits_for.as_deref() {
                Some(crate::tasks::search::PERSON) => Color::Yellow,
                Some(_) => Color::Cyan,
                None => Color::Reset,
            };
            Row::new(task.row(overview.at)).style(self.style(colour, Modifier::empty()))
        });
        let table = self.table(TopPane::Tasks, &OpenTaskLine::HEAD, rows.collect(), TASK_WIDTHS);
        frame.render_stateful_widget(table, area, &mut self.tasks);
    }

    fn table<'a, const N: usize>(
        &self,
        pane: TopPane,
        head: &[&'static str],
        rows: Vec<Row<'a>>,
        widths: [Constraint; N],
    ) -> Table<'a> {
        let title = match pane {
            TopPane::Agents => format!(" agents ({}) ", rows.len()),
            TopPane::Tasks => format!(" open tasks ({}) ", rows.len()),
        };
        let is_chosen = pane == self.pane;
        let border = if is_chosen { Modifier::BOLD } else { Modifier::DIM };
        let block = Block::bordered().title(title).border_style(Style::new().add_modifier(border));
        let head = head.iter().map(|name| name.to_uppercase());
        let chosen = if is_chosen { Modifier::REVERSED } else { Modifier::empty() };
        Table::new(rows, widths)
            .header(Row::new(head).style(self.style(Color::DarkGray, Modifier::empty())))
            .block(block)
            .row_highlight_style(Style::new().add_modifier(chosen))
    }

    /// The chosen line in detail, over the middle of the screen.
    fn draw_details(&self, frame: &mut Frame<'_>, overview: &MeshOverview) {
        let chosen = |list: &TableState| list.selected().unwrap_or_default();
        let details = match self.pane {
            TopPane::Agents => overview.agents.get(chosen(&self.agents)).map(of_agent),
            TopPane::Tasks => overview.tasks.get(chosen(&self.tasks)).map(|task| of_task(task, overview)),
        };
        let Some((title, lines)) = details else { return };
        let wide = frame.area().centered(Constraint::Percentage(80), Constraint::Fill(1));
        let lines: Vec<_> = lines
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| Line::from(format!("{name:<12}{}", output::plain(&value))))
            .collect();
        // Words at the end of a line leave some of it empty.
        let inner = usize::from(wide.width.saturating_sub(4)).max(1);
        let height = lines.iter().map(|line| line.width() / inner + 1).sum::<usize>() + 3;
        let height = u16::try_from(height).unwrap_or(u16::MAX);
        let area = wide.centered_vertically(Constraint::Max(height));
        let block = Block::bordered().title(format!(" {} ", output::plain(&title)));
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
    }
}

/// What is known of a line: a title, and values with their names.
type LineDetails = (String, Vec<(&'static str, String)>);

fn of_agent(agent: &AgentLoad) -> LineDetails {
    let [_, state, running, queue, auctions, tokens, cost, health] =
        agent.row().try_into().unwrap_or_else(|_| Default::default());
    let lines = vec![
        ("state", state),
        ("health", health),
        ("running", running),
        ("queue", queue),
        ("auctions", auctions),
        ("tokens", tokens),
        ("cost", cost),
        ("skills", agent.skills.join(", ")),
        ("endpoint", agent.endpoint.clone()),
    ];
    (agent.agent.clone(), lines)
}

fn of_task(task: &OpenTaskLine, overview: &MeshOverview) -> LineDetails {
    let optional = |value: &Option<String>| value.clone().unwrap_or_default();
    let lines = vec![
        ("state", task.state.clone()),
        ("since", format!("{}, for {}", task.since, age(task.since, overview.at))),
        ("waits for", optional(&task.waits_for)),
        ("why", task.why.clone()),
        ("agent", task.agent.clone()),
        ("doer", optional(&task.doer)),
        ("requester", task.requester.clone()),
        ("capability", optional(&task.capability)),
        ("tokens", task.tokens.to_string()),
        ("cost", task.cost.to_string()),
        ("description", task.description.clone()),
        ("more", format!("mesh tasks show {0}, mesh award explain {0}", task.task)),
    ];
    (task.task.clone(), lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::time::WallTime;
    use ratatui::{Terminal, backend::TestBackend};

    fn overview() -> MeshOverview {
        let agent = |name: &str, trouble: &str| AgentLoad {
            agent: name.to_owned(),
            state: "alive",
            running: 1,
            places: 4,
            queue: Some(2),
            auctions: None,
            tokens: 1_200,
            cost: 0.25,
            trouble: trouble.to_owned(),
            endpoint: "http://127.0.0.1:8001".to_owned(),
            skills: vec!["echo".to_owned()],
        };
        let task = |id: &str, waits_for: Option<&str>| OpenTaskLine {
            task: id.to_owned(),
            agent: "echo-01".to_owned(),
            doer: None,
            state: "working".to_owned(),
            waits_for: waits_for.map(str::to_owned),
            why: "thinks\u{202e}".to_owned(),
            since: WallTime(0),
            capability: None,
            requester: "user:local".to_owned(),
            description: format!("do {id}"),
            tokens: 7,
            cost: 0.5,
        };
        MeshOverview {
            at: WallTime(65_000),
            agents: vec![agent("echo-01", ""), agent("plan-01", "it waits for a key")],
            tasks: vec![task("t-1", Some("person")), task("t-2", None)],
            problems: vec!["http://127.0.0.1:8000: board: away".to_owned()],
        }
    }

    /// The lines of the screen.
    fn drawn(screen: &mut TopScreen, overview: &MeshOverview, size: (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| screen.draw(frame, overview)).unwrap();
        let buffer = terminal.backend().buffer();
        let line =
            |y: u16| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..size.1).map(line).collect()
    }

    fn press(screen: &mut TopScreen, overview: &MeshOverview, codes: &[KeyCode]) -> bool {
        codes.iter().all(|code| screen.press(KeyEvent::from(*code), overview))
    }

    #[test]
    fn the_screen_shows_agents_tasks_and_problems() {
        let (mut screen, overview) = (TopScreen::new(true), overview());
        let lines = drawn(&mut screen, &overview, (140, 20));
        let text = lines.join("\n");
        assert!(
            lines[0].starts_with("1 of 2 agents well, 1 of 4 places taken, 2 open tasks, 1 waiting"),
            "{text}"
        );
        let line = |part: &str| {
            lines.iter().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"))
        };
        for part in ["alive", "1/4", "1200", "0.25", "ok"] {
            assert!(line("echo-01 ").contains(part), "{part}: {text}");
        }
        assert!(line("plan-01").contains("it waits for a key"), "{text}");
        assert!(line("t-1 ").contains("person") && line("t-1 ").contains("1m"), "{text}");
        assert!(line("do t-2").contains("(thinks\\u202e)"), "{text}");
        assert!(lines[18].contains("board: away") && lines[19].starts_with("q quits"), "{text}");
    }

    #[test]
    fn enter_shows_the_chosen_line_and_q_leaves() {
        let (mut screen, overview) = (TopScreen::new(false), overview());
        assert!(press(&mut screen, &overview, &[KeyCode::Char('j'), KeyCode::Down, KeyCode::Enter]));
        let text = drawn(&mut screen, &overview, (120, 30)).join("\n");
        assert!(text.contains("endpoint    http://127.0.0.1:8001") && text.contains(" plan-01 "), "{text}");
        assert!(press(&mut screen, &overview, &[KeyCode::Esc, KeyCode::Tab, KeyCode::Enter]));
        let text = drawn(&mut screen, &overview, (120, 30)).join("\n");
        assert!(text.contains("mesh award explain t-1") && text.contains("requester   user:local"), "{text}");
        assert!(press(&mut screen, &overview, &[KeyCode::Esc]));
        assert!(!press(&mut screen, &overview, &[KeyCode::Esc]));
        assert!(!press(&mut screen, &overview, &[KeyCode::Char('q')]));
    }

    #[test]
    fn a_small_screen_and_an_empty_mesh_are_drawn() {
        let mut screen = TopScreen::new(true);
        let empty =
            MeshOverview { agents: Vec::new(), tasks: Vec::new(), problems: Vec::new(), ..overview() };
        for size in [(1, 1), (10, 3), (80, 24)] {
            drawn(&mut screen, &empty, size);
            drawn(&mut screen, &overview(), size);
        }
        assert!(press(&mut screen, &empty, &[KeyCode::Down, KeyCode::Enter, KeyCode::End, KeyCode::Up]));
        drawn(&mut screen, &empty, (80, 24));
    }
}
