//! What the stages of a copy work with: the services that all threads share, what one thread owns, and the two together with
//! the plan.

pub(crate) mod free_space;
pub(crate) mod name_queue;
mod run_context;
mod services;
#[cfg(test)]
pub(crate) mod test_support;
mod worker;

pub(crate) use run_context::RunContext;
pub(crate) use services::Services;
pub(crate) use worker::Worker;
