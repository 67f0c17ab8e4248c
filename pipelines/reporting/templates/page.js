"use strict";
// All that the page says is there without this: it only sorts, filters, copies and unfolds.
(() => {
  const value = cell => cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent.trim().toLowerCase();
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return (Number.isNaN(a) ? 1 : 0) - (Number.isNaN(b) ? 1 : 0) || a - b;
    return typeof a === typeof b ? a.localeCompare(b, undefined, {numeric: true}) : typeof a === "number" ? -1 : 1;
  };
  const sort = (table, heads, at) => {
    const up = heads[at].getAttribute("aria-sort") === "descending";
    const body = table.tBodies[0];
    const rows = [...body.rows].map(row => [value(row.cells[at]), row]);
    rows.sort((a, b) => up ? compare(a[0], b[0]) : compare(b[0], a[0]));
    body.append(...rows.map(pair => pair[1]));
    heads.forEach((head, i) => i === at ? head.setAttribute("aria-sort", up ? "ascending" : "descending") : head.removeAttribute("aria-sort"));
  };
  // On a phone a row of these is a card, and each cell says its column.
  for (const table of document.querySelectorAll("table.stack")) {
    const names = [...table.tHead.rows[0].cells].map(head => head.textContent.trim());
    for (const row of table.tBodies[0].rows)
      [...row.cells].forEach((cell, i) => { if (cell.tagName === "TD") cell.dataset.label = names[i]; });
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      if (!head.textContent.trim() || head.classList.contains("hist")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, heads, at));
    });
  }
  for (const table of document.querySelectorAll("table.filtered")) {
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = field.ariaLabel = `Filter ${table.dataset.what}`;
    const holder = table.closest(".scroll") || table;
    holder.before(field);
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of table.tBodies[0].rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    });
  }
  if (navigator.clipboard) for (const block of document.querySelectorAll(".code")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("pre").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  }
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  };
  // On paper nothing is folded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const one of folded) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of folded) one.open = false; });
  addEventListener("hashchange", unfold);
  unfold();
})();
