//! Invariants that need the whole run: effects and replies follow durable steps, and nothing is left at the end.

use super::{
    Simulation,
    node::Node,
    replies::{PendingReply, ReplyTarget},
};
use blackboard::claims::ClaimState;
use engine::{
    Ack, AttemptId, artifacts, chunks, content,
    records::{TaskRow, keys},
};
use patterns::{Effect, EventKind, Label, reaction, session::host_work::HOST_WORK};
use protocol::{
    acceptance::{AcceptanceTerms, CheckVerdict},
    budget::Budget,
    ids::{AgentId, EffectId},
    limits::Limits,
    message::{Payload, TaskRequest},
    principal::{Principal, SenderProof},
    signal::{Cursor, Signal, SignalType, publisher},
    task::{OpenTaskKey, TaskState},
};
use std::{collections::BTreeMap, time::Duration};
use store_types::{Batch, Key, Snapshot, Write};

/// The second token of a written key.
fn topic(write: &Write) -> Option<String> {
    write.key().tokens().into_iter().nth(1)
}

/// The longest time in which an agent handles a signal, milliseconds: the store takes the steps of work in progress before the first
/// step of the reaction, and a chain of tasks that an agent gives itself has many.
const LONGEST_SIGNAL: u64 = 30_000;

impl Simulation {
    /// An effect is performed after its step is durable.
    pub(super) fn check_effect(&mut self, me: &AgentId, name: &str) {
        let Some(id) = EffectId::parse(name).filter(|id| id.agent == *me) else { return };
        let conversation = self.observer.agent(me).conversations.get(&id.conversation);
        if conversation.is_none_or(|observed| observed.last_step() < id.step) {
            self.fail(format!(
                "{me}, conversation {}: effect {name} is performed before its step is durable",
                id.conversation
            ));
        }
    }

    /// A signal about the artifact of an open task is on the board before the end of the claim under which it was made.
    pub(super) fn check_artifact_order(&mut self, agent: usize, signal: &Signal) {
        let (Some(_), Some(task)) = (signal.produced(), &signal.task_id) else { return };
        let conversation = EffectId::parse(&signal.id).map(|id| id.conversation);
        let rows = &self.observer.agent(&self.nodes[agent].id).tasks;
        let is_late = rows.iter().any(|((of, owner), row)| {
            let key = OpenTaskKey { publisher: owner.clone(), task_id: of.clone() };
            let claim = self.board.find_claim(&key).filter(|claim| claim.row.state == ClaimState::Completed);
            of == task
                && Some(&row.conversation) == conversation.as_ref()
                && claim.is_some_and(|claim| Some(claim.epoch()) == row.epoch)
        });
        if is_late && !self.board.has(&signal.id) {
            let what = format!("signals out of order: {} is on the board after the end of {task}", signal.id);
            self.fail(what);
        }
    }

    /// Every agent may read the artifact to which a signal refers, unless it has lost its task since.
    pub(super) fn check_artifact(&mut self, owner: usize, signal: &Signal) {
        let (Some(digest), Some(task)) = (signal.produced(), &signal.task_id) else { return };
        let (me, store) = (&self.nodes[owner].id, &self.nodes[owner].store.settled);
        let conversation = EffectId::parse(&signal.id).map(|id| id.conversation);
        let mut rows = self.observer.agent(me).tasks.iter().filter(|((of, _), _)| of == task);
        let is_lost = |state: TaskState| state.is_terminal() && state != TaskState::Completed;
        if rows.any(|(_, row)| is_lost(row.state) || Some(&row.conversation) != conversation.as_ref()) {
            return;
        }
        // Retention may have deleted the task while the board was away.
        let mut known = self.observer.agent(me).tasks.keys().filter(|(of, _)| of == task);
        if !known.any(|(of, owner)| matches!(store.latest(&keys::task(me, of, owner)), Ok(Some(_)))) {
            return;
        }
        let reader = AgentId::parse("another").map(Principal::Agent).unwrap_or(Principal::local_user());
        let read = artifacts::read(store, me, &digest, &reader, SenderProof::Credential);
        if !read.is_ok_and(|artifact| artifact.content.digest() == digest) {
            let what = format!("{me}: signal {} refers to an artifact that can't be read", signal.id);
            self.fail(what);
        }
    }

    /// An agent that can take conversations does not let a signal, and those behind it, wait for long.
    pub(super) fn check_readers(&mut self) {
        let mut waiting = Vec::new();
        for node in &self.nodes {
            let since = node.reader.as_ref().and_then(|reader| reader.delivering_since);
            if since.is_some_and(|since| since + LONGEST_SIGNAL < self.now) {
                waiting.push(format!("{} has let a signal wait since {since:?}", node.id));
            }
        }
        waiting.into_iter().for_each(|what| self.fail(what));
    }

    /// A request about a claim is made after the step that decided it is durable.
    pub(super) fn check_claim(&mut self, agent: usize, task: &OpenTaskKey) {
        let node = &self.nodes[agent];
        let is_about_claim = |effect: &Effect| match effect {
            Effect::ClaimOpenTask { task: of, .. }
            | Effect::ConfirmResult { task: of, .. }
            | Effect::RenewOpenTask { task: of, .. }
            | Effect::CloseOpenTask { task: of, .. }
            | Effect::ReleaseOpenTask { task: of, .. } => of.task_id == task.task_id,
            _ => false,
        };
        let conversations = self.observer.agent(&node.id).conversations.values();
        let mut steps = conversations.flat_map(|observed| &observed.steps);
        if !steps.any(|step| step.effects.iter().any(is_about_claim)) {
            self.fail(format!("{}: the claim on {task} is asked for before that is durable", node.id));
        }
    }

    /// A claim request is tried again within its lease.
    pub(super) fn check_claim_pause(&mut self, agent: usize, id: AttemptId) {
        let node = &self.nodes[agent];
        let lease = node.config.auction.lease_ms;
        if let Some(failed) = node.failed_attempts.get(&id)
            && self.now - failed > lease
        {
            let (me, pause) = (&node.id, self.now - failed);
            self.fail(format!("{me} repeats a claim request after {pause} ms; the lease has {lease}"));
        }
    }

    /// A task is completed with a result that has passed every check that its agent demands.
    pub(super) fn check_acceptance(&mut self, agent: usize, batch: &Batch) {
        let node = &self.nodes[agent];
        let mut failures = Vec::new();
        for write in &batch.writes {
            let (key, Some(value), Some("task")) = (write.key(), write.value(), topic(write).as_deref())
            else {
                continue;
            };
            let row = content::decode::<TaskRow>(&node.id, &node.store.settled, value).ok();
            let Some(task) = row.filter(|row| row.ended_at.is_some()).map(|row| row.task) else { continue };
            let terms = AcceptanceTerms::of(&node.config.acceptance, task.spec.capability.as_ref(), None);
            let observed = self.observer.agent(&node.id).conversations.get(&task.conversation);
            let is_offer = observed.and_then(|observed| observed.pattern()) == Some("offer");
            let is_host_work =
                task.spec.capability.as_ref().is_some_and(|wanted| wanted.as_str() == HOST_WORK);
            // It hands back a result that was checked under the award before: no turn has run.
            let is_known = observed.filter(|observed| observed.pattern() == Some("delegation")).is_some_and(
                |observed| {
                    let mut effects = observed.steps.iter().flat_map(|step| &step.effects);
                    !effects.any(|effect| matches!(effect, Effect::RunTurn { .. }))
                },
            );
            let is_exempt = is_known
                || task.spec.task_id.as_str().starts_with("review-")
                || is_host_work
                || task.doer.as_ref() == Some(&node.id)
                || is_offer;
            if task.status.state != TaskState::Completed || is_exempt {
                continue;
            }
            // A review without a verdict is asked for again; a refusal ends the checks of that result.
            let last = task.checks.last().map(|check| check.sha256);
            let since = task.checks.iter().rev().take_while(|check| check.verdict != CheckVerdict::Refused);
            let accepting =
                since.filter(|check| check.verdict == CheckVerdict::Accepted && Some(check.sha256) == last);
            let accepting: Vec<_> = accepting.map(|check| check.by.as_str()).collect();
            let own = terms.has_own_check().then(|| "node".to_owned());
            let reviewers = terms.reviewers.iter().map(|reviewer| format!("capability:{reviewer}"));
            for demanded in own.into_iter().chain(reviewers) {
                if !accepting.contains(&demanded.as_str()) {
                    failures.push(format!("{}: {key} is completed unchecked by {demanded}", node.id));
                }
            }
        }
        self.failures.extend(failures);
    }

    /// A task's end agrees with the board and with the manager that awarded it.
    pub(super) fn check_ends(&mut self, agent: usize, batch: &Batch) {
        let node = &self.nodes[agent];
        let mut failures = Vec::new();
        for write in &batch.writes {
            let (key, Some(value), Some("task")) = (write.key(), write.value(), topic(write).as_deref())
            else {
                continue;
            };
            let Ok(TaskRow { task, epoch: Some(epoch), .. }) =
                content::decode::<TaskRow>(&node.id, &node.store.settled, value)
            else {
                continue;
            };
            let (me, state, owner) = (&node.id, task.status.state, &task.owner);
            let observed = self.observer.agent(me).conversations.get(&task.conversation);
            let Some(observed) = observed.filter(|_| state.is_terminal()) else { continue };
            if observed.pattern() == Some("open-task") {
                let of = OpenTaskKey { publisher: owner.clone(), task_id: task.spec.task_id.clone() };
                let claim = self.board.find_claim(&of).filter(|claim| claim.epoch() == epoch);
                let is_complete = claim.is_some_and(|claim| claim.row.state == ClaimState::Completed);
                if is_complete && state != TaskState::Completed {
                    failures.push(format!("{me}: {key} ended as {}, the board says complete", state.word()));
                }
            }
            let is_undelivered =
                |what: &EventKind| matches!(what, EventKind::Undelivered { label: Label::Response, .. });
            if let Some(manager) = owner.agent()
                && state == TaskState::Completed
                && !observed.has_event(is_undelivered)
                && self
                    .observer
                    .agent(manager)
                    .conversations
                    .values()
                    .any(|one| one.has_revoked(&task.spec.task_id, epoch))
            {
                failures
                    .push(format!("{me}: {key} is completed under award {epoch}, which {manager} took back"));
            }
        }
        self.failures.extend(failures);
    }

    /// Every chunk of an ended task is recorded, and its streams have no gaps.
    pub(super) fn check_chunks(&mut self, agent: usize, batch: &Batch) {
        let Node { id: me, store, .. } = &self.nodes[agent];
        let store = &store.settled;
        let mut failures = Vec::new();
        for write in &batch.writes {
            let (key, Some(value), Some("task")) = (write.key(), write.value(), topic(write).as_deref())
            else {
                continue;
            };
            let row = content::decode::<TaskRow>(me, store, value).ok().filter(|row| row.ended_at.is_some());
            let Some(row) = row else { continue };
            let (spec, epoch) = (&row.task.spec, row.log_epoch());
            let log = keys::chunks_under(me, &spec.task_id, &row.task.owner, epoch);
            let range = row.chunks.unwrap_or_default();
            let is_missing = |number: &u64| {
                let chunk = Key::stored(format!("{log}.{number}"));
                !store.latest(&chunk).is_ok_and(|record| record.is_some())
            };
            if let Some(missing) = (range.from..range.to).find(is_missing) {
                failures.push(format!("{me}: {key} has ended without chunk {missing} of {range:?}"));
            }
            for stream in chunks::artifacts_of(store, me, &row, u64::MAX).unwrap_or_default() {
                let text = stream.as_text();
                let count = text.matches('[').count();
                let pieces = (0..count).map(|number| format!("[{number}]")).collect::<String>();
                if stream.artifact_id == "stream" && text != pieces {
                    failures.push(format!("{me}: {key} has ended with the stream {text}"));
                }
            }
        }
        self.failures.extend(failures);
    }

    /// All that works on a task of a user by request uses no more than the user has allowed: not an agent that reacts to a signal
    /// about it. A user whose agent has lost its data may ask again.
    fn check_budgets(&mut self) {
        if self.nodes.iter().any(|node| node.data_generation > 0) {
            return;
        }
        let (mut bounds, mut used) = (BTreeMap::new(), BTreeMap::<_, u64>::new());
        for observed in self.observer.agents.values() {
            for conversation in observed.conversations.values() {
                let Some(origin) = conversation.steps.first().and_then(|step| step.origin.as_ref()) else {
                    continue;
                };
                let opened = origin.message.as_ref().filter(|message| message.by == Principal::local_user());
                let request = opened.and_then(|message| {
                    self.requests.iter().find(|request| request.message.envelope.message_id == message.id)
                });
                if let Some(Payload::TaskRequest(TaskRequest {
                    budget: Budget { tokens: Some(tokens), .. },
                    ..
                })) = request.map(|request| &request.message.envelope.payload)
                {
                    bounds.insert(origin.trace.trace_id, *tokens);
                }
                if self.observer.is_requested(conversation) {
                    *used.entry(origin.trace.trace_id).or_default() += conversation.reported_tokens();
                }
            }
        }
        for (trace, bound) in bounds {
            let used = used.get(&trace).copied().unwrap_or_default();
            if used > bound {
                self.failures
                    .push(format!("a task that may use {bound} tokens has used {used}: trace {trace:032x}"));
            }
        }
    }

    /// What an agent acknowledges is durable.
    pub(super) fn check_ack(&mut self, agent: usize, pending: &PendingReply, ack: &Ack) {
        let node = &self.nodes[agent];
        let observed = self.observer.agent(&node.id);
        let conversation = ack.conversation_id.as_ref().and_then(|id| observed.conversations.get(id));
        let early = match (&pending.message, &pending.target) {
            (Some((message, by, from, kind)), _) if !kind.is_best_effort() => {
                let key = keys::receipt(&node.id, message, by, from);
                let has_receipt = node.store.settled.latest(&key).ok().flatten().is_some();
                let has_task = || {
                    let task = ack.task_id.as_ref().filter(|_| ack.duplicate);
                    let key = task.map(|task| keys::task(&node.id, task, by));
                    key.is_some_and(|key| node.store.settled.latest(&key).ok().flatten().is_some())
                };
                let is_open = conversation.is_some_and(|one| one.ended.is_none());
                let is_forgotten = is_open && !ack.duplicate && !observed.has_handled(message, by);
                if is_forgotten {
                    let (me, kind) = (&node.id, kind.wire());
                    return self.fail(format!("{me}: {kind} {message} is acknowledged, and forgotten"));
                }
                let is_durable = has_receipt || has_task();
                (!is_durable).then(|| format!("{} {message} of {by} is acknowledged", kind.wire()))
            }
            (None, ReplyTarget::Owner { is_cancel }) => {
                let is_request = |what: &EventKind| match what {
                    EventKind::Cancelled { .. } => *is_cancel,
                    EventKind::Answered { .. } => !*is_cancel,
                    _ => false,
                };
                let is_durable = conversation.is_some_and(|one| one.has_event(is_request));
                (!is_durable).then(|| "its owner's request is acknowledged".to_owned())
            }
            (None, ReplyTarget::BoardReader { signal }) => {
                let is_durable = ack.conversation_id.is_none() || conversation.is_some();
                (!is_durable).then(|| format!("signal {} is taken", signal.signal.id))
            }
            _ => None,
        };
        if let Some(early) = early {
            let id = ack.conversation_id.as_ref().map(ToString::to_string).unwrap_or_default();
            self.fail(format!("{}, conversation {id}: {early} before that is durable", node.id));
        }
    }

    /// No journal keeps an expired record of a conversation that has ended, though others are open.
    pub(super) fn check_journals(&mut self) {
        let mut violations = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let Limits { keep_journals_ms, sweep_ms, .. } = *node.config.limits;
            // A sweep is due, and another may be under way.
            let keep = Duration::from_millis(keep_journals_ms + 3 * sweep_ms);
            let conversations = &self.observer.agent(&node.id).conversations;
            for (id, observed) in conversations.iter().filter(|(_, observed)| observed.ended.is_some()) {
                let last = observed.steps.last().and_then(|step| step.events.last());
                let is_expired = last.is_some_and(|event| event.wall.plus(keep) < self.wall(at));
                let journal = keys::journal(&node.id, id);
                if is_expired && node.store.settled.latest(&journal).ok().flatten().is_some() {
                    violations.push(format!("{} keeps the expired journal of {id}", node.id));
                }
            }
        }
        self.failures.extend(violations);
    }

    /// At the end every conversation has ended, every record has expired, and no one waits.
    pub(super) fn check_end(&mut self) {
        self.observer.finish();
        self.check_budgets();
        self.collect_failures();
        let mut violations = Vec::new();
        for node in &self.nodes {
            let me = &node.id;
            let Some(inner) = &node.agent else {
                violations.push(format!("{me} is down"));
                continue;
            };
            let snapshot = inner.snapshot();
            if !snapshot.conversations.is_empty()
                || snapshot.thinking > 0
                || snapshot.timers > 0
                || !inner.is_idle()
            {
                violations.push(format!("{me} is not quiet at the end: {snapshot:?}"));
            }
            if !snapshot.parked.is_empty() {
                violations.push(format!("{me} has parked {:?}", snapshot.parked));
            }
            if !node.timers.is_empty() || !node.turns.is_empty() || !node.attempts.is_empty() {
                let (timers, turns) = (node.timers.len(), node.turns.len());
                let attempts = node.attempts.len();
                violations
                    .push(format!("{me} has {timers} timers, {turns} turns, {attempts} attempts at the end"));
            }
            if !node.store.is_quiet() {
                violations.push(format!("{me}'s store is not quiet at the end"));
            }
            let topics = [
                "state",
                "claim",
                "receipt",
                "reaction",
                "tombstone",
                "dead",
                "task",
                "chunk",
                "award",
                "content",
                "journal",
            ];
            for topic in topics {
                let left = node.store.settled.page(&keys::all(me, topic), 0, 5);
                if !left.is_empty() {
                    let keys: Vec<_> = left.iter().map(|record| record.key.to_string()).collect();
                    violations.push(format!("{me} keeps rows of {topic} at the end: {}", keys.join(", ")));
                }
            }
        }
        for (task, stands) in self.board.held() {
            violations.push(format!("the claim on {task} is still held by {} at the end", stands.row.holder));
        }
        for PendingReply { agent, since, target, message, .. } in self.pending_replies.values() {
            let me = &self.nodes[*agent].id;
            violations.push(format!("{me} has not answered {target:?} {message:?} since {since}"));
        }
        violations.extend(self.missed_signals());
        violations.extend(self.undone_offers());
        self.failures.extend(violations);
    }

    /// The offers that a subscriber began to claim, and that have no claim of their own.
    fn undone_offers(&self) -> Vec<String> {
        let offers = self.board.all().into_iter().map(|record| record.signal);
        let offers =
            offers.filter(|signal| signal.kind == SignalType::task_available() && !signal.is_boards_own());
        let mut undone = Vec::new();
        for offer in offers {
            let (Some(task_id), Some(publisher)) = (offer.task_id.clone(), publisher(&offer)) else {
                continue;
            };
            let key = OpenTaskKey { publisher, task_id };
            let is_claimed = self.board.find_claim(&key).is_some();
            let reaction = (offer.from.clone(), offer.id.clone());
            let has_begun = self.observer.agents.values().any(|observed| {
                let opened = observed.conversations.values().find(|one| one.is_reaction_to(&reaction));
                opened.is_some_and(|one| !one.has_event(|what| matches!(what, EventKind::Cancelled { .. })))
            });
            if has_begun && !is_claimed {
                undone.push(format!("{key} was offered as {}, and never claimed", offer.id));
            }
        }
        undone
    }

    /// The `help.needed` signals that a subscriber could answer and never reacted to.
    fn missed_signals(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let mut questions = self.board.all();
        questions.retain(|record| record.signal.kind == SignalType::help_needed());
        for node in self.nodes.iter().filter(|node| !node.config.settings.subscribe.is_empty()) {
            let observed = self.observer.agent(&node.id);
            let Some(Cursor { revision: first, .. }) = observed.first_cursor else {
                missed.push(format!("{} never followed the board", node.id));
                continue;
            };
            for record in &questions {
                let signal = &record.signal;
                let can_answer = |capability| node.config.card.support(capability) > 0.0;
                let is_relayed = signal.on_behalf_of().is_some();
                let concerns = record.revision > first
                    && (signal.from != node.id || is_relayed)
                    && signal.capability.as_ref().is_none_or(can_answer)
                    && reaction::hops(signal) < node.config.limits.max_hops as u64;
                if concerns && !observed.reactions.contains(&(signal.from.clone(), signal.id.clone())) {
                    missed.push(format!("{} never reacted to {} at {}", node.id, signal.id, record.revision));
                }
            }
        }
        missed
    }
}
