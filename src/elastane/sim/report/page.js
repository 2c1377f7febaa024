"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const policies = data.policies;
  const shown = policies.map(() => true);
  const redraw = [];
  const byId = (id) => document.getElementById(id);

  // Plotly reads a little HTML in its texts; names from users must come out as they were written.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const line = (i, width = 2) => ({
    color: policies[i].color, width, dash: policies[i].oracle ? "dash" : "solid",
  });
  const inUnit = (seconds) => seconds / data.unit.size;
  const number = (value, digits = 2) =>
    value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: digits });

  const axis = (title, more = {}) => ({
    title: { text: title, font: { size: 12 }, standoff: 8 }, gridcolor: "#eceff3", zeroline: false,
    linecolor: "#c9d0d8", ticks: "outside", tickcolor: "#c9d0d8", ticklen: 4, automargin: true, ...more,
  });
  const base = (more) => ({
    margin: { l: 58, r: 12, t: 8, b: 46 }, showlegend: false, hovermode: "closest",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 12, color: "#1b2430" },
    hoverlabel: { bgcolor: "#ffffff", bordercolor: "#c9d0d8", font: { color: "#1b2430" } }, ...more,
  });
  const config = { responsive: true, displaylogo: false, displayModeBar: false };
  const draw = (id, traces, layout) => Plotly.react(byId(id), traces, base(layout), config);

  // Round numbers per decade, fewer of them the more decades there are.
  function logTicks(curves, scale) {
    const values = curves.flatMap((curve) => [curve.x[0], curve.x[curve.x.length - 1]])
      .filter((value) => value > 0).map((value) => Math.log10(value / scale));
    if (!values.length) return {};
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const span = high - low;
    const steps = span > 3.5 ? [1] : span > 1.5 ? [1, 3] : span > 0.7 ? [1, 2, 5] : [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
    const tickvals = [];
    for (let k = Math.floor(low) - 1; k <= Math.ceil(high); k += 1) {
      steps.forEach((step) => tickvals.push(Number((step * 10 ** k).toPrecision(3))));
    }
    return { tickvals, ticktext: tickvals.map(String) };
  }

  function drawCdf(id, curves, title, scale, shapes) {
    const traces = curves.map((curve, i) => ({
      x: curve.x.map((value) => value / scale), y: curve.y, type: "scatter", mode: "lines",
      name: plain(policies[i].name), line: { ...line(i), shape: "hv" }, visible: shown[i],
      hovertemplate: `%{y:.1%} within %{x:.3~g}<extra>${plain(policies[i].name)}</extra>`,
    }));
    draw(id, traces, {
      xaxis: axis(title, { type: "log", ...logTicks(curves, scale) }),
      yaxis: axis("share of jobs", { tickformat: ".0%", range: [0, 1.02] }), shapes,
    });
  }

  function drawTimeline() {
    const traces = [];
    const add = (i, field, yaxis, format) => traces.push({
      x: data.timeline[i].t.map(inUnit), y: data.timeline[i][field], yaxis, type: "scatter", mode: "lines",
      line: { ...line(i, 1.5), shape: "hv" }, visible: shown[i], name: plain(policies[i].name),
      hovertemplate: `%{y:${format}} at %{x:.2f} ${data.unit.name}<extra>${plain(policies[i].name)}</extra>`,
    });
    policies.forEach((_, i) => {
      add(i, "gpus", "y", ".0f");
      add(i, "eff", "y2", ".0%");
      add(i, "waiting", "y3", ".0f");
    });
    draw("timeline", traces, {
      xaxis: axis(`time since first submission (${data.unit.name})`, { anchor: "y3", rangemode: "nonnegative" }),
      yaxis: axis("GPUs allocated", { domain: [0.7, 1], range: [0, data.totalGpus * 1.04] }),
      yaxis2: axis("efficiency", { domain: [0.36, 0.64], range: [0, 1.04], tickformat: ".0%" }),
      yaxis3: axis("jobs waiting", { domain: [0, 0.3], rangemode: "tozero" }),
    });
  }

  // GPU counts in powers of two, from pale to dark.
  const shades = ["#b9d2f3", "#8db6ea", "#5e95dc", "#3576cb", "#1f5aae", "#164384", "#0e2c59", "#071a38"];
  const level = (gpus) => Math.min(shades.length - 1, Math.ceil(Math.log2(Math.max(gpus, 1))));
  const levelName = (k) => k === 0 ? "1 GPU" : k === shades.length - 1 ? `over ${2 ** (k - 1)}`
    : k === 1 ? "2" : `${2 ** (k - 1) + 1}–${2 ** k}`;
  const pick = (id) => Number(byId(id).value);
  const fillSelect = (id, names, onChange) => {
    names.forEach(([value, text]) => {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = text;
      byId(id).append(option);
    });
    byId(id).addEventListener("change", onChange);
  };
  const eachStretch = (job, visit) => {
    for (let k = 0; k < job.s.length; k += 5) {
      visit(job.s[k], job.s[k + 1], job.s[k + 2], job.s[k + 3], job.s[k + 4]);
    }
  };

  function ganttTraces(run, end) {
    const segments = () => ({ x: [], y: [], text: [], customdata: [] });
    const waiting = segments();
    const levels = shades.map(segments);
    const put = (into, row, from, to, text) => {
      into.x.push(inUnit(from), inUnit(to), null);
      into.y.push(row, row, null);
      into.text.push(text, text, null);
      into.customdata.push(row, row, null);
    };
    run.forEach((job, row) => {
      if (!job) return;
      const name = plain(data.jobs[row]);
      put(waiting, row, job.submit, job.finish ?? end, `${name}: in the system`);
      eachStretch(job, (from, to, gpus, batch) => {
        if (gpus > 0) put(levels[level(gpus)], row, from, to, `${name}: ${gpus} GPUs, batch ${batch}`);
      });
    });
    const trace = (part, color, name, width) => ({
      ...part, type: "scatter", mode: "lines", name, line: { color, width }, meta: width,
      hovertemplate: "%{text}<br>%{x:.2f} " + data.unit.name + "<extra></extra>",
    });
    return [trace(waiting, "#d5dae1", "waiting", 0.35)].concat(
      levels.map((part, k) => trace(part, shades[k], levelName(k), 0.8)).filter((part) => part.x.length));
  }

  function drawGantt() {
    const run = data.runs[pick("gantt-policy")];
    const rows = data.jobs.length;
    const times = data.timeline[pick("gantt-policy")].t;
    const named = rows <= 40;
    const height = Math.max(220, Math.min(1100, 110 + rows * (named ? 20 : 9)));
    const chart = byId("gantt");
    chart.style.height = `${height}px`;
    const traces = ganttTraces(run, times[times.length - 1] ?? 0);
    const widthFor = (visible) => Math.max(1, Math.min(14, (height - 110) / Math.max(visible, 1)));
    traces.forEach((trace) => { trace.line.width = Math.max(0.6, trace.meta * widthFor(rows)); });
    const labels = named ? { tickvals: data.jobs.map((_, i) => i), ticktext: data.jobs.map((id) =>
      plain(id.length > 24 ? `${id.slice(0, 23)}…` : id)) } : { showticklabels: false, ticks: "" };
    draw("gantt", traces, {
      showlegend: true, margin: { l: 58, r: 12, t: 34, b: 46 },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: 11 }, itemclick: false },
      xaxis: axis(`time since first submission (${data.unit.name})`, { rangemode: "nonnegative" }),
      yaxis: axis(named ? "" : "jobs, first submitted at the top", { range: [rows - 0.3, -0.7], showgrid: false, ...labels }),
    });
    chart.removeAllListeners("plotly_relayout");
    chart.on("plotly_relayout", (change) => {
      // Zoomed-in rows get thicker lines; the guard is against answering our own restyle.
      if (!Object.keys(change).some((key) => key.startsWith("yaxis"))) return;
      const [low, high] = chart.layout.yaxis.range;
      const width = widthFor(Math.abs(high - low));
      Plotly.restyle(chart, { "line.width": chart.data.map((trace) => Math.max(0.6, trace.meta * width)) });
    });
    chart.removeAllListeners("plotly_click");
    chart.on("plotly_click", (event) => {
      byId("job-id").value = event.points[0].customdata;
      drawJob();
      byId("job-section").scrollIntoView({ behavior: "smooth" });
    });
  }

  function jobSeries(job) {
    const series = { x: [], gpus: [], batch: [], eff: [] };
    let last = job.submit;
    const push = (at, gpus, batch, eff) => {
      series.x.push(inUnit(at));
      series.gpus.push(gpus);
      series.batch.push(batch);
      series.eff.push(eff);
    };
    push(last, 0, null, null);
    eachStretch(job, (from, to, gpus, batch, eff) => {
      if (from > last) push(last, 0, null, null);
      push(from, gpus, gpus > 0 ? batch : null, gpus > 0 ? eff : null);
      // The end of a stretch repeats its level, so that the step reaches it before a gap.
      push(to, gpus, gpus > 0 ? batch : null, gpus > 0 ? eff : null);
      last = to;
    });
    push(job.finish ?? last, 0, null, null);
    return series;
  }

  function jobFacts(chosen, row) {
    const table = byId("job-facts");
    table.replaceChildren();
    const add = (cells, tag) => {
      const tr = table.insertRow();
      cells.forEach((text, column) => {
        const cell = document.createElement(column === 0 ? "th" : tag);
        cell.textContent = text;
        tr.append(cell);
      });
    };
    add(["policy", "application", "tenant", "GPUs requested", `submitted (${data.unit.name})`,
      `JCT (${data.unit.name})`, "ρ", "restarts", "GPU·h"], "th");
    table.rows[0].className = "head";
    chosen.forEach((i) => {
      const job = data.runs[i][row];
      if (!job) return;
      const jct = job.finish === null ? "unfinished" : number(inUnit(job.finish - job.submit));
      add([policies[i].name, job.app, job.tenant || "–", number(job.requested), number(inUnit(job.submit)), jct,
        number(job.rho), number(job.restarts), number(job.gpuHours)], "td");
    });
  }

  function drawJob() {
    const row = pick("job-id");
    const policy = pick("job-policy");
    const chosen = policies.map((_, i) => i).filter((i) => policy < 0 ? shown[i] : i === policy);
    jobFacts(chosen, row);
    const traces = chosen.filter((i) => data.runs[i][row]).flatMap((i) => {
      const series = jobSeries(data.runs[i][row]);
      return [["gpus", "y", ""], ["batch", "y2", ""], ["eff", "y3", ":.0%"]].map(([field, yaxis, format]) => ({
        x: series.x, y: series[field], yaxis, type: "scatter", mode: "lines", line: { ...line(i), shape: "hv" },
        name: plain(policies[i].name),
        hovertemplate: `%{y${format}} at %{x:.2f} ${data.unit.name}<extra>${plain(policies[i].name)}</extra>`,
      }));
    });
    draw("job", traces, {
      xaxis: axis(`time since first submission (${data.unit.name})`, { anchor: "y3" }),
      yaxis: axis("GPUs", { domain: [0.7, 1], rangemode: "tozero" }),
      yaxis2: axis("batch size", { domain: [0.36, 0.64], rangemode: "tozero" }),
      yaxis3: axis("efficiency", { domain: [0, 0.3], range: [0, 1.04], tickformat: ".0%" }),
    });
  }

  function drawSweep(sweep, id) {
    const traces = sweep.lines.map((each) => {
      const i = policies.findIndex((policy) => policy.name === each.policy);
      const name = plain(each.policy);
      return {
        x: each.x, y: each.y, type: "scatter", mode: "lines+markers", name, visible: i < 0 || shown[i],
        line: i < 0 ? { width: 2 } : line(i),
        error_y: {
          type: "data", array: each.e, visible: each.e.some((e) => e > 0), thickness: 1, width: 3,
          color: i < 0 ? "#9aa5b1" : `${policies[i].color}80`,
        },
        marker: { size: 8, symbol: each.complete.map((done) => done ? "circle" : "circle-open") },
        hovertemplate: `%{y:.3f} h at %{x}<extra>${name}</extra>`,
      };
    });
    // From zero, because a mean over few seeds may have an interval that reaches below it.
    const top = Math.max(...sweep.lines.flatMap((each) => each.y.map((y, k) => (y ?? 0) + (each.e[k] ?? 0))));
    draw(id, traces, {
      xaxis: axis(plain(sweep.parameter)), yaxis: axis("mean JCT (h)", { range: [0, top * 1.05 || 1] }),
    });
  }

  function setUpChips() {
    policies.forEach((policy, i) => {
      const button = document.createElement("button");
      const key = document.createElement("span");
      key.className = policy.oracle ? "key oracle" : "key";
      key.style.borderColor = policy.color;
      button.append(key, policy.name);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        shown[i] = !shown[i];
        button.setAttribute("aria-pressed", String(shown[i]));
        redraw.forEach((again) => again());
      });
      byId("chips").append(button);
    });
    document.querySelectorAll(".dot").forEach((dot) => {
      dot.style.background = policies[dot.dataset.policy].color;
    });
  }

  function setUpComparison() {
    const names = policies.map((policy, i) => [i, policy.oracle ? `${policy.name} (oracle)` : policy.name]);
    const fair = [{
      type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: { color: "#9aa5b1", width: 1, dash: "dot" },
    }];
    fillSelect("gantt-policy", names, drawGantt);
    fillSelect("job-policy", [[-1, "all shown"]].concat(names), drawJob);
    fillSelect("job-id", data.jobs.map((id, row) => {
      const job = data.runs.map((run) => run[row]).find(Boolean);
      return [row, `${id} · ${job.app}`];
    }), drawJob);
    const changes = (row) => data.runs[0][row]?.s.length ?? 0;
    byId("job-id").value = data.jobs.reduce((top, _, row) => changes(row) > changes(top) ? row : top, 0);
    redraw.push(
      () => drawCdf("jct", data.jct, `job completion time (${data.unit.name}, log scale)`, data.unit.size, []),
      () => drawCdf("rho", data.rho, "finish-time fairness ρ (log scale)", 1, fair),
      drawTimeline, drawJob);
  }

  function setUpSweeps() {
    (data.sweeps ?? []).forEach((sweep, k) => {
      const chart = document.createElement("div");
      chart.className = "chart";
      chart.id = `sweep-${k}`;
      byId("sweeps").append(chart);
      redraw.push(() => drawSweep(sweep, chart.id));
    });
  }

  setUpChips();
  if (data.runs) setUpComparison();
  setUpSweeps();
  redraw.forEach((again) => again());
  if (data.runs && data.jobs.length) drawGantt();
})();
