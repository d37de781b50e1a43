//! Figures that have no counterpart on the bare board.
//!
//! A bare board runs one kernel, so what several guests cost each other is compared with nothing but what was aimed at.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A figure that stands for itself. Less is better.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Finding {
    /// The figure, in the measurement's unit. Finite; differences from an ideal can be negative.
    pub value: f64,
    /// What it is to stay below, if anything was aimed at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
    /// What it was made from, and what else was seen, by name with its unit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, f64>,
    /// How the single events are spread whose average the figure is. Bounds rise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Class>,
}

/// A class of a histogram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Class {
    /// The events were below this, in the measurement's unit, and not below the bound of the class before.
    pub below: u64,
    /// How many they were.
    pub count: u64,
}

impl Finding {
    /// A figure of which nothing else is known.
    #[must_use]
    pub fn new(value: f64) -> Self {
        Self { value, goal: None, parts: BTreeMap::new(), histogram: Vec::new() }
    }

    /// Whether it is what was aimed at, if anything was.
    #[must_use]
    pub fn meets_goal(&self) -> Option<bool> {
        self.goal.map(|goal| self.value < goal)
    }

    /// Whether it is worse than `old`: greater, where that matters. Below a goal it does not.
    #[must_use]
    pub fn is_worse_than(&self, old: &Finding) -> bool {
        self.value > old.value && self.meets_goal() != Some(true)
    }

    /// What the types cannot say. The error is a field and what is wrong with it.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let named = [("value", Some(self.value)), ("goal", self.goal)];
        if let Some((field, value)) = named.into_iter().find_map(|(f, v)| Some((f, v.filter(|v| !v.is_finite())?))) {
            return Err((format!("found.{field}"), format!("{value} is not a finite number")));
        }
        if let Some((name, value)) = self.parts.iter().find(|(_, v)| !v.is_finite()) {
            return Err((format!("found.parts.{name}"), format!("{value} is not a finite number")));
        }
        match self.histogram.windows(2).position(|pair| pair[0].below >= pair[1].below) {
            Some(at) => Err((format!("found.histogram[{}].below", at + 1), "is not above the bound before it".into())),
            None => Ok(()),
        }
    }
}
