//! From values to places on an axis.

use crate::format;

/// An axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scale {
    /// From 0 to `high` in steps of `step`.
    Linear {
        /// The value at the right end.
        high: f64,
        /// The distance between ticks.
        step: f64,
    },
    /// From `low` to `high`, both of the form 1, 2 or 5 × 10^n.
    Log {
        /// The value at the left end.
        low: f64,
        /// The value at the right end.
        high: f64,
    },
}

impl Scale {
    /// For values that start at 0.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Scale {
        let most = values.fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = nice_above(most / 5.0);
        Scale::Linear { high: (most / step).ceil() * step, step }
    }

    /// For ratios, where 1 must be on the axis: logarithmic if they span a decade or more.
    pub fn for_ratios(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let low = values.clone().fold(1.0, f64::min);
        let high = values.clone().fold(1.0, f64::max);
        if high / low >= 10.0 {
            Scale::Log { low: nice_below(low), high: nice_above(high) }
        } else {
            Scale::from_zero(values.chain([1.0]))
        }
    }

    /// Whether it is logarithmic.
    pub fn is_log(self) -> bool {
        matches!(self, Scale::Log { .. })
    }

    /// Where a value is, as a fraction of the axis. Values beyond an end are at that end.
    pub fn at(self, value: f64) -> f64 {
        let fraction = match self {
            Scale::Linear { high, .. } => value / high,
            Scale::Log { low, high } => (value / low).ln() / (high / low).ln(),
        };
        fraction.clamp(0.0, 1.0)
    }

    /// The values that are marked.
    pub fn ticks(self) -> Vec<f64> {
        match self {
            Scale::Linear { high, step } => (0..=(high / step).round() as u32).map(|n| f64::from(n) * step).collect(),
            Scale::Log { low, high } => {
                let decades = (high / low).log10();
                let mut ticks = Vec::new();
                let mut tick = low;
                while tick <= high * 1.0001 {
                    if decades <= 2.5 || leading(tick) == 1 {
                        ticks.push(tick);
                    }
                    tick = nice_above(tick * 1.5);
                }
                ticks
            }
        }
    }

    /// A tick's label.
    pub fn label(tick: f64) -> String {
        let text = format::short(tick);
        match text.split_once(' ') {
            Some((number, unit)) if number.contains('.') => {
                format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
            }
            _ => text,
        }
    }
}

/// The leading digit of a number of the form 1, 2 or 5 × 10^n.
fn leading(value: f64) -> u32 {
    let power = 10f64.powf((value * 1.0001).log10().floor());
    (value / power).round() as u32
}

/// The least number of the form 1, 2 or 5 × 10^n that is not below the value.
fn nice_above(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].map(|digit| digit * power).into_iter().find(|n| *n >= value * 0.9999).unwrap_or(10.0 * power)
}

/// The greatest number of that form that is not above the value.
fn nice_below(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].map(|digit| digit * power).into_iter().find(|n| *n <= value * 1.0001).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn small_ratios_are_linear_from_zero() {
        let scale = Scale::for_ratios([1.04, 1.16].into_iter());
        assert_eq!(scale, Scale::Linear { high: 1.5, step: 0.5 });
        assert!(close(scale.at(0.75), 0.5));
        assert_eq!(scale.ticks(), [0.0, 0.5, 1.0, 1.5]);
    }

    #[test]
    fn wide_ratios_are_logarithmic_and_hold_one() {
        let scale = Scale::for_ratios([3.0, 76.0].into_iter());
        assert_eq!(scale, Scale::Log { low: 1.0, high: 100.0 });
        assert!(close(scale.at(10.0), 0.5));
        let ticks = scale.ticks();
        assert!([1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0].iter().zip(&ticks).all(|(a, b)| close(*a, *b)), "{ticks:?}");
        let below = Scale::for_ratios([0.3, 4.0].into_iter());
        assert_eq!(below, Scale::Log { low: 0.2, high: 5.0 });
    }

    #[test]
    fn many_decades_mark_only_powers_of_ten() {
        let ticks = Scale::for_ratios([3.0, 40_000.0].into_iter()).ticks();
        assert_eq!(ticks.len(), 5, "{ticks:?}");
    }

    #[test]
    fn tick_labels_are_short() {
        assert_eq!([0.0, 0.5, 2e9, 2.5e9, 1e6].map(Scale::label), ["0", "0.5", "2 G", "2.5 G", "1 M"]);
    }

    #[test]
    fn nothing_to_show_is_no_error() {
        assert_eq!(Scale::for_ratios([].into_iter()), Scale::Linear { high: 1.0, step: 0.2 });
        assert_eq!(Scale::from_zero([0.0].into_iter()), Scale::Linear { high: 1.0, step: 0.2 });
    }

    #[test]
    fn all_values_are_on_their_axis() {
        for exponent in -30..60 {
            let value = 1.37f64.powi(exponent);
            let scale = Scale::for_ratios([value].into_iter());
            let ticks = scale.ticks();
            assert!(ticks.len() >= 2 && ticks.len() <= 12, "{value}: {ticks:?}");
            let free = match scale {
                Scale::Linear { high, .. } => value <= high * 1.000_01,
                Scale::Log { low, high } => low <= value * 1.000_1 && value <= high * 1.000_1,
            };
            assert!(free, "{value} is not on {scale:?}");
        }
    }
}
