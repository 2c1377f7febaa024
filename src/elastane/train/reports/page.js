"use strict";
(() => {
  const drawn = JSON.parse(document.getElementById("data").textContent);
  const chart = document.getElementById("charts");
  const button = document.getElementById("log-loss");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // What depends on the theme is set here; the figure itself knows nothing of it.
  function themed() {
    const [ink, line, paper] = [colour("--ink"), colour("--line"), colour("--paper")];
    const layout = {
      ...drawn.layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 70, r: 66, t: 34, b: 46 }, hovermode: "x unified", hoversubplots: "axis",
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 12, color: ink },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" },
      hoverlabel: { bgcolor: paper, bordercolor: line, font: { color: ink } },
    };
    Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key)).forEach((key) => {
      layout[key] = {
        gridcolor: line, linecolor: line, tickcolor: line, ticks: "outside", ticklen: 4, zeroline: false,
        ...layout[key],
      };
    });
    const { axis, ...logarithmic } = drawn.logLoss;
    if (button.getAttribute("aria-pressed") === "true") Object.assign(layout[axis], logarithmic);
    return layout;
  }

  const redraw = () =>
    Plotly.react(chart, drawn.data, themed(), { responsive: true, displaylogo: false, displayModeBar: false });
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    redraw();
  });
  dark.addEventListener("change", redraw);
  redraw();
})();
