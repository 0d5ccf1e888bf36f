// SPDX-License-Identifier: Apache-2.0
// Sortable tables with a filter. Columns: {name, of(row) -> value to sort by, show(row) -> text or element, number, kind, hint}.
"use strict";

zen.table = (title, sub, list, given) => {
  const { el } = zen;
  const rows = Array.isArray(list) ? list : list.rows;
  const columns = given.filter((column) => rows.some((row) => ![null, undefined, ""].includes(column.of(row)))); // hide empty columns
  const total = Array.isArray(list) ? list.length : list.total;
  const body = el("tbody");
  const said = el("span", { class: "sub", role: "status" });
  const state = { column: null, down: false, words: "" };

  const texts = new Map();
  const text = (row) => {
    if (!texts.has(row)) texts.set(row, columns.map((c) => {
      const shown = cellOf(c, row);
      return shown instanceof Node ? shown.textContent : String(shown ?? "");
    }).join(" ").toLowerCase());
    return texts.get(row);
  };
  const cellOf = (column, row) => (column.show ? column.show(row) : column.of(row));

  const draw = () => {
    const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((row) => words.every((word) => text(row).includes(word)));
    if (state.column) {
      const { of } = state.column;
      const sign = state.down ? -1 : 1;
      kept.sort((a, b) => {
        const [x, y] = [of(a), of(b)];
        const [none, neither] = [x === null || x === undefined, y === null || y === undefined];
        if (none || neither) return none - neither;
        return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
      });
    }
    body.replaceChildren(...kept.map((row) => el("tr", {}, columns.map((column) => {
      const value = column.of(row);
      const classes = [column.number ? "n" : "", column.kind || "", column.number && !value ? "zero" : "", column.hot && column.hot(row) ? "hot" : ""];
      return el("td", { class: classes.filter(Boolean).join(" ") || null, title: column.title ? zen.plain(column.title(row) ?? "") : null }, cellOf(column, row));
    }))));
    const of = kept.length < rows.length ? zen.count(kept.length) + " of " : "";
    said.textContent = of + zen.count(rows.length) + (rows.length < total ? " shown of " + zen.count(total) : rows.length === 1 ? " row" : " rows");
  };

  const heads = columns.map((column) => {
    const head = el("th", { scope: "col", class: column.number ? "n" : null });
    head.append(el("button", { type: "button", title: column.hint || null, on: { click: () => {
      state.down = state.column === column ? !state.down : Boolean(column.number);
      state.column = column;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      draw();
    } } }, column.name));
    return head;
  });
  const filter = el("input", { class: "filter", type: "search", placeholder: "Filter", "aria-label": "Filter " + title, on: {
    input: (event) => { state.words = event.target.value; draw(); },
  } });
  draw();
  return el("div", { class: "panel" },
    el("div", { class: "head" }, el("div", {}, el("h3", {}, title), sub ? el("p", { class: "sub" }, sub) : null),
      el("div", { class: "tools" }, said, rows.length > 8 ? filter : null)),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      el("table", {}, el("thead", {}, el("tr", {}, heads)), body)));
};
