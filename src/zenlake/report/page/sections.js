// SPDX-License-Identifier: Apache-2.0
// The sections of a recording: the layout of the figures, and the texts for empty ones.
"use strict";
zen.ROLES = { router: "c2", peer: "c3", client: "c1", group: "c4", unknown: "c5" };
zen.OUTCOMES = { answered: "c1", empty: "c5", error: "c6", timeout: "c2", lost: "c4", open: "c3" };
zen.FLOW = ["publications", "fragments", "queries and replies", "declarations", "session and framing"];
zen.PRIORITIES = ["control", "real time", "interactive high", "interactive low", "data high", "data", "data low", "background"];

zen.none = (words, plain) => zen.el("div", { class: "panel" }, zen.el("p", { class: "empty" + (plain ? " plain" : "") }, words));
zen.stats = (pairs) => zen.el("dl", { class: "stats" }, pairs.filter(Boolean).map(([name, value]) => zen.el("div", {}, zen.el("dt", {}, name), zen.el("dd", {}, value))));
const arrow = (session, direction) => {
  const [protocol, rest] = [session.slice(0, session.indexOf("/")), session.slice(session.indexOf("/") + 1)];
  const ends = rest.replace(/#[^#]*$/, "").split("->"); // the recorder's own number of the session is in the cell's title
  return ends.length === 2 ? protocol + "  " + (direction === 1 ? ends[1] + " → " + ends[0] : ends[0] + " → " + ends[1]) : session;
};
const key = (field = "key") => ({ name: "Key", of: (r) => r[field], kind: "key mono" });
const num = (name, field, show = zen.count, more = {}) => ({ name, of: (r) => r[field], show: (r) => show(r[field]), number: true, ...more });
const when = (field = "t") => ({ name: "Time", of: (r) => r[field], show: (r) => zen.clock(r[field]) });
const leg = { name: "Leg", of: (r) => r.session, show: (r) => (r.direction === undefined ? r.session : arrow(r.session, r.direction)), title: (r) => r.session, kind: "mono" };
const ending = (s) => (s.reason ? (s.reason === "GENERIC" ? "closed" : s.reason) + " by " + s.closed_by : s.broke ? "broke: " + s.why : s.encrypted ? "" : "no CLOSE seen") + (s.generation === 0 && !s.encrypted ? ", began before the recording" : "");

zen.SECTIONS = [
  { id: "throughput", title: "Throughput", lead: "Traffic over time. A message that a router forwards counts on each of its legs.", draw: (r) => [
    r.traffic.over_time.length ? zen.chart({
      title: "Traffic over time", sub: zen.span(r.window.step) + " per bar; scroll with Ctrl to zoom, drag to move, double click to reset", height: "h2",
      label: "Messages and bytes over time, by purpose", choices: ["Messages", "Bytes"],
      option: (choice) => zen.stacked(r.window, r.traffic.over_time.map((row) => ({ ...row, name: row.class })),
        zen.FLOW.filter((name) => r.traffic.over_time.some((row) => row.class === name && (choice === "Bytes" ? row.bytes : row.messages))),
        zen.FLOW.map((name, i) => ["c1", "c6", "c2", "c3", "c5"][i]).filter((_, i) => r.traffic.over_time.some((row) => row.class === zen.FLOW[i] && (choice === "Bytes" ? row.bytes : row.messages))),
        (row) => (choice === "Bytes" ? row.bytes : row.messages), choice === "Bytes" ? zen.bytes : zen.count),
    }) : zen.none("No messages in this recording.", true),
    r.overview.types.length ? zen.el("details", {}, zen.el("summary", {}, "Kinds of messages", zen.el("span", { class: "sub" }, r.overview.types.length + " kinds")),
      zen.table("Kinds of messages", "Message types of the protocol. A reassembled message is counted, and its fragments are counted too.", r.overview.types, [
        { name: "Message", of: (x) => x.type, kind: "mono" }, { name: "Body", of: (x) => x.body, kind: "mono" },
        num("Messages", "messages"), num("Bytes", "bytes", zen.bytes)])) : null,
  ] },
  { id: "keys", title: "Keys", lead: "Keys by volume and by activity. A key without samples in a step has an empty cell.", draw: (r) => {
    const { keys, activity } = r.traffic;
    if (!keys.total) return [zen.none("No samples in this recording.", true)];
    const steps = zen.steps(r.window);
    const at = new Map(steps.map((t, i) => [t, i]));
    const top = (field) => [...keys.rows].sort((a, b) => b[field] - a[field]).slice(0, 14).reverse();
    const most = activity.rows.reduce((greatest, row) => Math.max(greatest, row.samples), 1);
    return [
      zen.el("div", { class: "pair" },
        zen.chart({ title: "Keys by volume", sub: keys.total > 14 ? "the largest of " + zen.count(keys.total) : null, height: "h3", choices: ["Bytes", "Samples"],
          option: (choice, wide) => {
            const field = choice.toLowerCase();
            const show = choice === "Bytes" ? zen.bytes : zen.count;
            const rows = top(field);
            return { grid: { top: 6, right: 62 },
              xAxis: zen.axis({ type: "value", axisLabel: { formatter: show } }),
              yAxis: zen.axis({ type: "category", data: rows.map((row) => row.key), axisLabel: { formatter: (text) => zen.short(text, wide < 420 ? 18 : 30) } }),
              tooltip: { trigger: "item", formatter: (p) => { const row = rows[p.dataIndex]; return zen.tip(row.key, [[null, "samples", zen.count(row.samples)], [null, "bytes", zen.bytes(row.bytes)], [null, "largest", zen.bytes(row.largest)]]); } },
              series: [{ type: "bar", data: rows.map((row) => row[field]), barMaxWidth: 16, itemStyle: { color: zen.colour("c1"), borderRadius: [0, 3, 3, 0] },
                label: { show: true, position: "right", color: zen.colour("soft"), formatter: (p) => show(p.value) } }] };
          } }),
        zen.chart({ title: "Activity", sub: "samples in each " + zen.span(r.window.step) + " of " + (activity.total > activity.keys.length ? "the " + activity.keys.length + " busiest of " + zen.count(activity.total) : zen.count(activity.total)) + (activity.keys.some((name) => name.includes("*")) ? " groups of keys" : " keys"), height: "h3", label: "Samples of the busiest keys over time",
          option: (_, wide) => {
            const names = [...activity.keys].reverse();
            const row = new Map(names.map((name, i) => [name, i]));
            return { grid: { top: 6, bottom: 8 }, dataZoom: zen.zoom(),
              xAxis: zen.axis({ type: "category", data: steps.map(zen.clock), axisLabel: zen.ticks(r.window) }),
              yAxis: zen.axis({ type: "category", data: names, axisLabel: { formatter: (text) => zen.short(text, wide < 420 ? 16 : 24), fontSize: 11, interval: 0 } }),
              visualMap: { show: false, min: 0, max: most, inRange: { color: [zen.colour("low"), zen.colour("c1"), zen.colour("high")] } },
              tooltip: { trigger: "item", formatter: (p) => zen.tip(names[p.value[1]], [[null, (r.window.step < 1000 ? zen.clock : zen.second)(steps[p.value[0]]), zen.many(p.value[2], "sample")]]) },
              series: [{ type: "heatmap", data: activity.rows.map((cell) => [at.get(cell.t), row.get(cell.key), cell.samples]), itemStyle: { borderColor: zen.colour("card"), borderWidth: names.length > 30 || steps.length > 90 ? 0.5 : 1 }, progressive: 0 }] };
          } })),
      zen.table("All keys", "Hz is the typical rate on one leg while the key was active", keys, [
        key(), num("Samples", "samples"), num("Replies", "replies"), num("Bytes", "bytes", zen.bytes), num("Largest", "largest", zen.bytes), num("Hz", "hz", zen.rate), num("Legs", "legs"),
        { name: "First", of: (x) => x.first, show: (x) => zen.clock(x.first) }, { name: "Last", of: (x) => x.last, show: (x) => zen.clock(x.last) },
        { name: "Encoding", of: (x) => x.encodings, kind: "words" }]),
      r.declared.subscribed.total ? zen.table("Subscribed, no publisher", "no sample in this recording has a key that matches", r.declared.subscribed, [key(), num("Sessions", "sessions"), when()]) : null,
      r.declared.announced.total ? zen.table("Declared, never published", "a publisher asked for the subscribers of these key expressions, and no sample matches", r.declared.announced, [key(), num("Sessions", "sessions"), when()]) : null,
    ];
  } },
  { id: "sessions", title: "Sessions", lead: "Nodes and their sessions. The width of a line shows its traffic.", draw: (r) => {
    const { nodes, edges, list } = r.sessions;
    if (!list.total) return [zen.none("No session in this recording: only scouting, or only samples.", true)];
    const strongest = Math.max(1, ...edges.map((edge) => edge.bytes));
    return [
      zen.chart({ title: "Topology", sub: (nodes.rows.length < nodes.total ? "the " + nodes.rows.length + " busiest of " + zen.count(nodes.total) + " nodes; " : "") + "scroll with Ctrl to zoom, drag to move", height: "h3",
        label: nodes.rows.length + " nodes and " + edges.length + " connections between them",
        option: (_, wide) => { const places = zen.places(nodes.rows, edges, wide < 500 ? 0.8 : 2.1); return {
          legend: zen.legend(Object.keys(zen.ROLES).filter((role) => nodes.rows.some((node) => node.role === role))),
          tooltip: { trigger: "item", formatter: (p) => {
            if (p.dataType === "edge") { const e = edges[p.dataIndex]; return zen.tip(zen.id(e.opener) + " → " + zen.id(e.acceptor), [[null, "over", e.protocols], [null, "sessions", zen.count(e.sessions)], [null, "messages", zen.count(e.messages)], [null, "bytes", zen.bytes(e.bytes)]]); }
            const n = nodes.rows[p.dataIndex];
            return zen.tip(n.node, [[null, "role", n.role], [null, "address", n.address], [null, "sent", zen.bytes(n.sent)], [null, "heard", zen.bytes(n.heard)], ...(n.keys || []).map((k, i) => [null, i ? "" : "publishes", k])]);
          } },
          series: [{
            type: "graph", layout: "none", roam: true, scaleLimit: { min: 0.4, max: 6 }, left: 60, right: 60, top: 46, bottom: 44, preserveAspect: "contain",
            categories: Object.entries(zen.ROLES).map(([name, colour]) => ({ name, itemStyle: { color: zen.colour(colour) } })),
            label: { show: true, position: "bottom", color: zen.colour("ink"), fontSize: 11.5, formatter: (p) => p.data.caption, lineHeight: 15, backgroundColor: zen.colour("card"), padding: [0, 3], borderRadius: 3 },
            data: nodes.rows.map((n) => ({
              name: n.node, category: n.role, ...places.get(n.node), symbolSize: n.role === "router" ? 30 : 19,
              caption: zen.label(zen.id(n.node)) + (n.keys ? "\n" + zen.short(zen.stem(n.keys), 22) : ""),
            })),
            links: edges.map((e) => ({ source: e.opener, target: e.acceptor, lineStyle: { width: 1 + 5 * Math.sqrt(e.bytes / strongest), color: zen.colour("faint"), opacity: 0.55 } })),
            emphasis: { focus: "adjacency", lineStyle: { opacity: 1 } },
          }],
        }; } }),
      zen.table("All sessions", null, list, [
        { name: "Opened by", of: (s) => s.opener, show: (s) => zen.el("span", {}, zen.id(s.opener) + " ", zen.el("span", { class: "role" }, s.opener_is)), title: (s) => s.opener, kind: "mono" },
        { name: "With", of: (s) => s.acceptor, show: (s) => zen.el("span", {}, zen.id(s.acceptor) + " ", zen.el("span", { class: "role" }, s.acceptor_is)), title: (s) => s.acceptor, kind: "mono" },
        { name: "Over", of: (s) => s.session, show: (s) => (s.encrypted ? "encrypted  " : "") + arrow(s.session, 0), title: (s) => s.session, kind: "key mono" },
        { name: "From", of: (s) => s.first, show: (s) => zen.clock(s.first) }, num("Lasted", "last", zen.span, { of: (s) => (s.last === null ? null : s.last - s.first), show: (s) => (s.last === null ? "" : zen.span(s.last - s.first)) }),
        num("Msgs →", "opener_messages"), num("Msgs ←", "acceptor_messages"), num("Bytes →", "opener_bytes", zen.bytes), num("Bytes ←", "acceptor_bytes", zen.bytes),
        { name: "End", of: ending, kind: "words", hot: (s) => !s.reason && s.broke }]),
    ];
  } },
  { id: "queries", title: "Queries", lead: "From the request to its RESPONSE_FINAL, in one session. A query that a router forwards has a row in each session that it crosses.", draw: (r) => {
    const q = r.queries;
    if (!q.slowest.total) return [zen.none("No query in this recording.", true)];
    const bins = q.histogram.map((row) => row.bin);
    const [low, high] = [Math.min(...bins), Math.max(...bins)];
    const all = []; for (let bin = low; bin <= high; bin += 1) all.push(bin);
    const edge = (bin) => 10 ** (bin / 5);
    const outcomes = Object.keys(zen.OUTCOMES).filter((name) => q.histogram.some((row) => row.outcome === name));
    const found = new Map(q.histogram.map((row) => [row.outcome + row.bin, row.queries]));
    return [
      zen.stats([...q.outcomes.map((o) => [o.outcome, zen.count(o.queries)]), ["median", zen.span(q.final.p50)], ["90 %", zen.span(q.final.p90)], ["99 %", zen.span(q.final.p99)], ["slowest", zen.span(q.final.most)], q.first_reply.n ? ["median first reply", zen.span(q.first_reply.p50)] : null]),
      bins.length ? zen.el("div", { class: "pair" },
        zen.chart({ title: "Latency", sub: "time to RESPONSE_FINAL, logarithmic bins", height: "h2", label: "Distribution of query latency by outcome", option: () => ({
          legend: zen.legend(outcomes), xAxis: zen.axis({ type: "category", data: all.map(String), axisLabel: { formatter: (bin) => zen.span(Number(edge(Number(bin)).toPrecision(2))) } }), yAxis: zen.axis({ type: "value", minInterval: 1 }),
          tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, formatter: (ps) => zen.tip(zen.span(edge(Number(ps[0].name))) + " to " + zen.span(edge(Number(ps[0].name) + 1)), ps.filter((p) => p.value).map((p) => [p.color, p.seriesName, zen.count(p.value)])) },
          series: outcomes.map((name) => ({ name, type: "bar", stack: "all", barCategoryGap: "6%", itemStyle: { color: zen.colour(zen.OUTCOMES[name]) }, emphasis: { disabled: true }, data: all.map((bin) => found.get(name + bin) || 0) })),
        }) }),
        zen.chart({ title: "Latency over time", sub: "median and slowest in each " + zen.span(r.window.step), height: "h2", option: () => zen.lines(r.window, q.over_time, [{ name: "slowest", field: "most", colour: "c2", dashed: true }, { name: "median", field: "p50", colour: "c1" }]) })) : null,
      zen.table("Failed and slowest", "failed queries first", q.slowest, [when(), key(), { name: "Parameters", of: (x) => x.parameters, kind: "words mono" },
        { name: "Outcome", of: (x) => x.outcome, show: (x) => x.outcome + (x.error && x.outcome !== "timeout" ? ": " + x.error : ""), kind: "words" }, num("Replies", "replies"), num("First reply", "first_reply_ms", zen.span), num("End", "final_ms", zen.span, { hot: (x) => x.outcome === "timeout" }), num("Limit", "timeout_ms", zen.span), num("Packet", "packet"), leg]),
      zen.table("By key", null, q.keys, [key(), num("Queries", "queries"), num("Replies", "replies"), num("Errors", "errors", zen.count, { hot: (x) => x.errors }), num("Not answered", "unanswered", zen.count, { hot: (x) => x.unanswered }), num("Median", "p50", zen.span), num("90 %", "p90", zen.span), num("99 %", "p99", zen.span), num("Slowest", "most", zen.span)]),
    ];
  } },
  { id: "losses", title: "Losses", lead: "Missing sequence numbers: of frames in a lane, and of samples of a publisher. A missing frame may have carried any number of messages. Messages that a congested sender dropped before numbering are not detected, unless the sender is the recording router.", draw: (r) => {
    const l = r.losses;
    const parts = [];
    if (l.over_time.length) {
      parts.push(zen.chart({ title: "Missing over time", sub: "at the time of the first message after the gap", label: "Missing frames and samples over time",
        option: () => zen.stacked(r.window, l.over_time.map((row) => ({ ...row, name: row.scope === "lane" ? "frames of lanes" : "samples of sources" })), ["frames of lanes", "samples of sources"], ["c2", "c4"], (row) => row.missing, zen.count) }));
    } else parts.push(zen.none(l.lanes.total ? "No number is missing in " + (l.lanes.total === 1 ? "the one lane." : "any of " + zen.count(l.lanes.total) + " lanes.") + (l.harmless ? " (" + zen.count(l.harmless) + " that Zenoh itself skips after fragmented messages are not counted.)" : "") : "No numbered frames in this recording.", !l.lanes.total));
    if (l.lanes.total) parts.push(zen.table("By lane", "each direction, priority and reliability has its own sequence numbers; harmless: numbers that Zenoh skips after a fragmented message", l.lanes, [leg,
      { name: "Priority", of: (x) => x.priority, show: (x) => (x.priority === null ? "" : x.priority + " " + (zen.PRIORITIES[x.priority] || "")) }, { name: "Reliable", of: (x) => (x.reliable === null ? "" : x.reliable ? "yes" : "no") },
      num("Frames", "frames"), num("Missing", "missing", zen.count, { hot: (x) => x.missing }), num("Lost", "share", zen.share, { hot: (x) => x.missing }), num("Harmless", "harmless")]));
    if (l.dropped.total) parts.push(zen.table("Dropped by the recording router", "for slow neighbours, reported when their session ended", l.dropped, [when(), { ...leg, name: "Session" }, num("Dropped", "count", zen.count, { hot: (x) => x.count }), { name: "Why", of: (x) => x.detail, kind: "words" }]));
    if (l.sources.total) parts.push(zen.table("By source", "publishers that number their samples; samples that were filtered out on the way appear as missing too", l.sources, [
      { name: "Publisher", of: (x) => x.source_zid, show: (x) => zen.id(x.source_zid) + "/" + x.source_eid, title: (x) => x.source_zid, kind: "mono" }, { ...key(), show: (x) => x.key + (x.keys > 1 ? " and " + (x.keys - 1) + " more" : "") },
      leg, num("Samples", "samples"), num("Missing", "missing", zen.count, { hot: (x) => x.missing }), num("Lost", "share", zen.share, { hot: (x) => x.missing })]));
    if (l.runs.total) parts.push(zen.table("Longest gaps", null, l.runs, [when(), { name: "Of", of: (x) => x.scope }, leg, num("First number", "first_sn", String), num("Missing", "missing")]));
    const words = new Map([["duplicate", "frames not newer than the last of their lane, which receivers ignore"], ["lost", "fragmented messages that could not be reassembled"], ["redeclared", "key ids declared again with another key"]]);
    if (l.events.length) parts.push(zen.table("Also seen", null, l.events, [{ name: "What", of: (x) => words.get(x.kind) || x.kind, kind: "words" }, num("Times", "events")]));
    if (l.notes.total) parts.push(zen.table("Missing or repeated packets of the recording", "these notes concern the recording, not the network", l.notes, [{ name: "Note", of: (x) => x.kind }, num("Times", "count"), { name: "Meaning", of: (x) => x.detail, kind: "words" }, num("From packet", "packet"), { name: "File", of: (x) => x.file, kind: "words" }, { name: "Session", of: (x) => x.session, kind: "mono" }]));
    return parts;
  } },
  { id: "timing", title: "Age and order", lead: "Age is the received time minus the timestamp of the sample, so it includes the difference between two clocks. Overtaken: a newer sample of the same key and clock was received first, on the same leg. An old sample is not overtaken if all samples before it were old too.", draw: (r) => {
    const t = r.timing;
    if (!t.stamped && !t.counted) return [zen.none("No sample has a timestamp or a sequence number of its publisher, so order and age are unknown.", true)];
    return [
      zen.stats([["stamped", zen.count(t.stamped)], ["overtaken", zen.count(t.late)], ["counted by publisher", zen.count(t.counted)], ["reordered", zen.count(t.reordered)], t.stamped ? ["median age", zen.span(t.age_p50)] : null, t.stamped ? ["99 %", zen.span(t.age_p99)] : null, t.stamped ? ["oldest", zen.span(t.age_most)] : null]),
      t.stamped ? zen.chart({ title: "Age over time", sub: "median and 99 % in each " + zen.span(r.window.step), option: () => zen.lines(r.window, t.over_time, [{ name: "99 %", field: "p99", colour: "c2", dashed: true }, { name: "median", field: "p50", colour: "c1" }]) }) : null,
      t.examples.total ? zen.table("Overtaken and reordered samples", null, t.examples, [when(), key(), num("Behind the newest", "behind_ms", zen.span), { name: "Overtaken", of: (x) => (x.late ? "yes" : "") }, { name: "Reordered", of: (x) => (x.reordered ? x.source_sn + " after " + x.highest : "") }, num("Packet", "packet"), leg]) : zen.none("All samples were received in order."),
      t.receivers.total ? zen.table("Age by receiver", "relative to the youngest sample of each clock; routers are left out", t.receivers, [{ name: "Receiver", of: (x) => x.receiver, kind: "mono" }, num("Samples", "samples"), num("Median age", "age_p50", zen.span), num("99 %", "age_p99", zen.span), num("Oldest", "age_most", zen.span, { hot: (x) => x.age_most >= 1000 })]) : null,
      t.keys.total ? zen.table("By key", null, t.keys, [key(), num("Stamped", "stamped"), num("Overtaken", "late", zen.count, { hot: (x) => x.late }), num("Worst", "latest_ms", zen.span), num("Reordered", "reordered", zen.count, { hot: (x) => x.reordered }), num("Youngest", "age_least", zen.span), num("Median age", "age_p50", zen.span), num("99 %", "age_p99", zen.span), num("Oldest", "age_most", zen.span)]) : null,
      t.clocks.total ? zen.table("Clocks", "the youngest sample limits how far a clock is ahead (negative) or behind", t.clocks, [{ name: "Stamped by", of: (x) => x.clock, kind: "mono" }, num("Samples", "samples"), num("Youngest", "age_least", zen.span, { hot: (x) => x.age_least < 0 }), num("Median age", "age_p50", zen.span), num("Oldest", "age_most", zen.span), num("From the future", "early", zen.count, { hot: (x) => x.early })]) : null,
    ];
  } },
  { id: "errors", title: "Errors", lead: "Undecodable bytes, with one example of each kind, explained up to the error; and error replies to queries.", draw: (r) => {
    const parts = [];
    const { errors } = r.losses;
    if (errors.total) {
      parts.push(zen.el("div", { class: "panel" }, zen.el("div", { class: "head" }, zen.el("h3", {}, "Undecodable bytes"), zen.el("span", { class: "sub" }, zen.count(errors.total) + (errors.total === 1 ? " kind" : " kinds"))),
        errors.rows.map((e, i) => zen.el("details", { open: i === 0 }, zen.el("summary", {}, zen.el("b", {}, e.field + " "), e.why, zen.el("span", { class: "sub" }, zen.count(e.times) + (e.times === 1 ? " time" : " times") + (e.t ? ", first at " + zen.clock(e.t) : "") + (e.packet ? " in packet " + e.packet : "") + ", " + zen.bytes(e.size) + ", " + e.session)),
          zen.el("div", { class: "bytes", tabindex: "0", role: "region", "aria-label": "The bytes of " + e.field }, zen.el("table", {}, zen.el("tbody", {}, e.lines.map(([at, data, name, words, kind]) => zen.el("tr", { class: kind }, zen.el("td", { class: "at" }, at), zen.el("td", {}, data), zen.el("td", {}, name), zen.el("td", {}, words))))))))));
    } else parts.push(zen.none("All bytes were decoded."));
    if (r.queries.errors.length) parts.push(zen.table("Error replies", "sent by a queryable, or by a router for it", r.queries.errors, [key(), { name: "Error", of: (x) => x.error, kind: "words" }, num("Queries", "queries")]));
    return parts;
  } },
  { id: "liveliness", title: "Liveliness", lead: "Spans in which each token was declared, on any leg. A session that is silent for longer than its lease counts as ended from its last message.", draw: (r) => {
    const { spans, total } = r.liveliness;
    if (!spans.length) return [zen.none("No liveliness token was declared in this recording.", true)];
    const keys = [...new Set(spans.map((s) => s.key))].sort().reverse();
    const row = new Map(keys.map((name, i) => [name, i]));
    const colours = { "alive at the end": "c3", undeclared: "c1", "session closed": "c6", "connection broke": "c2", "fell silent": "c4" };
    const ends = Object.keys(colours).filter((how) => spans.some((s) => s.how === how));
    return [
      zen.chart({ title: "Tokens", sub: keys.length < total ? "the first " + keys.length + " of " + zen.count(total) : "coloured by how they ended", pixels: Math.max(150, 74 + keys.length * 26), label: "Liveliness tokens over time",
        option: (_, wide) => ({
          legend: zen.legend(ends), dataZoom: zen.zoom(), xAxis: zen.timeAxis(r.window),
          yAxis: zen.axis({ type: "category", data: keys, axisLabel: { formatter: (text) => zen.short(text, wide < 500 ? 16 : 40), interval: 0 } }),
          tooltip: { trigger: "item", formatter: (p) => { const s = p.data.span; return zen.tip(s.key, [[null, "from", zen.clock(s.begun)], [null, "to", zen.clock(s.until)], [null, "for", zen.span(s.until - s.begun)], [null, "end", s.how], [null, "seen on", s.legs + (s.legs === 1 ? " leg" : " legs")]]); } },
          series: ends.map((how) => ({ name: how, type: "custom", itemStyle: { color: zen.colour(colours[how]) }, encode: { x: [0, 1], y: 2 }, clip: true,
            data: spans.filter((s) => s.how === how).map((s) => ({ value: [s.begun, s.until, row.get(s.key)], span: s })),
            renderItem: (_params, api) => {
              const [from, to] = [api.coord([api.value(0), api.value(2)]), api.coord([api.value(1), api.value(2)])];
              return { type: "rect", shape: { x: from[0], y: from[1] - 6, width: Math.max(2, to[0] - from[0]), height: 12, r: 3 }, style: { fill: api.visual("color") } };
            } })),
        }) }),
    ];
  } },
];

// The common first chunks of keys.
zen.stem = (keys) => {
  const parts = keys.map((name) => name.split("/"));
  const shared = [];
  for (let i = 0; i < parts[0].length && parts.every((p) => p[i] === parts[0][i]); i += 1) shared.push(parts[0][i]);
  return shared.length ? shared.join("/") : keys[0];
};
