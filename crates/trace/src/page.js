// Draws what can be seen of `data`: times are nanoseconds; a span is [begin, length, name, category, depth, details], a
// point [time, name, category, details]. In a row, spans are sorted by their beginnings.
"use strict";
const colours = {
  guest: "#7fb069", idle: "#e4e4e4", lost: "#d1495b", process: "#dfe7ef", user: "#8ecae6", kernel: "#f4a261",
  trap: "#b388eb", interrupt: "#e76f51", translation: "#2a9d8f", virtio: "#e9c46a", abort: "#9d0208", flush: "#000",
};
const LANE = 16;
const holder = document.getElementById("rows");
let [from, to] = [0, Math.max(data.end, 1)];

function element(parent, name, attributes, text) {
  const it = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) it.setAttribute(key, attributes[key]);
  if (text !== undefined) it.textContent = text;
  parent.appendChild(it);
  return it;
}

function time(ns) {
  if (ns >= 1e9) return (ns / 1e9).toFixed(3) + " s";
  if (ns >= 1e6) return (ns / 1e6).toFixed(3) + " ms";
  return (ns / 1e3).toFixed(3) + " µs";
}

let subject = null;
const ruler = makeRow({ subject: "", name: "", spans: [], points: [] });
const drawn = data.rows.map(makeRow);

function makeRow(row) {
  const line = document.createElement("div");
  line.className = row.subject === subject ? "row" : "row first";
  const name = document.createElement("div");
  name.className = "name";
  if (row.subject !== subject && row.subject) {
    const title = document.createElement("b");
    title.textContent = row.subject;
    name.appendChild(title);
  }
  subject = row.subject;
  name.appendChild(document.createTextNode(row.name));
  name.title = row.name;
  line.appendChild(name);
  const lanes = 1 + row.spans.reduce((most, span) => Math.max(most, span[4]), 0);
  // What is around others reaches farthest: behind the last that ends before, nothing can be seen.
  let reach = 0;
  const ends = row.spans.map((span) => (reach = Math.max(reach, span[0] + span[1])));
  const svg = element(line, "svg", { height: lanes * LANE + 2 });
  holder.appendChild(line);
  return { row, svg, lanes, ends };
}

// The first of `count` for which `holds`, which holds for all behind it.
function first(count, holds) {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle; else low = middle + 1;
  }
  return low;
}

function draw() {
  const width = Math.max(ruler.svg.clientWidth, 300);
  const scale = width / (to - from);
  let count = 0;
  for (const { row, svg, lanes, ends } of drawn) {
    svg.replaceChildren();
    // Where a lane is full up to, and what is too narrow to be seen by itself there.
    const full = new Array(lanes).fill(-1);
    for (let n = first(ends.length, (n) => ends[n] >= from); n < row.spans.length; n++) {
      const [begin, length, name, category, depth, details] = row.spans[n];
      if (begin > to) break;
      const left = Math.max((begin - from) * scale, 0);
      const right = Math.min((begin + length - from) * scale, width);
      if (right < 0 || (right - left < 1 && left < full[depth] + 1)) continue;
      full[depth] = Math.max(right, left + 1);
      const wide = Math.max(right - left, 1);
      const colour = colours[data.categories[category]] || "#999";
      const rect = element(svg, "rect", { x: left, y: depth * LANE + 1, width: wide, height: LANE - 2, fill: colour });
      element(rect, "title", {}, data.names[name] + ": " + time(length) + "\nat " + time(begin) + "\n" + details);
      if (wide > 40) {
        const shown = data.names[name].slice(0, Math.floor(wide / 6.5));
        element(svg, "text", { x: left + 3, y: depth * LANE + 12 }, shown);
      }
      count++;
    }
    let last = -2;
    for (let n = first(row.points.length, (n) => row.points[n][0] >= from); n < row.points.length; n++) {
      const [at, name, category, details] = row.points[n];
      if (at > to) break;
      const x = (at - from) * scale;
      if (x < last + 2) continue;
      last = x;
      const colour = colours[data.categories[category]] || "#999";
      const mark = element(svg, "path", { d: `M${x} 0l3 5h-6z`, fill: colour, stroke: "#fff", "stroke-width": 0.5 });
      element(mark, "title", {}, data.names[name] + "\nat " + time(at) + "\n" + details);
      count++;
    }
  }
  drawRuler(width, scale);
  document.body.dataset.drawn = count;
}

function drawRuler(width, scale) {
  ruler.svg.replaceChildren();
  let step = 1;
  while (step * scale < 90) step *= String(step)[0] === "1" ? 5 : 2;
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const x = (at - from) * scale;
    element(ruler.svg, "path", { d: `M${x} 0v${LANE}`, stroke: "#888" });
    element(ruler.svg, "text", { x: x + 3, y: 12 }, time(at));
  }
}

function show(begin, end) {
  const length = Math.min(Math.max(end - begin, 100), Math.max(data.end, 100));
  from = Math.min(Math.max(begin, 0), Math.max(data.end - length, 0));
  to = from + length;
  draw();
}

// Magnifies around the time at `part` of the width.
function magnify(factor, part) {
  const at = from + (to - from) * part;
  show(at - (at - from) * factor, at + (to - at) * factor);
}

function part(event) {
  const box = ruler.svg.getBoundingClientRect();
  return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
}

holder.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  magnify(event.deltaY > 0 ? 1.25 : 0.8, part(event));
}, { passive: false });

let dragged = null;
holder.addEventListener("pointerdown", (event) => { dragged = [event.clientX, from, to]; });
window.addEventListener("pointerup", () => { dragged = null; });
window.addEventListener("pointermove", (event) => {
  if (!dragged) return;
  const [x, begin, end] = dragged;
  const moved = (x - event.clientX) / ruler.svg.clientWidth * (end - begin);
  show(begin + moved, end + moved);
});
window.addEventListener("keydown", (event) => {
  const step = (to - from) / 5;
  const does = {
    w: () => magnify(0.7, 0.5), s: () => magnify(1.4, 0.5), a: () => show(from - step, to - step),
    d: () => show(from + step, to + step), 0: () => show(0, data.end),
  }[event.key];
  if (does) does();
});
window.addEventListener("resize", draw);
draw();
