// SPDX-License-Identifier: Apache-2.0
// The page: header, views (one recording, or two and their comparison), colours.
"use strict";
(() => {
  const { el } = zen;
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");
  const nav = document.getElementById("sections");
  const top = document.getElementById("top");

  const fact = (name, value, more, bad) => el("div", { class: "fact" + (bad ? " bad" : "") }, el("dt", {}, name), el("dd", {}, value, more ? el("span", { class: "more" }, more) : null));

  const facts = (r) => {
    const o = r.overview;
    const seconds = (r.window.last - r.window.first) / 1000;
    const of = (...causes) => r.losses.causes.filter((row) => causes.includes(row.cause));
    const where = { network: "in the network", sender: "at publishers", router: "at routers", recording: "in the recording only", unknown: "of unknown cause" };
    const name = (rows) => rows.map((row) => zen.count(row.missing) + " " + row.unit + " " + where[row.cause]).join(", ") || null;
    const doubtful = of("recording", "unknown");
    const others = doubtful.reduce((sum, row) => sum + row.missing, 0);
    return [el("dl", { class: "facts" },
      fact("Publications", zen.count(o.publications), zen.bytes(o.published_bytes) + " of values"),
      fact("Deliveries", zen.count(o.deliveries), "to " + zen.many(o.subscribers, "subscriber") + (o.share === null ? "" : ": " + zen.share(o.share) + " of what they subscribed to")),
      fact("Gets", zen.count(o.gets), o.gets ? zen.count(o.answered) + " answered, " + zen.count(o.failed) + " failed" + (o.empty ? ", " + zen.count(o.empty) + " without reply" : "") + (o.open ? ", " + zen.count(o.open) + " open at the end" : "") : null, o.failed),
      fact("Losses", r.losses.lost ? zen.count(r.losses.lost) : "none", name(of("network", "sender", "router")), r.losses.lost),
      others ? fact("Missing, not counted as lost", zen.count(others), name(doubtful)) : null),
    el("dl", { class: "facts detail" },
      fact("Span", zen.span(r.window.last - r.window.first)),
      fact("Keys", zen.count(o.keys)),
      fact("Sessions", zen.count(o.sessions), zen.many(o.nodes, "node")),
      fact("Hops of publications", zen.count(o.samples - o.replies)),
      fact("Messages", zen.count(o.messages), seconds ? zen.rate(o.messages / seconds) + " per second" : null),
      fact("Bytes", zen.bytes(o.bytes), seconds ? zen.bytes(o.bytes / seconds) + "/s, uncompressed" : null))];
  };

  const head = (title, when, ...rest) => top.replaceChildren(
    el("div", { class: "brand" }, el("span", {}, el("b", {}, "Zenlake"), " report"), theme()), el("h1", {}, title), el("p", { class: "when" }, when), ...rest.flat().filter(Boolean));

  const theme = () => {
    const order = ["auto", "light", "dark"];
    const now = document.documentElement.dataset.theme || "auto";
    return el("button", { type: "button", class: "quiet", id: "theme", "aria-label": "Colours: " + now, on: { click: (event) => {
      const next = order[(order.indexOf(document.documentElement.dataset.theme || "auto") + 1) % 3];
      if (next === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = next;
      event.target.textContent = "Colours: " + next;
      event.target.setAttribute("aria-label", "Colours: " + next);
      redraw();
    } } }, "Colours: " + now);
  };

  const redraw = () => zen.charts.forEach((chart) => (chart.box.isConnected ? chart.draw() : zen.charts.delete(chart)));

  const fill = (sections) => {
    main.replaceChildren(...sections.map((s) => el("section", { id: s.id, "aria-labelledby": s.id + "-title" }, el("h2", { id: s.id + "-title" }, s.title), el("p", { class: "lead" }, s.lead), ...s.parts.filter(Boolean))));
    nav.replaceChildren(el("div", {}, sections.map((s) => el("a", { href: "#" + s.id }, s.title))));
    const links = new Map([...nav.querySelectorAll("a")].map((link) => [link.getAttribute("href").slice(1), link]));
    const seen = new Set();
    const watch = new IntersectionObserver((entries) => {
      for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
      const first = sections.find((s) => seen.has(s.id));
      links.forEach((link, id) => (first && id === first.id ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
    }, { rootMargin: "-70px 0px -55% 0px" });
    main.querySelectorAll("section").forEach((section) => watch.observe(section));
    main.querySelectorAll("details").forEach((box) => box.addEventListener("toggle", redraw));
    redraw();
  };

  const recording = (r, views) => {
    document.title = r.name + " · Zenlake report";
    head(r.name, ("A " + r.kind) + (r.overview.messages + r.overview.samples ? ", recorded " + zen.day(r.window.first) + ", " + zen.second(r.window.first) + " to " + zen.second(r.window.last) + " UTC" : ": empty"),
      views, facts(r),
      r.findings.length ? el("ul", { class: "findings", "aria-label": "Findings" }, r.findings.map((f) => el("li", {}, el("a", { class: f.level, href: "#" + f.section }, el("span", { "aria-hidden": "true" }, { bad: "●", warn: "▲", good: "✓" }[f.level]), f.text)))) : null);
    fill(zen.SECTIONS.map((s) => ({ ...s, parts: s.draw(r) })));
  };

  const comparison = (c, views) => {
    const [a, b] = c.names;
    const t = c.totals;
    const window = data.recordings[0].window;
    document.title = a + " and " + b + " · Zenlake report";
    head(a + " → " + b, "Publications sent in the first (A) and received in the second (B); each is counted once, on all legs together", views,
      el("dl", { class: "facts six" }, fact("Sent in A", zen.count(t.sent)), fact("Seen in B", zen.count(t.seen), t.sent ? zen.share(t.seen / t.sent) : null), fact("Missing in B", zen.count(t.missing), t.sent ? zen.share(t.missing / t.sent) : null, t.missing),
        fact("Outside", zen.count(t.outside), "sent while B was not recording"), fact("Only in B", zen.count(t.only_b)), fact("Median delay", zen.span(c.delay.p50) || "–", c.delay.n ? "99 %: " + zen.span(c.delay.p99) + "; with the clocks' difference" : null)));
    const fates = { seen: "seen in B", missing: "missing in B", outside: "B was not recording" };
    fill([
      { id: "fates", title: "Sent and received", lead: "Publications of A by the time at which A received them. " + (c.by_what.length ? "Found in B by " + c.by_what.map((w) => ({ source: "their publisher's sequence number", timestamp: "timestamp and key" }[w.by_what] || w.by_what) + " (" + zen.count(w.n) + ")").join(", ") + "." : "No publication of A was found in B."), parts: [
        c.over_time.length ? zen.chart({ title: "Over time", sub: zen.span(c.step) + " per bar", height: "h2", label: "Publications of A over time: seen, missing, not recorded in B",
          option: () => zen.stacked({ ...window, step: c.step }, c.over_time.map((row) => ({ ...row, name: fates[row.fate] })), Object.values(fates), ["c1", "c2", "c5"], (row) => row.n, zen.count) }) : zen.none("A has no publications.", true),
        ...c.names.map((name, i) => (c.unresolved[i] ? zen.none(zen.count(c.unresolved[i]) + " samples of " + name + " have keys that were declared before it began. They are matched only by their publisher's sequence number, so the number of missing samples may be too high.", true) : null))] },
      { id: "by-key", title: "By key", lead: "Keys with the most missing samples first. Delay is the received time in B minus that in A.", parts: [
        zen.table("Keys", null, c.keys, [{ name: "Key", of: (x) => x.key, kind: "key mono" }, ...[["Sent in A", "sent"], ["Seen in B", "seen"], ["Missing in B", "missing"], ["Outside", "outside"], ["Only in B", "only_b"]].map(([name, field]) => ({ name, of: (x) => x[field], show: (x) => zen.count(x[field]), number: true, hot: field === "missing" ? (x) => x.missing : null })),
          ...[["Median delay", "delay_p50"], ["99 %", "delay_p99"]].map(([name, field]) => ({ name, of: (x) => x[field], show: (x) => zen.span(x[field]), number: true }))])] },
      { id: "missing", title: "Missing", lead: "Publications that A sent while B was recording, and B did not receive.", parts: [
        c.missing.total ? zen.table("Missing in B", null, c.missing, [{ name: "Time in A", of: (x) => x.t, show: (x) => zen.clock(x.t) }, { name: "Key", of: (x) => x.key, kind: "key mono" }, { name: "Bytes", of: (x) => x.size, show: (x) => zen.bytes(x.size), number: true }, { name: "Value", of: (x) => x.preview, kind: "words mono" }]) : zen.none("B received all publications that A sent while both were recording.", !t.sent)] },
    ]);
  };

  const choices = data.comparison ? ["Comparison", "A: " + data.comparison.names[0], "B: " + data.comparison.names[1]] : [];
  const show = (view) => {
    zen.charts.clear();
    const views = choices.length ? el("div", { class: "choice views", role: "group", "aria-label": "View" }, choices.map((name, i) => el("button", { type: "button", class: "quiet", "aria-pressed": String(i === view), on: { click: () => { show(i); scrollTo(0, 0); top.querySelectorAll(".views button")[i].focus(); } } }, name))) : null;
    if (choices.length && view === 0) comparison(data.comparison, views);
    else recording(data.recordings[Math.max(0, view - (choices.length ? 1 : 0))], views);
  };

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let pending = 0;
  addEventListener("resize", () => { cancelAnimationFrame(pending); pending = requestAnimationFrame(() => zen.charts.forEach((chart) => chart.resize())); });
  document.getElementById("foot").append("Made by Zenlake " + data.version + ". Times are UTC. Charts by Apache ECharts. This file is self-contained: it makes no network requests.");
  show(0);
  document.documentElement.dataset.ready = "yes";
})();
