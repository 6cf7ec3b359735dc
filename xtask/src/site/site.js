// The search by headings, and the list of pages where there is no room beside the page. HEADINGS is in
// headings.js: [heading, what it is part of, where].
"use strict";

const MOST = 12;
const input = document.querySelector("input");
const found = document.querySelector(".found");
const button = document.querySelector("header button");

/** All words are in it; where the heading has them, it is better than where its page has. */
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = HEADINGS.map(([heading, part, place], order) => {
    const [own, both] = [heading.toLowerCase(), `${heading} ${part}`.toLowerCase()];
    if (!words.every(word => both.includes(word))) return null;
    const rank = own === text.trim().toLowerCase() ? 0 : !words.every(word => own.includes(word)) ? 3 : own.startsWith(words[0]) ? 1 : 2;
    return { heading, part, place, rank, order };
  });
  return all.filter(Boolean).sort((a, b) => a.rank - b.rank || a.order - b.order).slice(0, MOST);
}

function show() {
  const hits = input.value.trim() ? search(input.value) : [];
  found.replaceChildren(...hits.map(hit => {
    const [item, link, part] = ["li", "a", "span"].map(name => document.createElement(name));
    link.href = TOP + hit.place;
    link.textContent = hit.heading;
    part.textContent = hit.part;
    link.append(part);
    item.append(link);
    return item;
  }));
  if (input.value.trim() && !hits.length) found.append(Object.assign(document.createElement("li"), { textContent: "nothing" }));
  found.hidden = !found.children.length;
}

input.addEventListener("input", show);
input.addEventListener("keydown", event => {
  if (event.key === "Escape") { input.value = ""; show(); }
  if (event.key === "Enter") found.querySelector("a")?.click();
});
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== input) { event.preventDefault(); input.focus(); }
});
document.addEventListener("click", event => { if (!event.target.closest("header")) found.hidden = true; });
button.addEventListener("click", () => {
  button.setAttribute("aria-expanded", document.body.classList.toggle("pages"));
});
