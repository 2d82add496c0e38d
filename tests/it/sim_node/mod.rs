//! The simulated node against a real one: both hold the same chain and are asked the same questions.

mod answers;
mod conversation;
mod pair;
