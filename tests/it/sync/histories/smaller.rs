//! Makes a failing history small: takes out steps, first many at once, then actions, then makes numbers smaller, as long
//! as it goes on failing.

use proptest::strategy::ValueTree;

use super::actions::{Action, Step};

/// A history and the next thing to try.
#[derive(Clone, Debug)]
pub(crate) struct Smaller {
    history: Vec<Step>,
    /// The last history that failed.
    failed: Vec<Step>,
    attempt: Attempt,
}

#[derive(Clone, Copy, Debug)]
enum Attempt {
    /// Without so many steps from this one on.
    Steps { count: usize, at: usize },
    /// Without this action, counted over all steps.
    Action { at: usize },
    /// With smaller numbers in this action.
    Numbers { at: usize },
}

impl Smaller {
    pub(crate) fn new(history: Vec<Step>) -> Self {
        let attempt = Attempt::Steps { count: history.len().div_ceil(2), at: 0 };
        Self { failed: history.clone(), history, attempt }
    }

    /// Makes the next history to try; false when nothing is left to try.
    fn next(&mut self) -> bool {
        loop {
            let (steps, actions) = (self.failed.len(), self.failed.iter().map(Vec::len).sum::<usize>());
            self.history = self.failed.clone();
            match self.attempt {
                Attempt::Steps { count, at } if at < steps => {
                    self.history.drain(at..steps.min(at + count));
                    return true;
                }
                Attempt::Steps { count: 0 | 1, .. } => self.attempt = Attempt::Action { at: 0 },
                Attempt::Steps { count, .. } => self.attempt = Attempt::Steps { count: count / 2, at: 0 },
                Attempt::Action { at } if at < actions => {
                    let (step, action) = self.place(at);
                    self.history[step].remove(action);
                    return true;
                }
                Attempt::Action { .. } => self.attempt = Attempt::Numbers { at: 0 },
                Attempt::Numbers { at } if at < actions => {
                    let (step, action) = self.place(at);
                    if let Some(simpler) = simpler(&self.history[step][action]) {
                        self.history[step][action] = simpler;
                        return true;
                    }
                    self.attempt = Attempt::Numbers { at: at + 1 };
                }
                Attempt::Numbers { .. } => return false,
            }
        }
    }

    /// The step and the action in it that has this number over all steps.
    fn place(&self, mut at: usize) -> (usize, usize) {
        for (step, actions) in self.failed.iter().enumerate() {
            if at < actions.len() {
                return (step, at);
            }
            at -= actions.len();
        }
        unreachable!("there are as many actions")
    }
}

impl ValueTree for Smaller {
    type Value = Vec<Step>;

    fn current(&self) -> Vec<Step> {
        self.history.clone()
    }

    fn simplify(&mut self) -> bool {
        // what was tried last has failed as well: from here on
        self.failed = self.history.clone();
        self.next()
    }

    fn complicate(&mut self) -> bool {
        // what was tried last is needed
        match &mut self.attempt {
            Attempt::Steps { count, at } => *at += *count,
            Attempt::Action { at } | Attempt::Numbers { at } => *at += 1,
        }
        self.next()
    }
}

/// The action with one number made smaller, `None` if there is none to make smaller.
fn simpler(action: &Action) -> Option<Action> {
    let less = |number: u32| (number > 1).then_some(number / 2);
    match *action {
        Action::Empty { blocks } => less(blocks).map(|blocks| Action::Empty { blocks }),
        Action::Reorganise { depth, fate, seed } => less(depth).map(|depth| Action::Reorganise { depth, fate, seed }),
        Action::Shorten { depth } => less(depth).map(|depth| Action::Shorten { depth }),
        Action::Genesis { rounds } => less(rounds).map(|rounds| Action::Genesis { rounds }),
        Action::ThereAndBack { depth, seed } => less(depth).map(|depth| Action::ThereAndBack { depth, seed }),
        Action::Flicker { times, seed } => less(times).map(|times| Action::Flicker { times, seed }),
        Action::Abandon { depth, blocks, killed: true } => Some(Action::Abandon { depth, blocks, killed: false }),
        Action::Abandon { depth, blocks, killed } if blocks > 0 => {
            Some(Action::Abandon { depth, blocks: blocks / 2, killed })
        }
        Action::Abandon { depth, blocks, killed } if depth > 0 => {
            Some(Action::Abandon { depth: depth / 2, blocks, killed })
        }
        Action::Hostile { .. }
        | Action::Pay { .. }
        | Action::Mature { .. }
        | Action::Repeat { .. }
        | Action::Behind
        | Action::Restart
        | Action::Abandon { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest history that still satisfies `fails`, and the number of tries.
    fn smallest(history: Vec<Step>, fails: impl Fn(&[Step]) -> bool) -> (Vec<Step>, u32) {
        let (mut tree, mut tries) = (Smaller::new(history), 0);
        let mut goes_on = tree.simplify();
        while goes_on {
            tries += 1;
            goes_on = if fails(&tree.current()) { tree.simplify() } else { tree.complicate() };
        }
        (tree.current(), tries)
    }

    #[test]
    fn what_the_failure_does_not_need_is_taken_out_in_few_tries() {
        let mut history = vec![vec![Action::Restart, Action::Behind]; 60];
        history[17] = vec![Action::Restart, Action::Shorten { depth: 9 }, Action::Behind];
        history[43] = vec![Action::Empty { blocks: 3 }];
        let deep = |action: &Action| matches!(action, Action::Shorten { depth } if *depth >= 3);
        let empty = |action: &Action| matches!(action, Action::Empty { .. });
        let (left, tries) = smallest(history, |steps| {
            let after = steps.iter().skip_while(|step| !step.iter().any(deep));
            after.skip(1).flatten().any(empty)
        });
        let printed = format!("{left:?}");
        assert_eq!(printed, "[[Shorten { depth: 4 }], [Empty { blocks: 1 }]]");
        assert!(tries < 40, "{tries} tries");
    }
}
