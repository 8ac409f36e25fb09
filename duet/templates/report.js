"use strict";
// Sort a table by the column whose heading was clicked: numbers as numbers, cells without a value last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      const rows = [...body.rows];
      const numeric = rows.every((row) => column > 0 && !Number.isNaN(Number(value(row, column))));
      const compare = (a, b) =>
        numeric ? Number(a) - Number(b) : a.localeCompare(b, undefined, { numeric: true });
      rows.sort((first, second) => {
        const [a, b] = [value(first, column), value(second, column)];
        if (a === "" || b === "") return (a === "") - (b === "");
        return up ? compare(a, b) : compare(b, a);
      });
      body.append(...rows);
      heads.forEach((other) => other.setAttribute("aria-sort", other !== head ? "none" : up ? "ascending" : "descending"));
    });
  });
}
// What is wider than its place says that it can be moved sideways.
const sides = new ResizeObserver((seen) => seen.forEach(({ target }) => {
  target.classList.toggle("wide", target.scrollWidth > target.clientWidth + 1);
}));
document.querySelectorAll(".scroll").forEach((part) => sides.observe(part));
// A link to something folded opens it.
const unfold = () => {
  const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (part instanceof HTMLDetailsElement) part.open = true;
};
addEventListener("hashchange", unfold);
unfold();
// What is folded away on the screen is wanted on paper.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((part) => { part.open = true; });
});
addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));
