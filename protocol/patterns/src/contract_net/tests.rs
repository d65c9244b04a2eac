mod acceptance;
mod budget;
mod fairness;
mod fixture;
mod queue;
mod random_events;
mod scenarios;
