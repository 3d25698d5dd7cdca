//! Who runs when.

/// The indices of `count` competitors in the order of a round: each round starts with another one, since who goes first pays for
/// the others.
pub fn order(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (round + turn) % count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_once_in_each_place_of_the_order() {
        let rounds: Vec<Vec<usize>> = (0..3).map(|round| order(round, 3).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }
}
