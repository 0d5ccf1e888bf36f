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

// A node by the common part of its keys, else by its id.
const nodeName = (r, zid) => (r.deliveries.nodes[zid] ? zen.stem(r.deliveries.nodes[zid]) : zid ? zen.id(zid) : "not known");
const share = (x) => (x.share === null ? "" : zen.share(x.share));
const ages = [num("Median age", "age_p50", zen.span), num("99 %", "age_p99", zen.span), num("Oldest", "age_max", zen.span, { hot: (x) => x.age_max >= 1000 })];
const delivered = [num("Matched", "matched"), num("Delivered", "delivered"), num("Share", "share", zen.share, { hot: (x) => x.share !== null && x.share < 0.995 }), ...ages, num("Bytes", "bytes", zen.bytes)];
const node = (name, field, r, keys) => ({ name, of: (x) => x[field] || x.session || "", title: (x) => x[field] || x.session, kind: "mono",
  show: (x) => zen.el("span", {}, x[field] ? zen.id(x[field]) : x.session || "not known", keys && r.deliveries.nodes[x[field]] ? zen.el("span", { class: "role" }, " " + nodeName(r, x[field])) : null) });
// The meaning of each cause of missing numbers, and the remedy.
zen.CAUSES = {
  network: ["lost between two nodes: a frame of a datagram link", "check the link; use TCP, or reliable publications with AdvancedPublisher, where each sample is needed"],
  sender: ["the publishing node did not send it: its queue was full", "publish less, or with congestion control BLOCK; check the link of the publisher"],
  router: ["a forwarding node received it and did not send it to a slow neighbour", "look for the slow subscriber below Deliveries; let it subscribe to less"],
  recording: ["sent, and missing in the recording only: no loss", "use the capture filter of the manual, which includes IP fragments; capture whole packets (-s 0) with a larger buffer (-B)"],
  unknown: ["the recording does not allow a decision: not counted as lost", "record at the router, or both ends"],
  skip: ["a number that Zenoh skips after a fragmented message: no loss", "nothing"],
};

zen.SECTIONS = [
  { id: "throughput", title: "Throughput", lead: "What applications published, received and asked for, over time. A publication counts once, however many routers forward it.", draw: (r) => [
    r.traffic.applications.length ? zen.chart({
      title: "Publications, deliveries and gets over time", sub: zen.span(r.window.step) + " per bar; scroll with Ctrl to zoom, drag to move, double click to reset", height: "h2",
      label: "Publications, deliveries and gets over time", choices: ["Publications", "Deliveries", "Gets"].filter((name) => r.traffic.applications.some((row) => row.of === name.toLowerCase())),
      option: (choice) => {
        const rows = r.traffic.applications.filter((row) => row.of === choice.toLowerCase()).map((row) => ({ ...row, name: row.outcome || row.of }));
        const names = choice === "Gets" ? Object.keys(zen.OUTCOMES).filter((name) => rows.some((row) => row.name === name)) : [choice.toLowerCase()];
        return zen.stacked(r.window, rows, names, names.map((name) => zen.OUTCOMES[name] || (name === "deliveries" ? "c3" : "c1")), (row) => row.n, zen.count);
      },
    }) : null,
    r.traffic.over_time.length ? zen.chart({
      title: "Messages of all hops", sub: "a message that a router forwards counts on each hop; " + zen.span(r.window.step) + " per bar", height: "h2",
      label: "Messages and bytes over time, by purpose", choices: ["Messages", "Bytes"],
      option: (choice) => zen.stacked(r.window, r.traffic.over_time.map((row) => ({ ...row, name: row.class })),
        zen.FLOW.filter((name) => r.traffic.over_time.some((row) => row.class === name && (choice === "Bytes" ? row.bytes : row.messages))),
        zen.FLOW.map((name, i) => ["c1", "c6", "c2", "c3", "c5"][i]).filter((_, i) => r.traffic.over_time.some((row) => row.class === zen.FLOW[i] && (choice === "Bytes" ? row.bytes : row.messages))),
        (row) => (choice === "Bytes" ? row.bytes : row.messages), choice === "Bytes" ? zen.bytes : zen.count),
    }) : zen.none("No messages in this recording.", true),
    r.overview.types.length ? zen.el("details", {}, zen.el("summary", {}, "Kinds of messages", zen.el("span", { class: "sub" }, zen.many(r.overview.types.length, "kind"))),
      zen.table("Kinds of messages", "Message types of the protocol. A reassembled message is counted, and its fragments are counted too.", r.overview.types, [
        { name: "Message", of: (x) => x.type, kind: "mono" }, { name: "Body", of: (x) => x.body, kind: "mono" },
        num("Messages", "messages"), num("Bytes", "bytes", zen.bytes)])) : null,
  ] },
  { id: "deliveries", title: "Deliveries", lead: "What each subscriber received of each publisher. A publication matches if the subscriber had declared a key expression that includes its key. The share is empty if the recording does not show how many were published, or which node received them.", draw: (r) => {
    const { pairs, subscribers } = r.deliveries;
    if (!pairs.total) return [zen.none("No delivery to a subscriber in this recording. A hop into a router is not a delivery.", true)];
    const most = 40;
    const from = [...new Set(pairs.rows.map((x) => x.publisher))].sort((a, b) => nodeName(r, a).localeCompare(nodeName(r, b), "en", { numeric: true })).slice(0, most);
    const to = [...new Set(pairs.rows.map((x) => x.subscriber || x.session))].slice(0, most).reverse();
    const cells = pairs.rows.filter((x) => from.includes(x.publisher) && to.includes(x.subscriber || x.session));
    const index = (list) => new Map(list.map((name, i) => [name, i]));
    const [column, row] = [index(from), index(to)];
    const cut = from.length === most || to.length === most ? "the first " + from.length + " publishers and " + to.length + " subscribers; " : "";
    return [
      zen.chart({ title: "Delivered share", sub: cut + "of the publications that matched; grey: the recording does not show it", pixels: Math.max(130, 70 + to.length * 30), label: "Delivered share of each publisher and subscriber; the table below has the same figures",
        option: (_, wide) => ({
          grid: { top: 6, right: 14 },
          xAxis: zen.axis({ type: "category", data: from.map(String), axisLabel: { formatter: (zid) => zen.short(nodeName(r, zid === "null" ? null : zid), 14), rotate: from.length * 90 > wide ? 50 : 0, interval: from.length > 24 ? "auto" : 0 } }),
          yAxis: zen.axis({ type: "category", data: to.map(String), axisLabel: { formatter: (zid) => zen.short(zen.id(zid), 18), interval: 0 } }),
          visualMap: { show: false, min: 0, max: 1, dimension: 2, inRange: { color: [zen.colour("c2"), zen.colour("low"), zen.colour("c1")] }, outOfRange: { color: [zen.colour("line")] } },
          tooltip: { trigger: "item", formatter: (p) => { const x = cells[p.dataIndex]; return zen.tip(nodeName(r, x.publisher) + " → " + zen.id(x.subscriber || x.session), [[null, "matched", zen.count(x.matched)], [null, "delivered", zen.count(x.delivered)], [null, "share", share(x) || "not known"], [null, "median age", zen.span(x.age_p50)], [null, "99 %", zen.span(x.age_p99)], [null, "bytes", zen.bytes(x.bytes)]]); } },
          series: [{ type: "heatmap", progressive: 0, itemStyle: { borderColor: zen.colour("card"), borderWidth: 1 },
            label: { show: wide / from.length > 60, formatter: (p) => share(cells[p.dataIndex]), fontSize: 11, color: zen.colour("ink"), backgroundColor: zen.colour("card"), padding: [2, 4], borderRadius: 3 },
            data: cells.map((x) => [column.get(x.publisher), row.get(x.subscriber || x.session), x.share === null ? -1 : x.share]) }] }) }),
      zen.table("Subscribers", "received from all publishers; ages without the difference of the clocks", subscribers, [
        { ...node("Subscriber", "subscriber", r), name: "Subscriber" }, { name: "Subscribed to", of: (x) => (x.keys || []).join(", "), show: (x) => (x.keys || []).join(", ") + (x.keys_total > (x.keys || []).length ? " and " + zen.count(x.keys_total - x.keys.length) + " more" : ""), kind: "key mono" }, ...delivered]),
      zen.table("Delivery matrix", "one row for each publisher and subscriber, the smallest share first", pairs, [
        node("Publisher", "publisher", r, true), node("Subscriber", "subscriber", r), ...delivered]),
    ];
  } },
  { id: "keys", title: "Keys", lead: "Keys by volume and by activity. Keys that differ in one chunk are one row of the charts if there are many. A key without publications in a step has an empty cell.", draw: (r) => {
    const { keys, groups, activity } = r.traffic;
    if (!keys.total) return [zen.none("No publication or reply in this recording.", true)];
    const steps = zen.steps(r.window);
    const at = new Map(steps.map((t, i) => [t, i]));
    const top = (field) => [...groups.rows].sort((a, b) => b[field] - a[field]).slice(0, 14).reverse();
    const most = activity.rows.reduce((greatest, row) => Math.max(greatest, row.publications), 1);
    const grouped = (total, names) => (names.some((name) => name.includes("*")) ? zen.count(total) + " groups of keys" : zen.many(total, "key"));
    return [
      groups.total ? zen.el("div", { class: "pair" },
        zen.chart({ title: "Keys by volume", sub: (groups.total > 14 ? "the largest of " : "") + grouped(groups.total, groups.rows.map((x) => x.key)), height: "h3", choices: ["Bytes", "Publications"],
          option: (choice, wide) => {
            const field = choice.toLowerCase();
            const show = choice === "Bytes" ? zen.bytes : zen.count;
            const rows = top(field);
            return { grid: { top: 6, right: 62 },
              xAxis: zen.axis({ type: "value", axisLabel: { formatter: show } }),
              yAxis: zen.axis({ type: "category", data: rows.map((row) => row.key), axisLabel: { formatter: (text) => zen.short(text, wide < 420 ? 18 : 30) } }),
              tooltip: { trigger: "item", formatter: (p) => { const row = rows[p.dataIndex]; return zen.tip(row.key, [[null, "keys", zen.count(row.keys)], [null, "publications", zen.count(row.publications)], [null, "bytes", zen.bytes(row.bytes)]]); } },
              series: [{ type: "bar", data: rows.map((row) => row[field]), barMaxWidth: 16, itemStyle: { color: zen.colour("c1"), borderRadius: [0, 3, 3, 0] },
                label: { show: true, position: "right", color: zen.colour("soft"), formatter: (p) => show(p.value) } }] };
          } }),
        zen.chart({ title: "Activity", sub: "publications in each " + zen.span(r.window.step) + " of " + (activity.total > activity.keys.length ? "the " + activity.keys.length + " busiest of " : "") + grouped(activity.total, activity.keys), height: "h3", label: "Publications of the busiest keys over time",
          option: (_, wide) => {
            const names = [...activity.keys].reverse();
            const row = new Map(names.map((name, i) => [name, i]));
            return { grid: { top: 6, bottom: 8 }, dataZoom: zen.zoom(),
              xAxis: zen.axis({ type: "category", data: steps.map(zen.clock), axisLabel: zen.ticks(r.window) }),
              yAxis: zen.axis({ type: "category", data: names, axisLabel: { formatter: (text) => zen.short(text, wide < 420 ? 16 : 24), fontSize: 11, interval: 0 } }),
              visualMap: { show: false, min: 0, max: most, inRange: { color: [zen.colour("low"), zen.colour("c1"), zen.colour("high")] } },
              tooltip: { trigger: "item", formatter: (p) => zen.tip(names[p.value[1]], [[null, (r.window.step < 1000 ? zen.clock : zen.second)(steps[p.value[0]]), zen.many(p.value[2], "publication")]]) },
              series: [{ type: "heatmap", data: activity.rows.map((cell) => [at.get(cell.t), row.get(cell.key), cell.publications]), itemStyle: { borderColor: zen.colour("card"), borderWidth: names.length > 30 || steps.length > 90 ? 0.5 : 1 }, progressive: 0 }] };
          } })) : null,
      zen.table("All keys", "Hz is the median of its publishers while they published; hops count each publication and reply in each session", keys, [
        key(), num("Publications", "publications"), num("Deliveries", "deliveries"), num("Replies", "replies"), num("Bytes", "bytes", zen.bytes), num("Largest", "largest", zen.bytes), num("Hz", "hz", zen.rate), num("Hops", "hops"),
        { name: "First", of: (x) => x.first, show: (x) => zen.clock(x.first) }, { name: "Last", of: (x) => x.last, show: (x) => zen.clock(x.last) },
        { name: "Encoding", of: (x) => x.encodings, kind: "words" }]),
      ...[["Subscribed, no publisher", "no publication in this recording has a key that matches", r.declared.subscribed, "Subscribers"],
        ["Declared, never published", "a publisher asked for the subscribers of these key expressions, and no publication matches", r.declared.announced, "Publishers"]].map(([title, sub, list, name]) => (list.total
        ? zen.table(title, sub, list, [key(), { name, of: (x) => x.nodes.join(" "), show: (x) => x.nodes.map(zen.id).join(", ") + (x.nodes_total > x.nodes.length ? " and " + zen.count(x.nodes_total - x.nodes.length) + " more" : ""), title: (x) => x.nodes.join(" "), kind: "words mono" }, { ...when(), name: "Declared" }]) : null)),
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
      nodes.rows.some((n) => n.release) ? zen.table("Releases", "likely, inferred from the handshakes of each node", { rows: nodes.rows.filter((n) => n.release), total: nodes.rows.filter((n) => n.release).length }, [
        { name: "Node", of: (n) => n.node, kind: "mono" }, { name: "Role", of: (n) => n.role }, { name: "Zenoh", of: (n) => n.release }, { name: "Known incompatibilities", of: (n) => n.incompatibilities.join("; "), kind: "words" }]) : null,
      zen.table("All sessions", null, list, [
        { name: "Opened by", of: (s) => s.opener, show: (s) => zen.el("span", {}, zen.id(s.opener) + " ", zen.el("span", { class: "role" }, s.opener_is)), title: (s) => s.opener, kind: "mono" },
        { name: "With", of: (s) => s.acceptor, show: (s) => zen.el("span", {}, zen.id(s.acceptor) + " ", zen.el("span", { class: "role" }, s.acceptor_is)), title: (s) => s.acceptor, kind: "mono" },
        { name: "Over", of: (s) => s.session, show: (s) => (s.encrypted ? "encrypted  " : "") + arrow(s.session, 0), title: (s) => s.session, kind: "key mono" },
        { name: "From", of: (s) => s.first, show: (s) => zen.clock(s.first) }, num("Lasted", "last", zen.span, { of: (s) => (s.last === null ? null : s.last - s.first), show: (s) => (s.last === null ? "" : zen.span(s.last - s.first)) }),
        num("Msgs →", "opener_messages"), num("Msgs ←", "acceptor_messages"), num("Bytes →", "opener_bytes", zen.bytes), num("Bytes ←", "acceptor_bytes", zen.bytes),
        { name: "End", of: ending, kind: "words", hot: (s) => !s.reason && s.broke }]),
    ];
  } },
  { id: "gets", title: "Gets", lead: "Queries that applications sent, each once, from the request to its RESPONSE_FINAL at the application. Hops are the sessions in which it was recorded.", draw: (r) => {
    const q = r.gets;
    if (!q.slowest.total) return [zen.none("No get in this recording.", true)];
    const bins = q.histogram.map((row) => row.bin);
    const [low, high] = [Math.min(...bins), Math.max(...bins)];
    const all = []; for (let bin = low; bin <= high; bin += 1) all.push(bin);
    const edge = (bin) => 10 ** (bin / 5);
    const outcomes = Object.keys(zen.OUTCOMES).filter((name) => q.histogram.some((row) => row.outcome === name));
    const found = new Map(q.histogram.map((row) => [row.outcome + row.bin, row.gets]));
    return [
      zen.stats([...q.outcomes.map((o) => [o.outcome, zen.count(o.gets)]), ["median", zen.span(q.latency.p50)], ["90 %", zen.span(q.latency.p90)], ["99 %", zen.span(q.latency.p99)], ["slowest", zen.span(q.latency.most)], q.first_reply.n ? ["median first reply", zen.span(q.first_reply.p50)] : null]),
      bins.length ? zen.el("div", { class: "pair" },
        zen.chart({ title: "Latency", sub: "time to RESPONSE_FINAL, logarithmic bins", height: "h2", label: "Distribution of latency by outcome", option: () => ({
          legend: zen.legend(outcomes), xAxis: zen.axis({ type: "category", data: all.map(String), axisLabel: { formatter: (bin) => zen.span(Number(edge(Number(bin)).toPrecision(2))) } }), yAxis: zen.axis({ type: "value", minInterval: 1 }),
          tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, formatter: (ps) => zen.tip(zen.span(edge(Number(ps[0].name))) + " to " + zen.span(edge(Number(ps[0].name) + 1)), ps.filter((p) => p.value).map((p) => [p.color, p.seriesName, zen.count(p.value)])) },
          series: outcomes.map((name) => ({ name, type: "bar", stack: "all", barCategoryGap: "6%", itemStyle: { color: zen.colour(zen.OUTCOMES[name]) }, emphasis: { disabled: true }, data: all.map((bin) => found.get(name + bin) || 0) })),
        }) }),
        zen.chart({ title: "Latency over time", sub: "median and slowest in each " + zen.span(r.window.step), height: "h2", option: () => zen.lines(r.window, q.over_time, [{ name: "slowest", field: "most", colour: "c2", dashed: true }, { name: "median", field: "p50", colour: "c1" }]) })) : null,
      zen.table("Failed and slowest", "failed queries first", q.slowest, [when(), { name: "Querier", of: (x) => x.querier, show: (x) => zen.id(x.querier), title: (x) => x.querier, kind: "mono" }, key(), { name: "Parameters", of: (x) => x.parameters, kind: "words mono" },
        { name: "Outcome", of: (x) => x.outcome, show: (x) => x.outcome + (x.error && x.outcome !== "timeout" ? ": " + x.error : ""), kind: "words" }, num("Replies", "replies"), num("Hops", "hops"), num("First reply", "first_reply_ms", zen.span), num("End", "latency_ms", zen.span, { hot: (x) => x.outcome === "timeout" }), num("Limit", "timeout_ms", zen.span), num("Packet", "packet"), leg]),
      zen.table("Gets by key", null, q.keys, [key(), num("Gets", "gets"), num("Replies", "replies"), num("Errors", "errors", zen.count, { hot: (x) => x.errors }), num("Not answered", "unanswered", zen.count, { hot: (x) => x.unanswered }), num("Median", "p50", zen.span), num("90 %", "p90", zen.span), num("99 %", "p99", zen.span), num("Slowest", "most", zen.span)]),
    ];
  } },
  { id: "losses", title: "Losses", lead: "Missing sequence numbers, of frames in a lane and of samples of a publisher, by cause. Only network, sender and router are losses. A missing frame may have carried any number of messages. Messages that a congested sender dropped before numbering are not detected, unless the sender is the recording router.", draw: (r) => {
    const l = r.losses;
    const parts = [];
    if (l.causes.length) parts.push(zen.table("By cause", "each loss once, also if it left gaps on several hops", l.causes, [{ name: "Cause", of: (x) => x.cause }, num("Missing", "missing", zen.count, { hot: (x) => ["network", "sender", "router"].includes(x.cause) }), { name: "Of", of: (x) => x.unit },
      { name: "Meaning", of: (x) => zen.CAUSES[x.cause][0], kind: "words" }, { name: "What to do", of: (x) => zen.CAUSES[x.cause][1], kind: "words" }]));
    if (r.overview.in_shared_memory) parts.push(zen.none(zen.many(r.overview.in_shared_memory, "publication") + " of nodes on one host " + (r.overview.in_shared_memory === 1 ? "is a reference" : "are references") + " to shared memory. The recording does not have their values and sizes. To record them, set transport/shared_memory/enabled to false in the configuration of the nodes.", true));
    if (l.over_time.length) {
      const causes = Object.keys(zen.CAUSES).filter((name) => l.over_time.some((row) => row.cause === name));
      const colours = { network: "c2", sender: "c4", router: "c6", recording: "c3", unknown: "c5" };
      parts.push(zen.chart({ title: "Missing over time", sub: "at the time of the first message after the gap", label: "Missing frames and samples over time, by cause",
        option: () => zen.stacked(r.window, l.over_time.map((row) => ({ ...row, name: row.cause })), causes, causes.map((name) => colours[name]), (row) => row.missing, zen.count) }));
    } else parts.push(zen.none(l.lanes.total ? "No number is missing in " + (l.lanes.total === 1 ? "the one lane." : "any of " + zen.count(l.lanes.total) + " lanes.") + (l.causes.length ? " Numbers that Zenoh itself skips after fragmented messages are not counted." : "") : "No numbered frames in this recording.", !l.lanes.total));
    if (l.lanes.total) parts.push(zen.table("By lane", "each direction, priority and reliability has its own sequence numbers; skipped: by Zenoh itself after a fragmented message", l.lanes, [leg,
      { name: "Priority", of: (x) => x.priority, show: (x) => (x.priority === null ? "" : x.priority + " " + (zen.PRIORITIES[x.priority] || "")) }, { name: "Reliable", of: (x) => (x.reliable === null ? "" : x.reliable ? "yes" : "no") },
      num("Frames", "frames"), num("Missing", "missing", zen.count, { hot: (x) => x.missing }), num("Share", "share", zen.share), num("Skipped", "skipped")]));
    if (l.dropped.total) parts.push(zen.table("Dropped by the recording router", "for slow neighbours, reported when their session ended", l.dropped, [when(), { ...leg, name: "Session" }, num("Dropped", "count", zen.count, { hot: (x) => x.count }), { name: "Why", of: (x) => x.detail, kind: "words" }]));
    if (l.sources.total) parts.push(zen.table("By source", "publishers that number their samples, on each hop; a sample that is lost is missing again on each later hop", l.sources, [
      { name: "Publisher", of: (x) => x.source_zid, show: (x) => zen.id(x.source_zid) + "/" + x.source_eid, title: (x) => x.source_zid, kind: "mono" }, { ...key(), show: (x) => x.key + (x.keys > 1 ? " and " + (x.keys - 1) + " more" : "") },
      leg, num("Samples", "samples"), num("Missing", "missing", zen.count, { hot: (x) => x.missing }), num("Share", "share", zen.share)]));
    if (l.runs.total) parts.push(zen.table("Longest gaps", "each loss once, at its first hop", l.runs, [when(), { name: "Of", of: (x) => x.scope }, { name: "Cause", of: (x) => x.cause }, leg, num("First number", "first_sn", String), num("Missing", "missing")]));
    const words = new Map([["duplicate", "frames not newer than the last of their lane, which receivers ignore"], ["lost", "fragmented messages that could not be reassembled"], ["redeclared", "key ids declared again with another key"]]);
    if (l.events.length) parts.push(zen.table("Also seen", null, l.events, [{ name: "What", of: (x) => words.get(x.kind) || x.kind, kind: "words" }, num("Times", "events")]));
    if (l.notes.total) parts.push(zen.table("Missing or repeated packets of the recording", "these notes concern the recording, not the network", l.notes, [{ name: "Note", of: (x) => x.kind }, num("Times", "count"), { name: "Meaning", of: (x) => x.detail, kind: "words" }, num("From packet", "packet"), { name: "File", of: (x) => x.file, kind: "words" }, { name: "Session", of: (x) => x.session, kind: "mono" }]));
    return parts;
  } },
  { id: "timing", title: "Age and order", lead: "Age is the time from the timestamp of a publication to its delivery. Where clocks differ visibly, it is relative to the youngest sample of the clock. Overtaken is something else: a newer publication of the same key was received first, on the same hop. If all publications are late, none is overtaken.", draw: (r) => {
    const t = r.timing;
    if (!t.aged && !t.stamped && !t.counted && !t.latencies.total) return [zen.none("No sample has a timestamp or a sequence number of its publisher, so order and age are not known.", true)];
    const isLate = t.age_max >= 1000;
    return [
      zen.stats([t.aged ? ["deliveries with an age", zen.count(t.aged)] : null, t.aged ? ["median age", zen.span(t.age_p50)] : null, t.aged ? ["99 %", zen.span(t.age_p99)] : null, t.aged ? ["oldest", zen.span(t.age_max)] : null, ["overtaken", zen.count(t.overtaken)], t.counted ? ["reordered", zen.count(t.reordered)] : null]),
      t.aged ? zen.chart({ title: "Age over time", sub: "of deliveries, median and 99 % in each " + zen.span(r.window.step), option: () => zen.lines(r.window, t.over_time, [{ name: "99 %", field: "p99", colour: "c2", dashed: true }, { name: "median", field: "p50", colour: "c1" }]) }) : zen.none("No delivery has an age: only hops into routers were recorded, or no sample has a timestamp.", true),
      t.examples.total ? zen.table("Overtaken and reordered publications", "one row for each hop", t.examples, [when(), key(), num("Behind the newest", "behind_ms", zen.span), { name: "Overtaken", of: (x) => (x.overtaken ? "yes" : "") }, { name: "Reordered", of: (x) => (x.reordered ? x.source_sn + " after " + x.highest : "") }, num("Packet", "packet"), leg])
        : zen.none("No publication was overtaken by a newer one of its key." + (isLate ? " Some were late all the same: see their ages." : ""), isLate),
      t.keys.total ? zen.table("Age by key", null, t.keys, [key(), num("Deliveries", "deliveries"), num("Overtaken", "overtaken", zen.count, { hot: (x) => x.overtaken }), num("Worst", "behind_ms", zen.span), num("Reordered", "reordered", zen.count, { hot: (x) => x.reordered }), num("Youngest", "age_min", zen.span), ...ages]) : null,
      t.clocks.total ? zen.table("Clocks", "on all hops: received time minus timestamp; the youngest sample limits how far a clock is ahead (negative) or behind", t.clocks, [{ name: "Stamped by", of: (x) => x.clock, kind: "mono" }, num("Hops", "samples"), num("Youngest", "age_min", zen.span, { hot: (x) => x.age_min < 0 }), num("Oldest", "age_max", zen.span), num("From the future", "early", zen.count, { hot: (x) => x.early })]) : null,
      t.latencies.total ? zen.table("Latency of hops", "from the timestamp stacks of samples: the last timestamp of a node to the first of the next, with the difference of their clocks", t.latencies, [{ name: "From", of: (x) => x.from_node, kind: "mono" }, { name: "Point", of: (x) => x.from_point }, { name: "To", of: (x) => x.to_node || x.session, kind: "mono" }, { name: "Point of arrival", of: (x) => x.to_point }, num("Samples", "samples"), num("Lowest", "latency_min", zen.span), num("Median", "latency_p50", zen.span), num("99 %", "latency_p99", zen.span), num("Highest", "latency_max", zen.span)]) : null,
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
    if (r.gets.errors.length) parts.push(zen.table("Error replies", "sent by a queryable, or by a router for it", r.gets.errors, [key(), { name: "Error", of: (x) => x.error, kind: "words" }, num("Gets", "gets")]));
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
