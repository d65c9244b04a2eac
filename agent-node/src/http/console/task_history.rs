//! What the journal of a task says, read once: its events, what was said with the model, and what it waited for.

use crate::{
    journal::for_each_record,
    model_talk::{ModelTalk, notes_in},
    tasks::{ShownEvent, TaskEvent, events_in, shown_in},
    telemetry::capture::Capture,
};
use console::{
    location::ConsoleLocation,
    timeline::{QUEUED, TimelineSpan},
    views::task::events::{PAGE, TaskEventLine, TaskEvents},
};
use engine::{
    content,
    records::{Step, keys},
};
use patterns::{Effect, EventKind, turn::TurnEnd};
use protocol::{
    a2a::event::StreamResponse,
    artifact::{Part, PartContent},
    ids::AgentId,
    task::{Task, TaskState},
    time::WallTime,
};
use serde_json::Map;
use std::collections::{BTreeSet, VecDeque};
use store::{Error, Filter, Store};

/// What a page shows of a history.
pub(super) struct WantedHistory {
    /// Which events.
    pub(super) at: ConsoleLocation,
    /// Whether what is done on the way is among them.
    pub(super) shows_activity: bool,
    /// How what was said with the model is masked; `None` if it is not shown.
    pub(super) talk: Option<Capture>,
}

/// What the journal of a task says.
#[derive(Default)]
pub(super) struct TaskHistory {
    pub(super) events: TaskEvents,
    pub(super) talk: ModelTalk,
    /// Spans without a parent.
    pub(super) waits: Vec<TimelineSpan>,
}

/// Reads the journal of `task`.
pub(super) fn read(
    store: &dyn Store,
    me: &AgentId,
    task: &Task,
    wanted: &WantedHistory,
) -> Result<TaskHistory, Error> {
    let (mut events, mut waits, mut notes) =
        (EventPage::of(&wanted.at), WaitSpans::new(me, wanted.talk.is_some()), Vec::new());
    for_each_record(store, &Filter::Exactly(keys::journal(me, &task.conversation)), |record| {
        let step: Step = content::decode(me, store, &record.value)?;
        if wanted.talk.is_some() {
            notes.extend(notes_in(&step));
        }
        waits.read(&step);
        let at = step.events.last().map_or(task.created_at, |event| event.wall);
        let shown = match wanted.shows_activity {
            true => shown_in(task, record.revision, step),
            false => {
                let all = events_in(task, record.revision, step).into_iter();
                all.map(|event| event.map(ShownEvent::Response)).collect()
            }
        };
        shown.into_iter().for_each(|event: TaskEvent<ShownEvent>| {
            waits.note(&event.data);
            events.push(event.data, at);
        });
        Ok(())
    })?;
    let talk = wanted.talk.as_ref().map(|capture| ModelTalk::of(me, &notes, capture));
    Ok(TaskHistory { events: events.finish(), talk: talk.unwrap_or_default(), waits: waits.spans })
}

/// The newest events that the address asks for.
struct EventPage<'a> {
    at: &'a ConsoleLocation,
    before: usize,
    lines: VecDeque<TaskEventLine>,
    last: Option<TaskEventLine>,
    kinds: BTreeSet<String>,
    page: TaskEvents,
}

impl<'a> EventPage<'a> {
    fn of(at: &'a ConsoleLocation) -> Self {
        let before = at.before.parse().unwrap_or(usize::MAX);
        let (lines, kinds, page) = (VecDeque::new(), BTreeSet::new(), TaskEvents::default());
        Self { at, before, lines, last: None, kinds, page }
    }

    fn push(&mut self, event: ShownEvent, at: WallTime) {
        let Some(line) = event_line(event, at) else { return };
        // The pieces of an artifact that is written are one event.
        let is_known = |last: &TaskEventLine| (&last.what, &last.text) == (&line.what, &line.text);
        if self.last.as_ref().is_some_and(is_known) {
            return;
        }
        let line = TaskEventLine { number: self.page.all, ..line };
        self.page.all += 1;
        if !self.kinds.contains(&line.what) {
            self.kinds.insert(line.what.clone());
        }
        if line.number < self.before && line.is_admitted(self.at) {
            self.lines.push_back(line.clone());
            if self.lines.len() > PAGE {
                self.lines.pop_front();
                self.page.has_older = true;
            }
        }
        self.last = Some(line);
    }

    fn finish(self) -> TaskEvents {
        TaskEvents { lines: self.lines.into(), kinds: self.kinds.into_iter().collect(), ..self.page }
    }
}

/// What the task waited for: answers, and models that were away.
struct WaitSpans {
    agent: String,
    /// Whether the viewer may read why a model was away: a provider's words may quote a prompt.
    shows_reasons: bool,
    spans: Vec<TimelineSpan>,
    /// The wait for an answer that is open.
    asked: Option<usize>,
    /// The pause of a turn that is open.
    paused: Option<usize>,
}

impl WaitSpans {
    fn new(me: &AgentId, shows_reasons: bool) -> Self {
        Self { agent: me.to_string(), shows_reasons, spans: Vec::new(), asked: None, paused: None }
    }

    fn begin(&mut self, name: String, start: WallTime) -> usize {
        self.spans.push(TimelineSpan {
            id: format!("wait-{}", self.spans.len()),
            parent: None,
            agent: self.agent.clone(),
            name,
            kind: QUEUED.to_owned(),
            start,
            end: None,
            failed: None,
            attributes: Map::new(),
        });
        self.spans.len() - 1
    }

    fn end(&mut self, span: Option<usize>, at: WallTime) {
        if let Some(span) = span.and_then(|span| self.spans.get_mut(span)) {
            span.end = Some(at);
        }
    }

    fn read(&mut self, step: &Step) {
        let at = step.events.last().map(|event| event.wall);
        let goes_on =
            step.effects.iter().any(|effect| matches!(effect, Effect::RunTurn { .. } | Effect::Finish(_)));
        if let Some(at) = at.filter(|_| goes_on) {
            let paused = self.paused.take();
            self.end(paused, at);
        }
        for event in &step.events {
            if let EventKind::TurnEnded { end: TurnEnd::Pause { reason, .. }, .. } = &event.what {
                let name = match self.shows_reasons {
                    true => format!("waits: {reason}"),
                    false => "waits for its model".to_owned(),
                };
                self.paused = Some(self.begin(name, event.wall));
            }
        }
    }

    fn note(&mut self, event: &ShownEvent) {
        let ShownEvent::Response(StreamResponse::StatusUpdate(update)) = event else { return };
        let Some(at) = update.status.timestamp else { return };
        let is_asked = matches!(update.status.state, TaskState::InputRequired | TaskState::AuthRequired);
        match (is_asked, self.asked) {
            (true, None) => self.asked = Some(self.begin("waits for an answer".to_owned(), at)),
            (false, Some(_)) => {
                let asked = self.asked.take();
                self.end(asked, at);
            }
            _ => {}
        }
    }
}

/// The line of an event of a step that was at `at`.
fn event_line(event: ShownEvent, at: WallTime) -> Option<TaskEventLine> {
    match event {
        ShownEvent::Response(StreamResponse::StatusUpdate(update)) => Some(TaskEventLine {
            number: 0,
            at: update.status.timestamp.unwrap_or(at),
            what: console::state_mark::words(update.status.state).to_owned(),
            text: update.status.message.map(|message| texts(&message.parts)).unwrap_or_default(),
        }),
        ShownEvent::Response(StreamResponse::ArtifactUpdate(update)) => {
            let artifact = update.artifact;
            let text = artifact.name.unwrap_or(artifact.artifact_id);
            Some(TaskEventLine { number: 0, at, what: "artifact".to_owned(), text })
        }
        ShownEvent::Response(StreamResponse::Message(message)) => {
            Some(TaskEventLine { number: 0, at, what: "answer".to_owned(), text: texts(&message.parts) })
        }
        ShownEvent::Response(StreamResponse::Task(_)) => None,
        ShownEvent::Activity(activity) => {
            let activity = serde_json::to_value(activity).ok()?;
            let part = |name: &str| activity[name].as_str().unwrap_or_default().to_owned();
            let parts = ["to", "by", "name", "state", "text"].map(part);
            let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" \u{b7} ");
            Some(TaskEventLine {
                number: 0,
                at: WallTime::parse(&part("timestamp")).unwrap_or(at),
                what: part("kind"),
                text,
            })
        }
    }
}

fn texts(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.content {
        PartContent::Text(text) => Some(text.as_str()),
        PartContent::Data(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::a2a::{event::StatusUpdate, task::A2aTask};
    use serde_json::json;

    fn status(state: TaskState, text: &str, at: i64) -> ShownEvent {
        let status = json!({ "state": state, "timestamp": WallTime(at),
            "message": { "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": text }] } });
        let task: A2aTask =
            serde_json::from_value(json!({ "id": "t", "contextId": "c", "status": status })).unwrap();
        let update = StatusUpdate {
            task_id: task.id,
            context_id: task.context_id,
            status: task.status,
            metadata: Default::default(),
        };
        ShownEvent::Response(StreamResponse::StatusUpdate(Box::new(update)))
    }

    fn page(at: &ConsoleLocation) -> TaskEvents {
        let mut page = EventPage::of(at);
        for number in 0..250 {
            page.push(status(TaskState::Working, &format!("step {number}"), number), WallTime(0));
            page.push(status(TaskState::Working, &format!("step {number}"), number), WallTime(0));
        }
        page.push(status(TaskState::Completed, "done", 250), WallTime(0));
        page.finish()
    }

    #[test]
    fn events_are_shown_in_pages_from_the_newest_and_filtered() {
        let numbers = |events: &TaskEvents| {
            let numbers: Vec<_> = events.lines.iter().map(|line| line.number).collect();
            (numbers.first().copied(), numbers.last().copied(), numbers.len(), events.has_older)
        };
        let at = ConsoleLocation::task("a-1", "t");
        let newest = page(&at);
        assert_eq!((newest.all, numbers(&newest)), (251, (Some(151), Some(250), PAGE, true)), "each once");
        assert_eq!(newest.kinds, ["completed", "working"]);
        let older = page(&ConsoleLocation { before: "151".to_owned(), ..at.clone() });
        assert_eq!(numbers(&older), (Some(51), Some(150), PAGE, true));
        let oldest = page(&ConsoleLocation { before: "51".to_owned(), ..at.clone() });
        assert_eq!(numbers(&oldest), (Some(0), Some(50), 51, false));
        let filtered =
            page(&ConsoleLocation { kind: "working".to_owned(), text: "STEP 24".to_owned(), ..at });
        assert_eq!(numbers(&filtered), (Some(24), Some(249), 11, false));
    }

    #[test]
    fn a_question_is_a_wait_until_it_is_answered() {
        let mut waits = WaitSpans::new(&AgentId::parse("a-1").unwrap(), true);
        for (state, at) in [
            (TaskState::Working, 1),
            (TaskState::InputRequired, 10),
            (TaskState::InputRequired, 20),
            (TaskState::Working, 30),
            (TaskState::AuthRequired, 40),
        ] {
            waits.note(&status(state, "x", at));
        }
        let seen: Vec<_> = waits.spans.iter().map(|span| (span.start.0, span.end.map(|end| end.0))).collect();
        assert_eq!(seen, [(10, Some(30)), (40, None)]);
    }
}
