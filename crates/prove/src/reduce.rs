//! Making a case that fails smaller: delta debugging (Zeller and Hildebrandt, 2002) over whatever it consists of.

/// The smallest part of `items`, as far as leaving some out leads there, for which `fails` still holds; `fails` is not
/// asked more than `budget` times. Order is kept.
pub fn list<T: Clone>(items: &[T], mut budget: u32, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut kept = items.to_vec();
    let mut piece = kept.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        let mut shrunk = false;
        while at < kept.len() {
            if budget == 0 {
                return kept;
            }
            budget -= 1;
            let end = (at + piece).min(kept.len());
            let rest: Vec<T> = kept[..at].iter().chain(&kept[end..]).cloned().collect();
            if fails(&rest) {
                kept = rest;
                shrunk = true;
            } else {
                at = end;
            }
        }
        // With single items, until none can go any more.
        if piece > 1 || !shrunk {
            piece /= 2;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_left() {
        let items: Vec<u32> = (0..100).collect();
        let left = list(&items, 1000, |items| items.contains(&17) && items.contains(&71));
        assert_eq!(left, [17, 71]);
        assert!(list(&items, 1000, |_| true).is_empty());
        assert_eq!(list(&items, 1000, |items| items.len() == 100), items);
    }

    #[test]
    fn it_ends_when_the_budget_does() {
        let mut asked = 0;
        list(&[0; 1000], 30, |items| {
            asked += 1;
            items.len() > 500
        });
        assert_eq!(asked, 30);
    }
}
