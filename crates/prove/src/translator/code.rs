//! Code memory: what was written to it must be published before it can be fetched.

use crate::translator::CAPACITY;
use spica_dbt::CodeMemory;
use spica_dbt::layout::{Layout, PAGE_WORDS};
use std::collections::HashMap;

/// The code pages. What was written but not published is not fetched.
pub struct Code {
    pub written: Vec<[u32; PAGE_WORDS]>,
    pub fetched: Vec<[u32; PAGE_WORDS]>,
    /// The pages of the return mirror, written and as they are fetched, and where they are mapped.
    mirror: Vec<[[u32; PAGE_WORDS]; 2]>,
    mapped: HashMap<u32, u32>,
}

/// UDF: what code memory is full of at first.
const UNUSED: u32 = 0xe7f0_00f0;

impl Code {
    pub fn new(layout: &Layout) -> Code {
        let pages = vec![[UNUSED; PAGE_WORDS]; layout.pages as usize];
        let mirror = vec![[[UNUSED; PAGE_WORDS]; 2]; CAPACITY.mirror_pages as usize];
        Code { written: pages.clone(), fetched: pages, mirror, mapped: HashMap::new() }
    }

    /// The word of the return mirror at `pc`.
    pub(super) fn mirror_word(&self, pc: u32) -> Option<u32> {
        let page = *self.mapped.get(&(pc & !0xfff))?;
        Some(self.mirror[page as usize][1][(pc & 0xfff) as usize / 4])
    }
}

impl CodeMemory for Code {
    fn page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.written[page as usize]
    }

    fn publish(&mut self, page: u32, first: usize, words: usize) {
        let page = page as usize;
        self.fetched[page][first..first + words].copy_from_slice(&self.written[page][first..first + words]);
    }

    fn mirror_page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.mirror[page as usize][0]
    }

    fn publish_mirror(&mut self, page: u32, _: u32, first: usize, words: usize) {
        let [from, to] = &mut self.mirror[page as usize];
        to[first..first + words].copy_from_slice(&from[first..first + words]);
    }

    fn map_mirror(&mut self, va: u32, page: u32) {
        assert_eq!(self.mapped.insert(va, page), None, "mapped already");
    }

    fn unmap_mirror(&mut self, va: Option<u32>) {
        match va {
            Some(va) => assert!(self.mapped.remove(&va).is_some(), "not mapped"),
            None => self.mapped.clear(),
        }
    }
}
