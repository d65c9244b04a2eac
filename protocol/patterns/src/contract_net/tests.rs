mod acceptance;
mod budget;
mod fairness;
mod fixture;
mod lasting_failures;
mod queue;
mod random_events;
mod scenarios;
