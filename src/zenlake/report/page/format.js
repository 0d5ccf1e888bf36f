// SPDX-License-Identifier: Apache-2.0
// Numbers, times and elements. Data from the network is converted to text only, never to markup.
"use strict";
const zen = {};

zen.count = (n) => (n === null || n === undefined ? "" : Number(n).toLocaleString("en"));

zen.bytes = (n) => {
  if (n === null || n === undefined) return "";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  let value = Number(n);
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return (unit === 0 || value >= 99.95 ? Math.round(value) : Number(value.toPrecision(3))) + " " + units[unit];
};

// Format a duration in milliseconds.
zen.span = (ms) => {
  if (ms === null || ms === undefined) return "";
  const size = Math.abs(ms);
  const short = (value) => (Math.abs(value) >= 99.95 ? String(Math.round(value)) : String(Number(value.toPrecision(3))));
  if (size === 0) return "0 ms";
  if (size < 1) return short(ms * 1000) + " µs";
  if (size < 1000) return short(ms) + " ms";
  if (size < 120000) return short(ms / 1000) + " s";
  const two = (unit, large, small) => {
    const whole = Math.round(ms / unit);
    return Math.trunc(whole / 60) + " " + large + (whole % 60 ? " " + Math.abs(whole % 60) + " " + small : "");
  };
  if (size < 7200000) return two(1000, "min", "s");
  if (size < 172800000) return two(60000, "h", "min");
  return (ms / 86400000).toFixed(1) + " days";
};

zen.many = (n, one, many) => zen.count(n) + " " + (n === 1 ? one : many || one + "s");
// A share is never rounded up to all.
zen.share = (x) => {
  if (x === null || x === undefined) return "";
  return (x > 0.99 && x < 1 ? Math.floor(x * 1000) / 10 : Number((x * 100).toPrecision(2))) + " %";
};
zen.rate = (x) => (x === null || x === undefined ? "" : Number(x.toPrecision(3)).toLocaleString("en"));
zen.day = (ms) => new Date(ms).toISOString().slice(0, 10);
zen.clock = (ms) => (ms === null || ms === undefined ? "" : new Date(ms).toISOString().slice(11, 23));
zen.second = (ms) => new Date(ms).toISOString().slice(11, 19);

// Show characters that reorder or hide neighbouring text by their code.
zen.plain = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
  (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));

// Text for a chart. ECharts caches the width of each text in a plain object, so names that objects inherit (`__proto__`) would
// change the prototypes. An invisible character makes them other names.
zen.label = (text) => (text in Object.prototype ? text + "\u2060" : text);

zen.short = (text, length) => {
  const plain = [...zen.plain(text)];
  if (plain.length <= length) return zen.label(plain.join(""));
  const tail = Math.floor(length * 0.6);
  return plain.slice(0, length - tail - 1).join("") + "…" + plain.slice(plain.length - tail).join("");
};

zen.id = (zid) => (zid && /^[0-9a-f]{9,32}$/.test(zid) ? zid.slice(0, 8) : zen.plain(zid || ""));

// An element: attributes by name, children as elements or text. Text never becomes markup.
zen.el = (name, attributes, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "on") for (const [event, run] of Object.entries(value)) element.addEventListener(event, run);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    element.append(child instanceof Node ? child : document.createTextNode(zen.plain(child)));
  }
  return element;
};

zen.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
