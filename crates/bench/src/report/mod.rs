//! Reports for people: tables in Markdown, and one page of HTML.
//!
//! Both are made from a result file alone and are the same, byte for byte, for the same file. The page is
//! self-contained: its style is in it, its figures are inline SVG, it has no scripts and fetches nothing. It follows
//! the reader's light or dark scheme and is laid out so that it reads on a phone.
//!
//! What a run does not hold is named, in the place where it would stand: a figure without data keeps its heading and
//! says so, a missing bar is drawn as missing.

mod beside;
mod boards;
mod chart;
mod compared;
mod figures;
mod fitted;
mod markup;
mod scale;
mod select;
mod several;
mod tables;
mod timing;

use std::fmt::Write as _;

use crate::catalogue;
use crate::format;
use crate::model::costs::Core;
use crate::papers;
use crate::results::{Board, Group, Results};
use markup::{Element, el, text};
use tables::Table;

const STYLE: &str = include_str!("style.css");

const LEAD: &str = "How many instructions the same work takes as Spica’s guest and on the bare board: same board, \
                    same kernel, same initramfs. QEMU’s -icount counts instructions, so every figure repeats exactly. \
                    Instructions are not time; a cost model stands beside them.";

/// The tables, as Markdown.
#[must_use]
pub fn markdown(results: &Results) -> String {
    let mut out = format!("# Spica against the bare board\n\n{LEAD}\n");
    for tile in tiles(results) {
        let _ = writeln!(out, "\n* {}: **{}** ({})", tile.what, tile.value, tile.note);
    }
    for board in results.boards() {
        let _ = writeln!(out, "\n## {board} ({})", Core::from(board));
        for table in board_tables(results, board) {
            out.push_str(&table.markdown());
        }
        out.push_str(&beside::table(results, board).markdown());
    }
    out.push_str("\n## What may be compared, and what may not\n\n");
    for sentence in papers::COMPARABILITY {
        let _ = writeln!(out, "* {sentence}");
    }
    out.push_str("\n## Conditions\n");
    for table in conditions(results) {
        out.push_str(&table.markdown());
    }
    out
}

/// The page.
#[must_use]
pub fn html(results: &Results) -> String {
    let mut main = el("main");
    main.push(text("h1", "Spica against the bare board"));
    main.push(text("p", LEAD));
    main.push(text("p", stamp(results)).class("soft"));
    main.push(el("div").class("tiles").children(tiles(results).into_iter().map(|tile| {
        el("div")
            .class("tile")
            .child(text("span", tile.what))
            .child(text("b", tile.value))
            .child(text("span", tile.note))
    })));
    main.push(contents(results));
    let mut number = 0;
    for board in results.boards() {
        main.push(text("h2", format!("{board}, {}", Core::from(board))).attr("id", board.name()));
        let figures = timing::figure(results, board).into_iter().chain(figures::all(results, board));
        for figure in figures.chain(several::figures(results, board)) {
            number += 1;
            main.push(text("h3", &figure.title));
            let mut caption = el("figcaption");
            caption.push(text("p", format!("Figure {number}, {board}. {}", figure.caption.join(" "))));
            main.push(el("figure").child(caption).children(figure.drawing));
        }
        main.push(folded(&format!("All figures of {board} as tables"), board_tables(results, board)));
    }
    main.push(text("h2", "Beside STAR and ARMvisor").attr("id", "papers"));
    let item = |sentence: &&str| text("li", *sentence);
    main.push(el("ul").children(papers::COMPARABILITY.iter().map(item)));
    for board in results.boards() {
        main.push(beside::table(results, board).html());
    }
    main.push(folded("Everything that the papers’ texts state in numbers", tables::papers()));
    main.push(text("h2", "The cost model").attr("id", "model"));
    main.push(text("p", MODEL));
    let mut model = Vec::new();
    for board in results.boards() {
        model.push(tables::costs(Core::from(board)));
        model.push(tables::handlers(results, board));
        model.extend(timing::prices(results, board));
    }
    model.push(tables::effects());
    main.push(folded("Costs and where they are from", model));
    main.push(text("h2", "Conditions").attr("id", "conditions"));
    for table in conditions(results) {
        main.push(table.html());
    }
    let head = el("head")
        .child(el("meta").attr("charset", "utf-8"))
        .child(el("meta").attr("name", "viewport").attr("content", "width=device-width, initial-scale=1"))
        .child(text("title", "Spica against the bare board"))
        .child(text("style", STYLE));
    let page = el("html").attr("lang", "en").child(head).child(el("body").child(main));
    format!("<!DOCTYPE html>\n{}", page.render())
}

const MODEL: &str = "Modelled cycles are instructions × base CPI + Σ events × cost per event, on either side, after \
                     ARMvisor’s section 4. An event is priced if its count is known on both sides; what a trap does \
                     to the core is assumed within a range; the rest is left out. The guest performance ratio is \
                     T_host / T_guest; T_guest = T_native + T_virt, and T_virt = T_cpu + T_mem + T_io + T_suspend + \
                     ε. Ordinary cache misses are in the base CPI, the same on both sides: what a larger code \
                     footprint does to the caches is not modelled.";

fn stamp(results: &Results) -> String {
    let run = &results.run;
    let commit: String = run.commit.chars().take(12).collect();
    let dirty = if run.dirty { " with changes" } else { "" };
    format!("Commit {commit}{dirty}, {}, QEMU {}.", run.date, run.qemu)
}

fn contents(results: &Results) -> Element {
    let link = |id: &str, what: String| el("li").child(text("a", what).attr("href", format!("#{id}")));
    let mut list = el("ul");
    for board in results.boards() {
        list.push(link(board.name(), format!("{board} ({})", Core::from(board))));
    }
    list.push(link("papers", "Beside STAR and ARMvisor".into()));
    list.push(link("model", "The cost model".into()));
    list.push(link("conditions", "Conditions, and what was not measured".into()));
    el("nav").child(list)
}

/// What was not measured, what cannot be, and what the rest was measured with.
fn conditions(results: &Results) -> impl Iterator<Item = Table> {
    let absent = tables::not_implemented(results).into_iter().chain(tables::not_measured(results));
    absent.chain([tables::conditions(results)])
}

fn folded(title: &str, tables: Vec<Table>) -> Element {
    el("details").child(text("summary", title)).children(tables.iter().map(Table::html))
}

fn board_tables(results: &Results, board: Board) -> Vec<Table> {
    let of = |group| [tables::group(results, board, group), tables::configurations(results, board, group)];
    let compared = Group::ALL.into_iter().filter(|group| group.has_native());
    let ratios = compared.flat_map(of).flatten();
    let times = timing::tables(results, board).into_iter().chain(boards::tables(results, board));
    ratios.chain(times).chain(fitted::tables(results, board)).chain(several::tables(results, board)).collect()
}

/// A number to see first.
struct Tile {
    what: String,
    value: String,
    note: String,
}

fn tiles(results: &Results) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for board in results.boards() {
        for (group, what) in
            [(Group::Kernel, "kernel operations"), (Group::Application, "applications"), (Group::Boot, "boot")]
        {
            let all = results.workloads(board, group).len();
            let ratios = select::ratios(results, board, catalogue::DEFAULT, group);
            let Some(mean) = select::mean(ratios.iter().map(|(_, r)| *r)) else { continue };
            let worst =
                ratios.last().map_or(String::new(), |(name, r)| format!("worst {}× ({name})", format::ratio(*r)));
            let missing = all - ratios.len();
            let missing = if missing > 0 { format!(", {missing} of {all} missing") } else { String::new() };
            tiles.push(Tile {
                what: format!("{board}: {what}"),
                value: format!("{}× native", format::ratio(mean)),
                note: format!("geometric mean of {}, {worst}{missing}", ratios.len()),
            });
        }
    }
    tiles
}
