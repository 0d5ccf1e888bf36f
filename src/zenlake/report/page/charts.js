// SPDX-License-Identifier: Apache-2.0
// Charts: common parts, and one function for each chart type. Options are rebuilt when the colours change.
"use strict";
zen.charts = new Set();

// A tooltip: a title, then lines of [colour or null, name, value].
zen.tip = (head, lines) => zen.el("div", { class: "tip" }, zen.el("b", {}, head), lines.map(([colour, name, value]) => {
  const dot = colour ? zen.el("span", { class: "dot" }) : null;
  if (dot) dot.style.background = colour;
  return zen.el("div", {}, zen.el("span", {}, dot, name), zen.el("span", {}, value));
}));

zen.shared = () => ({
  useUTC: true,
  animation: false,
  textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: zen.colour("ink"), fontSize: 12 },
  tooltip: {
    confine: true, backgroundColor: zen.colour("card"), borderColor: zen.colour("line"), borderWidth: 1, padding: [8, 12],
    textStyle: { color: zen.colour("ink") }, extraCssText: "", transitionDuration: 0,
    axisPointer: { lineStyle: { color: zen.colour("faint") }, label: { show: false } },
  },
  grid: { left: 8, right: 26, top: 34, bottom: 8, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
});

zen.axis = (more) => ({
  axisLine: { lineStyle: { color: zen.colour("line") } }, axisTick: { show: false },
  axisLabel: { color: zen.colour("soft"), hideOverlap: true, fontSize: 11.5, ...(more.axisLabel || {}) },
  splitLine: { show: more.type !== "category" && more.grid !== false, lineStyle: { color: zen.colour("line"), opacity: 0.7 } },
  nameTextStyle: { color: zen.colour("faint"), fontSize: 11.5, align: "left" },
  ...Object.fromEntries(Object.entries(more).filter(([name]) => !["axisLabel", "grid"].includes(name))),
});

zen.timeAxis = (window) => zen.axis({
  type: "time", min: window.first, max: Math.max(window.last, window.first + 1), grid: false,
  axisLabel: { formatter: window.last - window.first > 172800000 ? "{MM}-{dd} {HH}:{mm}" : window.last - window.first < 5000 ? "{HH}:{mm}:{ss}.{SSS}" : "{HH}:{mm}:{ss}" },
});

zen.legend = (names) => ({
  type: "scroll", pageIconColor: zen.colour("soft"), pageIconInactiveColor: zen.colour("line"), pageTextStyle: { color: zen.colour("soft") },
  top: 0, left: 0, itemWidth: 11, itemHeight: 9, itemGap: 14, icon: "roundRect", textStyle: { color: zen.colour("soft"), fontSize: 12 }, data: names,
});

// Scroll with Ctrl to zoom, drag to move, double click to reset.
zen.zoom = () => [{ type: "inside", zoomOnMouseWheel: true, moveOnMouseMove: true, moveOnMouseWheel: false, filterMode: "none" }];

// A panel with a chart. `option` returns the chart's options; `choices` are alternative views.
zen.chart = ({ title, sub, height = "h1", label, option, choices, click, pixels }) => {
  const { el } = zen;
  const box = el("div", { class: "chart " + height, role: "img", "aria-label": label || title });
  if (pixels) box.style.height = pixels + "px";
  // Without Ctrl the wheel scrolls the page, as usual.
  box.addEventListener("wheel", (event) => { if (!event.ctrlKey) event.stopPropagation(); }, { capture: true });
  let choice = choices ? choices[0] : null;
  let chart = null;
  const draw = () => {
    if (!box.isConnected || !box.clientWidth) return;
    if (chart) chart.dispose();
    chart = echarts.init(box, null, { renderer: "canvas" });
    const given = option(choice, box.clientWidth);
    const shared = zen.shared();
    chart.setOption({ ...shared, ...given, tooltip: { ...shared.tooltip, ...given.tooltip }, grid: { ...shared.grid, ...given.grid } });
    if (given.dataZoom) chart.getZr().on("dblclick", () => chart.dispatchAction({ type: "dataZoom", start: 0, end: 100 }));
    if (click) chart.on("click", click);
  };
  const buttons = (choices || []).map((name) => el("button", { type: "button", class: "quiet", "aria-pressed": String(name === choice), on: {
    click: () => {
      choice = name;
      buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.textContent === name)));
      draw();
    },
  } }, name));
  zen.charts.add({ draw, resize: () => {
    if (chart && box.isConnected) chart.resize();
    else draw();
  }, box });
  return el("div", { class: "panel" },
    el("div", { class: "head" }, el("div", {}, el("h3", {}, title), sub ? el("p", { class: "sub" }, sub) : null),
      choices ? el("div", { class: "choice", role: "group", "aria-label": "What " + title + " shows" }, buttons) : null),
    box);
};

// Every step of a window, so that steps without data are drawn too.
zen.steps = (window) => {
  const steps = [];
  for (let t = Math.floor(window.first / window.step) * window.step; t <= window.last; t += window.step) steps.push(t);
  return steps;
};

// Labels of a time axis: each whole second once, tenths for short recordings. The input is `HH:MM:SS.mmm`.
zen.ticks = (window) => (window.last - window.first < 8000 ? { interval: "auto", formatter: (text) => text.slice(0, 10) }
  : { interval: 0, textMargin: [0, 14], formatter: (text) => (text.endsWith(".000") ? text.slice(0, 8) : "") });

// Layers over time: rows {t, name, value} -> stacked bars, one for each step.
zen.stacked = (window, rows, names, colours, value, show) => {
  const steps = zen.steps(window);
  const found = new Map(rows.map((row) => [row.name + " " + row.t, value(row)]));
  const all = names.map((name, i) => ({
    name, type: "bar", stack: "all", barCategoryGap: "8%", barMaxWidth: 22, itemStyle: { color: zen.colour(colours[i]) }, emphasis: { disabled: true },
    data: steps.map((t) => found.get(name + " " + t) || 0),
  }));
  return {
    legend: zen.legend(names), series: all, dataZoom: zen.zoom(),
    xAxis: zen.axis({ type: "category", data: steps.map(zen.clock), axisLabel: zen.ticks(window) }),
    yAxis: zen.axis({ type: "value", axisLabel: { formatter: show }, minInterval: 1 }),
    tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, formatter: (points) => zen.tip(
      (window.step >= 1000 ? points[0].name.slice(0, 8) : points[0].name) + " · " + zen.span(window.step),
      points.filter((p) => p.value).reverse().map((p) => [p.color, p.seriesName, show(p.value)])) },
  };
};

// Lines over time on a logarithmic scale of durations.
zen.lines = (window, rows, series) => ({
  legend: zen.legend(series.map((s) => s.name)), dataZoom: zen.zoom(), xAxis: zen.timeAxis(window),
  yAxis: zen.axis({ type: series.some((s) => rows.some((row) => row[s.field] <= 0)) ? "value" : "log", axisLabel: { formatter: zen.span } }),
  tooltip: { trigger: "axis", formatter: (points) => zen.tip(zen.clock(points[0].value[0]), points.map((p) => [p.color, p.seriesName, zen.span(p.value[1])])) },
  series: series.map((s) => ({
    name: s.name, type: "line", symbol: rows.length > 60 ? "none" : "circle", symbolSize: 5, lineStyle: { width: 1.8, type: s.dashed ? [4, 3] : "solid" }, itemStyle: { color: zen.colour(s.colour) },
    data: rows.map((row) => [row.t, row[s.field]]),
  })),
});

// Layout of a topology: hubs in the middle, each with its leaves around it.
zen.places = (nodes, edges, wide) => {
  const near = new Map(nodes.map((node) => [node.node, new Set()]));
  for (const edge of edges) {
    near.get(edge.opener).add(edge.acceptor);
    near.get(edge.acceptor).add(edge.opener);
  }
  const hubs = nodes.filter((node) => near.get(node.node).size > 1 || node.role === "router" || node.role === "group");
  const centre = hubs.length ? hubs : nodes.slice(0, 1);
  const places = new Map();
  centre.forEach((hub, i) => {
    const angle = (2 * Math.PI * i) / centre.length - Math.PI / 2;
    const far = centre.length === 1 ? 0 : 90 + 28 * centre.length;
    places.set(hub.node, { x: far * Math.cos(angle) * wide, y: far * Math.sin(angle), angle });
  });
  const leaves = new Map(centre.map((hub) => [hub.node, []]));
  for (const node of nodes) {
    if (places.has(node.node)) continue;
    const hub = [...near.get(node.node)].find((other) => leaves.has(other)) || centre[0].node;
    leaves.get(hub).push(node);
  }
  for (const [hub, around] of leaves) {
    const at = places.get(hub);
    const fan = centre.length === 1 ? 2 * Math.PI : Math.PI * 1.1;
    around.forEach((node, i) => {
      const part = centre.length === 1 ? i / around.length : around.length === 1 ? 0.5 : i / (around.length - 1);
      const from = centre.length > 1 ? at.angle - fan / 2 : around.length < 3 ? 0 : at.angle; // two nodes are placed left and right
      const angle = from + fan * part;
      const far = around.length > 18 && i % 2 ? 190 : 130;
      places.set(node.node, { x: at.x + far * Math.cos(angle) * wide, y: at.y + far * Math.sin(angle), angle });
    });
  }
  return places;
};
