"use strict";
// The trend page: choosing a series, its charts, and the keyboard. Data come by script elements.
(() => {
  const tracks = JSON.parse(document.getElementById("index").textContent);
  const byId = (id) => document.getElementById(id);
  const loaded = {}, waiting = {}, choice = { branch: "", cell: "", section: "" };
  let charts = [], range = null, night = null, wanted = 0;

  const svg = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // ---- Data: one script per board and branch, loaded when it is looked at.

  window.trendData = (number, data) => {
    data.days = data.nights.night.map((n) => Date.parse(n + "T00:00:00Z") / 864e5);
    loaded[number] = data;
    (waiting[number] || []).forEach(([done]) => done(data));
  };

  function load(number) {
    if (loaded[number]) return Promise.resolve(loaded[number]);
    return new Promise((done, failed) => {
      if (waiting[number]) { waiting[number].push([done, failed]); return; }
      waiting[number] = [[done, failed]];
      const script = document.createElement("script");
      script.src = "data/" + number + ".js";
      script.onerror = () => {
        waiting[number].forEach(([, fail]) => fail(new Error("data/" + number + ".js is missing")));
        delete waiting[number];
      };
      document.head.append(script);
    });
  }

  // ---- Choosing.

  const own = () => tracks.map((t, n) => ({ ...t, n })).filter((t) => t.branch === choice.branch);
  const unique = (list) => [...new Set(list)];

  function fill(id, options) {
    if (!options.includes(choice[id])) choice[id] = options[0] || "";
    byId(id).replaceChildren(...options.map((o) => new Option(o, o, false, o === choice[id])));
  }

  function choose(change) {
    if (change.branch !== undefined && change.branch !== choice.branch) { range = null; night = null; }
    Object.assign(choice, change);
    fill("branch", unique(tracks.map((t) => t.branch)));
    fill("cell", unique(own().flatMap((t) => t.cells)).sort());
    fill("section", unique(own().flatMap((t) => t.sections)));
    try { history.replaceState(null, "", "#" + new URLSearchParams(choice)); } catch { /* some browsers refuse it for files */ }
    return draw();
  }

  // ---- Charts.

  const scaled = (track, value) => (value === null || track.unit !== "ns" ? value : value / 1000);
  const unit = (track) => (track.unit === "ns" ? "µs" : "instructions");
  const dateOf = (day) => new Date(day * 864e5).toISOString().slice(0, 10);

  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
    const found = [];
    for (let v = Math.ceil(low / step) * step; v <= high; v += step) found.push(Number(v.toPrecision(12)));
    return found;
  }

  function bounds(values) {
    const known = values.filter((v) => v !== null);
    if (!known.length) return [0, 1];
    let low = Infinity, high = -Infinity;
    for (const v of known) { low = Math.min(low, v); high = Math.max(high, v); }
    const pad = Math.max((high - low) * 0.15, Math.abs(high) * 0.005, 1e-9);
    return [low - pad, high + pad];
  }

  function curve(days, values, x, y) {
    let path = "", open = false;
    values.forEach((v, i) => {
      if (v === null) { open = false; return; }
      path += (open ? "L" : "M") + x(days[i]).toFixed(1) + " " + y(v).toFixed(1);
      // A night between two gaps would have no line.
      if (!open && (i + 1 >= values.length || values[i + 1] === null)) path += "h1";
      open = true;
    });
    return path;
  }

  class Chart {
    constructor(track, data, key, box) {
      Object.assign(this, { track, data, key, box });
      this.values = data.series[key].map((v) => scaled(track, v));
      this.reference = (data.reference[key] || []).map((v) => scaled(track, v));
      this.render();
    }

    inside(day) { return day >= range[0] && day <= range[1]; }

    render() {
      const { data, track, key, values } = this, width = Math.max(280, this.box.clientWidth), height = 240;
      const left = 74, right = 10, top = 22, bottom = 24, days = data.days;
      const shown = values.filter((_, i) => this.inside(days[i]));
      const references = this.reference.filter((_, i) => this.inside(days[i]));
      const [low, high] = bounds([...shown, ...references]);
      const x = (day) => left + ((day - range[0]) / (range[1] - range[0] || 1)) * (width - left - right);
      const y = (v) => top + ((high - v) / (high - low)) * (height - top - bottom);
      const title = track.board + ": " + key.replace("/", " ") + ", " + unit(track) + " per I/O";
      const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title + ", " + days.length + " nights" });
      root.append(svg("text", { x: 2, y: 13, class: "title" }, title));
      for (const v of ticks(low, high, 5)) {
        root.append(svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }));
        root.append(svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, v.toLocaleString("en")));
      }
      for (const day of ticks(range[0], range[1], Math.max(2, Math.floor(width / 130))).filter(Number.isInteger)) {
        root.append(svg("text", { x: x(day), y: height - 6, "text-anchor": "middle" }, dateOf(day)));
      }
      const clip = "clip" + track.n, area = { x: left, y: top, width: width - left - right, height: height - top - bottom };
      root.append(svg("clipPath", { id: clip }));
      root.lastChild.append(svg("rect", area));
      const plot = svg("g", { "clip-path": `url(#${clip})` });
      root.append(plot);
      this.marks(plot, x, { top, bottom: height - bottom, width });
      if (references.length) plot.append(svg("path", { d: curve(days, this.reference, x, y), class: "reference" }));
      plot.append(svg("path", { d: curve(days, values, x, y), class: "curve" }));
      if (shown.length <= 150) values.forEach((v, i) => { if (v !== null && this.inside(days[i])) plot.append(svg("circle", { cx: x(days[i]), cy: y(v), r: 2.2, class: "point" })); });
      this.cursor = plot.appendChild(svg("g", {}));
      this.band = plot.appendChild(svg("rect", { y: top, height: height - top - bottom, width: 0, class: "band" }));
      this.geometry = { x, y, top, bottom: height - bottom, left, right: width - right };
      this.listen(root.appendChild(svg("rect", { ...area, fill: "transparent", class: "touch" })));
      this.box.replaceChildren(root);
      this.point();
    }

    // Gaps, releases and changes lie behind the curve.
    marks(plot, x, { top, bottom, width }) {
      const { data, key } = this;
      data.nights.status.forEach((status, i) => {
        const day = data.days[i];
        if (status === "failed" && this.inside(day)) plot.append(svg("rect", { x: x(day - 0.5), y: top, width: Math.max(2, x(day + 0.5) - x(day - 0.5)), height: bottom - top, class: "gap" }));
      });
      const label = (day, y, text, name) => {
        const late = x(day) > width - 110;
        plot.append(svg("text", { x: x(day) + (late ? -4 : 4), y, class: name, "text-anchor": late ? "end" : "start" }, text));
      };
      const line = (day, name) => plot.append(svg("line", { x1: x(day), x2: x(day), y1: top, y2: bottom, class: name }));
      data.nights.release.forEach((name, i) => {
        if (!name || !this.inside(data.days[i])) return;
        line(data.days[i], "release");
        label(data.days[i], top + 11, name, "release");
      });
      let last = -1e9;
      for (const change of data.changes) {
        const delta = change.effects[key], day = Date.parse(change.night + "T00:00:00Z") / 864e5;
        if (delta === undefined || !this.inside(day)) continue;
        line(day, delta > 0 ? "grew" : "shrank");
        // Labels that would cover each other are left to the cursor.
        if (Math.abs(x(day) - last) < 70) continue;
        last = x(day);
        label(day, bottom - 6, (delta > 0 ? "▲ +" : "▼ ") + scaled(this.track, delta).toLocaleString("en"), delta > 0 ? "grew" : "shrank");
      }
    }

    listen(area) {
      let from = null;
      const dayAt = (event) => {
        const { left, right } = this.geometry, at = event.clientX - this.box.getBoundingClientRect().left;
        return range[0] + ((Math.min(Math.max(at, left), right) - left) / (right - left)) * (range[1] - range[0]);
      };
      area.addEventListener("pointerdown", (e) => { from = dayAt(e); area.setPointerCapture(e.pointerId); });
      area.addEventListener("pointermove", (e) => {
        const now = dayAt(e), { x } = this.geometry;
        if (from !== null) {
          this.band.setAttribute("x", x(Math.min(from, now)));
          this.band.setAttribute("width", Math.abs(x(now) - x(from)));
        }
        toDay(now, this);
      });
      area.addEventListener("pointerup", (e) => {
        const now = dayAt(e), { x } = this.geometry, drawn = from !== null && Math.abs(x(now) - x(from)) > 8;
        const ends = [Math.min(from, now), Math.max(from, now)];
        from = null;
        this.band.setAttribute("width", 0);
        if (drawn) zoom(...ends); else toDay(now, this);
      });
      area.addEventListener("pointercancel", () => { from = null; this.band.setAttribute("width", 0); });
      area.addEventListener("dblclick", whole);
    }

    point() {
      this.cursor.replaceChildren();
      const i = night === null ? -1 : this.data.nights.night.indexOf(night);
      if (i < 0 || !this.inside(this.data.days[i])) return;
      const { x, y, top, bottom } = this.geometry, at = x(this.data.days[i]);
      this.cursor.append(svg("line", { x1: at, x2: at, y1: top, y2: bottom, class: "cursor" }));
      if (this.values[i] !== null) this.cursor.append(svg("circle", { cx: at, cy: y(this.values[i]), r: 4.5, class: "here" }));
    }
  }

  async function draw() {
    const turn = ++wanted, key = choice.cell + "/" + choice.section;
    let found;
    try { found = await Promise.all(own().map((t) => load(t.n).then((data) => ({ t, data })))); }
    catch (error) { byId("detail").textContent = error.message; return; }
    if (turn !== wanted) return;
    found = found.filter(({ data }) => data.series[key]);
    if (range === null) whole(found.map(({ data }) => data));
    byId("charts").replaceChildren();
    charts = found.map(({ t, data }) => {
      const box = byId("charts").appendChild(Object.assign(document.createElement("div"), { className: "chart" }));
      return new Chart(t, data, key, box);
    });
    if (!charts.length) byId("charts").textContent = "No board of this branch measured it.";
    if (charts.length) show(charts[0]);
    byId("charts").dataset.drawn = key;
  }

  // ---- What the night is.

  const div = (...parts) => { const p = document.createElement("div"); p.append(...parts.filter((part) => part !== null && part !== "")); return p; };

  function link(url, text) {
    if (!/^(https?:\/\/|nights\/)/.test(url)) return document.createTextNode(text);
    return Object.assign(document.createElement("a"), { href: url, textContent: text });
  }

  // All boards of the night, the one that was asked for first.
  function show(chart) {
    const others = charts.filter((one) => one !== chart);
    byId("detail").replaceChildren(...[chart, ...others].flatMap(told));
  }

  function told(chart) {
    const { data, key, track } = chart, n = data.nights, i = night === null ? n.night.length - 1 : n.night.indexOf(night);
    if (i < 0) return [];
    const value = chart.values[i], commit = n.commit[i] || "";
    const text = value === null ? "no value" + (n.reason[i] ? ": " + n.reason[i] : "") : value.toLocaleString("en") + " " + unit(track);
    const rows = [div(Object.assign(document.createElement("strong"), { textContent: n.night[i] }), ", " + track.board + ": " + text, n.status[i] === "unmoved" ? " (the tip did not move)" : "")];
    const kernel = commit ? link(track.commit.replace("{commit}", commit), commit.slice(0, 12)) : "";
    rows.push(div("kernel " + (n.version[i] || "?") + " ", kernel, n.subject[i] ? " " + n.subject[i] : "", n.release[i] ? ", release " + n.release[i] : ""));
    if (n.url[i]) rows.push(div(link(n.url[i], "report of this night")));
    for (const c of data.changes.filter((c) => c.night === n.night[i] && key in c.effects)) {
      const name = Object.assign(document.createElement("a"), { href: "#change-" + c.id, textContent: c.id });
      rows.push(div("change ", name, " (" + c.state + "), " + c.cause + (c.words ? ": " + c.words : "")));
      if (c.bisect) rows.push(div(Object.assign(document.createElement("code"), { textContent: c.bisect })));
    }
    return rows;
  }

  function toNight(name, chart) {
    night = name;
    charts.forEach((c) => c.point());
    if (chart) show(chart);
  }

  function toDay(day, chart) {
    let best = 0;
    chart.data.days.forEach((d, i, all) => { if (Math.abs(d - day) < Math.abs(all[best] - day)) best = i; });
    if (chart.data.days.length) toNight(chart.data.nights.night[best], chart);
  }

  function step(by) {
    const chart = charts[0];
    if (!chart) return;
    const names = chart.data.nights.night, now = night === null ? names.length : names.indexOf(night);
    toIndex(chart, Math.max(0, Math.min(names.length - 1, now + by)));
  }

  function toIndex(chart, index) {
    const day = chart.data.days[index], wide = range[1] - range[0];
    if (day < range[0]) zoom(day, day + wide);
    if (day > range[1]) zoom(day - wide, day);
    toNight(chart.data.nights.night[index], chart);
  }

  function toChange(by) {
    const chart = charts.find((c) => c.data.changes.some((one) => c.key in one.effects));
    if (!chart) return;
    const names = chart.data.nights.night, last = names.length;
    const at = chart.data.changes.filter((c) => chart.key in c.effects).map((c) => names.indexOf(c.night)).filter((i) => i >= 0).sort((a, b) => a - b);
    const now = night === null ? (by > 0 ? -1 : last) : names.indexOf(night);
    if (at.length) toIndex(chart, by > 0 ? at.find((i) => i > now) ?? at[0] : [...at].reverse().find((i) => i < now) ?? at[at.length - 1]);
  }

  // ---- Zoom.

  function zoom(low, high) {
    if (high - low < 3) { const middle = (low + high) / 2; low = middle - 1.5; high = middle + 1.5; }
    const [first, last] = allDays(charts.map((c) => c.data));
    range = [Math.max(low, first), Math.min(high, last)];
    charts.forEach((c) => c.render());
  }

  function zoomed(factor) {
    if (!range) return;
    const middle = (range[0] + range[1]) / 2, half = ((range[1] - range[0]) / 2) * factor;
    zoom(middle - half, middle + half);
  }

  function allDays(shown) {
    const days = shown.flatMap((data) => [data.days[0], data.days[data.days.length - 1]]);
    return days.length ? [Math.min(...days) - 1, Math.max(...days) + 1] : [0, 1];
  }

  function whole(given) {
    range = allDays(Array.isArray(given) ? given : charts.map((c) => c.data));
    charts.forEach((c) => c.render());
  }

  // ---- Keys and buttons.

  function next(id, by) {
    const options = [...byId(id).options].map((o) => o.value);
    choose({ [id]: options[(options.indexOf(choice[id]) + by + options.length) % options.length] });
  }

  function theme() {
    const root = document.documentElement;
    const dark = root.classList.contains("dark") || (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
    root.className = dark ? "light" : "dark";
  }

  const keys = {
    j: () => next("cell", 1), k: () => next("cell", -1), s: () => next("section", 1), b: () => next("branch", 1),
    n: () => toChange(1), p: () => toChange(-1), ArrowRight: () => step(1), ArrowLeft: () => step(-1),
    "+": () => zoomed(0.5), "-": () => zoomed(2), 0: () => whole(), t: theme,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(SELECT|INPUT)$/.test(event.target.tagName)) return;
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  for (const id of ["branch", "cell", "section"]) byId(id).addEventListener("change", (e) => choose({ [id]: e.target.value }));
  byId("choose").addEventListener("submit", (e) => e.preventDefault());
  byId("reset").addEventListener("click", () => whole());
  byId("theme").addEventListener("click", theme);
  document.querySelectorAll("button.go").forEach((b) => b.addEventListener("click", () => {
    const { branch, cell, section, night: day } = b.dataset;
    choose({ branch, cell, section }).then(() => { if (day && charts.length) toNight(day, charts[0]); });
    byId("series").scrollIntoView();
  }));
  let timer;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => charts.forEach((c) => c.render()), 150); });
  if (tracks.length) choose(Object.fromEntries([...new URLSearchParams(location.hash.slice(1))].filter(([k]) => k in choice)));
})();
